// SPDX-License-Identifier: Apache-2.0
// Elements of 16 bytes (c128), for kernels that move elements as they are.
#pragma once

#include <cstdint>

namespace tessera::codegen {

struct Bytes16 {
  std::uint64_t low, high;
};

}  // namespace tessera::codegen
