// SPDX-License-Identifier: Apache-2.0
// Limits on the sizes of meshes in text.
#pragma once

#include <cstdint>

namespace tessera {

/// Maximum number of devices in a text: malformed texts must not exhaust memory or time.
inline constexpr std::int64_t kMaxMeshDevices = std::int64_t(1) << 22;

}  // namespace tessera
