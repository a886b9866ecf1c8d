// SPDX-License-Identifier: Apache-2.0
// Rows of results in terms of rows of operands, op by op.
#include "src/ir/analysis/row_use.h"

#include <algorithm>

#include "src/base/contains.h"

namespace tessera::ir {
namespace {

/// Rows that are taken one by one, of reversals and repetitions.
constexpr std::int64_t kMostSingleRows = 16;
/// Parts of a concatenation.
constexpr std::int64_t kMostParts = 32;
/// Rows under a window.
constexpr std::int64_t kMostTaps = 64;
/// Elements of constants that are written once more, by windows.
constexpr std::int64_t kMostConstants = 1 << 16;

RowPart all_rows(const Instruction& x, std::size_t operand, std::int64_t dim) {
  RowPart part;
  part.array = x.operand(operand);
  part.operand = operand;
  part.dim = dim;
  part.end = part.array->shape.dim(dim);
  return part;
}

std::optional<RowUse> of_elementwise(const Instruction& x, std::int64_t dim) {
  RowUse use;
  for (std::size_t i = 0; i < x.operands().size(); ++i) {
    const Shape& shape = x.operand(i)->shape;
    if (!shape.is_array()) return std::nullopt;
    if (shape.rank() == 0 && x.shape.rank() > 0) continue;
    if (shape.dims != x.shape.dims) return std::nullopt;
    use.parts.push_back(all_rows(x, i, dim));
  }
  return use;
}

/// The dim of `from` that has the same rows as this one of `to`, an array of as many elements.
std::optional<std::int64_t> same_rows(const Dims& from, const Dims& to, std::int64_t dim) {
  std::int64_t before = 1, outer = 1;
  for (std::int64_t d = 0; d < dim; ++d) before *= to[std::size_t(d)];
  for (std::size_t d = 0; before > 0 && d < from.size() && outer <= before; ++d) {
    if (outer == before && from[d] == to[std::size_t(dim)]) return std::int64_t(d);
    outer *= from[d];
  }
  return std::nullopt;
}

/// One row after the other of the same array.
RowUse single_rows(Instruction* array, std::int64_t dim, std::int64_t first, std::int64_t step,
                   std::int64_t count) {
  RowUse use{RowUse::Kind::moved, {}};
  for (std::int64_t i = 0; i < count; ++i) {
    RowPart part;
    part.array = array;
    part.dim = dim;
    part.offset = first + step * i - i;
    part.begin = i;
    part.end = i + 1;
    use.parts.push_back(part);
  }
  return use;
}

/// The row of which a reshape of a broadcast, [1, m] to [1, n, m], is n copies along the dim.
Instruction* repeated_row(const Instruction& x, std::int64_t dim) {
  const Instruction* in = x.operand(0);
  const std::int64_t n = x.shape.dim(dim);
  if (!in->is(Opcode::broadcast) || in->shape.rank() != x.shape.rank() + 1 || n == 1 ||
      n > kMostSingleRows || n == 0 || in->operand(0)->shape.rank() != x.shape.rank()) {
    return nullptr;
  }
  Instruction* row = in->operand(0);
  Dims repeated = row->shape.dims, with_row = x.shape.dims, to;
  if (repeated[std::size_t(dim)] != 1) return nullptr;
  with_row.insert(with_row.begin() + dim, 1);
  for (std::int64_t d = 0; d < x.shape.rank(); ++d) to.push_back(d <= dim ? d : d + 1);
  repeated[std::size_t(dim)] = n;
  const bool repeats = in->shape.dims == with_row && repeated == x.shape.dims &&
                       in->get<DimensionsAttrs>().dims == to;
  return repeats ? row : nullptr;
}

/// Of dim `d` of `wide`, which is split into several dims of `narrow`, of the same elements: that
/// of the first of these, and how many rows of it are one; none if it isn't split so.
std::optional<std::pair<std::int64_t, std::int64_t>> first_of_split(const Dims& wide,
                                                                    const Dims& narrow,
                                                                    std::int64_t d) {
  std::int64_t before = 1, outer = 1;
  for (std::int64_t k = 0; k < d; ++k) before *= wide[std::size_t(k)];
  std::size_t first = 0;
  while (first < narrow.size() && outer < before) outer *= narrow[first++];
  while (first < narrow.size() && narrow[first] == 1) ++first;
  if (outer != before || first == narrow.size()) return std::nullopt;
  std::int64_t all = 1, inner = 1;
  for (std::size_t k = first; k < narrow.size() && all < wide[std::size_t(d)]; ++k) {
    all *= narrow[k];
    if (k > first) inner *= narrow[k];
  }
  if (all != wide[std::size_t(d)] || inner == 1) return std::nullopt;
  return std::pair{std::int64_t(first), inner};
}

std::optional<RowUse> of_reshape(const Instruction& x, std::int64_t dim) {
  Instruction* in = x.operand(0);
  const bool empty = x.shape.element_count() == 0;
  if (Instruction* row = repeated_row(x, dim)) {
    return single_rows(row, dim, 0, 0, x.shape.dim(dim));
  }
  if (const auto d = same_rows(in->shape.dims, x.shape.dims, dim)) {
    return RowUse{RowUse::Kind::alike, {all_rows(x, 0, *d)}};
  }
  if (empty) return std::nullopt;
  if (const auto taken_apart = first_of_split(x.shape.dims, in->shape.dims, dim)) {
    RowPart part = all_rows(x, 0, taken_apart->first);
    part.spread = part.extent = taken_apart->second;
    part.offset = 1 - part.extent;
    part.end = x.shape.dim(dim);
    return RowUse{RowUse::Kind::grouped, {part}};
  }
  for (std::int64_t d = 0; d < in->shape.rank(); ++d) {
    const auto together = first_of_split(in->shape.dims, x.shape.dims, d);
    if (!together || together->first != dim) continue;
    RowPart part = all_rows(x, 0, d);
    part.stride = part.extent = together->second;
    part.end = x.shape.dim(dim);
    return RowUse{RowUse::Kind::grouped, {part}};
  }
  return std::nullopt;
}

std::optional<RowUse> of_slice(const Instruction& x, std::int64_t dim) {
  const auto& attrs = x.get<SliceAttrs>();
  const std::size_t d = std::size_t(dim);
  RowPart part = all_rows(x, 0, dim);
  const bool all = part.end == x.shape.dim(dim);
  if (!attrs.strides.empty()) part.stride = attrs.strides[d];
  part.offset = attrs.starts[d];
  part.end = x.shape.dim(dim);
  return RowUse{all ? RowUse::Kind::alike : RowUse::Kind::moved, {part}};
}

std::optional<RowUse> of_pad(const Instruction& x, std::int64_t dim) {
  const PadDim& by = x.get<PadAttrs>().dims[std::size_t(dim)];
  RowPart part = all_rows(x, 0, dim);
  if (by == PadDim{}) return RowUse{RowUse::Kind::alike, {part}};
  if (part.end == 0) return std::nullopt;
  part.offset = -by.low;
  part.begin = std::max<std::int64_t>(by.low, 0);
  part.spread = by.interior + 1;
  part.end = std::min((part.end - 1) * part.spread + 1 + by.low, x.shape.dim(dim));
  if (part.begin >= part.end) return std::nullopt;
  return RowUse{RowUse::Kind::moved, {part}};
}

/// A slice of rows in a row, which are whole.
bool cuts_only(const Instruction& slice, std::int64_t dim) {
  const auto& attrs = slice.get<SliceAttrs>();
  for (std::int64_t d = 0; d < slice.shape.rank(); ++d) {
    if (d != dim && slice.shape.dim(d) != slice.operand(0)->shape.dim(d)) return false;
  }
  return (attrs.strides.empty() || attrs.strides[std::size_t(dim)] == 1) &&
         slice.control_predecessors().empty() && slice.control_successors().empty();
}

std::optional<RowUse> of_concatenation(const Instruction& x, std::int64_t dim) {
  RowUse use;
  if (x.get<DimensionsAttrs>().dims.front() != dim) {
    for (std::size_t i = 0; i < x.operands().size(); ++i) use.parts.push_back(all_rows(x, i, dim));
    return use;
  }
  if (std::int64_t(x.operands().size()) > kMostParts) return std::nullopt;
  use.kind = RowUse::Kind::moved;
  std::int64_t at = 0;
  for (std::size_t i = 0; i < x.operands().size(); ++i) {
    RowPart part = all_rows(x, i, dim);
    part.offset = -at;
    part.begin = at;
    part.end = at += part.end;
    // Rows of a longer array are taken from there, so that a roll shows as two parts of one.
    const Instruction& o = *x.operand(i);
    if (o.is(Opcode::slice) && cuts_only(o, dim)) {
      part.array = o.operands()[0];
      part.offset += o.get<SliceAttrs>().starts[std::size_t(dim)];
    }
    if (part.begin < part.end) use.parts.push_back(part);
  }
  return use;
}

std::optional<std::int64_t> constant_index(const Instruction* x) {
  while (x->is(Opcode::copy)) x = x->operand(0);
  if (!x->is(Opcode::constant) || x->get<ConstantAttrs>().elided) return std::nullopt;
  const Literal& l = x->get<ConstantAttrs>().value;
  if (l.dtype() == DType::s32) return l.data<std::int32_t>()[0];
  if (l.dtype() == DType::s64) return l.data<std::int64_t>()[0];
  return std::nullopt;
}

std::optional<RowUse> of_update(const Instruction& x, std::int64_t dim) {
  const std::int64_t n = x.shape.dim(dim), rows = x.operand(1)->shape.dim(dim);
  RowPart all = all_rows(x, 0, dim), changed = all_rows(x, 1, dim);
  if (rows == n) return RowUse{RowUse::Kind::alike, {all, changed}};
  const auto start = constant_index(x.operand(2 + std::size_t(dim)));
  if (!start || rows == 0) return std::nullopt;
  const std::int64_t at = std::clamp<std::int64_t>(*start, 0, n - rows);
  changed.offset = -at;
  changed.begin = at;
  changed.end = at + rows;
  return RowUse{RowUse::Kind::update, {all, changed}};
}

/// The rows under windows.
RowPart under(const Instruction& x, std::int64_t dim, const WindowDim& w, std::int64_t rows) {
  RowPart part = all_rows(x, 0, dim);
  part.end = rows;
  part.offset = -w.pad_low;
  part.stride = w.stride;
  part.spread = w.lhs_dilation;
  part.extent = (w.size - 1) * w.rhs_dilation + 1;
  return part;
}

std::optional<RowUse> of_windows(const Instruction& x, std::int64_t dim) {
  if (x.operands().size() != 2) return std::nullopt;
  const WindowDim& w = x.get<WindowAttrs>().dims[std::size_t(dim)];
  if (w == WindowDim{}) return RowUse{RowUse::Kind::alike, {all_rows(x, 0, dim)}};
  const RowPart part = under(x, dim, w, x.shape.dim(dim));
  if (part.extent > kMostTaps) return std::nullopt;
  return RowUse{RowUse::Kind::windows, {part}};
}

std::optional<RowUse> of_convolution(const Instruction& x, std::int64_t dim) {
  const auto& a = x.get<ConvolutionAttrs>();
  if (x.operand(0) == x.operand(1)) return std::nullopt;
  if (dim == a.output_batch && a.batch_group_count == 1) {
    return RowUse{RowUse::Kind::alike, {all_rows(x, 0, a.input_batch)}};
  }
  for (std::size_t s = 0; s < a.window.size(); ++s) {
    if (a.output_spatial[s] != dim) continue;
    const RowPart part = under(x, a.input_spatial[s], a.window[s], x.shape.dim(dim));
    // Longer ones are sums over all rows, of gradients.
    if (part.extent > kMostTaps) return std::nullopt;
    return RowUse{RowUse::Kind::windows, {part}};
  }
  return std::nullopt;
}

}  // namespace

std::vector<Instruction*> row_users(const Instruction& x, std::int64_t dim) {
  std::vector<Instruction*> out;
  const auto repeats = [&](const Instruction* user) {
    return user->is(Opcode::reshape) && dim < user->shape.rank() && repeated_row(*user, dim) == &x;
  };
  for (Instruction* user : x.users()) {
    const UserList next = user->is(Opcode::broadcast) ? user->users() : UserList{};
    if (!next.empty() && user != x.parent->root() &&
        std::all_of(next.begin(), next.end(), repeats)) {
      out.insert(out.end(), next.begin(), next.end());
    } else {
      out.push_back(user);
    }
  }
  return out;
}

std::optional<RowUse> row_use(const Instruction& x, std::int64_t dim) {
  if (!x.shape.is_array() || !x.control_predecessors().empty() || !x.control_successors().empty() ||
      x.has_side_effect()) {
    return std::nullopt;
  }
  switch (x.opcode) {
    case Opcode::slice:
      return of_slice(x, dim);
    case Opcode::pad:
      return of_pad(x, dim);
    case Opcode::concatenate:
      return of_concatenation(x, dim);
    case Opcode::dynamic_update_slice:
      return of_update(x, dim);
    case Opcode::reshape:
      return of_reshape(x, dim);
    case Opcode::reduce_window:
      return of_windows(x, dim);
    case Opcode::convolution:
      return of_convolution(x, dim);
    case Opcode::reverse: {
      const std::int64_t n = x.shape.dim(dim);
      if (!contains(x.get<DimensionsAttrs>().dims, dim)) return of_elementwise(x, dim);
      if (n > kMostSingleRows || x.get<DimensionsAttrs>().dims.size() > 1) return std::nullopt;
      return single_rows(x.operand(0), dim, n - 1, -1, n);
    }
    case Opcode::broadcast: {
      const Dims& to = x.get<DimensionsAttrs>().dims;
      RowUse use;
      for (std::size_t d = 0; d < to.size(); ++d) {
        if (to[d] == dim) use.parts.push_back(all_rows(x, 0, std::int64_t(d)));
      }
      return use;
    }
    case Opcode::transpose:
      return RowUse{RowUse::Kind::alike,
                    {all_rows(x, 0, x.get<DimensionsAttrs>().dims[std::size_t(dim)])}};
    case Opcode::reduce: {
      if (x.operands().size() != 2) return std::nullopt;
      std::int64_t kept = -1;
      for (std::int64_t d = 0; d < x.operand(0)->shape.rank(); ++d) {
        if (contains(x.get<DimensionsAttrs>().dims, d)) continue;
        if (++kept == dim) return RowUse{RowUse::Kind::alike, {all_rows(x, 0, d)}};
      }
      return std::nullopt;
    }
    case Opcode::iota:
      return RowUse{};
    case Opcode::constant: {
      const auto& attrs = x.get<ConstantAttrs>();
      if (attrs.elided || x.shape.element_count() > kMostConstants) return std::nullopt;
      return RowUse{};
    }
    default:
      if (!is_elementwise(x.opcode) || x.is(Opcode::bitcast_convert)) return std::nullopt;
      return of_elementwise(x, dim);
  }
}

}  // namespace tessera::ir
