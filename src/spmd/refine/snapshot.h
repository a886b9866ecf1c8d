// SPDX-License-Identifier: Apache-2.0
// Saves and restores the shardings of a module.
#pragma once

#include <utility>
#include <vector>

#include "src/ir/module.h"

namespace tessera::spmd {

/// How all arrays of a module lie, to lay them so again: quicker than to propagate.
class Snapshot {
 public:
  explicit Snapshot(const ir::Module& module) : mesh_(module.mesh) {
    for (const auto& c : module.computations()) {
      for (const auto& i : c->instructions()) shardings_.push_back(i->sharding);
    }
  }
  void restore(ir::Module* module) && {
    module->mesh = std::move(mesh_);
    auto next = shardings_.begin();
    for (const auto& c : module->computations()) {
      for (const auto& i : c->instructions()) i->sharding = std::move(*next++);
    }
  }

 private:
  MeshRef mesh_;
  std::vector<std::vector<TensorSharding>> shardings_;
};

}  // namespace tessera::spmd
