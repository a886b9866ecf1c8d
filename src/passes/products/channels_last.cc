// SPDX-License-Identifier: Apache-2.0
// Below, a "rotation" is a transpose of what has features last to what has them in front:
// [batch, positions..., features...] to [batch, features..., positions...]. No other transposes are
// moved.
#include "src/passes/products/channels_last.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "src/base/contains.h"
#include "src/ir/analysis/layouts.h"
#include "src/ir/rewrite/patterns.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

/// With fewer output features vectors are of positions, which stand in a row as they are.
constexpr std::int64_t kFewOutputs = 8;
/// Positions that fill several vectors.
constexpr std::int64_t kLongRow = 64;

/// [0, first .. rank - 1, 1 .. first - 1]
Dims rotation(std::int64_t rank, std::int64_t first) {
  Dims out = {0};
  for (std::int64_t d = first; d < rank; ++d) out.push_back(d);
  for (std::int64_t d = 1; d < first; ++d) out.push_back(d);
  return out;
}

/// The order of a rotation; null of other instructions.
const Dims* rotation_of(const Instruction& i) {
  if (!i.is(Opcode::transpose) || !i.control_predecessors().empty()) return nullptr;
  const Dims& perm = i.get<ir::DimensionsAttrs>().dims;
  const auto rank = std::int64_t(perm.size());
  const bool is_one = rank > 2 && perm[0] == 0 && perm[1] > 1 && perm == rotation(rank, perm[1]);
  return is_one ? &perm : nullptr;
}

bool may_rotate(const Instruction& i) {
  return i.shape.is_array() && i.control_predecessors().empty();
}

/// What each dim of the result has, for the operand's dim that it is.
template <class List>
List before_rotation(const List& of_result, const Dims& perm) {
  List out = of_result;
  for (std::size_t d = 0; d < perm.size(); ++d) out[std::size_t(perm[d])] = of_result[d];
  return out;
}

/// Whether what it is computed of has features last, but for a rotation; as far as some ops back.
bool comes_rotated(const Instruction& x) {
  constexpr std::size_t kMostOps = 64;
  std::vector<const Instruction*> seen = {&x};
  for (std::size_t k = 0; k < seen.size() && k < kMostOps; ++k) {
    const Instruction& i = *seen[k];
    if (rotation_of(i) != nullptr) return true;
    if (!ir::is_elementwise(i.opcode) && !i.is(Opcode::reduce_window) && !i.is(Opcode::pad) &&
        !i.is(Opcode::slice) && !i.is(Opcode::concatenate)) {
      continue;
    }
    for (const Instruction* o : i.operands()) {
      if (!contains(seen, o)) seen.push_back(o);
    }
  }
  return false;
}

/// A convolution of each feature by itself reads and writes long rows of positions as they stand.
bool has_rows_as_they_stand(const Instruction& conv) {
  const auto& a = conv.get<ir::ConvolutionAttrs>();
  return a.feature_group_count == conv.shape.dim(1) &&
         conv.shape.dim(conv.shape.rank() - 1) >= kLongRow && !comes_rotated(*conv.operand(0));
}

Instruction* features_last(const Instruction& conv, ir::Builder& b) {
  const auto& a = conv.get<ir::ConvolutionAttrs>();
  const std::int64_t rank = conv.shape.rank();
  if (!may_rotate(conv) || a.window.empty() || a.output_batch != 0 || a.output_feature != 1 ||
      a.batch_group_count != 1 || conv.shape.dim(1) < kFewOutputs || has_rows_as_they_stand(conv)) {
    return nullptr;
  }
  const Dims to_result = rotation(rank, rank - 1);
  ir::ConvolutionAttrs out = a;
  out.output_feature = rank - 1;
  for (std::int64_t& d : out.output_spatial) d = to_result[std::size_t(d)];
  const Shape shape(conv.shape.dtype, before_rotation(conv.shape.dims, to_result));
  Instruction* made =
      b.emit_shaped(Opcode::convolution, shape, {conv.operand(0), conv.operand(1)}, out);
  made->frontend_attributes = conv.frontend_attributes;
  made->backend_config = conv.backend_config;
  return b.transpose(made, to_result);
}

