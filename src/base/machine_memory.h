// SPDX-License-Identifier: Apache-2.0
// How much physical memory the machine has.
#pragma once

#include <cstddef>

namespace tessera {

/// Bytes of memory that this machine has; the greatest size_t if that is not known.
std::size_t machine_memory();
/// RuntimeError: an array of so many bytes does not fit.
[[noreturn]] void refuse_array_of(std::size_t bytes);

}  // namespace tessera
