// SPDX-License-Identifier: Apache-2.0
// Shardings of results in terms of the user's mesh.
#include "src/frontend/run/shardings.h"

#include "src/sharding/api/lowering.h"

namespace tessera::frontend {

Sharding replicated_sharding(const std::vector<Device>& devices, const Mesh& mesh) {
  if (!mesh.empty()) return NamedSharding(mesh, PartitionSpec());
  if (devices.size() == 1) return SingleDeviceSharding(devices[0]);
  return GSPMDSharding::get_replicated(devices);
}

Sharding sharding_of_result(const TensorSharding& s, const std::vector<Device>& devices,
                            const Mesh& mesh) {
  if (s.kind == TensorSharding::Kind::maximal) {
    return SingleDeviceSharding(devices[std::size_t(s.device)]);
  }
  if (!s.mesh || s.is_replicated()) return replicated_sharding(devices, mesh);
  return to_public_sharding(s, mesh, devices);
}

}  // namespace tessera::frontend
