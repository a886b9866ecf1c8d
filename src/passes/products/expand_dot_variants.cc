// SPDX-License-Identifier: Apache-2.0
// What belongs to other groups is left out by selects, never by zeros as factors: these would make
// NaN of infinities.
#include "src/passes/products/expand_dot_variants.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "src/base/contains.h"
#include "src/ir/rewrite/patterns.h"
#include "src/ir/text_attributes.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

ir::DotAttrs dot_attrs(const Instruction& i) {
  ir::DotAttrs a;
  a.lhs_batch = ir::text_dims(i.attrs, "lhs_batch_dims");
  a.rhs_batch = ir::text_dims(i.attrs, "rhs_batch_dims");
  a.lhs_contracting = ir::text_dims(i.attrs, "lhs_contracting_dims");
  a.rhs_contracting = ir::text_dims(i.attrs, "rhs_contracting_dims");
  return a;
}

Instruction* sum(ir::Builder& b, Instruction* x, Dims dims) {
  const DType t = x->shape.dtype;
  return b.reduce(x, b.zero(t), std::move(dims),
                  ir::scalar_computation(b.module(), Opcode::add, t));
}

/// A value over all dims of an array: x's dim k is at places[k] of `dims`.
Instruction* spread(ir::Builder& b, Instruction* x, const Dims& dims, const Dims& places) {
  Dims order(places.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::int64_t l, std::int64_t r) {
    return places[std::size_t(l)] < places[std::size_t(r)];
  });
  Dims sorted = places;
  std::sort(sorted.begin(), sorted.end());
  if (sorted != places) x = b.transpose(x, order);
  return b.broadcast(x, dims, sorted);
}

/// Of ragged rows: groups follow one another, and what is behind the last belongs to none. Entries
/// of the sizes' other dims have groups of their own; `places`: where an array has these dims.
class Groups {
 public:
  Groups(ir::Builder& b, Instruction* sizes) : b_(b), count_(sizes->shape.dims.back()) {
    sizes = b.convert(sizes, DType::s64);
    sizes = b.binary(Opcode::maximum, sizes, b.splat(b.zero(DType::s64), sizes->shape.dims));
    own_ = sizes->shape.rank() - 1;
    Dims square = sizes->shape.dims;
    Dims places(static_cast<std::size_t>(own_));
    square.push_back(count_);
    std::iota(places.begin(), places.end(), 0);
    places.push_back(own_ + 1);
    const Shape pairs(DType::s64, square);
    Instruction* before =
        b.compare(ir::Direction::le, b.iota(pairs, own_ + 1), b.iota(pairs, own_));
    Instruction* counted =
        b.select(before, b.broadcast(sizes, square, places), b.splat(b.zero(DType::s64), square));
    end_ = sum(b, counted, {own_ + 1});
    begin_ = b.binary(Opcode::subtract, end_, sizes);
  }

  std::int64_t count() const { return count_; }

  /// For an array of these dims, whether an element's row is of its group.
  Instruction* belongs(const Dims& dims, std::int64_t row, std::int64_t group, Dims places) {
    Dims compact = end_->shape.dims, all(std::size_t(own_ + 1));
    compact.push_back(dims[std::size_t(row)]);
    std::iota(all.begin(), all.end(), 0);
    Instruction* at = b_.iota(Shape(DType::s64, compact), own_ + 1);
    const auto along = [&](Instruction* x) { return b_.broadcast(x, compact, all); };
    Instruction* is_in = b_.binary(Opcode::and_, b_.compare(ir::Direction::ge, at, along(begin_)),
                                   b_.compare(ir::Direction::lt, at, along(end_)));
    places.push_back(group);
    places.push_back(row);
    return spread(b_, is_in, dims, places);
  }
  /// Whether a row is of any group.
  Instruction* belongs_to_any(const Dims& dims, std::int64_t row, const Dims& places) {
    Dims starts(std::size_t(own_ + 1), 0), kept = end_->shape.dims;
    starts.back() = count_ - 1;
    kept.pop_back();
    Instruction* last = b_.reshape(b_.slice(end_, starts, end_->shape.dims), kept);
    return b_.compare(ir::Direction::lt, b_.iota(Shape(DType::s64, dims), row),
                      spread(b_, last, dims, places));
  }
  Instruction* only(Instruction* belongs, Instruction* x) {
    return b_.select(belongs, x, b_.splat(b_.zero(x->shape.dtype), x->shape.dims));
  }

 private:
  ir::Builder& b_;
  std::int64_t count_;
  std::int64_t own_ = 0;  ///< How many dims the sizes have before the groups.
  Instruction* begin_ = nullptr;
  Instruction* end_ = nullptr;
};

std::int64_t place_of(const Dims& dims, std::int64_t d) {
  return std::find(dims.begin(), dims.end(), d) - dims.begin();
}

