// SPDX-License-Identifier: Apache-2.0
// Which process this is.
#pragma once

#include <tessera/device.h>

namespace tessera::internal {

/// The index of this process among those that run the program. Always 0: one process so far.
inline constexpr std::int64_t kProcessIndex = 0;
inline bool is_local(const Device& d) { return d.process_index == kProcessIndex; }

}  // namespace tessera::internal
