// SPDX-License-Identifier: Apache-2.0
// Random permutations and choices.
#include <cmath>

#include <tessera/ops/creation.h>
#include <tessera/ops/indexing.h>
#include <tessera/ops/reductions.h>
#include <tessera/ops/shape_ops.h>
#include <tessera/ops/sorting.h>

#include "src/frontend/ops/indexed/gather.h"
#include "src/frontend/ops/moves.h"
#include "src/frontend/ops/numpy/sorting.h"
#include "src/frontend/random/internal.h"

namespace tessera::random {

using frontend::composed;
using frontend::KeyWords;
using frontend::Located;
using internal::impl_of;

namespace {

/// Sorts by random keys, often enough for equal keys not to bias the order.
Array shuffled(KeyWords key, Array x, std::int64_t axis) {
  const Location l = key.first.location;
  const double size = double(std::max<std::int64_t>(1, x.size()));
  const int rounds = int(std::ceil(3 * std::log(size) / std::log(4294967295.0)));
  for (int round = 0; round < rounds; ++round) {
    const auto [next, now] = frontend::split_in_two(key);
    key = next;
    const Located order = frontend::random_bits(now, x.shape(), 32);
    x = frontend::sorted_together({order.array, x}, axis, false, l, "random_permutation")[1];
  }
  return x;
}

/// Slices of dim 0 at positions that are known to be in range.
Array rows(const Array& x, const Array& positions, std::int64_t axis, Location location) {
  return frontend::gathered(x, {positions}, {axis}, axis, location, "random_choice");
}

void check_probabilities(const Array& p, std::int64_t n, Location location) {
  const tessera::Shape& shape = impl_of(p, location).shape;
  if (shape.dims != Dims{n}) {
    throw ShapeError("random::choice among " + std::to_string(n) +
                         " elements: the probabilities are " + shape.to_string() +
                         "; they must be a vector of that size",
                     location);
  }
  frontend::check_random_float("random::choice with probabilities", shape.dtype, location);
}

/// Random positions in [0, n), of the given shape.
Array drawn_positions(const KeyWords& key, std::int64_t n, const Shape& shape,
                      const ChoiceOptions& options, Location l) {
  const std::int64_t count = element_count(shape);
  if (options.replace) {
    if (!options.p) {
      return frontend::integers_between(key, shape, frontend::constant(s32, 0),
                                        frontend::constant(s32, double(n)), s32)
          .array;
    }
    const Located sums{cumsum({*options.p, l}, 0), l};
    const Located total{frontend::reshaped(frontend::sliced_dim(sums.array, 0, n - 1, n, l), {}, l),
                        l};
    const Located u = frontend::unit_uniform(key, shape, options.p->dtype());
    return searchsorted(sums, total * (1.0 - u));
  }
  Array order;
  if (options.p) {
    // The largest log-probabilities with added Gumbel noise are a draw without replacement.
    const Located noise = frontend::gumbel_numbers(key, {n}, options.p->dtype(), options.mode);
    order = top_k(noise + noise.with(log({*options.p, l})), count).second;
  } else {
    order = frontend::sliced_dim(shuffled(key, iota(s32, {n}, 0, l), 0), 0, 0, count, l);
  }
  return frontend::reshaped(order, shape, l);
}

void check_choice(const Operand& key, std::int64_t n, const Shape& shape,
                  const ChoiceOptions& options) {
  frontend::check_key("random::choice", key);
  frontend::check_random_shape("random::choice", shape, key.location);
  const std::int64_t count = element_count(shape);
  if (n < 1 && count > 0) {
    throw ValueError("random::choice among " + std::to_string(n) + " elements; there must be some",
                     key.location);
  }
  if (!options.replace && count > n) {
    throw ValueError("random::choice of " + std::to_string(count) + " elements among " +
                         std::to_string(n) + " without replacement; at most " + std::to_string(n) +
                         " can be drawn",
                     key.location);
  }
  if (options.p) check_probabilities(*options.p, n, key.location);
}

}  // namespace

Array permutation(Operand key, std::int64_t n) {
  frontend::check_key("random::permutation", key);
  frontend::check_random_shape("random::permutation", {n}, key.location);
  return composed("random_permutation", key.location, [&] {
    return shuffled(frontend::key_words(key), iota(s32, {n}, 0, key.location), 0);
  });
}

Array permutation(Operand key, Operand x, std::int64_t axis, bool independent) {
  frontend::check_key("random::permutation", key);
  const tessera::Shape& shape = impl_of(x.array, key.location).shape;
  axis = frontend::normalize_axis("random::permutation", axis, shape.rank(), key.location);
  return composed("random_permutation", key.location, [&] {
    const KeyWords words = frontend::key_words(key);
    if (independent || shape.rank() == 1) return shuffled(words, x.array, axis);
    const std::int64_t n = shape.dim(axis);
    const Array order = shuffled(words, iota(s32, {n}, 0, key.location), 0);
    return n == 0 ? x.array : rows(x.array, order, axis, key.location);
  });
}

Array choice(Operand key, std::int64_t n, Shape shape, const ChoiceOptions& options) {
  check_choice(key, n, shape, options);
  return composed("random_choice", key.location, [&] {
    return drawn_positions(frontend::key_words(key), n, shape, options, key.location);
  });
}

Array choice(Operand key, Operand values, Shape shape, const ChoiceOptions& options) {
  const tessera::Shape& have = impl_of(values.array, key.location).shape;
  if (have.rank() == 0) {
    throw ShapeError("random::choice from a scalar; give a number n of elements, or an array",
                     key.location);
  }
  const std::int64_t axis =
      frontend::normalize_axis("random::choice", options.axis, have.rank(), key.location);
  const std::int64_t n = have.dim(axis);
  check_choice(key, n, shape, options);
  return composed("random_choice", key.location, [&] {
    const Array at = drawn_positions(frontend::key_words(key), n, shape, options, key.location);
    return rows(values.array, at, axis, key.location);
  });
}

}  // namespace tessera::random
