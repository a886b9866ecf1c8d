// SPDX-License-Identifier: Apache-2.0
// Boxes of an array, and copies between dense parts of it.
#pragma once

#include <cstddef>
#include <tuple>

#include "src/base/arrays/shape.h"

namespace tessera {

/// A box of an array's elements: start and size per dim. The box of a padded part extends beyond
/// the end of the array.
struct Box {
  Dims start, size;

  /// The box of an entire array.
  static Box entire(const Dims& dims) { return {Dims(dims.size(), 0), dims}; }
  std::int64_t element_count() const { return tessera::element_count(size); }
  bool operator==(const Box& other) const = default;
  friend bool operator<(const Box& a, const Box& b) {
    return std::tie(a.start, a.size) < std::tie(b.start, b.size);
  }
};

/// Whether `box` contains `part`.
bool covers(const Box& box, const Box& part);

/// The elements that are in both; of size 0 in each dim if there are none.
Box common(const Box& a, const Box& b);

/// Copies the intersection of two boxes of the same array from one dense row-major part to another:
/// for [0,4) and [2,6), the last two elements of the first to the start of the second.
void copy_common(const std::byte* from, const Box& source, std::byte* to, const Box& target,
                 std::size_t element_bytes);

}  // namespace tessera
