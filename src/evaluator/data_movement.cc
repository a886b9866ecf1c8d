// SPDX-License-Identifier: Apache-2.0
// Evaluates ops that move elements: broadcast, transpose, reverse, slice, pad, bitcast and others.
#include <numeric>

#include "src/evaluator/elementwise.h"
#include "src/evaluator/ops.h"
#include "src/evaluator/strided.h"
#include "src/evaluator/wide.h"
#include "src/ir/analysis/layouts.h"

namespace tessera::evaluator {
namespace {

Literal make(const Shape& s) { return Literal(Shape(s.dtype, s.dims)); }

}  // namespace

Literal eval_broadcast(const ir::Instruction& in, Operands xs) {
  const Literal& x = *xs[0];
  const Dims& dims = in.get<ir::DimensionsAttrs>().dims;
  const Dims strides = row_major_strides(x.dims());
  Dims from(in.shape.dims.size(), 0);
  for (std::size_t i = 0; i < dims.size(); ++i) {
    // An operand dim of 1 is spread over a wider one.
    if (x.dims()[i] != 1) from[std::size_t(dims[i])] = strides[i];
  }
  Literal out = make(in.shape);
  strided_copy(byte_size(x.dtype()), in.shape.dims, out.mutable_bytes(),
               {0, row_major_strides(in.shape.dims)}, x.bytes(), {0, from});
  return out;
}

Literal eval_transpose(const ir::Instruction& in, Operands xs) {
  const Literal& x = *xs[0];
  return permuted(x, in.get<ir::DimensionsAttrs>().dims);
}

Literal eval_reverse(const ir::Instruction& in, Operands xs) {
  const Literal& x = *xs[0];
  const Dims strides = row_major_strides(x.dims());
  Side from{0, strides};
  for (std::int64_t d : in.get<ir::DimensionsAttrs>().dims) {
    from.offset += (x.dims()[std::size_t(d)] - 1) * strides[std::size_t(d)];
    from.strides[std::size_t(d)] = -strides[std::size_t(d)];
  }
  Literal out = make(in.shape);
  strided_copy(byte_size(x.dtype()), x.dims(), out.mutable_bytes(), {0, strides}, x.bytes(), from);
  return out;
}

Literal eval_slice(const ir::Instruction& in, Operands xs) {
  const Literal& x = *xs[0];
  const auto& attrs = in.get<ir::SliceAttrs>();
  return sliced(x, attrs.starts, in.shape.dims, attrs.strides);
}

Literal eval_pad(const ir::Instruction& in, Operands xs) {
  const Literal &x = *xs[0], &value = *xs[1];
  const auto& pads = in.get<ir::PadAttrs>().dims;
  Literal out = make(in.shape);
  const std::size_t size = byte_size(x.dtype());
  fill(size, out.mutable_bytes(), out.element_count(), value.bytes());
  // Of each dim, the operand's indices that land inside the result.
  const Dims out_strides = row_major_strides(in.shape.dims), strides = row_major_strides(x.dims());
  Dims count;
  Side to{0, out_strides}, from{0, strides};
  for (std::size_t d = 0; d < pads.size(); ++d) {
    const std::int64_t step = pads[d].interior + 1;
    std::int64_t first = pads[d].low >= 0 ? 0 : ceil_div(-pads[d].low, step);
    std::int64_t end = ceil_div(std::max<std::int64_t>(0, in.shape.dims[d] - pads[d].low), step);
    end = std::min(end, x.dims()[d]);
    count.push_back(std::max<std::int64_t>(0, end - first));
    to.offset += (pads[d].low + first * step) * out_strides[d];
    to.strides[d] *= step;
    from.offset += first * strides[d];
  }
  strided_copy(size, count, out.mutable_bytes(), to, x.bytes(), from);
  return out;
}

Literal eval_concatenate(const ir::Instruction& in, Operands xs) {
  const std::size_t dim = std::size_t(in.get<ir::DimensionsAttrs>().dims.at(0));
  Literal out = make(in.shape);
  Dims starts(in.shape.dims.size(), 0);
  for (const Literal* x : xs) {
    write_box(out, *x, starts);
    starts[dim] += x->dims()[dim];
  }
  return out;
}

Literal eval_iota(const ir::Instruction& in, Operands) {
  const std::size_t dim = std::size_t(in.get<ir::IotaAttrs>().dim);
  Literal out = make(in.shape);  // before the numbers: it may be too large
  if (out.element_count() == 0) return out;
  const std::int64_t n = in.shape.dims[dim];
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(n));
  std::iota(numbers.begin(), numbers.end(), std::int64_t(0));
  std::vector<std::byte> typed(std::size_t(n) * byte_size(in.shape.dtype));
  apply_convert(DType::s64, in.shape.dtype, reinterpret_cast<const std::byte*>(numbers.data()),
                typed.data(), n);
  Side from{0, Dims(in.shape.dims.size(), 0)};
  from.strides[dim] = 1;
  strided_copy(byte_size(in.shape.dtype), in.shape.dims, out.mutable_bytes(),
               {0, row_major_strides(in.shape.dims)}, typed.data(), from);
  return out;
}

