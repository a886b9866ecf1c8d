// SPDX-License-Identifier: Apache-2.0
// Chooses the devices of a program and the mesh that names its results' shardings.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/frontend/run/execute.h"

namespace tessera::frontend {

/// The devices of a program and the argument, result or constraint that determined them.
struct Choice {
  std::vector<Device> devices;
  std::string who;
  bool committed = false;
  Mesh mesh;  ///< the mesh of `who`, if it has one
};

/// Chooses the devices by the committed arguments that are kept, the requested shardings of
/// arguments and results, and the meshes used inside. ValueError naming the first two that
/// disagree.
Choice choose_devices(const Program& program, std::span<const Array> args,
                      const std::vector<std::size_t>& kept);
/// The mesh that names axes in the results: that of the first NamedSharding met.
Mesh choose_mesh(const Program& program, std::span<const Array> args,
                 const std::vector<Device>& list);
/// A message about the first device that no engine has, "cpu:9, a device that this process doesn't
/// have; ..."; empty if all exist.
std::string missing_devices(const std::vector<Device>& list);

}  // namespace tessera::frontend
