// SPDX-License-Identifier: Apache-2.0
// Boxes of an array, and copies between dense parts of it.
#pragma once

#include <cstddef>
#include <tuple>

#include "src/base/shape.h"

namespace tessera {

/// What a part of an array holds: start and size per dim. A part that is padded goes beyond the
/// array's end.
struct Box {
  Dims start, size;

  /// All of an array.
  static Box whole(const Dims& dims) { return {Dims(dims.size(), 0), dims}; }
  std::int64_t element_count() const { return tessera::element_count(size); }
  bool operator==(const Box& other) const = default;
  friend bool operator<(const Box& a, const Box& b) {
    return std::tie(a.start, a.size) < std::tie(b.start, b.size);
  }
};

/// Does `box` hold all of `part`?
bool covers(const Box& box, const Box& part);

/// Copies what two boxes of the same array have in common, from one dense row-major part to
/// another: of [0,4) and [2,6), the last two elements of the first to the start of the second.
void copy_common(const std::byte* from, const Box& source, std::byte* to, const Box& target,
                 std::size_t element_bytes);

}  // namespace tessera
