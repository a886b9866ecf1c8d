// SPDX-License-Identifier: Apache-2.0
// Shardings on some of a program's devices become shardings on all of them.
#include "src/spmd/submeshes.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_set>

#include "src/base/contains.h"
#include "src/ir/analysis/device_computations.h"
#include "src/ir/post_order.h"
#include "src/ir/process_groups.h"
#include "src/ir/rewrite/rewriter.h"
#include "src/spmd/bits.h"

namespace tessera::spmd {
namespace {

using ir::Instruction;
using ir::Opcode;

/// The mesh with an axis in front, of as many copies as there are devices for. Null if its devices
/// don't divide them.
MeshRef extended(const MeshRef& mesh, std::int64_t devices) {
  const std::int64_t own = mesh->num_devices();
  if (devices % own != 0) return nullptr;
  auto out = std::make_shared<LogicalMesh>(*mesh);
  std::string name = "copies";
  const auto taken = [&](const MeshAxis& a) { return a.name == name; };
  while (std::any_of(mesh->axes.begin(), mesh->axes.end(), taken)) name += "_";
  const std::int64_t copies = devices / own;
  out->axes.insert(out->axes.begin(), MeshAxis{name, copies, 1, copies});
  std::vector<std::int64_t> ids;
  ids.reserve(mesh->device_ids.empty() ? 0 : std::size_t(devices));
  for (std::int64_t k = 0; !mesh->device_ids.empty() && k < copies; ++k) {
    for (const std::int64_t id : mesh->device_ids) ids.push_back(k * own + id);
  }
  out->device_ids = std::move(ids);
  return out;
}

/// Axes by number, behind one that was put in front.
void shift(IndexList* axes) {
  for (int& a : *axes) ++a;
}

TensorSharding on_mesh(TensorSharding s, const MeshRef& mesh) {
  if (mesh == nullptr) {
    TensorSharding all = TensorSharding::replicated_on(nullptr, s.rank());
    return all;
  }
  s.mesh = mesh;
  for (DimSharding& d : s.dims) shift(&d.axes);
  for (IndexList* axes : {&s.replicated, &s.unreduced, &s.manual}) shift(axes);
  return s;
}

bool is_on_part(const TensorSharding& s, std::int64_t devices) {
  return s.kind == TensorSharding::Kind::axes && s.mesh && s.mesh->num_devices() < devices;
}

/// Devices of a mesh, and axes of it that are manual.
struct Submesh {
  MeshRef mesh;
  IndexList manual;
};

class Extender {
 public:
  explicit Extender(ir::Module* module) : module_(module), devices_(module->num_partitions) {}

  void run() {
    std::vector<ir::Computation*> all;
    for (const auto& c : module_->computations()) all.push_back(c.get());
    // A body is extended for the mesh of one call: each has its own.
    std::unordered_set<const ir::Computation*> taken;
    for (std::size_t k = 0; k < all.size(); ++k) {
      for (const auto& i : all[k]->instructions()) {
        extend(&i->sharding);
        if (!ir::is_manual_computation(*i)) continue;
        ir::Computation* body = i->called()[0];
        if (taken.insert(body).second) continue;
        ir::Computation* copy = import(body);
        i->set_called(0, copy);
        taken.insert(copy);
        const std::vector<ir::Computation*> copied = ir::post_order({copy});
        all.insert(all.end(), copied.begin(), copied.end());
      }
    }
    visit(module_->entry());
    if (module_->mesh) module_->mesh = mesh(module_->mesh);
    if (imported_) module_->remove_dead_computations();
  }

 private:
  MeshRef mesh(const MeshRef& m) {
    if (m->num_devices() >= devices_) return m;
    auto [it, fresh] = meshes_.try_emplace(m);
    if (fresh) it->second = extended(m, devices_);
    return it->second;
  }

  void extend(std::vector<TensorSharding>* shardings) {
    for (TensorSharding& s : *shardings) {
      if (is_on_part(s, devices_)) s = on_mesh(s, mesh(s.mesh));
    }
  }

  ir::Computation* import(const ir::Computation* c) {
    imported_ = true;
    return module_->import(*c);
  }

  static bool runs(const Instruction& i) {
    return i.is(Opcode::call) || i.is(Opcode::while_) || i.is(Opcode::conditional);
  }

  /// Code that isn't per device, or is for all devices.
  void visit(ir::Computation* c) {
    if (!visited_.insert(c).second) return;
    for (const auto& i : c->instructions()) {
      if (ir::is_manual_computation(*i)) {
        if (!extend_manual(i.get(), {})) visit(i->called()[0]);
      } else if (runs(*i)) {
        for (ir::Computation* callee : i->called()) visit(callee);
      }
    }
  }

