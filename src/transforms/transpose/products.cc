// SPDX-License-Identifier: Apache-2.0
// Transposes of products of arrays: dot, convolution, fft, triangular solve.
#include <algorithm>
#include <numeric>

#include "src/base/contains.h"
#include "src/transforms/transpose/site.h"
#include "src/transforms/utils/windows.h"

namespace tessera::transforms {

using ir::Instruction;
using ir::Opcode;

namespace {

Dims free_dims(std::int64_t rank, const Dims& batch, const Dims& contracting) {
  Dims out;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (!contains(batch, d) && !contains(contracting, d)) out.push_back(d);
  }
  return out;
}

Dims range(std::size_t first, std::size_t count) {
  Dims out(count);
  std::iota(out.begin(), out.end(), std::int64_t(first));
  return out;
}

/// result dim perm[k] of the outcome is dim k of x.
Instruction* put_in_order(ir::Builder& b, Instruction* x, const Dims& place_of) {
  if (std::is_sorted(place_of.begin(), place_of.end())) return x;
  Dims perm(place_of.size());
  for (std::size_t k = 0; k < place_of.size(); ++k) {
    perm[std::size_t(place_of[k])] = std::int64_t(k);
  }
  return b.transpose(x, perm);
}

}  // namespace

/// The result is [batch, free of lhs, free of rhs]. The cotangent of one side is the product with
/// the other side over that one's free dims: [batch, own free dims, contracted dims].
void transpose_dot(TransposeSite& s) {
  const auto& a = s.get<ir::DotAttrs>();
  const std::size_t mine = s.is_linear(0) ? 0 : 1;
  const bool left = mine == 0;
  const Dims& my_batch = left ? a.lhs_batch : a.rhs_batch;
  const Dims& my_contracting = left ? a.lhs_contracting : a.rhs_contracting;
  const Dims& batch = left ? a.rhs_batch : a.lhs_batch;
  const Dims& contracting = left ? a.rhs_contracting : a.lhs_contracting;
  const Dims my_free = free_dims(s.shape(mine).rank(), my_batch, my_contracting);
  const Dims free = free_dims(s.shape(1 - mine).rank(), batch, contracting);
  const std::size_t batches = batch.size();

  // What remains of the other side are its contracted dims, in its own order.
  std::vector<std::size_t> order(contracting.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](std::size_t x, std::size_t y) { return contracting[x] < contracting[y]; });
  Dims ct_first = my_batch, ct_last = my_batch;
  ct_first.insert(ct_first.end(), my_free.begin(), my_free.end());
  for (const std::size_t k : order) {
    ct_first.push_back(my_contracting[k]);
    ct_last.push_back(my_contracting[k]);
  }
  ct_last.insert(ct_last.end(), my_free.begin(), my_free.end());

  ir::DotAttrs back;
  back.operand_precision = a.operand_precision;
  back.algorithm = a.algorithm;
  back.lhs_batch = range(0, batches);
  back.rhs_batch = batch;
  back.lhs_contracting = range(batches + (left ? my_free.size() : 0), free.size());
  back.rhs_contracting = free;
  Instruction* ct = s.ct.array;
  // Element types of a product may differ from its operands'.
  Instruction* other = s.b.convert(s.operand(1 - mine), s.op.shape.dtype);
  const auto give = [&](Instruction* product, const Dims& place_of) {
    s.give(mine, s.b.convert(put_in_order(s.b, product, place_of), s.shape(mine).dtype));
  };
  // The order that leaves the dims in place, if one does.
  if (std::is_sorted(ct_first.begin(), ct_first.end())) {
    return give(s.b.dot(ct, other, back), ct_first);
  }
  std::swap(back.lhs_batch, back.rhs_batch);
  std::swap(back.lhs_contracting, back.rhs_contracting);
  if (back.operand_precision.size() == 2) {
    std::swap(back.operand_precision[0], back.operand_precision[1]);
  }
  give(s.b.dot(other, ct, back), ct_last);
}

// ------------------------------------------------------------------ convolution

