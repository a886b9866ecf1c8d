// SPDX-License-Identifier: Apache-2.0
// The methods of Array that are functions under numpy's names.
#include <utility>

#include <tessera/ops.h>
#include <tessera/placement.h>

#include "src/base/arrays/shape.h"

namespace tessera {

Array Array::operator[](const Subscript& list) const {
  return index({*this, list.location()}, list.items());
}
IndexedArray Array::at(std::vector<IndexItem> items, Location location) const {
  return tessera::at({*this, location}, std::move(items));
}
Array Array::T(Location location) const { return tessera::transpose({*this, location}); }
Array Array::transpose(Dims perm, Location location) const {
  if (perm.empty()) return tessera::transpose({*this, location});
  return tessera::transpose({*this, location}, std::move(perm));
}
Array Array::reshape(Dims shape, Location location) const {
  return tessera::reshape({*this, location}, std::move(shape));
}
Array Array::swapaxes(std::int64_t a, std::int64_t b, Location location) const {
  return tessera::swapaxes({*this, location}, a, b);
}
Array Array::flatten(Location location) const { return tessera::flatten({*this, location}); }
Array Array::ravel(Location location) const { return tessera::ravel({*this, location}); }
Array Array::conj(Location location) const { return tessera::conj({*this, location}); }
Array Array::copy(Location location) const { return tessera::copy({*this, location}); }
Array Array::squeeze(const Axes& axes, Location location) const {
  return tessera::squeeze({*this, location}, axes);
}
Array Array::sum(const Axes& axes, bool keepdims, Location location) const {
  return tessera::sum({*this, location}, axes, {.keepdims = keepdims});
}
Array Array::prod(const Axes& axes, bool keepdims, Location location) const {
  return tessera::prod({*this, location}, axes, {.keepdims = keepdims});
}
Array Array::mean(const Axes& axes, bool keepdims, Location location) const {
  return tessera::mean({*this, location}, axes, {.keepdims = keepdims});
}
Array Array::var(const Axes& axes, bool keepdims, Location location) const {
  return tessera::var({*this, location}, axes, {.keepdims = keepdims});
}
Array Array::stddev(const Axes& axes, bool keepdims, Location location) const {
  return tessera::stddev({*this, location}, axes, {.keepdims = keepdims});
}
Array Array::max(const Axes& axes, bool keepdims, Location location) const {
  return tessera::max({*this, location}, axes, keepdims);
}
Array Array::min(const Axes& axes, bool keepdims, Location location) const {
  return tessera::min({*this, location}, axes, keepdims);
}
Array Array::any(const Axes& axes, bool keepdims, Location location) const {
  return tessera::any({*this, location}, axes, keepdims);
}
Array Array::all(const Axes& axes, bool keepdims, Location location) const {
  return tessera::all({*this, location}, axes, keepdims);
}
Array Array::argmax(std::optional<std::int64_t> axis, bool keepdims, Location location) const {
  return tessera::argmax({*this, location}, axis, keepdims);
}
Array Array::argmin(std::optional<std::int64_t> axis, bool keepdims, Location location) const {
  return tessera::argmin({*this, location}, axis, keepdims);
}
Array Array::cumsum(std::optional<std::int64_t> axis, Location location) const {
  return tessera::cumsum({*this, location}, axis);
}
Array Array::cumprod(std::optional<std::int64_t> axis, Location location) const {
  return tessera::cumprod({*this, location}, axis);
}
Array Array::dot(const Operand& other) const {
  return tessera::dot({*this, other.location}, other);
}
Array Array::clip(const Operand& lower, const Operand& upper) const {
  return tessera::clip({*this, lower.location}, lower.array, upper.array);
}
Array Array::round(int decimals, Location location) const {
  if (decimals == 0) return tessera::round({*this, location});
  return tessera::round({*this, location}, decimals);
}
Array Array::repeat(std::int64_t count, std::optional<std::int64_t> axis, Location location) const {
  return tessera::repeat({*this, location}, count, axis);
}
Array Array::sort(std::optional<std::int64_t> axis, Location location) const {
  return tessera::sort({*this, location}, axis);
}
Array Array::argsort(std::optional<std::int64_t> axis, Location location) const {
  return tessera::argsort({*this, location}, axis);
}
Array Array::take(const Operand& indices, std::optional<std::int64_t> axis) const {
  return tessera::take({*this, indices.location}, indices, axis);
}
std::int64_t Array::nbytes(Location location) const {
  return checked_multiply(size(location), std::int64_t(byte_size(dtype(location))));
}

}  // namespace tessera