  /// `around`: of the call that it is within, as that says it. False if it is on all devices, or
  /// names no mesh.
  bool extend_manual(Instruction* call, const Submesh& around) {
    const auto& attrs = call->get<ir::ManualComputationAttrs>();
    MeshRef own = attrs.mesh;
    for (const auto* list : {&attrs.in_shardings, &attrs.out_shardings}) {
      for (const TensorSharding& s : *list) {
        if (!own && s.kind == TensorSharding::Kind::axes) own = s.mesh;
      }
    }
    if (!own) own = around.mesh;
    if (!own || own->num_devices() >= devices_) return false;
    const MeshRef all = mesh(own);
    if (all == nullptr) {
      throw NotImplementedError("the manual computation " + call->name + " is on mesh @" +
                                    own->name + " of " + std::to_string(own->num_devices()) +
                                    " devices in a program of " + std::to_string(devices_) +
                                    "; valid: meshes whose number of devices divides that",
                                call->location());
    }
    auto* edited = call->attrs.edit_if<ir::ManualComputationAttrs>();
    extend(&edited->in_shardings);
    extend(&edited->out_shardings);
    Submesh within{own, edited->manual_axes};
    if (around.mesh && same_mesh(around.mesh, own)) {
      within.manual.insert(within.manual.end(), around.manual.begin(), around.manual.end());
    }
    bool all_manual = true;
    for (std::size_t a = 0; a < own->axes.size(); ++a) {
      all_manual = all_manual && (own->axes[a].size == 1 || contains(within.manual, int(a)));
    }
    if (edited->mesh) {
      edited->mesh = all;
      shift(&edited->manual_axes);
      // Where nothing was automatic, nothing is: each copy does the same.
      if (all_manual) edited->manual_axes.insert(edited->manual_axes.begin(), 0);
    }
    extend_body(call->called()[0], within);
    return true;
  }

  /// Code for the devices of a mesh does the same among those of each copy. Once for each body:
  /// code that is called is copied, as callers may be on meshes of several sizes, or on none.
  void extend_body(ir::Computation* body, const Submesh& on) {
    const std::int64_t count = on.mesh->num_devices();
    std::vector<Instruction*> all;
    for (const auto& i : body->instructions()) all.push_back(i.get());
    std::map<const ir::Computation*, ir::Computation*> callees;
    bool added = false;
    for (Instruction* i : all) {
      if (ir::is_manual_computation(*i)) {
        extend_manual(i, on);
        continue;
      }
      if (i->is(Opcode::partition_id)) {
        ir::Builder b(body);
        b.metadata = i->metadata;
        Instruction* within = b.binary(Opcode::remainder, i, b.scalar(u32, double(count)));
        i->replace_all_uses_with(within);
        within->set_operand(0, i);
        added = true;
      }
      if (i->attrs.get_if<ir::CollectiveAttrs>()) extend_groups(i, count);
      if (i->attrs.get_if<ir::PermuteAttrs>()) extend_pairs(i, count);
      if (!runs(*i)) continue;
      for (std::size_t k = 0; k < i->called().size(); ++k) {
        auto [it, fresh] = callees.try_emplace(i->called()[k]);
        if (fresh) {
          it->second = import(i->called()[k]);
          extend_body(it->second, on);
        }
        i->set_called(k, it->second);
      }
    }
    if (added) body->sort_topologically();
  }

  void extend_pairs(Instruction* i, std::int64_t count) {
    auto* permute = i->attrs.edit_if<ir::PermuteAttrs>();
    const DevicePairs own_pairs = permute->source_target_pairs;
    const bool one_replica = own_pairs.size() == 1 && own_pairs[0] == DevicePairs::Pair{0, 0};
    const bool of_replicas = !permute->channel_id && (module_->replica_count > 1 || one_replica);
    if (permute->batch || of_replicas) return;
    auto pairs = own_pairs.pairs();
    for (std::int64_t k = 1; k < devices_ / count; ++k) {
      for (const auto& [from, to] : own_pairs) pairs.emplace_back(from + k * count, to + k * count);
    }
    permute->source_target_pairs = std::move(pairs);
  }

  void extend_groups(Instruction* i, std::int64_t count) {
    auto* attrs = i->attrs.edit_if<ir::CollectiveAttrs>();
    ir::DeviceGroups* groups = &attrs->groups;
    if (groups->batch) return;
    if (groups->symbolic()) {
      const MeshRef all = mesh(groups->mesh);
      if (all == groups->mesh || all == nullptr) return;
      groups->mesh = all;
      shift(&groups->axes);
      return;
    }
    if (!name_partitions(*i, attrs, count)) return;
    if (groups->lists.empty()) {
      groups->lists.emplace_back(std::size_t(count));
      std::iota(groups->lists[0].begin(), groups->lists[0].end(), 0);
    }
    const auto lists = groups->lists;
    for (std::int64_t k = 1; k < devices_ / count; ++k) {
      for (std::vector<std::int64_t> list : lists) {
        for (std::int64_t& device : list) device += k * count;
        groups->lists.push_back(std::move(list));
      }
    }
  }

