// SPDX-License-Identifier: Apache-2.0
// Indices drawn by log-probabilities: the largest sums with Gumbel noise (the Gumbel trick).
#include <tessera/ops/reductions.h>
#include <tessera/ops/sorting.h>

#include "src/frontend/ops/moves.h"
#include "src/frontend/random/internal.h"

namespace tessera::random {

using frontend::KeyWords;
using frontend::Located;
using internal::impl_of;

namespace {

/// The shape of the result; ShapeError unless it is that of the batch behind dims of draws. With
/// `exact` sizes of 1 don't broadcast.
Dims result_shape(const OptionalShape& shape, const Dims& batch, bool exact,
                  const tessera::Shape& logits, std::int64_t axis, Location location) {
  if (!shape.given()) return batch;
  const Dims& given = *shape.given();
  bool fits = given.size() >= batch.size();
  for (std::size_t d = 0; fits && d < batch.size(); ++d) {
    const std::int64_t size = given[given.size() - batch.size() + d];
    fits = batch[d] == size || (batch[d] == 1 && !exact);
  }
  if (fits) return given;
  throw ShapeError("random::categorical of shape " + to_string(given) + " with logits " +
                       logits.to_string() + " along axis " + std::to_string(axis) +
                       ": the shape must end with " + to_string(batch),
                   location);
}

}  // namespace

Array categorical(Operand key, Operand logits, std::int64_t axis, OptionalShape shape,
                  const CategoricalOptions& options) {
  const Location l = key.location;
  const tessera::Shape& have = impl_of(logits.array, l).shape;
  axis = frontend::normalize_axis("random::categorical", axis, have.rank(), l);
  Dims batch = have.dims;
  batch.erase(batch.begin() + axis);
  const Dims result = result_shape(shape, batch, !options.replace, have, axis, l);
  const std::int64_t n = have.dim(axis);
  const auto draws = result.end() - std::ptrdiff_t(batch.size());
  const DType t = frontend::to_inexact(have.dtype);
  if (options.replace) {
    if (n < 1 && element_count(result) > 0) {
      throw ValueError("random::categorical with logits " + have.to_string() + " along axis " +
                           std::to_string(axis) + "; there must be some",
                       l);
    }
    Dims dims = result;
    dims.insert(dims.begin() + (draws - result.end()) + std::ptrdiff_t(result.size()) + axis, n);
    const std::int64_t extra = draws - result.begin();
    return frontend::drawn("categorical", key, dims, t, [&](const KeyWords& words) {
      const Located noise = frontend::gumbel_numbers(words, dims, t, options.mode);
      const Located weighted = noise + frontend::as_type({logits.array, l}, t);
      return noise.with(argmax(weighted, axis + extra));
    });
  }
  const Dims prefix(result.begin(), draws);
  const std::int64_t count = element_count(prefix);
  if (count > n) {
    throw ValueError("random::categorical: " + std::to_string(count) + " draws among " +
                         std::to_string(n) + " without replacement; at most " + std::to_string(n) +
                         " are possible",
                     l);
  }
  return frontend::drawn("categorical", key, have.dims, t, [&](const KeyWords& words) {
    const Located noise = frontend::gumbel_numbers(words, have.dims, t, options.mode);
    const Located weighted = frontend::as_type({logits.array, l}, t) + noise;
    const Array order =
        top_k({frontend::moved_dim(weighted.array, axis, have.rank() - 1, l), l}, count).second;
    return noise.with(
        frontend::reshaped(frontend::moved_dim(order, have.rank() - 1, 0, l), result, l));
  });
}

}  // namespace tessera::random