/// Convolutions say by numbers which dim is which.
Instruction* rotated_convolution(const Instruction& conv, ir::Builder& b) {
  const Dims *input = rotation_of(*conv.operand(0)), *kernel = rotation_of(*conv.operand(1));
  if (!may_rotate(conv) || (input == nullptr && kernel == nullptr)) return nullptr;
  ir::ConvolutionAttrs a = conv.get<ir::ConvolutionAttrs>();
  std::vector<Instruction*> operands = conv.operands();
  const auto renumber = [](const Dims& perm, std::int64_t* d) { *d = perm[std::size_t(*d)]; };
  if (input != nullptr) {
    operands[0] = operands[0]->operand(0);
    for (std::int64_t* d : {&a.input_batch, &a.input_feature}) renumber(*input, d);
    for (std::int64_t& d : a.input_spatial) renumber(*input, &d);
  }
  if (kernel != nullptr) {
    operands[1] = operands[1]->operand(0);
    for (std::int64_t* d : {&a.kernel_input_feature, &a.kernel_output_feature}) {
      renumber(*kernel, d);
    }
    for (std::int64_t& d : a.kernel_spatial) renumber(*kernel, &d);
  }
  Instruction* out = b.emit_shaped(Opcode::convolution, conv.shape, std::move(operands), a);
  out->frontend_attributes = conv.frontend_attributes;
  out->backend_config = conv.backend_config;
  return out;
}

/// An operand as it is before the rotation; null if that takes a transpose.
Instruction* operand_before(Instruction* o, const Instruction& i, const Dims& perm,
                            ir::Builder& b) {
  if (o->shape.is_scalar()) return o;
  if (o->shape.dims != i.shape.dims) return nullptr;
  const Dims* own = rotation_of(*o);
  if (own != nullptr) return *own == perm ? o->operand(0) : nullptr;
  if (!o->is(Opcode::broadcast)) return nullptr;
  Dims dims;
  for (const std::int64_t d : o->get<ir::DimensionsAttrs>().dims) {
    dims.push_back(perm[std::size_t(d)]);
  }
  if (!std::is_sorted(dims.begin(), dims.end())) return nullptr;
  return b.broadcast(o->operand(0), before_rotation(o->shape.dims, perm), dims);
}

/// The rotation of all operands that have one.
const Dims* common_rotation(const Instruction& i) {
  for (const Instruction* o : i.operands()) {
    if (const Dims* perm = rotation_of(*o)) return perm;
  }
  return nullptr;
}

Instruction* rotated_elementwise(const Instruction& i, ir::Builder& b) {
  const Dims* perm = may_rotate(i) ? common_rotation(i) : nullptr;
  if (perm == nullptr) return nullptr;
  std::vector<Instruction*> operands;
  for (Instruction* o : i.operands()) {
    operands.push_back(operand_before(o, i, *perm, b));
    if (operands.back() == nullptr) return nullptr;
  }
  const Shape shape(i.shape.dtype, before_rotation(i.shape.dims, *perm));
  return b.transpose(ir::emit_like(b, i, std::move(operands), &shape), *perm);
}

