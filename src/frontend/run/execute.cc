// SPDX-License-Identifier: Apache-2.0
// Places a traced program on devices, compiles it (with a cache) and runs it on arrays.
#include "src/frontend/run/execute.h"

#include <algorithm>
#include <unordered_map>

#include "src/base/log.h"
#include "src/base/processes/processes.h"
#include "src/compiler/engine.h"
#include "src/frontend/arrays/array_impl.h"
#include "src/frontend/run/choose_devices.h"
#include "src/frontend/run/compile_cache.h"
#include "src/frontend/run/donated_placement.h"
#include "src/frontend/run/shardings.h"
#include "src/ir/analysis/device_computations.h"
#include "src/ir/analysis/memory_kinds.h"
#include "src/ir/auto_sharding.h"
#include "src/ir/cloner.h"
#include "src/ir/hooks.h"
#include "src/ir/rewrite/drop_shardings.h"
#include "src/sharding/api/lowering.h"
#include "src/sharding/api/sharding_impl.h"
#include "src/sharding/axes/tiling.h"

namespace tessera::frontend {

using internal::ArrayImpl;
using internal::impl_of;

namespace {

/// Copies what is requested of each, but for shardings.
void take_requests(const Program& program, BoundProgram* bound) {
  const auto states_layout = [](const RequestedSharding& p) { return p.layout.has_value(); };
  bound->states_layouts =
      std::any_of(program.parameters.begin(), program.parameters.end(), states_layout);
  for (std::size_t i = 0; i < bound->parameters.size(); ++i) {
    BoundParameter& p = bound->parameters[i];
    p.donated = program.donated[i];
    p.layout = program.parameters[i].layout;
    if (bound->states_layouts) p.name = program.parameters[i].who;
  }
  for (std::size_t i = 0; i < bound->results.size(); ++i) {
    bound->results[i].weak = program.result_weak[i];
    bound->results[i].layout = program.results[i].layout;
  }
}

/// Removes dead code and, unless they are to be kept, unused parameters. Returns the numbers of the
/// parameters that stay.
std::vector<std::size_t> drop_unused(ir::Module& module, bool keep) {
  module.remove_dead_computations();
  for (const auto& computation : module.computations()) computation->remove_dead();
  ir::Computation* entry = module.entry();
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < entry->parameters().size(); ++i) {
    const ir::Instruction* p = entry->parameter(i);
    if (keep || p->use_count() > 0 || p == entry->root()) kept.push_back(i);
  }
  if (kept.size() == entry->parameters().size()) return kept;
  std::string name = entry->name();
  entry->set_name(name + ".all");
  ir::Builder builder(module.add_computation(name));
  std::vector<ir::Instruction*> parameters(entry->parameters().size());
  for (std::size_t i : kept) {
    const ir::Instruction* p = entry->parameter(i);
    builder.metadata = p->metadata;
    parameters[i] = builder.parameter(std::int64_t(builder.computation()->parameters().size()),
                                      p->shape, p->name);
  }
  builder.computation()->set_root(
      ir::inline_computation(builder.computation(), *entry, parameters));
  module.set_entry(builder.computation());
  module.remove_dead_computations();
  return kept;
}

/// Brings all shardings of the module onto one mesh, `preferred` if it can express them.
void unify_meshes(ir::Module& module, const MeshRef& preferred) {
  std::vector<TensorSharding*> all;
  std::vector<Tiling> tilings;
  std::vector<std::int64_t> ranks;
  bool foreign = false;
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) {
      for (TensorSharding& s : instruction->sharding) {
        if (s.kind == TensorSharding::Kind::axes && s.mesh) {
          foreign = foreign || !preferred || !same_mesh(s.mesh, preferred);
          all.push_back(&s);
        }
      }
    }
  }
  module.mesh = preferred;
  if (!foreign) return;
  for (TensorSharding* s : all) {
    tilings.push_back(to_tiling(*s));
    ranks.push_back(s->rank());
  }
  const std::vector<TensorSharding> unified =
      from_tilings(tilings, ranks, module.num_partitions, preferred);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const TensorSharding before = *all[i];
    if (unified[i].mesh) module.mesh = unified[i].mesh;
    // Tilings can't represent open dims and priorities, nor what joins partial values.
    TensorSharding after = unified[i];
    after.reduction = before.reduction;
    for (std::size_t d = 0; d < after.dims.size(); ++d) {
      after.dims[d].open = before.dims[d].open;
      after.dims[d].priority = before.dims[d].priority;
    }
    *all[i] = std::move(after);
  }
}

