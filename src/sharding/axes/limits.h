// SPDX-License-Identifier: Apache-2.0
// Limits on the sizes of meshes in text.
#pragma once

#include <cstdint>

namespace tessera {

/// Devices that a text may speak of: a guard of memory and time against odd texts.
inline constexpr std::int64_t kMaxMeshDevices = std::int64_t(1) << 22;

}  // namespace tessera
