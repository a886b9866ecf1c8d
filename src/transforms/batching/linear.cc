// SPDX-License-Identifier: Apache-2.0
// Batches dot, convolution, fft and the matrix solvers.
#include "src/base/contains.h"
#include "src/transforms/batching/fold.h"

namespace tessera::transforms::batching {

using ir::Instruction;

namespace {

/// Dims in front of `end` that are in neither list.
std::int64_t free_dims(std::int64_t end, const Dims& contracting, const Dims& batch) {
  std::int64_t count = 0;
  for (std::int64_t d = 0; d < end; ++d) {
    count += contains(contracting, d) || contains(batch, d) ? 0 : 1;
  }
  return count;
}

}  // namespace

/// The batch of both operands becomes a batch dim of the dot; that of one, a free dim.
Batched batch_dot(BatchSite& site) {
  auto a = site.op.get<ir::DotAttrs>();
  const std::int64_t lhs = site.dim(0), rhs = site.dim(1);
  a.lhs_contracting = shifted(a.lhs_contracting, lhs);
  a.lhs_batch = shifted(a.lhs_batch, lhs);
  a.rhs_contracting = shifted(a.rhs_contracting, rhs);
  a.rhs_batch = shifted(a.rhs_batch, rhs);
  std::int64_t to = 0;
  if (site.batched(0) && site.batched(1)) {
    a.lhs_batch = inserted(a.lhs_batch, 0, lhs);
    a.rhs_batch = inserted(a.rhs_batch, 0, rhs);
  } else {
    to = std::int64_t(a.lhs_batch.size());
    if (site.batched(0)) {
      to += free_dims(lhs, a.lhs_contracting, a.lhs_batch);
    } else {
      to += free_dims(site.entry_shape(0).rank(), a.lhs_contracting, a.lhs_batch) +
            free_dims(rhs, a.rhs_contracting, a.rhs_batch);
    }
  }
  return site.emit({site.array(0), site.array(1)}, a, to);
}

namespace {

/// The convolution with another dim multiplied by the batch.
Instruction* convolve_folded(BatchSite& site, Instruction* lhs, Instruction* rhs,
                             const ir::ConvolutionAttrs& a, std::int64_t dim) {
  Shape shape(site.op.shape.dtype, site.op.shape.dims);
  shape.dims[std::size_t(dim)] *= site.size();
  return site.emit_calling(shape, {lhs, rhs}, a, {});
}

}  // namespace

/// An input for each entry is more of its batch; a kernel for each, more output features; both,
/// more groups.
Batched batch_convolution(BatchSite& site) {
  if (site.size() == 0) return loop_over_entries(site);
  auto a = site.op.get<ir::ConvolutionAttrs>();
  const bool lhs = site.batched(0), rhs = site.batched(1);
  if (lhs && rhs) {
    const bool by_batch = a.batch_group_count > 1;
    Instruction* x = fold(site, site.operand(0), by_batch ? a.input_batch : a.input_feature);
    Instruction* kernel = fold(site, site.operand(1), a.kernel_output_feature);
    (by_batch ? a.batch_group_count : a.feature_group_count) *= site.size();
    return unfold(site, convolve_folded(site, x, kernel, a, a.output_feature), a.output_feature);
  }
  if (lhs) {
    Instruction* x = fold(site, site.operand(0), a.input_batch, a.batch_group_count);
    return unfold(site, convolve_folded(site, x, site.array(1), a, a.output_batch), a.output_batch);
  }
  const std::int64_t groups = std::max(a.feature_group_count, a.batch_group_count);
  Instruction* kernel = fold(site, site.operand(1), a.kernel_output_feature, groups);
  Instruction* made = convolve_folded(site, site.array(0), kernel, a, a.output_feature);
  return unfold(site, made, a.output_feature, groups);
}

Batched batch_fft(BatchSite& site) {
  const auto own = std::int64_t(site.op.get<ir::FftAttrs>().lengths.size());
  const std::int64_t dim = site.dim(0) <= site.entry_shape(0).rank() - own ? site.dim(0) : 0;
  return site.emit({site.at(0, dim)}, dim);
}

Batched batch_cholesky(BatchSite& site) {
  const std::int64_t dim = site.dim(0) <= site.entry_shape(0).rank() - 2 ? site.dim(0) : 0;
  return site.emit({site.at(0, dim)}, dim);
}

Batched batch_triangular_solve(BatchSite& site) {
  const std::int64_t matrix = site.entry_shape(0).rank() - 2;
  if (!site.batched(0) && site.size() > 0) {
    // One matrix: the right sides of all entries side by side.
    const bool left = site.op.get<ir::TriangularSolveAttrs>().left_side;
    const std::int64_t dim = left ? matrix + 1 : matrix;
    Instruction* right = fold(site, site.operand(1), dim);
    const Shape shape(right->shape.dtype, right->shape.dims);
    return unfold(site, site.emit_calling(shape, {site.array(0), right}, site.op.attrs, {}), dim);
  }
  const std::int64_t common = site.common_dim();
  const std::int64_t dim = common <= matrix ? common : 0;
  return site.emit({site.at(0, dim), site.at(1, dim)}, dim);
}

}  // namespace tessera::transforms::batching
