// SPDX-License-Identifier: Apache-2.0
// The numbers that index vectors of gathers and scatters are made of.
#include "src/passes/indexed/index_components.h"

#include <utility>

namespace tessera::passes {

using ir::Instruction;
using ir::Opcode;

Instruction* index_component(ir::Builder& b, Instruction* indices, const ir::IndexedDims& dims,
                             std::int64_t k) {
  const std::int64_t dim = dims.vector_dim;
  if (dim == indices->shape.rank()) return indices;
  while (indices->is(Opcode::concatenate) &&
         indices->get<ir::DimensionsAttrs>().dims.at(0) == dim) {
    std::size_t part = 0;
    while (k >= indices->operand(part)->shape.dim(dim)) {
      k -= indices->operand(part++)->shape.dim(dim);
    }
    indices = indices->operand(part);
  }
  if (indices->shape.dim(dim) > 1) {
    Dims starts(std::size_t(indices->shape.rank()), 0), limits = indices->shape.dims;
    starts[std::size_t(dim)] = k;
    limits[std::size_t(dim)] = k + 1;
    indices = b.slice(indices, std::move(starts), std::move(limits));
  }
  return b.reshape(indices, dims.batch_sizes);
}

Instruction* inside_start(ir::Builder& b, Instruction* n, std::int64_t last) {
  const DType t = n->shape.dtype;
  // No number of the type may be beyond it.
  const int bits = int(byte_size(t)) * 8 - (is_signed_integer(t) ? 1 : 0);
  const bool reaches = bits >= 63 || last < (std::int64_t(1) << bits);
  if (is_signed_integer(t)) {
    n = b.binary(Opcode::maximum, n, b.splat(b.zero(t), n->shape.dims));
  }
  if (reaches) {
    n = b.binary(Opcode::minimum, n, b.splat(b.scalar(t, double(last)), n->shape.dims));
  }
  return b.convert(n, DType::s32);
}

Instruction* times(ir::Builder& b, Instruction* n, std::int64_t stride) {
  if (stride == 1) return n;
  return b.binary(Opcode::multiply, n,
                  b.splat(b.scalar(DType::s32, double(stride)), n->shape.dims));
}

Instruction* is_inside(ir::Builder& b, Instruction* n, std::int64_t size) {
  const DType t = n->shape.dtype;
  const auto splat = [&](double v) { return b.splat(b.scalar(t, v), n->shape.dims); };
  const int bits = int(byte_size(t)) * 8 - (is_signed_integer(t) ? 1 : 0);
  Instruction* out = nullptr;
  const auto add = [&](Instruction* more) {
    out = out == nullptr ? more : b.binary(Opcode::and_, out, more);
  };
  if (is_signed_integer(t)) add(b.compare(ir::Direction::ge, n, splat(0)));
  // No number of a small type may be beyond it.
  if (bits >= 63 || size < (std::int64_t(1) << bits)) {
    add(b.compare(ir::Direction::lt, n, splat(double(size))));
  }
  return out;
}

void add_to(ir::Builder& b, Instruction** sum, Instruction* n) {
  *sum = *sum == nullptr ? n : b.binary(Opcode::add, *sum, n);
}

void add_batching(ir::Builder& b, const ir::IndexedDims& dims, const Dims& strides,
                  std::int64_t unit, Instruction** sum) {
  for (std::size_t k = 0; k < dims.batching.size(); ++k) {
    Instruction* n = b.iota(Shape(DType::s32, dims.batch_sizes), dims.batching[k]);
    add_to(b, sum, times(b, n, strides[std::size_t(dims.array_batching[k])] / unit));
  }
}

}  // namespace tessera::passes