/// Groups along a contracted dim: a product for each group, of its part alone.
Instruction* contracted_groups(const Instruction& i, ir::Builder& b, Groups& groups, ir::DotAttrs a,
                               std::int64_t ragged, const Dims& prefix) {
  // The right operand's dim of a batch or contracted dim of the left one.
  const auto partner = [&](std::int64_t d) {
    return contains(a.lhs_batch, d)
               ? a.rhs_batch[std::size_t(place_of(a.lhs_batch, d))]
               : a.rhs_contracting[std::size_t(place_of(a.lhs_contracting, d))];
  };
  const auto part = [&](std::size_t operand, std::int64_t row, Dims own) {
    Instruction* x = i.operand(operand);
    Dims dims = x->shape.dims, places;
    dims.insert(dims.begin(), groups.count());
    for (std::int64_t d = 0; d < x->shape.rank(); ++d) places.push_back(d + 1);
    for (std::int64_t& d : own) ++d;
    return groups.only(groups.belongs(dims, row + 1, 0, std::move(own)),
                       b.broadcast(x, dims, places));
  };
  Dims right;
  for (const std::int64_t d : prefix) right.push_back(partner(d));
  Instruction* lhs = part(0, ragged, prefix);
  Instruction* rhs = part(1, partner(ragged), right);
  for (Dims* list : {&a.lhs_batch, &a.rhs_batch, &a.lhs_contracting, &a.rhs_contracting}) {
    for (std::int64_t& d : *list) ++d;
  }
  a.lhs_batch.insert(a.lhs_batch.begin(), 0);
  a.rhs_batch.insert(a.rhs_batch.begin(), 0);
  return b.emit_shaped(Opcode::dot, i.shape, {lhs, rhs}, std::move(a));
}

/// Groups along a dim that stays: rows by the matrices of all groups, then each row's own.
Instruction* free_groups(const Instruction& i, ir::Builder& b, Groups& groups, ir::DotAttrs a,
                         std::int64_t ragged, const Dims& prefix) {
  const Shape& l = i.operand(0)->shape;
  const Shape& r = i.operand(1)->shape;
  const std::int64_t group = ir::text_dims(i.attrs, "rhs_group_dims").at(0);
  Dims dims, left = a.lhs_batch, own;  // `left`: the left operand's dims, as the result has them
  std::int64_t place = 0;
  for (std::int64_t d = 0; d < l.rank(); ++d) {
    if (!contains(a.lhs_batch, d) && !contains(a.lhs_contracting, d)) left.push_back(d);
  }
  for (const std::int64_t d : left) dims.push_back(l.dim(d));
  for (const std::int64_t d : prefix) own.push_back(place_of(left, d));
  for (std::int64_t d = 0; d < r.rank(); ++d) {
    if (contains(a.rhs_batch, d) || contains(a.rhs_contracting, d)) continue;
    if (d == group) place = std::int64_t(dims.size());
    dims.push_back(r.dim(d));
  }
  Instruction* all = b.emit_shaped(Opcode::dot, Shape(i.shape.dtype, dims),
                                   {i.operand(0), i.operand(1)}, std::move(a));
  return sum(b,
             groups.only(groups.belongs(dims, place_of(left, ragged), place, std::move(own)), all),
             {place});
}

Instruction* ragged_dot(const Instruction& i, ir::Builder& b) {
  if (!i.control_predecessors().empty()) return nullptr;
  const Shape& sizes = i.operand(2)->shape;
  if (sizes.element_count() == 0 || i.shape.element_count() == 0) {
    return b.splat(b.zero(i.shape.dtype), i.shape.dims);
  }
  Groups groups(b, i.operand(2));
  ir::DotAttrs a = dot_attrs(i);
  const std::int64_t ragged = ir::text_dims(i.attrs, "lhs_ragged_dims").at(0);
  Dims prefix;
  if (sizes.rank() > 1) prefix = ir::ragged_prefix_dims(i.attrs, i.operand(0)->shape.rank());
  if (contains(a.lhs_contracting, ragged)) {
    return contracted_groups(i, b, groups, std::move(a), ragged, prefix);
  }
  if (!contains(a.lhs_batch, ragged)) {
    return free_groups(i, b, groups, std::move(a), ragged, prefix);
  }
  const std::int64_t row = place_of(a.lhs_batch, ragged);
  Dims own;
  for (const std::int64_t d : prefix) own.push_back(place_of(a.lhs_batch, d));
  Instruction* all =
      b.emit_shaped(Opcode::dot, i.shape, {i.operand(0), i.operand(1)}, std::move(a));
  return groups.only(groups.belongs_to_any(i.shape.dims, row, own), all);
}

/// Blocks of each dim have a scale.
Instruction* scaled(ir::Builder& b, Instruction* x, Instruction* scale, DType type) {
  x = b.convert(x, type);
  scale = b.convert(scale, type);
  const Dims& dims = x->shape.dims;
  if (scale->shape.rank() == 0) return b.binary(Opcode::multiply, x, b.splat(scale, dims));
  Dims blocks, places;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const std::int64_t count = scale->shape.dims[d];
    places.push_back(std::int64_t(blocks.size()));
    blocks.push_back(count);
    blocks.push_back(count == 0 ? 1 : dims[d] / count);
  }
  scale = b.reshape(b.broadcast(scale, blocks, places), dims);
  return b.binary(Opcode::multiply, x, scale);
}

Instruction* scaled_dot(const Instruction& i, ir::Builder& b) {
  if (!i.control_predecessors().empty()) return nullptr;
  DType type = DType::f32;
  for (const Instruction* o : i.operands()) {
    if (!is_floating(o->shape.dtype)) return nullptr;
    if (byte_size(o->shape.dtype) > 2) type = DType::f64;
  }
  Instruction* out = b.emit_shaped(
      Opcode::dot, Shape(type, i.shape.dims),
      {scaled(b, i.operand(0), i.operand(2), type), scaled(b, i.operand(1), i.operand(3), type)},
      dot_attrs(i));
  return b.convert(out, i.shape.dtype);
}

}  // namespace

std::size_t expand_dot_variants(ir::Module* module) {
  static const auto& patterns = ir::keep(ir::PatternSet("expand-dot-variants")
                                             .add(Opcode::ragged_dot, ragged_dot)
                                             .add(Opcode::scaled_dot, scaled_dot));
  return ir::walk_and_apply_patterns(module, patterns);
}

}  // namespace tessera::passes
