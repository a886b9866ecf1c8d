// SPDX-License-Identifier: Apache-2.0
// Small questions about shardings, and shardings made from others.
#include "src/spmd/sharding_queries.h"

#include <algorithm>

namespace tessera::spmd {

namespace {

/// Axes of size 1 split nothing.
IndexList wide_axes(const TensorSharding& s, IndexList axes) {
  erase_if(axes, [&](int a) { return s.mesh->axes[std::size_t(a)].size == 1; });
  return axes;
}

}  // namespace

bool same_layout(const TensorSharding& a, const TensorSharding& b) {
  if (a.dims.size() != b.dims.size() || a.kind != b.kind) return false;
  for (std::size_t i = 0; i < a.dims.size(); ++i) {
    const IndexList &x = a.dims[i].axes, &y = b.dims[i].axes;
    if (x != y && wide_axes(a, x) != wide_axes(b, y)) return false;
  }
  if (a.unreduced.empty() && b.unreduced.empty()) return true;
  IndexList ua = wide_axes(a, a.unreduced), ub = wide_axes(b, b.unreduced);
  std::sort(ua.begin(), ua.end());
  std::sort(ub.begin(), ub.end());
  return ua == ub && (ua.empty() || a.reduction == b.reduction);
}

bool reduced_differently(const TensorSharding& a, const TensorSharding& b) {
  return a.reduction != b.reduction && !wide_axes(a, a.unreduced).empty() &&
         !wide_axes(b, b.unreduced).empty();
}

ir::Opcode opcode_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::max:
      return ir::Opcode::maximum;
    case Reduction::min:
      return ir::Opcode::minimum;
    case Reduction::sum:
    case Reduction::other:
      break;
  }
  return ir::Opcode::add;
}

Reduction reduction_of(ir::Opcode op) {
  switch (op) {
    case ir::Opcode::add:
      return Reduction::sum;
    case ir::Opcode::maximum:
      return Reduction::max;
    case ir::Opcode::minimum:
      return Reduction::min;
    default:
      return Reduction::other;
  }
}

TensorSharding without_dims(TensorSharding s, const Dims& dims) {
  for (std::int64_t d : dims) s.dims[std::size_t(d)].axes.clear();
  return s;
}

TensorSharding reduced(TensorSharding s) {
  s.unreduced.clear();
  s.reduction = Reduction::sum;
  return s;
}

std::vector<TensorSharding> reduced(std::vector<TensorSharding> all) {
  for (TensorSharding& s : all) s = reduced(std::move(s));
  return all;
}

IndexList axes_on(const TensorSharding& s, const Dims& dims) {
  IndexList axes;
  for (std::int64_t d : dims) {
    const IndexList& a = s.dims[std::size_t(d)].axes;
    axes.insert(axes.end(), a.begin(), a.end());
  }
  return axes;
}

IndexList used_axes(const TensorSharding& s) {
  IndexList axes;
  for (const DimSharding& d : s.dims) axes.insert(axes.end(), d.axes.begin(), d.axes.end());
  return axes;
}

double parts_of(const TensorSharding& s) {
  double parts = 1;
  for (const std::int64_t n : s.shards()) parts *= double(n);
  return parts;
}

double row_bytes(const Shape& global, const TensorSharding& s, std::int64_t dim) {
  double bytes = double(byte_size(global.dtype));
  const Dims local = s.shard_dims(global.dims);
  for (std::size_t d = 0; d < local.size(); ++d) {
    if (std::int64_t(d) != dim) bytes *= double(local[d]);
  }
  return bytes;
}

}  // namespace tessera::spmd
