// SPDX-License-Identifier: Apache-2.0
// Moves an array to devices in another order, where they are of several processes.
#pragma once

#include <map>
#include <vector>

#include "src/base/arrays/device_buffer.h"
#include "src/base/box.h"
#include "src/compiler/engine.h"

namespace tessera::frontend {

/// Which part of an array each device has, or is to have.
using PartsOfDevices = std::vector<std::pair<Device, Box>>;

/// The pieces that this process lacks to make the parts of its devices, from the processes that
/// have them; all processes with devices in either list call it. `held`: what this one has.
/// RuntimeError if that fails.
std::vector<compiler::Engine::Piece> pieces_from_others(const PartsOfDevices& from,
                                                        const PartsOfDevices& to,
                                                        const std::map<Box, DeviceBuffer>& held,
                                                        DType dtype, const compiler::Engine& engine,
                                                        Location location);

}  // namespace tessera::frontend
