// SPDX-License-Identifier: Apache-2.0
// What programs are compiled for: the passes and prices of a kind of device, and what runs there.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "src/compiler/compile.h"

namespace tessera::compiler {

struct Compilation;
class StageRecorder;

/// A stage that runs passes over one device's program.
struct PassStage {
  const char* name;
  /// As PassPipeline takes them.
  const char* passes;
};

/// Everything up to one device's program with its collectives is the same for all targets (see
/// pipeline.h), which come in where that depends on the device. Lives as long as the process; safe
/// to use from several threads.
class Target {
 public:
  virtual ~Target() = default;
  virtual std::string name() const = 0;

  /// Run over one device's program before its collectives are combined and moved: what makes it
  /// smaller.
  virtual std::span<const PassStage> simplification() const = 0;
  /// Run over what is left, last.
  virtual std::span<const PassStage> selection() const = 0;
  /// Bytes that a device would hold at most, for the choice among forms of collectives. `runs` as
  /// in Options.
  virtual double peak_bytes(const ir::Module& module, bool runs) const;
  /// From the finished device program (Compilation::module) to what runs.
  virtual std::shared_ptr<const Executable> load(Compilation c, StageRecorder* stages) const = 0;
};

/// Virtual devices in this process.
const Target& cpu_target();

/// As compile, for any target.
std::shared_ptr<const Executable> compile_for(const Target& target,
                                              std::unique_ptr<ir::Module> module,
                                              const Options& options);

}  // namespace tessera::compiler