/// The engine that compiles: programs for devices that don't exist, which are only inspected, are
/// compiled as for the default device.
const compiler::Engine& compiling_engine(const BoundProgram& bound) {
  return bound.lacks_devices.empty() ? compiler::engine_of(bound.devices)
                                     : compiler::engine_of(devices().front());
}

/// Requests the machine that the devices are, if no other is described: what explains the program
/// is told as well.
void take_machine(const BoundProgram& bound, Program* program) {
  if (!bound.lacks_devices.empty() || compiler::Options(program->requests).network) return;
  program->requests.network = compiling_engine(bound).machine();
}

/// The process of each device; empty if all are of this one.
std::vector<std::int32_t> processes_of(const std::vector<Device>& devices) {
  if (std::all_of(devices.begin(), devices.end(), is_local)) return {};
  std::vector<std::int32_t> out;
  for (const Device& d : devices) out.push_back(std::int32_t(d.process_index));
  return out;
}

/// Finds the donated parameters whose memory a result can use: one in the same memory, of the same
/// dtype and bytes per device.
void find_usable_donations(BoundProgram* bound) {
  std::vector<bool> taken(bound->results.size(), false);
  for (const std::size_t i : bound->kept) {
    BoundParameter& p = bound->parameters[i];
    if (!p.donated) continue;
    const std::int64_t count = element_count(p.sharding.shard_shape(p.shape.dims));
    for (std::size_t k = 0; k < taken.size() && !p.donation_usable; ++k) {
      const BoundResult& result = bound->results[k];
      if (taken[k] || result.shape.dtype != p.shape.dtype ||
          internal::memory_of(result.sharding) != internal::memory_of(p.sharding)) {
        continue;
      }
      if (element_count(result.sharding.shard_shape(result.shape.dims)) != count) continue;
      taken[k] = p.donation_usable = true;
    }
  }
}

/// Where an argument goes that is on no certain device: it stays in its memory, unless a text that
/// was loaded says otherwise.
MemoryKind uncommitted_memory(const ir::Module& module, const std::vector<std::size_t>& kept,
                              std::size_t i, const ArrayImpl& impl) {
  const auto k = std::find(kept.begin(), kept.end(), i);
  if (k != kept.end()) {
    const auto number = std::size_t(k - kept.begin());
    const MemoryKind stated = ir::memory_of_parameter(*module.entry()->parameter(number));
    if (is_host(stated)) return stated;
  }
  return internal::memory_of(impl);
}

/// Moves results to the memory that is requested of them. Returns where each of them is.
std::vector<MemoryKind> place_results(const Program& program) {
  ir::Computation& entry = *program.module->entry();
  std::vector<MemoryKind> out(program.results.size(), MemoryKind::device);
  bool looked_at = false;
  for (const ir::Instruction* p : entry.parameters()) {
    looked_at |= is_host(ir::memory_of_parameter(*p));
  }
  for (const RequestedSharding& r : program.results) {
    looked_at |= r.sharding && is_host(internal::memory_of(*r.sharding));
  }
  for (const auto& c : program.module->computations()) {
    for (const auto& i : c->instructions()) looked_at |= i->is(ir::Opcode::device_placement);
  }
  if (!looked_at || !entry.root()->is(ir::Opcode::tuple)) return out;
  std::vector<ir::MemoryLeaves> parameters;
  for (const ir::Instruction* p : entry.parameters()) {
    parameters.emplace_back(flatten(p->shape).size(), ir::memory_of_parameter(*p));
  }
  const ir::MemoryLeaves made = ir::memory_of_root(entry, parameters);
  std::vector<ir::Instruction*> roots = entry.root()->operands();
  if (made.size() != roots.size()) return out;
  ir::Builder b(&entry);
  for (std::size_t k = 0; k < roots.size(); ++k) {
    const MemoryKind have = made[k].value_or(MemoryKind::device);
    const auto& requested = program.results[k].sharding;
    out[k] = requested ? internal::memory_of(*requested) : have;
    // Said where it is, even if it is there already: then nothing moves.
    if (have == out[k] && (!is_host(have) || roots[k]->is(ir::Opcode::device_placement))) continue;
    b.metadata = roots[k]->metadata;
    ir::DevicePlacementAttrs attrs;
    attrs.memory = out[k];
    attrs.source = have;
    roots[k] = b.emit(ir::Opcode::device_placement, {roots[k]}, attrs);
  }
  if (roots == entry.root()->operands()) return out;
  b.metadata = entry.root()->metadata;
  entry.set_root(b.tuple(roots));
  return out;
}