/// Ops whose attributes have an entry for each dim; other operands are scalars.
Instruction* rotated_by_dim(const Instruction& i, ir::Builder& b) {
  const Dims* perm =
      may_rotate(i) && i.operands().size() <= 2 ? rotation_of(*i.operand(0)) : nullptr;
  if (perm == nullptr) return nullptr;
  ir::Attributes attrs;
  if (i.is(Opcode::reduce_window)) {
    attrs = ir::WindowAttrs{before_rotation(i.get<ir::WindowAttrs>().dims, *perm)};
  } else if (i.is(Opcode::pad)) {
    attrs = ir::PadAttrs{before_rotation(i.get<ir::PadAttrs>().dims, *perm)};
  } else {
    const auto& a = i.get<ir::SliceAttrs>();
    attrs = ir::SliceAttrs{before_rotation(a.starts, *perm), before_rotation(a.limits, *perm),
                           before_rotation(a.strides, *perm)};
  }
  std::vector<Instruction*> operands = i.operands();
  operands[0] = operands[0]->operand(0);
  const Shape shape(i.shape.dtype, before_rotation(i.shape.dims, *perm));
  return b.transpose(ir::emit_like(b, i, std::move(operands), std::move(attrs), &shape), *perm);
}

Instruction* rotated_concatenate(const Instruction& i, ir::Builder& b) {
  const Dims* perm = may_rotate(i) ? common_rotation(i) : nullptr;
  if (perm == nullptr) return nullptr;
  std::vector<Instruction*> parts;
  for (Instruction* o : i.operands()) {
    const Dims* own = rotation_of(*o);
    if (own == nullptr || *own != *perm) return nullptr;
    parts.push_back(o->operand(0));
  }
  const std::int64_t dim = i.get<ir::DimensionsAttrs>().dims.at(0);
  return b.transpose(b.concatenate(std::move(parts), (*perm)[std::size_t(dim)]), *perm);
}

Instruction* rotated_reduce(const Instruction& i, ir::Builder& b) {
  const Dims* perm =
      may_rotate(i) && i.operands().size() == 2 ? rotation_of(*i.operand(0)) : nullptr;
  if (perm == nullptr) return nullptr;
  const Dims& reduced = i.get<ir::DimensionsAttrs>().dims;
  Dims dims, left;
  for (std::size_t d = 0; d < perm->size(); ++d) {
    (contains(reduced, std::int64_t(d)) ? dims : left).push_back((*perm)[d]);
  }
  std::sort(dims.begin(), dims.end());
  Dims sorted = left, order;
  std::sort(sorted.begin(), sorted.end());
  for (const std::int64_t d : left) {
    order.push_back(std::find(sorted.begin(), sorted.end(), d) - sorted.begin());
  }
  Instruction* out = b.reduce(i.operand(0)->operand(0), i.operand(1), dims, i.called(0));
  return std::is_sorted(order.begin(), order.end()) ? out : b.transpose(out, order);
}

/// A transpose of a rotation; features may be in another order then, as where they are shuffled.
Instruction* rotated_transpose(const Instruction& i, ir::Builder& b) {
  const Dims* inner = may_rotate(i) ? rotation_of(*i.operand(0)) : nullptr;
  if (inner == nullptr) return nullptr;
  Instruction* x = i.operand(0)->operand(0);
  const Dims both = ir::permute_dims(*inner, i.get<ir::DimensionsAttrs>().dims);
  const std::int64_t rank = x->shape.rank();
  if (std::is_sorted(both.begin(), both.end())) return x;
  // [0, features in some order, 1 ... first - 1]
  const std::int64_t first = std::find(both.begin() + 1, both.end(), 1) - both.begin();
  const std::int64_t positions = rank - first;  // dims at the end
  bool shuffles = both[0] == 0 && first > 1;
  for (std::int64_t d = first; d < rank; ++d) {
    shuffles = shuffles && both[std::size_t(d)] == d - first + 1;
  }
  if (!shuffles) return b.transpose(x, both);
  Dims order = ir::consecutive_dims(0, positions + 1);
  order.insert(order.end(), both.begin() + 1, both.begin() + first);
  if (std::is_sorted(order.begin(), order.end())) return b.transpose(x, both);
  return b.transpose(b.transpose(x, order), rotation(rank, positions + 1));
}

