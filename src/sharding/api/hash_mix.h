// SPDX-License-Identifier: Apache-2.0
// Hashes of several values.
#pragma once

#include <cstddef>

namespace tessera::internal {

inline void hash_mix(std::size_t& h, std::size_t v) {
  h ^= v + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2);
}

}  // namespace tessera::internal