/// A result that could take the memory of a donated argument is placed as that, where the user
/// leaves it open: a training step's state stays where it is.
void place_as_donors(PlacedProgram* placed, Program* program) {
  const BoundProgram& bound = placed->bound;
  std::vector<bool> open, donors;
  for (const RequestedSharding& r : program->results) open.push_back(!r.sharding && !r.automatic);
  for (const std::size_t i : bound.kept) {
    const BoundParameter& p = bound.parameters[i];
    donors.push_back(p.donated && !program->parameters[i].automatic &&
                     placed->parameter_committed[i] &&
                     to_tensor_sharding(p.sharding, p.shape.rank()).unreduced.empty());
  }
  if (std::find(donors.begin(), donors.end(), true) == donors.end()) return;
  const auto found = donors_of_results(*program->module, open, donors);
  for (std::size_t r = 0; r < found.size(); ++r) {
    if (!found[r]) continue;
    const Sharding& its = bound.parameters[bound.kept[*found[r]]].sharding;
    if (internal::memory_of(its) == placed->result_memory[r]) program->results[r].sharding = its;
  }
}

/// Of the processes that run a program the first one tells of it.
bool tells_of(const BoundProgram& bound) {
  for (const Device& d : bound.devices) {
    if (is_local(d)) return true;
    const Processes* all = processes();
    if (all != nullptr && d.process_index < all->index()) return false;
  }
  return true;
}

void warn_of_donations(const BoundProgram& bound, const Program& program) {
  if (!tells_of(bound)) return;
  const auto in_host = [](const BoundValue& v) { return is_host(internal::memory_of(v.sharding)); };
  const bool in_memory = std::any_of(bound.results.begin(), bound.results.end(), in_host) ||
                         std::any_of(bound.parameters.begin(), bound.parameters.end(), in_host);
  constexpr std::size_t kNamed = 8;
  std::string names;
  std::size_t count = 0;
  for (const std::size_t i : bound.kept) {
    const BoundParameter& p = bound.parameters[i];
    if (!p.donated || p.donation_usable || ++count > kNamed) continue;
    names +=
        (count == 1 ? "" : ", ") + program.parameters[i].who + " (" + p.shape.to_string() + ")";
  }
  if (count == 0) return;
  if (count > kNamed) names += " and " + std::to_string(count - kNamed) + " more";
  log_warning("donated " + names + (count == 1 ? " is" : " are") +
              " not usable: no result has its dtype and size per device" +
              (in_memory ? " in its memory" : "") + "; it stays alive");
}

/// Users' partitioning callbacks.
std::vector<std::shared_ptr<DeviceListener>> partitioners_of(const ir::Module& module) {
  std::vector<std::shared_ptr<DeviceListener>> out;
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) {
      const auto* call = instruction->attrs.get_if<ir::CustomPartitioningAttrs>();
      if (!call || !call->partitioner) continue;
      if (auto user = std::dynamic_pointer_cast<DeviceListener>(call->partitioner)) {
        out.push_back(std::move(user));
      }
    }
  }
  return out;
}

/// Why a program on the chosen devices can't run; empty if it can.
std::string why_it_lacks_devices(const std::string& name, const Choice& choice) {
  if (internal::is_placeholder_device(choice.devices[0])) {
    return "'" + name + "' can't run: " + choice.who + " is on " + choice.mesh.to_string() +
           ", which is abstract: there are no devices behind it. It can be lowered, "
           "compiled and measured; to run it, give a Mesh, or arguments on "
           "one of that shape";
  }
  if (const std::string missing = missing_devices(choice.devices); !missing.empty()) {
    return "'" + name + "' can't run: " + choice.who + " is on " + missing;
  }
  return {};
}