/// Dims that a reshape makes one of, or several of one: as few as have the same product.
struct Piece {
  Dims from, to;
};
std::optional<std::vector<Piece>> pieces_of(const Dims& from, const Dims& to) {
  std::vector<Piece> out;
  std::size_t k = 0, n = 0;
  while (k < from.size() || n < to.size()) {
    Piece p;
    std::int64_t have = 1, want = 1;
    const auto take_from = [&] {
      have *= from[k];
      p.from.push_back(std::int64_t(k++));
    };
    const auto take_to = [&] {
      want *= to[n];
      p.to.push_back(std::int64_t(n++));
    };
    if (k < from.size()) take_from();
    if (n < to.size()) take_to();
    while (have != want) {
      if (have < want ? k == from.size() : n == to.size()) return std::nullopt;
      have < want ? take_from() : take_to();
    }
    // Dims of one behind it, unless they are alone on one side.
    while (k < from.size() && from[k] == 1 && (n == to.size() || to[n] != 1)) take_from();
    while (n < to.size() && to[n] == 1 && (k == from.size() || from[k] != 1)) take_to();
    out.push_back(std::move(p));
  }
  return out;
}

/// A reshape that joins or splits dims which are neighbours before the rotation, too.
Instruction* rotated_reshape(const Instruction& i, ir::Builder& b) {
  const Dims* perm = may_rotate(i) ? rotation_of(*i.operand(0)) : nullptr;
  if (perm == nullptr || i.shape.element_count() == 0) return nullptr;
  const Instruction& rotated = *i.operand(0);
  Instruction* x = rotated.operand(0);
  const auto pieces = pieces_of(rotated.shape.dims, i.shape.dims);
  if (!pieces) return nullptr;
  // Dims of x that have more than one element are numbered.
  Dims number(std::size_t(x->shape.rank()), -1);
  std::int64_t count = 0;
  for (std::size_t d = 0; d < number.size(); ++d) {
    if (x->shape.dims[d] != 1) number[d] = count++;
  }
  struct Placed {
    double at;
    const Piece* piece;
  };
  std::vector<Placed> placed;
  double last = -1;
  for (const Piece& p : *pieces) {
    std::int64_t expected = -1, first = -1;
    for (const std::int64_t d : p.from) {
      const std::int64_t n = number[std::size_t((*perm)[std::size_t(d)])];
      if (n < 0) continue;
      if (expected >= 0 && n != expected) return nullptr;
      if (first < 0) first = n;
      expected = n + 1;
    }
    // What has one element stands behind what was in front of it.
    last = first >= 0 ? double(first) : last + 1.0 / 64;
    placed.push_back({last, &p});
  }
  std::stable_sort(placed.begin(), placed.end(),
                   [](const Placed& a, const Placed& b) { return a.at < b.at; });
  Dims dims, order(std::size_t(i.shape.rank()));
  for (const Placed& p : placed) {
    for (const std::int64_t d : p.piece->to) {
      order[std::size_t(d)] = std::int64_t(dims.size());
      dims.push_back(i.shape.dim(d));
    }
  }
  Instruction* out = b.reshape(x, dims);
  return std::is_sorted(order.begin(), order.end()) ? out : b.transpose(out, order);
}

}  // namespace

std::size_t put_channels_last(ir::Module* module) {
  static const auto& convolutions =
      ir::keep(ir::PatternSet("channels-last").add(Opcode::convolution, features_last));
  static const auto& followers =
      ir::keep(ir::PatternSet("channels-last")
                   .add(Opcode::convolution, rotated_convolution)
                   .add(Opcode::transpose, rotated_transpose)
                   .add(Opcode::reshape, rotated_reshape)
                   .add(Opcode::reduce, rotated_reduce)
                   .add(Opcode::concatenate, rotated_concatenate)
                   .add({Opcode::reduce_window, Opcode::pad, Opcode::slice}, rotated_by_dim)
                   .add_if(ir::is_elementwise, rotated_elementwise));
  const std::size_t n = ir::walk_and_apply_patterns(module, convolutions);
  if (n > 0) ir::apply_patterns_greedily(module, followers);
  return n;
}

}  // namespace tessera::passes
