// SPDX-License-Identifier: Apache-2.0
// Shardings on some of a program's devices, and on one of them: all devices run one program, so
// that each becomes a sharding on all of them.
#pragma once

#include <cstdint>

#include "src/ir/module.h"

namespace tessera::spmd {

/// Brings all shardings by axes and all per-device code of a module onto meshes of all its devices.
/// NotImplementedError: per-device code on a number of devices that doesn't divide them.
void extend_submeshes(ir::Module* module);

/// Says what XLA's and Shardy's programs mean by ops on one device, and by ops outside of
/// per-device code that are about devices: partition-id and collectives see what each device
/// holds, as code per device in which no array is split. What depends on such an op is computed
/// by each device for itself. Of what is to be on one device, that device's value goes to all if
/// they can differ.
///
///   %id = partition_id
///   %y = add(%x, %id), sharding={maximal device=1}    // x + 1, on all devices
void settle_one_device_values(ir::Module* module);

}  // namespace tessera::spmd
