// SPDX-License-Identifier: Apache-2.0
// Copies between strided boxes of elements: what all operations that only move data come down to.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/arrays/literal.h"

namespace tessera::evaluator {

/// One side of a copy: the element at the box's origin and the steps along its dims, in elements.
struct Side {
  std::int64_t offset = 0;
  Dims strides;
};

/// to[to_side(i)] = from[from_side(i)] for every index i of a box of these dims.
void strided_copy(std::size_t element_size, const Dims& dims, std::byte* to, const Side& to_side,
                  const std::byte* from, const Side& from_side);

/// Steps `index` through a box in row-major order; false when it wraps around to the start.
inline bool advance(Dims& index, const Dims& dims) {
  for (std::size_t d = dims.size(); d-- > 0;) {
    if (++index[d] < dims[d]) return true;
    index[d] = 0;
  }
  return false;
}

/// Calls f(index) for every index of a box in row-major order.
template <class F>
void for_each_index(const Dims& dims, F&& f) {
  for (std::int64_t d : dims) {
    if (d == 0) return;
  }
  Dims index(dims.size(), 0);
  do {
    f(static_cast<const Dims&>(index));
  } while (advance(index, dims));
}

inline std::int64_t dot_product(const Dims& a, const Dims& b) {
  std::int64_t s = 0;
  for (std::size_t i = 0; i < a.size(); ++i) s += a[i] * b[i];
  return s;
}

/// Fills all elements with the one element at `value`.
void fill(std::size_t element_size, std::byte* to, std::int64_t n, const std::byte* value);

/// The operand with its dims in the order `perm`: result dim i is operand dim perm[i].
Literal permuted(const Literal& x, const Dims& perm);

/// The box of `sizes` at `starts`, each step `strides` (empty: 1).
Literal sliced(const Literal& x, const Dims& starts, const Dims& sizes, const Dims& strides = {});

/// Writes `part` at `starts` into `to`.
void write_box(Literal& to, const Literal& part, const Dims& starts);

}  // namespace tessera::evaluator