/// Tells the program's parameters how they are placed.
void place_parameters(const Program& program, const BoundProgram& bound) {
  ir::Module& module = *program.module;
  for (std::size_t k = 0; k < bound.kept.size(); ++k) {
    const std::size_t i = bound.kept[k];
    const BoundParameter& p = bound.parameters[i];
    if (p.donated) module.buffer_donor.emplace_back(std::int64_t(k), Dims());
    ir::set_memory_of_parameter(module.entry()->parameter(k), internal::memory_of(p.sharding));
    if (module.num_partitions == 1) continue;
    ir::Instruction* parameter = module.entry()->parameter(k);
    const std::int64_t rank = p.shape.rank();
    if (program.parameters[i].automatic) {
      ir::set_auto_sharding(parameter);
      parameter->sharding = {TensorSharding::open_on(nullptr, rank)};
    } else {
      parameter->sharding = {to_tensor_sharding(p.sharding, rank)};
    }
  }
}

/// Says how the results lie, and all of it on one mesh.
void place_root(const Program& program, const BoundProgram& bound, const Mesh& mesh) {
  ir::Module& module = *program.module;
  ir::Instruction* root = module.entry()->root();
  root->sharding.clear();
  for (std::size_t i = 0; i < bound.results.size(); ++i) {
    const std::int64_t rank = bound.results[i].shape.rank();
    root->sharding.push_back(program.results[i].sharding
                                 ? to_tensor_sharding(*program.results[i].sharding, rank)
                                 : TensorSharding::open_on(nullptr, rank));
    if (program.results[i].automatic) ir::add_auto_result(root, i);
  }
  unify_meshes(module, mesh.empty() ? MeshRef() : to_logical_mesh(mesh));
  if (!module.mesh) module.mesh = make_logical_mesh({{"devices", module.num_partitions}});
  for (TensorSharding& s : root->sharding) {
    if (!s.mesh) s.mesh = module.mesh;
  }
  for (ir::Instruction* p : module.entry()->parameters()) {
    if (ir::has_auto_sharding(*p)) p->sharding[0].mesh = module.mesh;
  }
}

}  // namespace

PlacedProgram place_program(Program program, std::span<const Array> args) {
  PlacedProgram placed;
  BoundProgram& bound = placed.bound;
  ir::Module& module = *program.module;
  TESSERA_CHECK(module.entry()->parameters().size() == args.size(), "parameters and arguments");
  bound.parameters.resize(args.size());
  for (std::size_t i = 0; i < args.size(); ++i) {
    bound.parameters[i].shape = module.entry()->parameter(i)->shape;
  }
  bound.kept = drop_unused(module, program.keep_unused);
  placed.listeners = partitioners_of(module);
  const Choice choice = choose_devices(program, args, bound.kept);
  bound.name = program.name;
  bound.devices = choice.devices;
  bound.committed = choice.committed;
  bound.lacks_devices = why_it_lacks_devices(program.name, choice);
  const auto settle = [&](std::optional<Sharding>& s) {
    if (s) s = on_devices(*s, choice.devices);
  };
  for (RequestedSharding& p : program.parameters) settle(p.sharding);
  for (RequestedSharding& r : program.results) settle(r.sharding);
  for (Trace::MeshUse& use : program.mesh_uses) {
    use.sharding = on_devices(use.sharding, choice.devices);
  }
  for (const Shape& leaf : flatten(module.entry()->root()->shape)) {
    bound.results.emplace_back().shape = leaf;
  }
  take_requests(program, &bound);
  placed.mesh = choose_mesh(program, args, bound.devices);
  const auto n = std::int64_t(bound.devices.size());
  const Sharding everywhere = replicated_sharding(bound.devices, placed.mesh);

  module.num_partitions = n;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const ArrayImpl& impl = impl_of(args[i]);
    bound.parameters[i].sharding =
        program.parameters[i].sharding ? *program.parameters[i].sharding
        : impl.committed
            ? on_devices(impl.sharding, choice.devices)
            : internal::in_memory(everywhere, uncommitted_memory(module, bound.kept, i, impl));
    placed.parameter_committed.push_back(impl.committed || program.parameters[i].sharding);
  }
  for (RequestedSharding& r : program.results) {
    if (r.sharding || !r.gradient_by || !placed.parameter_committed.at(*r.gradient_by)) continue;
    r.sharding = bound.parameters[*r.gradient_by].sharding;
  }
  place_parameters(program, bound);
  placed.result_memory = place_results(program);
  if (n > 1) {
    place_as_donors(&placed, &program);
    place_root(program, bound, placed.mesh);
  } else {
    ir::drop_shardings_for_one_device(&module);
  }
  take_machine(bound, &program);
  for (const auto& listener : placed.listeners) listener->bind(placed.mesh, bound.devices);
  placed.program = std::move(program);
  return placed;
}

