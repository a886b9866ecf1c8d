// SPDX-License-Identifier: Apache-2.0
// What belongs to other groups is left out by selects, never by zeros as factors: these would make
// NaN of infinities.
#include "src/passes/products/expand_dot_variants.h"

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

/// Of ragged rows: groups follow one another, and what is behind the last belongs to none.
class Groups {
 public:
  Groups(ir::Builder& b, Instruction* sizes) : b_(b), count_(sizes->shape.dim(0)) {
    sizes = b.convert(sizes, DType::s64);
    sizes = b.binary(Opcode::maximum, sizes, b.splat(b.zero(DType::s64), {count_}));
    const Shape square(DType::s64, {count_, count_});
    Instruction* before = b.compare(ir::Direction::le, b.iota(square, 1), b.iota(square, 0));
    Instruction* counted = b.select(before, b.broadcast(sizes, square.dims, {1}),
                                    b.splat(b.zero(DType::s64), square.dims));
    end_ = sum(b, counted, {1});
    begin_ = b.binary(Opcode::subtract, end_, sizes);
  }

  std::int64_t count() const { return count_; }

  /// For an array of these dims, whether an element's row is of its group.
  Instruction* belongs(const Dims& dims, std::int64_t row, std::int64_t group) {
    Instruction* at = b_.iota(Shape(DType::s64, {dims[std::size_t(row)]}), 0);
    const auto along = [&](Instruction* x, std::int64_t dim) {
      const std::int64_t rows = dims[std::size_t(row)];
      return b_.broadcast(x, {count_, rows}, {dim});
    };
    at = along(at, 1);
    Instruction* is_in =
        b_.binary(Opcode::and_, b_.compare(ir::Direction::ge, at, along(begin_, 0)),
                  b_.compare(ir::Direction::lt, at, along(end_, 0)));
    if (group > row) return b_.broadcast(b_.transpose(is_in, {1, 0}), dims, {row, group});
    return b_.broadcast(is_in, dims, {group, row});
  }
  /// Whether a row is of any group.
  Instruction* belongs_to_any(const Dims& dims, std::int64_t row) {
    Instruction* last = b_.reshape(b_.slice(end_, {count_ - 1}, {count_}), {});
    return b_.compare(ir::Direction::lt, b_.iota(Shape(DType::s64, dims), row),
                      b_.splat(last, dims));
  }
  Instruction* only(Instruction* belongs, Instruction* x) {
    return b_.select(belongs, x, b_.splat(b_.zero(x->shape.dtype), x->shape.dims));
  }

 private:
  ir::Builder& b_;
  std::int64_t count_;
  Instruction* begin_ = nullptr;
  Instruction* end_ = nullptr;
};

/// Groups along a contracted dim: a product for each group, of its part alone.
Instruction* contracted_groups(const Instruction& i, ir::Builder& b, Groups& groups, ir::DotAttrs a,
                               std::int64_t ragged) {
  const auto part = [&](std::size_t operand, std::int64_t row) {
    Instruction* x = i.operand(operand);
    Dims dims = x->shape.dims, places;
    dims.insert(dims.begin(), groups.count());
    for (std::int64_t d = 0; d < x->shape.rank(); ++d) places.push_back(d + 1);
    return groups.only(groups.belongs(dims, row + 1, 0), b.broadcast(x, dims, places));
  };
  std::int64_t partner = 0;
  for (std::size_t k = 0; k < a.lhs_contracting.size(); ++k) {
    if (a.lhs_contracting[k] == ragged) partner = a.rhs_contracting[k];
  }
  Instruction* lhs = part(0, ragged);
  Instruction* rhs = part(1, partner);
  for (Dims* list : {&a.lhs_batch, &a.rhs_batch, &a.lhs_contracting, &a.rhs_contracting}) {
    for (std::int64_t& d : *list) ++d;
  }
  a.lhs_batch.insert(a.lhs_batch.begin(), 0);
  a.rhs_batch.insert(a.rhs_batch.begin(), 0);
  return b.emit_shaped(Opcode::dot, i.shape, {lhs, rhs}, std::move(a));
}

/// Groups along a dim that stays: rows by the matrices of all groups, then each row's own.
Instruction* free_groups(const Instruction& i, ir::Builder& b, Groups& groups, ir::DotAttrs a,
                         std::int64_t ragged) {
  const Shape& l = i.operand(0)->shape;
  const Shape& r = i.operand(1)->shape;
  const std::int64_t group = ir::text_dims(i.attrs, "rhs_group_dims").at(0);
  Dims dims;
  std::int64_t row = 0, place = 0;
  for (const std::int64_t d : a.lhs_batch) dims.push_back(l.dim(d));
  for (std::int64_t d = 0; d < l.rank(); ++d) {
    if (contains(a.lhs_batch, d) || contains(a.lhs_contracting, d)) continue;
    if (d == ragged) row = std::int64_t(dims.size());
    dims.push_back(l.dim(d));
  }
  for (std::int64_t d = 0; d < r.rank(); ++d) {
    if (contains(a.rhs_batch, d) || contains(a.rhs_contracting, d)) continue;
    if (d == group) place = std::int64_t(dims.size());
    dims.push_back(r.dim(d));
  }
  Instruction* all = b.emit_shaped(Opcode::dot, Shape(i.shape.dtype, dims),
                                   {i.operand(0), i.operand(1)}, std::move(a));
  return sum(b, groups.only(groups.belongs(dims, row, place), all), {place});
}

Instruction* ragged_dot(const Instruction& i, ir::Builder& b) {
  if (!i.control_predecessors().empty()) return nullptr;
  if (i.operand(2)->shape.dim(0) == 0 || i.shape.element_count() == 0) {
    return b.splat(b.zero(i.shape.dtype), i.shape.dims);
  }
  Groups groups(b, i.operand(2));
  ir::DotAttrs a = dot_attrs(i);
  const std::int64_t ragged = ir::text_dims(i.attrs, "lhs_ragged_dims").at(0);
  if (contains(a.lhs_contracting, ragged)) {
    return contracted_groups(i, b, groups, std::move(a), ragged);
  }
  if (!contains(a.lhs_batch, ragged)) return free_groups(i, b, groups, std::move(a), ragged);
  std::int64_t row = 0;
  while (a.lhs_batch[std::size_t(row)] != ragged) ++row;
  Instruction* all =
      b.emit_shaped(Opcode::dot, i.shape, {i.operand(0), i.operand(1)}, std::move(a));
  return groups.only(groups.belongs_to_any(i.shape.dims, row), all);
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
