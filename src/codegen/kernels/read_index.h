// SPDX-License-Identifier: Apache-2.0
// Indices and starts that only the running program knows.
#pragma once

#include <cstddef>
#include <cstdint>

#include <tessera/dtype.h>

namespace tessera::codegen {

/// An index of any integer type.
std::int64_t read_index(const std::byte* scalar, DType dtype);

}  // namespace tessera::codegen