  /// Groups of replicas with all partitions become groups of those of the first copy. False if only
  /// replicas are joined. As HLO has it; with one replica, lists of several name partitions.
  bool name_partitions(const Instruction& i, ir::CollectiveAttrs* attrs, std::int64_t count) const {
    const std::int64_t replicas = std::max<std::int64_t>(module_->replica_count, 1);
    const ir::ProcessGrid grid{devices_, replicas};
    using Mode = ir::GroupMode;
    const Mode mode =
        ir::group_mode(i.opcode, i.attrs, {devices_, std::max<std::int64_t>(replicas, 2)});
    auto& lists = attrs->groups.lists;
    const bool of_replicas =
        replicas > 1 || lists.empty() || (lists.size() == 1 && lists[0] == Dims{0});
    if (mode == Mode::cross_replica) return !of_replicas;
    const bool with_all_partitions = mode == Mode::cross_replica_and_partition && of_replicas;
    if (!with_all_partitions && !(mode == Mode::flattened_ids && lists.empty())) return true;
    lists = ir::process_groups(attrs->groups, mode, grid);
    for (auto& list : lists) {
      erase_if(list, [&](std::int64_t device) { return device % devices_ >= count; });
    }
    attrs->use_global_device_ids = true;
    return true;
  }

  ir::Module* module_;
  const std::int64_t devices_;
  bool imported_ = false;
  std::map<MeshRef, MeshRef> meshes_;
  std::unordered_set<const ir::Computation*> visited_;  // looked up, never walked
};

/// Puts code per device in which all arrays are whole into a module.
class WholeArrays {
 public:
  explicit WholeArrays(ir::Module* module) : module_(module), mesh_(module->mesh) {
    if (!mesh_ || mesh_->num_devices() != module->num_partitions) {
      mesh_ = make_logical_mesh({{"devices", module->num_partitions}});
    }
  }

  /// `body` of the operands. Its root is an array or a tuple of arrays.
  Instruction* call(ir::Computation* c, const Instruction& like, ir::Computation* body,
                    std::vector<Instruction*> operands) {
    ir::ManualComputationAttrs attrs;
    attrs.mesh = mesh_;
    attrs.manual_axes.resize(mesh_->axes.size());
    std::iota(attrs.manual_axes.begin(), attrs.manual_axes.end(), 0);
    for (const Instruction* o : operands) attrs.in_shardings.push_back(whole(o->shape));
    for (const Shape& s : flatten(body->root()->shape)) attrs.out_shardings.push_back(whole(s));
    auto made = std::make_unique<Instruction>();
    made->opcode = Opcode::manual_computation;
    made->shape = body->root()->shape;
    made->name = like.name + ".per_device";
    made->metadata = like.metadata;
    made->attrs = std::move(attrs);
    made->set_operands(std::move(operands));
    made->set_called({body});
    return c->add(std::move(made));
  }

  /// An op as code per device.
  Instruction* call_of(Instruction* op) {
    ir::Computation* body = module_->add_computation(op->name + ".per_device");
    ir::Builder b(body);
    b.metadata = op->metadata;
    std::vector<Instruction*> parameters;
    for (std::size_t k = 0; k < op->operands().size(); ++k) {
      parameters.push_back(b.parameter(std::int64_t(k), op->operand(k)->shape));
    }
    body->set_root(b.emit_shaped(op->opcode, op->shape, parameters, op->attrs, op->called()));
    return call(op->parent, *op, body, op->operands());
  }

  /// What one device has of `x`, on all devices.
  Instruction* from_device(Instruction* x, std::int64_t device) {
    ir::Computation* body = module_->add_computation(x->name + ".from_device");
    ir::Builder b(body);
    b.metadata = x->metadata;
    Instruction* bits = as_bits(b, b.parameter(0, x->shape));
    Instruction* here =
        b.compare(ir::Direction::eq, b.partition_id(), b.scalar(u32, double(device)));
    const Dims& dims = bits->shape.dims;
    bits = b.select(b.splat(here, dims), bits, b.splat(b.scalar(bits->shape.dtype, 0), dims));
    bits = b.all_reduce(bits, ir::scalar_computation(module_, Opcode::add, bits->shape.dtype),
                        ir::DeviceGroups::over(mesh_, all_axes()));
    body->set_root(from_bits(b, bits, x->shape.dtype));
    return call(x->parent, *x, body, {x});
  }