namespace {

/// The groups of a dim [g*n] moved in front of another one: as if its parts lay side by side.
/// x: [..., g*n (from), ..., m (to), ...] -> [..., n, ..., g*m, ...]
Instruction* move_groups(ir::Builder& b, Instruction* x, std::int64_t groups, std::int64_t from,
                         std::int64_t to) {
  if (groups == 1) return x;
  Dims split = x->shape.dims;
  split[std::size_t(from)] /= groups;
  split.insert(split.begin() + from, groups);
  const std::int64_t target = to < from ? to : to + 1;  // of dim `to` in the split array
  Dims perm;
  for (std::int64_t d = 0; d < std::int64_t(split.size()); ++d) {
    if (d == from) continue;
    if (d == target) perm.push_back(from);
    perm.push_back(d);
  }
  Dims joined = x->shape.dims;
  joined[std::size_t(from)] /= groups;
  joined[std::size_t(to)] *= groups;
  return b.reshape(b.transpose(b.reshape(x, split), perm), joined);
}

struct Convolution {
  TransposeSite& s;
  const ir::ConvolutionAttrs& a;

  Shape lhs() const { return s.shape(0); }
  Shape rhs() const { return s.shape(1); }

  /// Cotangent of the input: the cotangent, dilated by the strides, with the kernel reversed and
  /// its features exchanged.
  Instruction* of_input() const {
    ir::ConvolutionAttrs back = a;
    Instruction* kernel = s.operand(1);
    const std::int64_t groups = std::max(a.feature_group_count, a.batch_group_count);
    // Kernel [o = g*o', i'] becomes [o', i = g*i'].
    kernel = move_groups(s.b, kernel, groups, a.kernel_output_feature, a.kernel_input_feature);
    if (a.batch_group_count > 1) {
      // The kernel's outputs are grouped as the batch is; each group's outputs are its inputs.
      back.feature_group_count = a.batch_group_count;
      back.batch_group_count = 1;
    }
    back.input_batch = a.output_batch;
    back.input_feature = a.output_feature;
    back.input_spatial = a.output_spatial;
    back.output_batch = a.input_batch;
    back.output_feature = a.input_feature;
    back.output_spatial = a.input_spatial;
    std::swap(back.kernel_input_feature, back.kernel_output_feature);
    for (std::size_t d = 0; d < a.window.size(); ++d) {
      const ir::WindowDim& w = a.window[d];
      ir::WindowDim& v = back.window[d];
      const std::int64_t window = dilated(w.size, w.rhs_dilation);
      const std::int64_t in = dilated(lhs().dim(a.input_spatial[d]), w.lhs_dilation);
      const std::int64_t out = dilated(s.op.shape.dim(a.output_spatial[d]), w.stride);
      v.stride = w.lhs_dilation;
      v.lhs_dilation = w.stride;
      v.pad_low = window - w.pad_low - 1;
      v.pad_high = in + window - 1 - out - v.pad_low;
      v.reversal = !w.reversal;
    }
    Instruction* out = emit(s.ct.array, kernel, back);
    if (a.batch_group_count > 1) {
      // [batch', g * features] are the groups of the batch, side by side.
      out = move_groups(s.b, out, a.batch_group_count, a.input_feature, a.input_batch);
    }
    return out;
  }

  /// Cotangent of the kernel: the input, with its batch contracted, over windows of the size of the
  /// cotangent.
  Instruction* of_kernel() const {
    ir::ConvolutionAttrs back = a;
    Instruction* input = s.operand(0);
    back.feature_group_count = 1;
    back.batch_group_count = 1;
    if (a.feature_group_count > 1) {
      back.batch_group_count = a.feature_group_count;
      // The features are the batch of this one: groups are contiguous there as they are here.
    } else if (a.batch_group_count > 1) {
      back.feature_group_count = a.batch_group_count;
      // The batch is contracted within its groups, which the kernel's outputs share.
    }
    back.input_batch = a.input_feature;
    back.input_feature = a.input_batch;
    back.kernel_input_feature = a.output_batch;
    back.kernel_output_feature = a.output_feature;
    back.kernel_spatial = a.output_spatial;
    back.output_batch = a.kernel_input_feature;
    back.output_feature = a.kernel_output_feature;
    back.output_spatial = a.kernel_spatial;
    for (std::size_t d = 0; d < a.window.size(); ++d) {
      const ir::WindowDim& w = a.window[d];
      ir::WindowDim& v = back.window[d];
      const std::int64_t in = dilated(lhs().dim(a.input_spatial[d]), w.lhs_dilation);
      const std::int64_t out = dilated(s.op.shape.dim(a.output_spatial[d]), w.stride);
      const std::int64_t window = dilated(w.size, w.rhs_dilation);
      v.size = s.op.shape.dim(a.output_spatial[d]);
      v.stride = w.rhs_dilation;
      v.rhs_dilation = w.stride;
      v.pad_low = w.pad_low;
      v.pad_high = out + window - 1 - in - w.pad_low;
      v.reversal = false;
    }
    Instruction* out = emit(input, s.ct.array, back);
    Dims reversed;
    for (std::size_t d = 0; d < a.window.size(); ++d) {
      if (a.window[d].reversal) reversed.push_back(a.kernel_spatial[d]);
    }
    return reversed.empty() ? out : s.b.reverse(out, reversed);
  }

