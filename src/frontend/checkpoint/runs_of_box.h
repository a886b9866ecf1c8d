// SPDX-License-Identifier: Apache-2.0
// A box of an array as pieces that can be written one after the other.
#pragma once

#include <algorithm>
#include <cstddef>

#include "src/base/box.h"

namespace tessera::frontend {

/// What is held at a time of an array that is written.
inline constexpr std::size_t kStreamed = std::size_t(4) << 20;

/// Cuts a box into boxes of at most `most` elements, each of which is one run of the box's memory.
template <class F>
void for_each_run(const Box& box, std::int64_t most, F&& f) {
  if (box.element_count() == 0) return;
  std::size_t whole = box.size.size();  // dims from here on are taken entirely
  std::int64_t inner = 1;
  while (whole > 0 && inner * box.size[whole - 1] <= most) inner *= box.size[--whole];
  if (whole == 0) return f(box);
  const std::size_t cut = whole - 1;
  const std::int64_t rows = std::max<std::int64_t>(1, most / inner);
  Box run = box;
  for (std::size_t d = 0; d < cut; ++d) run.size[d] = 1;
  while (true) {
    for (std::int64_t at = 0; at < box.size[cut]; at += rows) {
      run.start[cut] = box.start[cut] + at;
      run.size[cut] = std::min(rows, box.size[cut] - at);
      f(run);
    }
    std::size_t d = cut;
    while (d > 0 && ++run.start[d - 1] == box.start[d - 1] + box.size[d - 1]) {
      --d;
      run.start[d] = box.start[d];
    }
    if (d == 0) return;
  }
}

}  // namespace tessera::frontend
