// SPDX-License-Identifier: Apache-2.0
// Between the user's shardings and the compiler's; src/sharding/api/lowering.h does the most of it.
#pragma once

#include <vector>

#include <tessera/sharding.h>

#include "src/frontend/run/execute.h"

namespace tessera::frontend {

/// On all of these devices, named by the mesh if there is one.
Sharding replicated_sharding(const std::vector<Device>& devices, const Mesh& mesh);
/// As to_public_sharding, whole values named as users name them: replicated ones as above, those on
/// one of the devices by a SingleDeviceSharding.
Sharding sharding_of_result(const TensorSharding& s, const std::vector<Device>& devices,
                            const Mesh& mesh);

/// Staged: a `Sharding` custom call. Eager: moved there, on the same devices.
Array constrain(const Array& x, const Sharding& sharding, const std::string& who,
                Location location);

}  // namespace tessera::frontend
