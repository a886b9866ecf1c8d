// SPDX-License-Identifier: Apache-2.0
// How much physical memory the machine has.
#pragma once

#include <cstddef>

namespace tessera {

/// Bytes of physical memory; the largest size_t if unknown.
std::size_t machine_memory();
/// Throws a RuntimeError: an array of this many bytes doesn't fit into memory.
[[noreturn]] void refuse_array_of(std::size_t bytes);

}  // namespace tessera
