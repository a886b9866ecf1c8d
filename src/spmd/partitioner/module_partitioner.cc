// SPDX-License-Identifier: Apache-2.0
// The partitioner of a module: its mesh, shardings on it, its computations.
#include "src/spmd/partitioner/module_partitioner.h"

#include "src/base/check.h"
#include "src/ir/analysis/device_computations.h"
#include "src/spmd/manual/manual.h"
#include "src/spmd/partitioner/computation_partitioner.h"
#include "src/spmd/propagation/meshes.h"
#include "src/spmd/reshard/device_orders.h"
#include "src/spmd/sharding_queries.h"

namespace tessera::spmd {

ModulePartitioner::ModulePartitioner(const ir::Module& source, PartitionStage stage,
                                     const PartitionOptions& options, Origins* made,
                                     const Origins* known, PartitionReport* report)
    : source_(source),
      stage_(stage),
      options_(options),
      own_context_(options.context ? nullptr : std::make_unique<CompileContext>()),
      context_(options.context ? *options.context : *own_context_),
      origins_(made),
      log_(report, options.all_records, known),
      mesh_(source.mesh) {
  if (!mesh_) {
    // Nothing is sharded: the devices, if there are several, all do the same.
    mesh_ = make_logical_mesh({{"devices", source.num_partitions}});
  }
  // Pieces of axes may go different ways within an op, also where no sharding cuts an axis.
  MeshRef pieces = refine_to_primes(mesh_);
  if (pieces->axes != mesh_->axes) mesh_ = pieces;
  views_ = MeshViews(mesh_);
  devices_ = mesh_->num_devices();
  find_manual_axes();
  target_ = std::make_unique<ir::Module>(source.name);
  imported_.emplace(target_.get());
  target_->num_partitions = stage == PartitionStage::device ? devices_ : source.num_partitions;
  target_->replica_count = source.replica_count;
  target_->mesh = source.mesh;
  target_->input_output_alias = source.input_output_alias;
  target_->buffer_donor = source.buffer_donor;
  target_->frontend_attributes = source.frontend_attributes;
  for (const auto& item : source.other) {
    // The layout names global shapes, which the device program doesn't have.
    if (stage == PartitionStage::device && item.first == "entry_computation_layout") continue;
    target_->other.push_back(item);
  }
}

TensorSharding ModulePartitioner::on_module_mesh(const TensorSharding& sharding,
                                                 std::int64_t rank) const {
  if (sharding.kind != TensorSharding::Kind::axes || !sharding.mesh) {
    return TensorSharding::replicated_on(mesh_, rank);
  }
  TESSERA_CHECK(sharding.rank() == rank, "sharding " + sharding.to_spec_string() +
                                             " is on a value of rank " + std::to_string(rank));
  const MeshView& view = views_.of(sharding.mesh);
  if (!view.representable) {
    if (!stand_ins_) stand_ins_.emplace(mesh_);
    TensorSharding s = stand_ins_->of(sharding.closed()).on(mesh_);
    s.replicated.clear();
    s.manual.clear();
    return s;
  }
  TensorSharding s = TensorSharding::replicated_on(mesh_, rank);
  s.shard_group = sharding.shard_group;
  s.shard_like = sharding.shard_like;
  for (std::size_t d = 0; d < s.dims.size(); ++d) {
    view.append(sharding.dims[d].axes, &s.dims[d].axes);
  }
  view.append(sharding.unreduced, &s.unreduced);
  s.reduction = sharding.reduction;
  return s;
}

const std::vector<TensorSharding>& ModulePartitioner::shardings_of(
    const ir::Instruction& instruction) const {
  std::vector<std::vector<TensorSharding>>& all = shardings_[instruction.parent];
  if (all.empty()) all.resize(instruction.parent->instructions().size());
  std::vector<TensorSharding>& out = all[std::size_t(instruction.index)];
  if (!out.empty()) return out;
  const IndexList& around = manual_axes(*instruction.parent);
  auto add = [&](const Shape& leaf, std::size_t i, std::size_t count) {
    if (instruction.sharding.empty()) {
      out.push_back(TensorSharding::replicated_on(mesh_, leaf.rank()));
    } else {
      std::size_t at = instruction.sharding.size() == count ? i : 0;
      out.push_back(on_module_mesh(instruction.sharding[at], leaf.rank()));
    }
    out.back().manual = around;
  };
  if (!instruction.shape.is_tuple) {
    add(instruction.shape, 0, 1);
    return out;
  }
  const std::vector<Shape> leaves = flatten(instruction.shape);
  out.reserve(leaves.size());
  for (std::size_t i = 0; i < leaves.size(); ++i) add(leaves[i], i, leaves.size());
  return out;
}

TensorSharding ModulePartitioner::as_annotation(const TensorSharding& layout) const {
  const auto plain = [&] {
    TensorSharding out = layout.closed();
    out.manual.clear();
    return out;
  };
  TensorSharding out = plain();
  if (!source_.mesh || source_.mesh == layout.mesh || layout.mesh != mesh_) return out;
  propagation::coarsen(&out, source_.mesh);
  if (!same_layout(views_.say(out), layout)) return plain();
  return out;
}

void ModulePartitioner::find_manual_axes() {
  const std::vector<ir::Computation*> all = ir::device_computations(source_);
  // Callers first.
  for (auto c = all.rbegin(); c != all.rend(); ++c) {
    const IndexList around = manual_axes(**c);
    for (const auto& i : (*c)->instructions()) {
      const bool runs =
          i->is(ir::Opcode::call) || i->is(ir::Opcode::while_) || i->is(ir::Opcode::conditional);
      if (ir::is_partly_manual(*i)) {
        manual_[i->called()[0]] = manual::axes_of(*i, mesh_);
      } else if (runs && !around.empty()) {
        for (const ir::Computation* callee : i->called()) manual_[callee] = around;
      }
    }
  }
}

const IndexList& ModulePartitioner::manual_axes(const ir::Computation& source) const {
  static const IndexList none;
  auto it = manual_.find(&source);
  return it == manual_.end() ? none : it->second;
}

ir::Computation* ModulePartitioner::partitioned(const ir::Computation& source) {
  if (auto it = partitioned_.find(&source); it != partitioned_.end()) return it->second;
  ir::Computation* target = target_->add_computation(source.name());
  ComputationPartitioner(*this, source, target).run(false);
  return partitioned_[&source] = target;
}

ReshardPlan ModulePartitioner::plan_reshard(const TensorSharding& from, const TensorSharding& to,
                                            const Shape& shape) {
  return context_.reshards.plan(from, to, shape.dims, std::int64_t(byte_size(shape.dtype)),
                                machine());
}

double ModulePartitioner::reshard_cost(const TensorSharding& from, const TensorSharding& to,
                                       const Shape& shape) {
  return context_.reshards.price(from, to, shape.dims, std::int64_t(byte_size(shape.dtype)),
                                 machine());
}

std::unique_ptr<ir::Module> ModulePartitioner::run() {
  const ir::Computation& entry = *source_.entry();
  ir::Computation* target = target_->add_computation(entry.name());
  ComputationPartitioner(*this, entry, target).run(true);
  target_->set_entry(target);
  target_->remove_dead_computations();
  for (const auto& c : target_->computations()) c->remove_dead();
  if (stage_ == PartitionStage::reshards) return std::move(target_);
  log_.finish(*target_);
  return std::move(target_);
}

}  // namespace tessera::spmd
