// SPDX-License-Identifier: Apache-2.0
// Programs that a plugin compiles and runs.
#pragma once

#include <memory>

#include "src/compiler/accelerators/client.h"
#include "src/compiler/target.h"

namespace tessera::compiler::accelerators {

/// Devices of a plugin: programs are given to it as StableHLO. `client` lives as long.
class AcceleratorTarget final : public Target {
 public:
  AcceleratorTarget(std::string platform, const Client* client);
  std::string name() const override { return platform_; }
  std::span<const PassStage> simplification() const override;
  std::span<const PassStage> selection() const override;
  std::shared_ptr<const Executable> load(Compilation c, StageRecorder* stages) const override;

 private:
  std::string platform_;
  const Client* client_;
  bool takes_bytecode_ = false;
};

}  // namespace tessera::compiler::accelerators