namespace {

/// The elements' own bits, one after the other, cut anew: types below 8 bits are stored a byte each
/// but mean their bits only.
Literal cut_anew(const Literal& x, const Shape& shape) {
  const int from = bit_width(x.dtype()), to = bit_width(shape.dtype);
  Literal out(shape);
  const std::int64_t n = x.element_count();
  std::vector<std::uint64_t> in_bits(static_cast<std::size_t>(n));
  load_bits(byte_size(x.dtype()), x.bytes(), n, in_bits.data());
  std::vector<std::uint64_t> out_bits(std::size_t(out.element_count()), 0);
  for (std::int64_t bit = 0; bit < n * from; ++bit) {
    const std::uint64_t one = (in_bits[std::size_t(bit / from)] >> (bit % from)) & 1;
    out_bits[std::size_t(bit / to)] |= one << (bit % to);
  }
  if (is_integer(shape.dtype)) {
    store(shape.dtype, out_bits.data(), out.element_count(), out.mutable_bytes());
  } else {
    store_bits(byte_size(shape.dtype), out_bits.data(), out.element_count(), out.mutable_bytes());
  }
  return out;
}

/// The bytes of `x` as elements of another type and other dims.
Literal reread(const ir::Instruction& in, const Literal& x, const Shape& shape) {
  const std::int64_t bits = checked_multiply(shape.element_count(), bit_width(shape.dtype));
  const std::int64_t had = checked_multiply(x.element_count(), bit_width(x.dtype()));
  if (bits != had) {
    throw ShapeError(in.describe() + ": " + x.shape().to_string() + " has " + std::to_string(had) +
                         " bits and " + shape.to_string() + " " + std::to_string(bits),
                     in.location());
  }
  const bool narrow = bit_width(shape.dtype) < 8 || bit_width(x.dtype()) < 8;
  if (narrow && shape.dtype != x.dtype()) return cut_anew(x, shape);
  return Literal(shape, std::span<const std::byte>(x.bytes(), x.byte_count()));
}

}  // namespace

Literal eval_bitcast(const ir::Instruction& in, Operands xs) {
  const Literal& x = *xs[0];
  const Shape shape(in.shape.dtype, in.shape.dims);
  if (ir::depends_on_layout(in)) {
    const Dims from = ir::memory_order(in.operands()[0]->shape), to = ir::memory_order(in.shape);
    const Shape in_memory(shape.dtype, ir::permute_dims(shape.dims, to));
    return permuted(reread(in, permuted(x, from), in_memory), ir::inverse_order(to));
  }
  return reread(in, x, shape);
}

/// Sizes are static here: a dim may be set to the size that it has.
Literal eval_set_dimension_size(const ir::Instruction& in, Operands xs) {
  const Literal &x = *xs[0], &size = *xs[1];
  const std::int64_t dim = in.get<ir::DimensionsAttrs>().dims.at(0);
  const std::int64_t present = x.dims()[std::size_t(dim)], requested = index_at(size, 0);
  if (requested == present) return x;
  throw RuntimeError(in.describe() + ": dim " + std::to_string(dim) + " of " +
                         x.shape().to_string() + " can't be set to size " +
                         std::to_string(requested) +
                         ": sizes that are known only when the program " + "runs are not supported",
                     in.location());
}

Literal eval_dynamic_reshape(const ir::Instruction& in, Operands xs) {
  for (std::size_t d = 0; d + 1 < xs.size(); ++d) {
    const std::int64_t requested = index_at(*xs[d + 1], 0);
    if (requested == in.shape.dims[d]) continue;
    throw RuntimeError(in.describe() + ": dim " + std::to_string(d) + " of " +
                           in.shape.to_string() + " was asked to have size " +
                           std::to_string(requested) + ": sizes that are known only when the " +
                           "program runs are not supported",
                       in.location());
  }
  return xs[0]->reshaped(in.shape.dims);
}

}  // namespace tessera::evaluator
