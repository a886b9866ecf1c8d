// SPDX-License-Identifier: Apache-2.0
// What threads write often is kept in several places, each for some of the threads, so that cores
// don't take the memory from each other.
// Also called: sharded or striped state.
#pragma once

#include <atomic>
#include <cstddef>

namespace tessera {

inline constexpr std::size_t kThreadStripes = 16;
/// What lies so far apart is in memory that cores take by itself: lines are fetched in pairs.
inline constexpr std::size_t kApart = 128;

/// The place of the calling thread, less than kThreadStripes. Threads that begin one after the
/// other have different ones.
inline std::size_t thread_stripe() {
  static std::atomic<std::size_t> count{0};
  static thread_local const std::size_t mine =
      count.fetch_add(1, std::memory_order_relaxed) % kThreadStripes;
  return mine;
}

}  // namespace tessera