  TensorSharding whole(const Shape& shape) const {
    return TensorSharding::replicated_on(mesh_, shape.rank());
  }

 private:
  IndexList all_axes() const {
    IndexList axes(mesh_->axes.size());
    std::iota(axes.begin(), axes.end(), 0);
    return axes;
  }

  ir::Module* module_;
  MeshRef mesh_;
};

bool is_maximal(const TensorSharding& s) { return s.kind == TensorSharding::Kind::maximal; }

/// Whether all members of a collective's only group are all devices, so that all have the same
/// after it.
bool joins_all(const Instruction& i, std::int64_t devices) {
  if (!i.is(Opcode::all_reduce) && !i.is(Opcode::all_gather)) return false;
  return i.get<ir::CollectiveAttrs>().groups.group_size(devices) == devices;
}

class OneDevice {
 public:
  explicit OneDevice(ir::Module* module) : module_(module), per_device_(module) {}

  void run() {
    for (ir::Computation* c : ir::device_computations(*module_)) settle(c);
    // Callees stand before what calls them again.
    if (changed_) module_->remove_dead_computations();
  }

 private:
  void settle(ir::Computation* c) {
    if (c != module_->entry() && is_partly_manual_body(c)) return;
    ir::Rewriter rewriter(c);
    std::unordered_set<const Instruction*> varies;
    for (std::size_t n = 0; n < rewriter.size(); ++n) {
      Instruction* i = rewriter.at(n);
      // What talks to the host has its own way to be on one device.
      if (i->has_side_effect()) continue;
      const bool about_devices =
          i->is(Opcode::partition_id) ||
          (ir::is_collective(i->opcode) && !is_async(*i) && !ir::is_cross_replica(*i));
      const bool reads_varying =
          std::any_of(i->operands().begin(), i->operands().end(),
                      [&](const Instruction* o) { return varies.count(o) > 0; });
      const bool varying =
          reads_varying || (about_devices && !joins_all(*i, module_->num_partitions));
      if (varying) varies.insert(i);
      const bool computes = about_devices || (reads_varying && !only_passes(*i));
      Instruction* made = computes ? per_device_.call_of(i) : nullptr;
      if (std::any_of(i->sharding.begin(), i->sharding.end(), is_maximal)) {
        if (varying && i->shape.is_array()) {
          Instruction* value = computes ? made : i->operand(0);
          made = per_device_.from_device(value, i->sharding.front().device);
          varies.erase(i);
        }
        const std::vector<Shape> leaves = flatten(i->shape);
        for (std::size_t k = 0; k < i->sharding.size() && k < leaves.size(); ++k) {
          if (is_maximal(i->sharding[k])) i->sharding[k] = per_device_.whole(leaves[k]);
        }
      }
      if (made != nullptr) rewriter.replace(i, made);
    }
    changed_ = rewriter.finish() > 0 || changed_;
  }

  /// Gives its operands, or parts of them, as they are.
  static bool only_passes(const Instruction& i) {
    return i.is(Opcode::tuple) || i.is(Opcode::get_tuple_element) ||
           i.is(Opcode::sharding_constraint) || i.is(Opcode::opt_barrier) ||
           i.is(Opcode::propagation_barrier) || ir::is_manual_computation(i);
  }

  static bool is_async(const Instruction& i) {
    switch (i.opcode) {
      case Opcode::all_reduce_start:
      case Opcode::all_reduce_done:
      case Opcode::all_gather_start:
      case Opcode::all_gather_done:
      case Opcode::collective_permute_start:
      case Opcode::collective_permute_done:
        return true;
      default:
        return false;
    }
  }

  bool is_partly_manual_body(const ir::Computation* c) {
    if (!bodies_known_) {
      bodies_known_ = true;
      for (const auto& other : module_->computations()) {
        for (const auto& i : other->instructions()) {
          if (!ir::is_manual_computation(*i)) continue;
          for (ir::Computation* body : i->called()) add_body(body);
        }
      }
    }
    return bodies_.count(c) > 0;
  }

  void add_body(const ir::Computation* c) {
    if (!bodies_.insert(c).second) return;
    for (const auto& i : c->instructions()) {
      for (const ir::Computation* callee : i->called()) add_body(callee);
    }
  }

  ir::Module* module_;
  WholeArrays per_device_;
  bool bodies_known_ = false, changed_ = false;
  std::unordered_set<const ir::Computation*> bodies_;
};

}  // namespace

void extend_submeshes(ir::Module* module) { Extender(module).run(); }

void settle_one_device_values(ir::Module* module) { OneDevice(module).run(); }

}  // namespace tessera::spmd
