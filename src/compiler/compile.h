// SPDX-License-Identifier: Apache-2.0
// From a traced or parsed Module to something that runs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <tessera/cost_analysis.h>

#include "src/base/arrays/device_buffer.h"
#include "src/compiler/compile_options.h"
#include "src/ir/module.h"
#include "src/spmd/communication_report.h"

namespace tessera::compiler {

/// args[i][d]: parameter i on logical device d. A module for one device has one entry each. Each
/// replica has arguments and results of its own: those of replica r begin at device
/// r * num_partitions.
using DeviceArrays = std::vector<std::vector<DeviceBuffer>>;

/// What the compiler made of a program, and knows of it. Nothing of it runs.
struct CompiledProgram {
  /// As given, shardings as annotations; after propagation. Null unless Options::keep_stages.
  std::unique_ptr<ir::Module> input, propagated;
  /// One device's program.
  std::unique_ptr<ir::Module> partitioned;
  spmd::PartitionReport report;
  /// Replicas times partitions.
  std::int64_t num_devices = 1;
  DeviceAssignment assignment;
  /// With which it was compiled.
  Layouts layouts = Layouts::solved;
  /// Closed, one per entry parameter and per result leaf, on the input's mesh or a refinement of
  /// it: of one replica's partitions.
  std::vector<TensorSharding> parameter_shardings, result_shardings;
  /// Global shapes, of one replica.
  std::vector<Shape> parameter_shapes, result_shapes;
};

/// A program that an engine has loaded.
class Executable {
 public:
  virtual ~Executable() = default;
  const std::shared_ptr<const CompiledProgram>& program() const { return program_; }

  /// Parts of program(). ValueError for a module that wasn't kept.
  const ir::Module& input() const;
  const ir::Module& propagated() const;
  const ir::Module& partitioned() const { return *program_->partitioned; }
  const spmd::PartitionReport& report() const { return program_->report; }
  std::int64_t num_devices() const { return program_->num_devices; }
  std::int64_t num_replicas() const { return program_->assignment.num_replicas; }
  std::int64_t num_partitions() const { return program_->assignment.num_partitions; }
  const DeviceAssignment& assignment() const { return program_->assignment; }
  Layouts layouts() const { return program_->layouts; }
  const std::vector<TensorSharding>& parameter_shardings() const {
    return program_->parameter_shardings;
  }
  const std::vector<TensorSharding>& result_shardings() const { return program_->result_shardings; }
  const std::vector<Shape>& parameter_shapes() const { return program_->parameter_shapes; }
  const std::vector<Shape>& result_shapes() const { return program_->result_shapes; }
  /// Of the device's program, on that network.
  CostAnalysis cost_analysis(const Network& network = {}) const;

  /// Where devices are of several processes, all of these call it, each with the buffers of its own
  /// devices; a RuntimeError on all of them if they run different programs or one fails.
  /// Buffers are of the engine that compiled it and hold shards of shard_dims(global). Parameters
  /// with donated[i] are given away: their memory may be reused for results, where nobody else has
  /// a handle on it. A RuntimeError if the program says that a result must have a parameter's
  /// memory (ir::Alias::must), and somebody else has a handle on that. Results may become ready
  /// later, when the arguments are. Safe to call from several threads. Only with Options::runs.
  virtual DeviceArrays run(DeviceArrays args, const std::vector<bool>& donated) const = 0;

  /// NotImplementedError if the engine can't tell.
  virtual MemoryAnalysis memory_analysis() const;
  /// Bytes received per device and count by kind, counted by the executor in the last run. Empty if
  /// the engine doesn't count.
  virtual std::map<std::string, std::pair<std::int64_t, std::int64_t>> last_run_collectives()
      const {
    return {};
  }
  /// Ops that have no kernel and run on the evaluator.
  virtual std::vector<std::string> evaluator_ops() const { return {}; }

 protected:
  explicit Executable(std::shared_ptr<const CompiledProgram> program)
      : program_(std::move(program)) {}

 private:
  std::shared_ptr<const CompiledProgram> program_;
};

/// Entry: flat array parameters, root = tuple of arrays or one array. Parameter shardings are
/// closed; a root leaf's sharding may be open (propagation decides) or absent. `num_partitions`
/// and `mesh` are set by the caller, `replica_count` may be; 1 partition skips propagation and
/// partitioning. The executable runs inside this process; other engines' compile (engine.h) takes
/// the same.
std::shared_ptr<const Executable> compile(std::unique_ptr<ir::Module> module,
                                          const Options& options = {});

}  // namespace tessera::compiler