BoundProgram compile_program(PlacedProgram placed) {
  Program& program = placed.program;
  BoundProgram bound = std::move(placed.bound);
  const compiler::Engine& engine = compiling_engine(bound);
  std::vector<std::int32_t> process_of;
  std::vector<std::int64_t> device_ids;
  if (bound.lacks_devices.empty()) {
    process_of = processes_of(bound.devices);
    if (engine.compiles_for_devices()) {
      for (const Device& d : bound.devices) device_ids.push_back(d.id);
    }
  }
  bound.executable = compile_cached(engine, std::move(program.module), bound.lacks_devices.empty(),
                                    program.requests, std::move(process_of), std::move(device_ids));
  bound.requests = program.requests;
  for (const auto& listener : placed.listeners) listener->compiled();
  const Sharding everywhere = replicated_sharding(bound.devices, placed.mesh);
  for (std::size_t k = 0; k < bound.kept.size(); ++k) {
    const std::size_t i = bound.kept[k];
    if (!program.parameters[i].automatic || bound.devices.size() == 1) continue;
    Sharding& chosen = bound.parameters[i].sharding;
    chosen = internal::in_memory(
        sharding_of_result(bound.executable->parameter_shardings()[k], bound.devices, placed.mesh),
        internal::memory_of(chosen));
  }
  for (std::size_t i = 0; i < bound.results.size(); ++i) {
    Sharding& result = bound.results[i].sharding;
    if (program.results[i].sharding) {
      result = *program.results[i].sharding;
      continue;
    }
    const auto in_its_memory = [&](const Sharding& s) {
      return internal::in_memory(s, placed.result_memory[i]);
    };
    result = in_its_memory(everywhere);
    if (bound.devices.size() > 1) {
      const TensorSharding& s = bound.executable->result_shardings()[i];
      result = in_its_memory(sharding_of_result(s, bound.devices, placed.mesh));
      // The axes of another mesh may be able to express it.
      for (const Trace::MeshUse& use : program.mesh_uses) {
        if (!GSPMDSharding::is(result)) break;
        if (!NamedSharding::is(use.sharding)) continue;
        result =
            in_its_memory(sharding_of_result(s, bound.devices, NamedSharding(use.sharding).mesh()));
      }
    }
    // If an argument has the same sharding, the result gets the argument's sharding object, with
    // the spec as the user wrote it.
    const std::int64_t rank = bound.results[i].shape.rank();
    for (std::size_t k = 0; k < bound.parameters.size(); ++k) {
      const BoundParameter& p = bound.parameters[k];
      if (placed.parameter_committed[k] && p.shape.rank() == rank &&
          p.sharding.is_equivalent_to(result, rank)) {
        result = p.sharding;
        break;
      }
    }
  }
  find_usable_donations(&bound);
  const bool donates = std::any_of(bound.parameters.begin(), bound.parameters.end(),
                                   [](const BoundParameter& p) { return p.donation_usable; });
  const auto* on_one = dynamic_cast<const compiler::OneDeviceProgram*>(bound.executable.get());
  if (!donates && bound.devices.size() == 1 && on_one != nullptr && on_one->runs_on_one()) {
    bound.on_one = on_one;
  }
  bound.calls_out = calls_out(bound.executable->partitioned());
  warn_of_donations(bound, program);
  return bound;
}

BoundProgram bind_program(Program program, std::span<const Array> args) {
  PlacedProgram placed = place_program(std::move(program), args);
  if (!placed.bound.lacks_devices.empty()) {
    throw ValueError(placed.bound.lacks_devices, placed.program.location);
  }
  return compile_program(std::move(placed));
}