  Instruction* emit(Instruction* x, Instruction* kernel, const ir::ConvolutionAttrs& attrs) const {
    const DType type = s.op.shape.dtype;
    return s.b.emit(Opcode::convolution, {s.b.convert(x, type), s.b.convert(kernel, type)}, attrs);
  }
};

}  // namespace

void transpose_convolution(TransposeSite& s) {
  const Convolution c{s, s.get<ir::ConvolutionAttrs>()};
  const std::size_t mine = s.is_linear(0) ? 0 : 1;
  Instruction* out = mine == 0 ? c.of_input() : c.of_kernel();
  s.give(mine, s.b.convert(out, s.shape(mine).dtype));
}

// ------------------------------------------------------------------ fft

namespace {

/// A number at both ends of what a real transform keeps of the last dim (of an odd length, at the
/// first one only), which stand for themselves, and another one between them.
Instruction* weights(ir::Builder& b, const Shape& shape, std::int64_t length, double between,
                     double at_ends) {
  const std::int64_t dim = shape.rank() - 1;
  Instruction* place = b.iota(Shape(DType::s32, shape.dims), dim);
  Instruction* end = b.compare(ir::Direction::eq, place, full(b, place->shape, 0));
  if (length % 2 == 0) {
    Instruction* last =
        b.compare(ir::Direction::eq, place, full(b, place->shape, double(length / 2)));
    end = b.binary(Opcode::or_, end, last);
  }
  return b.select(end, full(b, shape, at_ends), full(b, shape, between));
}

double count_of(const Dims& lengths) {
  double n = 1;
  for (const std::int64_t v : lengths) n *= double(v);
  return n;
}

}  // namespace

void transpose_fft(TransposeSite& s) {
  const auto& a = s.get<ir::FftAttrs>();
  ir::Builder& b = s.b;
  switch (a.type) {
    case ir::FftType::fft:
    case ir::FftType::ifft:
      // Their matrices are symmetric.
      return s.give(0, b.fft(s.ct.array, a.type, a.lengths));
    case ir::FftType::rfft: {
      // The real part of the full transform of the cotangent, zeros where nothing came out.
      const Shape& half = s.op.shape;
      std::vector<ir::PadDim> pad(half.dims.size());
      pad.back().high = a.lengths.back() - half.dims.back();
      Instruction* whole = b.pad(s.ct.array, b.zero(half.dtype), pad);
      Instruction* back = b.fft(whole, ir::FftType::fft, a.lengths);
      return s.give(0, b.unary(Opcode::real, back));
    }
    case ir::FftType::irfft: {
      // The plain product asks for the conjugate of rfft; elements that stand for two count twice.
      Instruction* half = b.fft(s.ct.array, ir::FftType::rfft, a.lengths);
      const double n = count_of(a.lengths);
      const Shape parts(s.op.shape.dtype, half->shape.dims);
      Instruction* weight = weights(b, parts, a.lengths.back(), 2 / n, 1 / n);
      Instruction* re = b.binary(Opcode::multiply, b.unary(Opcode::real, half), weight);
      Instruction* im = b.binary(Opcode::multiply, b.unary(Opcode::imag, half), weight);
      return s.give(0, b.binary(Opcode::complex, re, b.unary(Opcode::negate, im)));
    }
  }
}

// ------------------------------------------------------------------ triangular solve

void transpose_triangular_solve(TransposeSite& s) {
  using Transpose = ir::TriangularSolveAttrs::Transpose;
  if (s.is_linear(0)) s.refuse("it is not linear in the matrix");
  auto a = s.get<ir::TriangularSolveAttrs>();
  ir::Builder& b = s.b;
  Instruction* matrix = s.operand(0);
  const auto conj = [&](Instruction* x) {
    if (!is_complex(x->shape.dtype)) return x;
    return b.binary(Opcode::complex, b.unary(Opcode::real, x),
                    b.unary(Opcode::negate, b.unary(Opcode::imag, x)));
  };
  // The inverse of the transposed matrix, not of the adjoint one.
  if (a.transpose_a == Transpose::adjoint) matrix = conj(matrix);
  a.transpose_a = a.transpose_a == Transpose::none ? Transpose::transpose : Transpose::none;
  s.give(1, b.emit(Opcode::triangular_solve, {matrix, s.ct.array}, a));
}

}  // namespace tessera::transforms
