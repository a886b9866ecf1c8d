// SPDX-License-Identifier: Apache-2.0
// What it takes to give a dim blocks of another size.
#include <algorithm>
#include <map>

#include "src/spmd/reshard/search.h"

namespace tessera::spmd::reshard {

Reblock reblock(std::int64_t ways, std::int64_t size, std::int64_t from, std::int64_t to) {
  // Rows go in one permute per distance; it takes as many as the device that gets most.
  std::map<std::int64_t, std::int64_t> rows;  // by distance
  std::int64_t distance = 0, *most = nullptr;
  for (std::int64_t i = 0; i < ways && from > 0; ++i) {
    std::int64_t lo = std::min(i * to, size), hi = std::min(lo + to, size);
    for (std::int64_t at = lo; at < hi;) {
      std::int64_t source = at / from, end = std::min(hi, (source + 1) * from);
      if (source != i) {
        // It is the last one, as a rule.
        if (!most || source - i != distance) most = &rows[distance = source - i];
        *most = std::max(*most, end - at);
      }
      at = end;
    }
  }
  Reblock r;
  for (const auto& [distance, count] : rows) r.rows += count;
  r.permutes = int(rows.size());
  return r;
}

}  // namespace tessera::spmd::reshard
