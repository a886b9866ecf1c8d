// SPDX-License-Identifier: Apache-2.0
// Small blocks of aligned memory, of which each thread keeps some for its next use: a program on
// small arrays asks for the same few again and again, and to find aligned memory takes malloc
// longer than such a program runs.
#pragma once

#include <cstddef>

namespace tessera::runtime {

inline constexpr std::size_t kBlockAlignment = 64;
inline constexpr std::size_t kSmallBlock = std::size_t(1) << 13;

/// At least so many bytes, of 1 to kSmallBlock; null if there is no memory.
std::byte* take_small_block(std::size_t bytes);
/// Gives back what was taken for so many bytes, in any thread.
void give_small_block(std::byte* block, std::size_t bytes);

}  // namespace tessera::runtime
