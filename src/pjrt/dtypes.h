// SPDX-License-Identifier: Apache-2.0
// Element types by the numbers that clients have for them: PJRT's and XLA's differ.
#pragma once

#include <cstdint>
#include <optional>

#include <tessera/dtype.h>

namespace tessera::pjrt {

/// Of a PJRT_Buffer_Type. A Failure that names it if Tessera lacks it.
DType dtype_of(std::uint32_t type);
std::uint32_t type_of(DType dtype);

/// XLA's PrimitiveType, which its messages and foreign functions have. Nothing if Tessera lacks it.
std::optional<DType> dtype_of_primitive(std::uint32_t type);
std::uint32_t primitive_type(DType dtype);

}  // namespace tessera::pjrt
