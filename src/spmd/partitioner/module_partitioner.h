// SPDX-License-Identifier: Apache-2.0
// The partitioner of a module: its computations, its mesh, its shardings.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "src/ir/module.h"
#include "src/spmd/partitioner/compile_context.h"
#include "src/spmd/partitioner/emit/communication_log.h"
#include "src/spmd/partitioner/emit/shard_builder.h"
#include "src/spmd/partitioner/partition_options.h"
#include "src/spmd/reshard/device_orders.h"
#include "src/spmd/reshard/mesh_views.h"

namespace tessera::spmd {

/// What is made of a module. Both are gone through op by op, with the same notion of arrays and
/// their layouts (values.h).
enum class PartitionStage : std::uint8_t {
  reshards,  ///< the same program on global shapes, each op in its layout, with explicit reshards
  device,    ///< one device's program
};

/// Its computations, its mesh, and the shardings of its values on that mesh.
class ModulePartitioner {
 public:
  /// The first stage, which notes whence its instructions come.
  ModulePartitioner(const ir::Module& source, const PartitionOptions& options, Origins* origins)
      : ModulePartitioner(source, PartitionStage::reshards, options, origins, nullptr, nullptr) {}
  /// The second one.
  ModulePartitioner(const ir::Module& source, const PartitionOptions& options,
                    const Origins& origins, PartitionReport* report)
      : ModulePartitioner(source, PartitionStage::device, options, nullptr, &origins, report) {}
  std::unique_ptr<ir::Module> run();

  PartitionStage stage() const { return stage_; }
  const ir::Module& source() const { return source_; }
  ir::Module* target() { return target_.get(); }
  const MeshRef& mesh() const { return mesh_; }
  std::int64_t devices() const { return devices_; }
  const PartitionOptions& options() const { return options_; }
  const cost::Machine& machine() const { return options_.machine; }
  CommunicationLog& log() { return log_; }
  Origins* origins() { return origins_; }

  // ----- planning, at the prices of the machine
  ReshardPlan plan_reshard(const TensorSharding& from, const TensorSharding& to,
                           const Shape& shape);
  double reshard_cost(const TensorSharding& from, const TensorSharding& to, const Shape& shape);
  /// Of so many permutes along axes that bring these bytes together.
  double rows_price(double bytes, int permutes, const IndexList& axes) const {
    return machine().permutes(bytes, permutes, machine().route(*mesh_, axes));
  }
  /// The cheapest layout of an op (layout/layout_search.h).
  ComputeLayout choose_layout(const LayoutProblem& problem) {
    return context_.layouts.choose(problem, machine());
  }

  // ----- computations and their shardings

  /// What is made of a computation that is called once per device (body, branch, callee).
  ir::Computation* partitioned(const ir::Computation& source);
  /// Of what this stage makes of a (tuple of) arrays in these layouts.
  Shape shape_of(const Shape& global, const std::vector<TensorSharding>& layouts) const {
    return stage_ == PartitionStage::device ? local_tuple(global, layouts) : global;
  }
  /// Computations taken over as they are.
  ImportedComputations& imported() { return *imported_; }
  /// Shardings of the leaves of an instruction of the source module. Stays where it is.
  const std::vector<TensorSharding>& shardings_of(const ir::Instruction& instruction) const;
  /// On the module's mesh; a sharding on another order of the devices is replaced by an equivalent
  /// one (reshard/device_orders.h), which a permute leads to.
  TensorSharding on_module_mesh(const TensorSharding& sharding, std::int64_t rank) const;
  /// A layout as an instruction has it: by whole axes of the program's mesh if that says it.
  TensorSharding as_annotation(const TensorSharding& layout) const;
  /// Axes that are manual in a computation.
  const IndexList& manual_axes(const ir::Computation& source) const;

 private:
  ModulePartitioner(const ir::Module& source, PartitionStage stage, const PartitionOptions& options,
                    Origins* made, const Origins* known, PartitionReport* report);
  void find_manual_axes();

  const ir::Module& source_;
  PartitionStage stage_;
  PartitionOptions options_;
  std::unique_ptr<CompileContext> own_context_;
  CompileContext& context_;
  Origins* origins_;
  CommunicationLog log_;
  std::unique_ptr<ir::Module> target_;
  std::optional<ImportedComputations> imported_;
  MeshRef mesh_;
  std::int64_t devices_ = 1;
  std::unordered_map<const ir::Computation*, ir::Computation*> partitioned_;
  std::unordered_map<const ir::Computation*, IndexList> manual_;
  /// By computation, then by instruction; empty: not requested yet.
  mutable std::unordered_map<const ir::Computation*, std::vector<std::vector<TensorSharding>>>
      shardings_;
  mutable MeshViews views_{nullptr};
  mutable std::optional<StandIns> stand_ins_;  ///< on mesh_
};

}  // namespace tessera::spmd
