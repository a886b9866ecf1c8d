// SPDX-License-Identifier: Apache-2.0
// Copies between dense parts of an array, run by run.
#include "src/base/box.h"

#include <algorithm>
#include <cstring>

namespace tessera {

bool covers(const Box& box, const Box& part) {
  for (std::size_t d = 0; d < part.start.size(); ++d) {
    if (part.start[d] < box.start[d]) return false;
    if (part.start[d] + part.size[d] > box.start[d] + box.size[d]) return false;
  }
  return true;
}

Box common(const Box& a, const Box& b) {
  Box out = a;
  for (std::size_t d = 0; d < a.start.size(); ++d) {
    out.start[d] = std::max(a.start[d], b.start[d]);
    out.size[d] = std::min(a.start[d] + a.size[d], b.start[d] + b.size[d]) - out.start[d];
    if (out.size[d] <= 0) {
      out.size.assign(out.size.size(), 0);
      break;
    }
  }
  return out;
}

void copy_common(const std::byte* from, const Box& source, std::byte* to, const Box& target,
                 std::size_t element_bytes) {
  const std::size_t rank = source.start.size();
  Dims start(rank), size(rank);
  for (std::size_t d = 0; d < rank; ++d) {
    start[d] = std::max(source.start[d], target.start[d]);
    size[d] =
        std::min(source.start[d] + source.size[d], target.start[d] + target.size[d]) - start[d];
    if (size[d] <= 0) return;
  }
  const Dims from_strides = row_major_strides(source.size),
             to_strides = row_major_strides(target.size);
  // Trailing dims that both parts contain in full are one contiguous run of memory.
  std::size_t inner = rank;
  std::int64_t run = 1;
  while (inner > 0) {
    const std::size_t d = inner - 1;
    run *= size[d];
    --inner;
    if (size[d] != source.size[d] || size[d] != target.size[d]) break;
  }
  const std::size_t bytes = std::size_t(run) * element_bytes;
  Dims at(rank, 0);
  while (true) {
    std::int64_t from_at = 0, to_at = 0;
    for (std::size_t d = 0; d < rank; ++d) {
      from_at += (start[d] + at[d] - source.start[d]) * from_strides[d];
      to_at += (start[d] + at[d] - target.start[d]) * to_strides[d];
    }
    std::memcpy(to + std::size_t(to_at) * element_bytes,
                from + std::size_t(from_at) * element_bytes, bytes);
    std::size_t d = inner;
    while (d > 0 && ++at[d - 1] == size[d - 1]) at[--d] = 0;
    if (d == 0) return;
  }
}

}  // namespace tessera
