// SPDX-License-Identifier: Apache-2.0
// Groups, device numbers and shardings of a program whose replicas become partitions.
#include "src/passes/control/flatten_replicas.h"

#include "src/ir/process_groups.h"
#include "src/ir/rewrite/patterns.h"

namespace tessera::passes {
namespace {

using ir::GroupMode;
using ir::Instruction;
using ir::Opcode;

class Flattening {
 public:
  Flattening(ir::Module* module, bool partitioned)
      : module_(*module), grid_(module->grid()), partitioned_(partitioned) {}

  std::size_t run() {
    module_.num_partitions = grid_.devices();
    module_.replica_count = 1;
    for (const auto& c : module_.computations()) collectives(c.get());
    ir::PatternSet numbers("flatten-replicas");
    numbers.add({Opcode::partition_id, Opcode::replica_id},
                [this](const Instruction& id, ir::Builder& b) { return number(id, b); });
    changed_ += ir::walk_and_apply_patterns(&module_, numbers);
    for (const auto& c : module_.computations()) shardings(c.get());
    module_.mesh = nullptr;
    return changed_;
  }

 private:
  void collectives(ir::Computation* c) {
    for (const auto& i : c->instructions()) {
      if (i->attrs.get_if<ir::CollectiveAttrs>() != nullptr) groups(i.get());
      if (i->attrs.get_if<ir::PermuteAttrs>() != nullptr) pairs(i.get());
    }
  }

  /// A replica's or a partition's number, from that of the device.
  Instruction* number(const Instruction& id, ir::Builder& b) const {
    Instruction* device = b.partition_id();
    const bool of_replica = id.is(Opcode::replica_id);
    return b.binary(of_replica ? Opcode::divide : Opcode::remainder, device,
                    b.scalar(DType::u32, double(grid_.num_partitions)));
  }

  GroupMode mode_of(const Instruction& i, bool has_channel) const {
    return partitioned_ && has_channel ? GroupMode::cross_partition
                                       : ir::group_mode(i.opcode, i.attrs, grid_);
  }

  void groups(Instruction* i) {
    auto& attrs = i->edit<ir::CollectiveAttrs>();
    if (attrs.groups.batch) return;
    ++changed_;
    if (attrs.groups.symbolic()) {
      // Copies along another axis, so that texts and plans don't grow with the devices.
      IndexList axes;
      for (const int a : attrs.groups.axes) axes.push_back(a + 1);
      attrs.groups = ir::DeviceGroups::over(with_replicas(attrs.groups.mesh), std::move(axes));
    } else {
      const GroupMode mode = mode_of(*i, attrs.channel_id.has_value());
      attrs.groups.lists = ir::process_groups(attrs.groups, mode, grid_);
    }
    if (!attrs.channel_id) attrs.channel_id = ir::next_channel_id(&module_);
    switch (i->opcode) {
      case Opcode::all_reduce:
      case Opcode::all_reduce_start:
      case Opcode::all_gather:
      case Opcode::all_gather_start:
      case Opcode::reduce_scatter:
        attrs.use_global_device_ids = true;
        break;
      default:
        break;
    }
  }

  void pairs(Instruction* i) {
    auto& attrs = i->edit<ir::PermuteAttrs>();
    if (attrs.batch) return;
    ++changed_;
    const GroupMode mode = mode_of(*i, attrs.channel_id.has_value());
    attrs.source_target_pairs = ir::process_pairs(attrs.source_target_pairs.pairs(), mode, grid_);
    if (!attrs.channel_id) attrs.channel_id = ir::next_channel_id(&module_);
  }

  /// The mesh with the replicas as its first axis.
  MeshRef with_replicas(const MeshRef& mesh) {
    MeshRef& out = meshes_[mesh];
    if (out) return out;
    LogicalMesh wider = *mesh;
    std::string name = "replica";
    while (wider.find(name) >= 0) name += "_";
    const std::int64_t n = grid_.num_replicas;
    wider.axes.insert(wider.axes.begin(), MeshAxis{name, n, 1, n});
    if (!mesh->device_ids.empty()) {
      std::vector<std::int64_t> ids;
      for (std::int64_t r = 0; r < n; ++r) {
        for (const std::int64_t d : mesh->device_ids) ids.push_back(r * grid_.num_partitions + d);
      }
      wider.device_ids = DeviceIds(std::move(ids));
    }
    out = std::make_shared<const LogicalMesh>(std::move(wider));
    return out;
  }

  /// Those of arguments say which devices have the same: none of other replicas. What others say
  /// nobody reads any more.
  void shardings(ir::Computation* c) {
    for (const auto& i : c->instructions()) {
      if (i->sharding.empty()) continue;
      bool known = c == module_.entry() && i->is(Opcode::parameter);
      for (const TensorSharding& s : i->sharding) {
        known = known && s.kind == TensorSharding::Kind::axes && s.mesh &&
                s.mesh->num_devices() == grid_.num_partitions;
      }
      if (!known) {
        i->sharding.clear();
        continue;
      }
      for (TensorSharding& s : i->sharding) s = of_own_replica(s);
    }
  }

  TensorSharding of_own_replica(TensorSharding s) {
    s.mesh = with_replicas(s.mesh);
    const auto shift = [](auto* axes) {
      for (int& a : *axes) ++a;
    };
    for (DimSharding& dim : s.dims) shift(&dim.axes);
    shift(&s.replicated);
    shift(&s.unreduced);
    shift(&s.manual);
    s.manual.insert(s.manual.begin(), 0);
    return s;
  }

  ir::Module& module_;
  const ir::ProcessGrid grid_;
  const bool partitioned_;
  std::map<MeshRef, MeshRef> meshes_;
  std::size_t changed_ = 0;
};

/// The only replica is number 0.
std::size_t number_single_replica(ir::Module* module) {
  ir::PatternSet numbers("flatten-replicas");
  numbers.add({Opcode::replica_id},
              [](const Instruction& /*id*/, ir::Builder& b) { return b.scalar(DType::u32, 0); });
  return ir::walk_and_apply_patterns(module, numbers);
}

}  // namespace

std::size_t flatten_replicas(ir::Module* module, bool partitioned) {
  if (module->replica_count <= 1) return number_single_replica(module);
  return Flattening(module, partitioned).run();
}

}  // namespace tessera::passes
