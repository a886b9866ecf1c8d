// SPDX-License-Identifier: Apache-2.0
// On which devices a program runs, and by which mesh its results are named.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/frontend/run/execute.h"

namespace tessera::frontend {

/// The devices of a program and who decided them.
struct Choice {
  std::vector<Device> devices;
  std::string who;
  bool committed = false;
  Mesh mesh;  ///< of who, if it has one
};

/// By what is committed and asked for among the kept arguments, the results, and the meshes used
/// inside. ValueError naming the first two that don't agree.
Choice choose_devices(const Program& program, std::span<const Array> args,
                      const std::vector<std::size_t>& kept);
/// The mesh that names axes in the results: that of the first NamedSharding met.
Mesh choose_mesh(const Program& program, std::span<const Array> args,
                 const std::vector<Device>& list);
/// "cpu:9, a device that this process doesn't have; ...", of the first that no engine has; empty if
/// all are there.
std::string missing_devices(const std::vector<Device>& list);

}  // namespace tessera::frontend