namespace {

/// ValueError if an argument has another layout than was stated of it.
void check_layouts(const BoundProgram& program, std::span<const Array> args, Location location) {
  if (!program.states_layouts) return;
  for (std::size_t i = 0; i < program.parameters.size(); ++i) {
    const std::optional<Layout>& stated = program.parameters[i].layout;
    const ArrayImpl& impl = impl_of(args[i]);
    if (!stated || stated->is_auto() || !impl.committed) continue;
    const Layout have = impl.layout ? *impl.layout : Layout::row_major(impl.shape.rank());
    if (have == *stated) continue;
    throw ValueError(program.parameters[i].name + " (" + impl.shape.to_string() + ") has " +
                         have.to_string() + ", and in_shardings requests " + stated->to_string() +
                         "; device_put it with that Format first, or leave the layout AUTO",
                     location);
  }
}

/// ValueError if each process would give a part of a value of its own, which needn't be the same.
void check_uncommitted(const BoundProgram& program, const Array& array, const Sharding& target,
                       Location location) {
  if (processes() == nullptr) return;
  const ArrayImpl& impl = impl_of(array);
  if (impl.committed || target.is_fully_replicated() || target.is_fully_addressable()) return;
  throw ValueError(
      "an argument of '" + program.name + "' (" + impl.shape.to_string() +
          ") is a value of this process, and is to be split as " + target.to_string() +
          " over devices of several processes; valid: device_put, which checks that all processes "
          "have the same, or make_array_from_process_local_data, of which each has a part",
      location);
}

Array result_of(const BoundProgram& program, std::size_t i, std::vector<DeviceBuffer> buffers) {
  const BoundResult& result = program.results[i];
  Array out = internal::make_device_array(result.shape, result.sharding, std::move(buffers),
                                          program.committed, result.weak);
  if (result.layout && !result.layout->is_auto()) impl_of(out).layout = result.layout;
  return out;
}

/// Runs a program on one device, if its arguments are there already: few and small lists. False if
/// they aren't, or there is more to look at.
bool run_where_it_is(const BoundProgram& program, std::span<const Array> args, Location location,
                     std::vector<Array>* results) {
  constexpr std::size_t kMost = 64, kMade = 16;
  const std::size_t count = program.kept.size(), made = program.results.size();
  if (program.on_one == nullptr || count > kMost || made > kMade) return false;
  internal::ArrayMemory::Reader readers[kMost];
  const DeviceBuffer* inputs[kMost];
  DeviceBuffer outputs[kMade];
  for (std::size_t k = 0; k < count; ++k) {
    const std::size_t i = program.kept[k];
    const ArrayImpl& impl = impl_of(args[i], location);
    if (impl.kind != ArrayImpl::Kind::device ||
        !are_same_device(impl.sharding, program.parameters[i].sharding)) {
      return false;
    }
    inputs[k] = readers[k].read(impl.memory);
    if (inputs[k] == nullptr) return false;  // deleted, say
  }
  program.on_one->run_on_one({inputs, count}, {outputs, made});
  results->reserve(made);
  for (std::size_t i = 0; i < made; ++i) {
    std::vector<DeviceBuffer> one(1);
    one[0] = std::move(outputs[i]);
    results->push_back(result_of(program, i, std::move(one)));
  }
  return true;
}

}  // namespace

std::vector<Array> run_program(const BoundProgram& program, std::span<const Array> args,
                               Location location) {
  if (!program.lacks_devices.empty()) throw ValueError(program.lacks_devices, location);
  std::vector<Array> results;
  check_layouts(program, args, location);
  if (run_where_it_is(program, args, location, &results)) return results;
  const std::size_t count = program.kept.size();
  compiler::DeviceArrays inputs(count);
  for (std::size_t k = 0; k < count; ++k) {
    const std::size_t i = program.kept[k];
    check_uncommitted(program, args[i], program.parameters[i].sharding, location);
    inputs[k] = buffers_as(args[i], program.parameters[i].sharding, location);
  }
  std::vector<bool> donated;  // empty: none
  std::vector<ArrayImpl*> given_away;
  for (std::size_t k = 0; k < count; ++k) {
    const std::size_t i = program.kept[k];
    if (!program.parameters[i].donation_usable) continue;
    donated.resize(count);
    donated[k] = true;
    ArrayImpl& impl = impl_of(args[i]);
    if (impl.kind == ArrayImpl::Kind::device) given_away.push_back(&impl);
  }
  if (!given_away.empty()) {
    // Other threads may still hold handles on the memory: the run checks this, and copies.
    const std::string at = location.known() ? " at " + location.to_string() : std::string();
    internal::donate(given_away, "donated to '" + program.name + "'" + at, location);
  }
  compiler::DeviceArrays outputs = program.executable->run(std::move(inputs), donated);
  TESSERA_CHECK(outputs.size() == program.results.size(), "results of an executable");
  results.reserve(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    results.push_back(result_of(program, i, std::move(outputs[i])));
  }
  return results;
}

}  // namespace tessera::frontend
