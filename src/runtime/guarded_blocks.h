// SPDX-License-Identifier: Apache-2.0
// Blocks of memory for finding faults: builds with TESSERA_GUARD_BLOCKS have no other ones.
#pragma once

#include <cstddef>

namespace tessera::runtime {

#if defined(TESSERA_GUARD_BLOCKS)
inline constexpr bool kGuardsBlocks = true;
#else
inline constexpr bool kGuardsBlocks = false;
#endif

#if defined(__SANITIZE_ADDRESS__)
#define TESSERA_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TESSERA_ADDRESS_SANITIZER 1
#endif
#endif
/// Freed blocks are kept for the next arrays, and sizes are rounded up. Not where use of freed
/// memory, or of memory beyond an array, shall be seen.
#if defined(TESSERA_ADDRESS_SANITIZER)
inline constexpr bool kKeepsBlocks = false;
#else
inline constexpr bool kKeepsBlocks = !kGuardsBlocks;
#endif

/// A block on pages of its own, aligned to kBlockAlignment, behind whose end (rounded up to that
/// alignment) a page stands that can't be touched: compiled loops, which sanitizers don't see, end
/// there with a signal. Null if there is no memory.
std::byte* take_guarded_block(std::size_t bytes);
/// What still uses it ends with a signal.
void give_guarded_block(std::byte* block, std::size_t bytes);

}  // namespace tessera::runtime
