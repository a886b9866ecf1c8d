// SPDX-License-Identifier: Apache-2.0
// Folds the batch into another dim, and takes it out again.
#include "src/transforms/batching/fold.h"

#include <numeric>

namespace tessera::transforms::batching {

using ir::Instruction;

Instruction* fold(BatchSite& site, const Batched& array, std::int64_t dim, std::int64_t groups) {
  ir::Builder& b = site.b;
  const auto d = std::size_t(dim);
  if (groups == 1) {
    Instruction* x = site.at(array, dim);
    Dims dims = x->shape.dims;
    dims[d] *= dims[d + 1];
    dims.erase(dims.begin() + std::ptrdiff_t(d) + 1);
    return b.reshape(x, std::move(dims));
  }
  Instruction* x = site.at(array, 0);
  Dims entry(x->shape.dims.begin() + 1, x->shape.dims.end());
  const std::int64_t rest = entry[d] / groups;
  Dims split = x->shape.dims;
  split[d + 1] = groups;
  split.insert(split.begin() + std::ptrdiff_t(d) + 2, rest);
  x = b.reshape(x, split);
  // [entries, ..., groups, rest, ...] to [..., groups, entries, rest, ...].
  Dims order;
  for (std::int64_t k = 1; k <= dim + 1; ++k) order.push_back(k);
  order.push_back(0);
  for (std::int64_t k = dim + 2; k < std::int64_t(split.size()); ++k) order.push_back(k);
  x = b.transpose(x, std::move(order));
  entry[d] *= site.size();
  return b.reshape(x, std::move(entry));
}

Batched unfold(BatchSite& site, Instruction* array, std::int64_t dim, std::int64_t groups) {
  ir::Builder& b = site.b;
  const auto d = std::size_t(dim);
  const std::int64_t size = site.size();
  Dims dims = array->shape.dims;
  TESSERA_CHECK(size > 0, "an empty batch was folded");
  const std::int64_t whole = dims[d] / size;
  Batched out;
  out.dim = dim;
  dims[d] = size;
  dims.insert(dims.begin() + std::ptrdiff_t(d) + 1, whole);
  if (groups == 1) {
    out.array = b.reshape(array, std::move(dims));
    return out;
  }
  Dims split = dims;
  split[d] = groups;
  split[d + 1] = size;
  split.insert(split.begin() + std::ptrdiff_t(d) + 2, whole / groups);
  Dims order(split.size(), 0);
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[d], order[d + 1]);
  out.array = b.reshape(b.transpose(b.reshape(array, split), order), std::move(dims));
  return out;
}

}  // namespace tessera::transforms::batching
