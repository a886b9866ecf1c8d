// SPDX-License-Identifier: Apache-2.0
// Conversion between the user's shardings and the compiler's, on top of
// src/sharding/api/lowering.h.
#pragma once

#include <vector>

#include <tessera/sharding.h>

#include "src/frontend/run/execute.h"

namespace tessera::frontend {

/// Replicated on all of these devices, as a NamedSharding on the mesh if there is one.
Sharding replicated_sharding(const std::vector<Device>& devices, const Mesh& mesh);
/// As to_public_sharding, but replicated values as above, and values on a single device with a
/// SingleDeviceSharding.
Sharding sharding_of_result(const TensorSharding& s, const std::vector<Device>& devices,
                            const Mesh& mesh);

/// In a trace: moves an array to memory of that kind, unless it is there.
Array transferred(const Array& x, MemoryKind to, Location location);
/// In a trace: moves an array to the sharding's memory, sharded as it says; one that is there stays
/// as it is.
Array placed_as(const Array& x, const Sharding& sharding, const std::string& who,
                Location location);

/// In a trace: stages a `Sharding` custom call. Eagerly: reshards the array on its devices. In
/// either case it stays in its memory; ValueError if the sharding names another host memory.
Array constrain(const Array& x, const Sharding& sharding, const std::string& who,
                Location location);

}  // namespace tessera::frontend
