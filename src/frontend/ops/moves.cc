// SPDX-License-Identifier: Apache-2.0
// Slices, transposes, concatenations and pads on traced arrays, for other ops to build on.
#include "src/frontend/ops/moves.h"

#include <algorithm>

#include <tessera/ops/creation.h>
#include <tessera/ops/elementwise.h>

#include "src/base/arrays/literal_util.h"

namespace tessera::frontend {

namespace {

Array one_operand(ir::Opcode op, const Array& x, ir::Attributes attrs, Location location,
                  const std::string& name, const Shape* shape = nullptr) {
  const std::vector<Array> operands{x};
  return apply(op, operands, std::move(attrs), location, name, shape, nullptr, x.weak_type());
}

}  // namespace

Array sliced(const Array& x, const Dims& starts, const Dims& limits, const Dims& strides,
             Location location, const std::string& name) {
  const Dims& dims = x.shape();
  bool whole = true;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    whole = whole && starts[d] == 0 && limits[d] == dims[d] && strides[d] == 1;
  }
  if (whole) return x;
  return one_operand(ir::Opcode::slice, x, ir::SliceAttrs{starts, limits, strides}, location, name);
}

Array sliced_dim(const Array& x, std::int64_t dim, std::int64_t start, std::int64_t limit,
                 Location location, const std::string& name) {
  Dims starts(x.shape().size(), 0), limits = x.shape();
  starts[std::size_t(dim)] = start;
  limits[std::size_t(dim)] = limit;
  return sliced(x, starts, limits, Dims(limits.size(), 1), location, name);
}

Array transposed(const Array& x, const Dims& perm, Location location, const std::string& name) {
  if (is_identity_order(perm)) return x;
  return one_operand(ir::Opcode::transpose, x, ir::DimensionsAttrs{perm}, location, name);
}

Array moved_dim(const Array& x, std::int64_t from, std::int64_t to, Location location,
                const std::string& name) {
  Dims perm;
  for (std::int64_t d = 0; d < x.ndim(); ++d) {
    if (d != from) perm.push_back(d);
  }
  perm.insert(perm.begin() + to, from);
  return transposed(x, perm, location, name);
}

Array concatenated(const std::vector<Array>& xs, std::int64_t dim, Location location,
                   const std::string& name) {
  if (xs.size() == 1) return xs[0];
  bool weak = true;
  for (const Array& x : xs) weak = weak && x.weak_type();
  return apply(ir::Opcode::concatenate, xs, ir::DimensionsAttrs{{dim}}, location, name, nullptr,
               nullptr, weak);
}

Array reversed(const Array& x, const Dims& dims, Location location, const std::string& name) {
  if (dims.empty()) return x;
  return one_operand(ir::Opcode::reverse, x, ir::DimensionsAttrs{dims}, location, name);
}

Array padded(const Array& x, const Array& value, const std::vector<ir::PadDim>& dims,
             Location location, const std::string& name) {
  if (std::all_of(dims.begin(), dims.end(),
                  [](const ir::PadDim& d) { return d == ir::PadDim{}; })) {
    return x;
  }
  const std::vector<Array> operands{x, value};
  return apply(ir::Opcode::pad, operands, ir::PadAttrs{dims}, location, name, nullptr, nullptr,
               x.weak_type());
}

Array broadcast_in_dim(const Array& x, const Dims& dims, const Dims& mapping, Location location,
                       const std::string& name) {
  const Shape shape(x.dtype(), dims);
  return one_operand(ir::Opcode::broadcast, x, ir::DimensionsAttrs{mapping}, location, name,
                     &shape);
}

Array gather_static(const Array& x, std::int64_t dim, const Dims& positions, Location location,
                    const std::string& name) {
  std::vector<Array> parts;
  std::size_t begin = 0;
  while (begin < positions.size()) {
    std::size_t end = begin + 1;
    std::int64_t step = 0;
    if (end < positions.size()) {
      step = positions[end] - positions[begin];
      if (step < -1 || step > 1) step = 2;  // not a run
      while (step != 2 && end < positions.size() && positions[end] - positions[end - 1] == step) {
        ++end;
      }
    }
    const std::int64_t first = positions[begin], last = positions[end - 1];
    Array part =
        sliced_dim(x, dim, std::min(first, last), std::max(first, last) + 1, location, name);
    if (step == -1) part = reversed(part, {dim}, location, name);
    if (step == 0 && end - begin > 1) {
      Dims dims = x.shape();
      dims[std::size_t(dim)] = std::int64_t(end - begin);
      part = broadcasted(part, dims, location);
    }
    parts.push_back(part);
    begin = end;
  }
  if (parts.empty()) return sliced_dim(x, dim, 0, 0, location, name);
  return concatenated(parts, dim, location, name);
}

Array masked_diagonal(const Array& x, std::int64_t a, std::int64_t b, std::int64_t offset,
                      Location location, const std::string& name) {
  const Dims& dims = x.shape();
  const DType t = x.dtype();
  const Dims plane{dims[std::size_t(a)], dims[std::size_t(b)]};
  const Operand row{iota(s32, plane, 0, location), location};
  const Operand column{iota(s32, plane, 1, location), location};
  const Operand shifted{
      offset == 0 ? row.array : add(row, {program_constant(s32, double(offset)), location}),
      location};
  const Array hits = broadcast_in_dim(equal(shifted, column), dims, {a, b}, location, name);
  // Adding -0 changes no number, not even -0.
  const bool pred = t == DType::pred;
  const bool floats = is_floating(t) || is_complex(t);
  const Literal nothing = is_complex(t) ? Literal::scalar(t, std::complex<double>(-0.0, -0.0))
                                        : Literal::scalar(t, floats ? -0.0 : 0.0);
  const std::vector<Array> choice{hits, x, broadcasted(program_constant(nothing), dims, location)};
  const Array masked = apply(ir::Opcode::select, choice, {}, location, name);
  return reduce_dims(pred ? ir::Opcode::or_ : ir::Opcode::add, masked, {a}, nothing, location,
                     name);
}

}  // namespace tessera::frontend
