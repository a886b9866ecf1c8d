// SPDX-License-Identifier: Apache-2.0
// The list of the stages that are the same for all targets, and the stages themselves.
#include "src/compiler/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <tuple>

#include "src/base/env.h"
#include "src/base/log.h"
#include "src/base/processes/processes.h"
#include "src/compiler/context_pool.h"
#include "src/compiler/guarantees.h"
#include "src/compiler/pass_pipeline.h"
#include "src/ir/analysis/memory_kinds.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/process_groups.h"
#include "src/ir/rewrite/builder.h"
#include "src/ir/shapes/shape_inference.h"
#include "src/passes/control/flatten_replicas.h"
#include "src/passes/control/inline_calls.h"
#include "src/passes/control/separate_bodies.h"
#include "src/passes/eliminate_common.h"
#include "src/passes/indexed/expand_window_scatters.h"
#include "src/passes/simplify.h"
#include "src/spmd/auto_sharding/auto_sharding.h"
#include "src/spmd/collectives/optimize.h"
#include "src/spmd/propagation/propagate.h"

namespace tessera::compiler {
namespace {

bool is_global(const Compilation& c) {
  return c.module->num_partitions > 1 && !c.options.partitioned_input;
}

/// Groups of all have as many devices as there are, and the shapes say how many there must be:
/// text for a number of devices that it doesn't state passes as long as that is not known.
void check_group_of_all(const ir::Module& module, const ir::Instruction& i) {
  const auto& a = i.get<ir::CollectiveAttrs>();
  const bool gathers = i.is(ir::Opcode::all_gather);
  if (!a.groups.lists.empty() || a.groups.symbolic() || a.dims.size() != 1) return;
  if (!gathers && !i.is(ir::Opcode::reduce_scatter)) return;
  const ir::GroupMode mode = ir::group_mode(i.opcode, i.attrs, module.grid());
  const std::int64_t devices =
      ir::devices_of_group(mode, ir::numbers_of_all(mode, module.grid()), module.grid());
  for (std::size_t k = 0; k < i.operands().size(); ++k) {
    const Shape& result = i.shape.is_tuple ? i.shape.elements[k] : i.shape;
    const std::int64_t of_operand = i.operand(k)->shape.dims[std::size_t(a.dims[0])];
    const std::int64_t of_result = result.dims[std::size_t(a.dims[0])];
    const std::int64_t part = gathers ? of_operand : of_result;
    const std::int64_t whole = gathers ? of_result : of_operand;
    if (part * devices == whole) continue;
    throw CompileError(
        fmt::format("{} joins all devices, and module {} is for {}: dim {} of size {} and {} parts "
                    "of {} don't agree; state num_partitions or replica_count",
                    i.describe(), module.name, devices, a.dims[0], whole, devices, part),
        i.location());
  }
}

/// Text may name any device in a collective; those that don't exist can't take part.
void check_devices(const ir::Module& module) {
  const auto check = [&](const ir::Instruction& i, std::int64_t device, const char* where) {
    const ir::GroupMode mode = ir::group_mode(i.opcode, i.attrs, module.grid());
    const std::int64_t most = ir::numbers_of_all(mode, module.grid());
    if (device < most) return;
    const char* what = module.replica_count == 1                ? "device"
                       : mode == ir::GroupMode::cross_partition ? "partition"
                       : mode == ir::GroupMode::flattened_ids   ? "device"
                                                                : "replica";
    throw CompileError(fmt::format("{} names {} {} in its {}; module {} is for {} {}s, "
                                   "numbered from 0",
                                   i.describe(), what, device, where, module.name, most, what),
                       i.location());
  };
  for (const auto& computation : module.computations()) {
    for (const auto& i : computation->instructions()) {
      if (const auto* permute = i->attrs.get_if<ir::PermuteAttrs>()) {
        check(*i, permute->source_target_pairs.facts().greatest(), "source_target_pairs");
      } else if (const auto* collective = i->attrs.get_if<ir::CollectiveAttrs>()) {
        for (const auto& group : collective->groups.lists) {
          for (const std::int64_t device : group) check(*i, device, "replica_groups");
        }
        check_group_of_all(module, *i);
      }
    }
  }
}

/// Replicas of a program that is partitioned here are joined by collectives without a channel:
/// others would join what the partitioner makes of their partitions.
void check_replicas(const ir::Module& module) {
  if (module.replica_count == 1) return;
  for (const auto& computation : module.computations()) {
    for (const auto& i : computation->instructions()) {
      const auto* a = i->attrs.get_if<ir::CollectiveAttrs>();
      if (a == nullptr) continue;
      const ir::GroupMode mode = ir::group_mode(i->opcode, i->attrs, module.grid());
      if (mode == ir::GroupMode::cross_replica || mode == ir::GroupMode::cross_partition) continue;
      throw NotImplementedError(
          fmt::format("{} joins partitions of several replicas, and module {} is to be partitioned "
                      "for {} partitions of {} replicas; valid: replicas alone (no channel), or a "
                      "program of one partition",
                      i->describe(), module.name, module.num_partitions, module.replica_count),
          i->location());
    }
  }
}

/// What runs needs all its numbers.
void check_constants(const ir::Module& module) {
  for (const auto& computation : module.computations()) {
    for (const auto& i : computation->instructions()) {
      const auto* constant = i->attrs.get_if<ir::ConstantAttrs>();
      if (constant == nullptr || !constant->elided) continue;
      throw CompileError(
          fmt::format("the value of constant {}, {}, was left out of the program's text ({{...}}), "
                      "so that it can't run; valid: text with all constants (of XLA's printing "
                      "options, print_large_constants), or the program as StableHLO",
                      i->name, i->shape.to_string()),
          i->location());
    }
  }
}

/// Takes the counts from the options, or from the module.
void assign_devices(Compilation& c) {
  ir::Module& module = *c.module;
  c.assignment = c.options.assignment.value_or(
      DeviceAssignment{module.replica_count, module.num_partitions, {}});
  const DeviceAssignment& a = c.assignment;
  for (const auto& [what, stated, wanted] :
       {std::tuple{"num_partitions", &module.num_partitions, a.num_partitions},
        std::tuple{"replica_count", &module.replica_count, a.num_replicas}}) {
    if (*stated != 1 && *stated != wanted) {
      throw CompileError(fmt::format("module {} has {}={}, and the device assignment {}",
                                     module.name, what, *stated, wanted));
    }
    *stated = wanted;
  }
  const std::set<std::int64_t> different(a.ids.begin(), a.ids.end());
  if (!a.ids.empty() && (std::int64_t(a.ids.size()) != a.num_devices() ||
                         different.size() != a.ids.size() || *different.begin() < 0)) {
    throw CompileError(fmt::format(
        "the device assignment of module {} names {} devices, {} of them different; valid: as many "
        "as {} replicas of {} partitions, from 0",
        module.name, a.ids.size(), different.size(), a.num_replicas, a.num_partitions));
  }
}

void verify(Compilation& c) {
  assign_devices(c);
  for (const auto& [what, n] : {std::pair{"num_partitions", c.module->num_partitions},
                                std::pair{"replica_count", c.module->replica_count}}) {
    if (n >= 1 && n <= kMaxDevices) continue;
    throw CompileError(fmt::format("module {} has {}={}; valid are 1 to {}", c.module->name, what,
                                   n, kMaxDevices));
  }
  if (c.module->grid().devices() > kMaxDevices) {
    throw CompileError(fmt::format(
        "module {} is for {} replicas of {} partitions; valid are up to "
        "{} devices",
        c.module->name, c.module->replica_count, c.module->num_partitions, kMaxDevices));
  }
  ir::verify(*c.module);
  if (c.options.runs && !c.purpose.report) check_constants(*c.module);
  check_devices(*c.module);
  if (is_global(c)) check_replicas(*c.module);
  // A program may leave devices out, which is an error only where they meet the collective.
  for (const auto& computation : c.module->computations()) {
    for (const auto& i : computation->instructions()) {
      if (i->attrs.get_if<ir::CollectiveAttrs>()) c.not_guaranteed |= kGroupsOfAll;
    }
  }
}

void keep_input(Compilation& c) {
  for (const ir::Instruction* p : c.module->entry()->parameters()) {
    for (const Shape& leaf : flatten(p->shape)) c.parameter_shapes.push_back(leaf);
  }
  c.result_shapes = flatten(c.module->entry()->root()->shape);
  if (c.options.keep_stages) c.input = c.module->clone();
}

void separate_calls(Compilation& c) {
  if (!is_global(c)) return;
  const std::size_t most = passes::room_for_copies(*c.module);
  passes::separate_calls(c.module.get(), most);
  passes::separate_bodies(c.module.get(), most);
}

void expand_window_scatters(Compilation& c) {
  // On one device many scatters write less.
  passes::expand_window_scatters(c.module.get(), is_global(c));
}

spmd::PartitionOptions partition_options(Compilation& c) {
  spmd::PartitionOptions options = c.partition;
  if (c.options.network) options.machine = cost::Machine(*c.options.network);
  options.all_records = c.purpose.report;
  if (!c.context) c.context = take_context();
  options.context = c.context.get();
  return options;
}

void propagate(Compilation& c) {
  if (!is_global(c)) return;
  if (c.options.layouts == Layouts::propagated) {
    spmd::propagate(c.module.get());
    return;
  }
  spmd::AutoShardingOptions options;
  options.partition = partition_options(c);
  if (c.options.memory_budget) options.memory_budget = double(*c.options.memory_budget);
  options.decisions = c.purpose.decisions;
  spmd::AutoSharding found = spmd::propagate_and_solve(std::move(c.module), options);
  c.module = std::move(found.module);
  c.decisions = std::move(found.decisions);
  c.tried = {std::move(found.reshards), std::move(found.device), std::move(found.report)};
}

std::vector<TensorSharding> closed_shardings(const ir::Instruction& i, const ir::Module& module) {
  const std::vector<Shape> leaves = flatten(i.shape);
  std::vector<TensorSharding> out;
  for (std::size_t k = 0; k < leaves.size(); ++k) {
    const TensorSharding* s = k < i.sharding.size() ? &i.sharding[k] : nullptr;
    // One device may be given a program that was written for many, or that names a device.
    const bool fits = s != nullptr && s->kind == TensorSharding::Kind::axes &&
                      (s->mesh == nullptr || s->mesh->num_devices() == module.num_partitions);
    const bool mesh_fits = module.mesh && module.mesh->num_devices() == module.num_partitions;
    out.push_back(
        fits ? s->closed()
             : TensorSharding::replicated_on(mesh_fits ? module.mesh : nullptr, leaves[k].rank()));
  }
  return out;
}

void keep_shardings(Compilation& c) {
  for (const ir::Instruction* p : c.module->entry()->parameters()) {
    for (TensorSharding& s : closed_shardings(*p, *c.module)) {
      c.parameter_shardings.push_back(std::move(s));
    }
  }
  c.result_shardings = closed_shardings(*c.module->entry()->root(), *c.module);
  if (c.options.keep_stages) c.propagated = c.module->clone();
}

void make_reshards_explicit(Compilation& c) {
  if (!is_global(c)) return;
  const spmd::PartitionOptions options = partition_options(c);
  if (c.tried && c.tried->reshards.module) {
    c.reshards = std::move(c.tried->reshards);
  } else {
    c.reshards = spmd::insert_reshards(*c.module, options);
    spmd::optimize_reshards(&c.reshards, options);
  }
  if (c.is_worthwhile && !c.is_worthwhile(spmd::bytes_of_reshards(&c.reshards, options))) {
    throw NotWorthwhile();
  }
  c.source = std::move(c.module);
  c.module = std::move(c.reshards.module);
}

/// In one message, of the first of the processes that run the program.
void warn_of_full_gathers(const Compilation& c) {
  const Processes* all = processes();
  const auto& owners = c.options.process_of;
  if (all != nullptr && !owners.empty() &&
      *std::min_element(owners.begin(), owners.end()) != all->index()) {
    return;
  }
  constexpr std::size_t kNamed = 8;
  std::size_t count = 0;
  std::string text;
  for (const spmd::CommunicationRecord& r : c.report.records) {
    if (!r.full_gather || ++count > kNamed) continue;
    text += fmt::format(
        "{}{}{}{}: {} from {} to {} gathers the entire array on each device "
        "({:.0f} bytes received), for {}",
        count == 1 ? "" : "\n  ", r.location.to_string(), r.location.known() ? ": " : "", r.for_op,
        r.kind, r.from, r.to, r.bytes_received, r.reason);
  }
  if (count > kNamed) text += fmt::format("\n  and {} more", count - kNamed);
  if (count > 0) log_warning(text);
}

void partition(Compilation& c) {
  if (!is_global(c)) {
    passes::flatten_replicas(c.module.get());
    return;
  }
  c.reshards.module = std::move(c.module);
  std::unique_ptr<ir::Module> device;
  if (c.tried && c.tried->device) {
    device = std::move(c.tried->device);
    c.report = std::move(c.tried->report);
  } else {
    device = spmd::lower_reshards(c.reshards, partition_options(c), &c.report);
  }
  c.reshards = {};
  c.tried = std::nullopt;
  c.context = nullptr;
  if (!c.purpose.report) c.source = nullptr;
  c.module = std::move(device);
  passes::flatten_replicas(c.module.get(), /*partitioned=*/true);
  c.root_sharding = c.module->entry()->root()->sharding;
  if (!c.purpose.quick) ir::verify(*c.module);
  if (c.purpose.report) return;
  const FullGathers policy = c.options.full_gathers;
  if (policy == FullGathers::error && c.refuse_full_gathers) c.refuse_full_gathers(c);
  if (policy == FullGathers::warn) warn_of_full_gathers(c);
}

void optimize_collectives(Compilation& c) {
  if (!is_global(c)) return;
  spmd::CollectiveOptions options;
  options.combine_any = !c.purpose.report;
  options.keep_no_copies = c.purpose.quick;
  if (!c.purpose.estimates_memory) {
    options.peak = [&](const ir::Module& m) { return c.target->peak_bytes(m, c.options.runs); };
  }
  options.order = !c.purpose.figures;
  options.merge_equal = passes::eliminate_common;
  std::set<std::int64_t> removed;  // records
  options.removed = [&](const ir::Instruction& collective) {
    removed.insert(spmd::record_id(collective));
  };
  options.collective_matmul_from_bytes = c.options.collective_matmul_from_bytes;
  spmd::optimize_collectives(&c.module, options);
  passes::eliminate_dead(c.module.get());
  // Of a call that was inlined twice one copy may be left.
  if (!removed.empty()) {
    for (const auto& computation : c.module->computations()) {
      for (const auto& i : computation->instructions()) removed.erase(spmd::record_id(*i));
    }
    std::erase_if(c.report.records,
                  [&](const spmd::CommunicationRecord& r) { return removed.count(r.id) > 0; });
  }
  if (!c.purpose.report) spmd::drop_record_ids(c.module.get());
  if (!c.purpose.quick) ir::verify(*c.module);
}

/// Donated memory goes to the first result that has its type on a device, in the same kind of
/// memory, and none yet.
void alias_donations(Compilation& c) {
  ir::Module& module = *c.module;
  if (module.buffer_donor.empty()) return;
  std::vector<ir::MemoryLeaves> parameters;
  for (const ir::Instruction* p : module.entry()->parameters()) {
    parameters.emplace_back(leaf_count(p->shape), ir::memory_of_parameter(*p));
  }
  const ir::MemoryLeaves kinds = ir::memory_of_root(*module.entry(), parameters);
  const Shape& root = module.entry()->root()->shape;
  const std::size_t results = root.is_tuple ? root.elements.size() : 1;
  std::vector<bool> taken(results, false);
  for (const ir::Alias& a : module.input_output_alias) {
    if (!a.output.empty()) taken[std::size_t(a.output[0])] = true;
  }
  std::erase_if(module.buffer_donor, [&](const auto& donor) {
    if (!donor.second.empty()) return false;
    const Shape& shape = module.entry()->parameter(std::size_t(donor.first))->shape;
    for (std::size_t i = 0; i < results; ++i) {
      const Shape& result = root.is_tuple ? root.elements[i] : root;
      if (taken[i] || !shape.is_array() || !(result == shape)) continue;
      const MemoryKind given = *parameters[std::size_t(donor.first)][0];
      if (kinds.at(i).value_or(MemoryKind::device) != given) continue;
      taken[i] = true;
      module.input_output_alias.push_back(
          {root.is_tuple ? Dims{std::int64_t(i)} : Dims{}, donor.first, {}, false});
      return true;
    }
    return false;
  });
}

/// The root states the shardings of the results, whatever the passes made of it.
void mark_root(Compilation& c) {
  ir::Computation* entry = c.module->entry();
  ir::Instruction* root = entry->root();
  if (c.root_sharding.empty() || root->sharding == c.root_sharding) return;
  if (root->is(ir::Opcode::parameter)) {
    // A parameter's own sharding is for its arguments.
    ir::Builder b(entry);
    b.metadata = root->metadata;
    root = b.unary(ir::Opcode::copy, root);
    entry->set_root(root);
  }
  root->sharding = c.root_sharding;
}

/// A stage runs its function or passes.
struct Stage {
  const char* name;
  void (*run)(Compilation& c);
  const char* passes;
  /// Whether its module is worth a dump.
  bool dumped;
  /// What holds afterwards.
  const char* guarantees;
  /// What of it all later stages keep (guarantees.h).
  unsigned sets = kNothing;
};

constexpr Stage kPrepare[] = {
    {"verify", verify, "", false, "the module is well formed, and its devices exist"},
    {"input", keep_input, "", true, "shapes are kept, and the module itself if asked for"},
    {"layouts", nullptr, "normalize-layouts", false, "arrays are row-major"},
    {"custom-calls", nullptr, "expand-custom-calls", false,
     "calls that stand for a program are that program"},
    {"derivative-ops", nullptr, "expand-derivative-ops", false,
     "there are no remats and custom derivatives", kNoDerivativeOps},
    {"scans", nullptr, "expand-scans", false, "there are no scans", kNoScans},
    {"batch-norms", nullptr, "expand-batch-norms", false, "there are no batch norms"},
    {"dot-variants", nullptr, "expand-dot-variants", false, "there are no ragged or scaled dots"},
    {"reducers", nullptr, "share-reducers", false, "equal reducers are one computation"},
    {"separate-calls", separate_calls, "", false,
     "where there is room, calls don't share bodies, whose shardings may then differ"},
    {"loop-carries", nullptr, "sink-constants-into-loops,merge-loop-carries", false,
     "loops carry no array twice, and nothing that is the same number everywhere"},
    {"trip-counts", nullptr, "trip-counts", false, "loops that count say how far"},
    {"window-scatters", expand_window_scatters, "", false,
     "scatters of one window at a known place are elementwise"},
    {"swap-convolutions", nullptr, "swap-convolutions", false,
     "the smaller operand of a convolution is the kernel"},
};
constexpr Stage kPartition[] = {
    {"propagate", propagate, "", true, "every instruction has a sharding"},
    {"shardings", keep_shardings, "", false, "those of parameters and results are kept"},
    {"reshards", make_reshards_explicit, "", true,
     "every op can be computed from its operands as they are sharded"},
    {"partition", partition, "", true,
     "shapes are those of one device; collectives are explicit; replicas are partitions"},
    {"markers", nullptr, "expand-markers", false, "what only partitioning reads is gone"},
    {"inline-calls", nullptr, "inline-calls", false,
     "there are no calls and fusions, nor code per device; one device's keeps marked calls",
     kNoCalls | kPartitioned | kGroupsOfAll},
    {"join-async", nullptr, "join-async", false, "there are no starts and dones of collectives",
     kNoAsync},
};
constexpr Stage kCollectives[] = {
    {"collectives", optimize_collectives, "", false, "collectives are few, combined and early"},
    {"placements", nullptr, "schedule-placements", false,
     "arrays leave for the host early, and come back late"},
    {"aliases", alias_donations, "", false, "donated parameters have a result each, or none"},
    {"mark-root", mark_root, "", true, "the root states the shardings of the results"},
};

/// Texts of pipelines are read once.
const PassPipeline& pipeline_of(const char* passes) {
  static std::mutex mutex;
  static auto& known = *new std::map<const char*, PassPipeline>;  // looked up only
  const std::lock_guard lock(mutex);
  const auto [found, added] = known.try_emplace(passes);
  if (added) found->second = PassPipeline::parse(passes);
  return found->second;
}

void run_stage(Compilation* c, const Stage& stage, StageRecorder* stages) {
  StageRecorder::Leaves leaves;
  if (stage.dumped) leaves.text = [c] { return ir::to_string(*c->module); };
  leaves.verify = [c, name = stage.name] {
    if (!c->module) return;
    ir::verify(*c->module);
    const std::string fault = broken_guarantee(*c->module, c->guarantees & ~c->not_guaranteed);
    if (!fault.empty()) throw InternalError(fmt::format("after the stage {}: {}", name, fault));
  };
  stages->run(
      stage.name,
      [&] {
        if (stage.run != nullptr) {
          stage.run(*c);
        } else {
          (void)pipeline_of(stage.passes).run(c->module, false);
        }
        c->guarantees |= stage.sets;
      },
      leaves);
}
void run_stages(Compilation* c, std::span<const Stage> list, StageRecorder* stages) {
  for (const Stage& stage : list) run_stage(c, stage, stages);
}
void run_stages(Compilation* c, std::span<const PassStage> list, StageRecorder* stages) {
  for (const PassStage& s : list) run_stage(c, {s.name, nullptr, s.passes, false, ""}, stages);
}

void run_phase(Compilation* c, Phase phase, StageRecorder* stages) {
  switch (phase) {
    case Phase::prepare:
      return run_stages(c, kPrepare, stages);
    case Phase::partition:
      return run_stages(c, kPartition, stages);
    case Phase::simplify:
      return run_stages(c, c->target->simplification(), stages);
    case Phase::collectives:
      return run_stages(c, kCollectives, stages);
    case Phase::select:
      return run_stages(c, c->target->selection(), stages);
    case Phase::done:
      break;
  }
}

}  // namespace

void run_through(Compilation* c, Phase last, StageRecorder* stages) {
  while (c->next <= last && c->next != Phase::done) {
    run_phase(c, c->next, stages);
    c->next = Phase(int(c->next) + 1);
  }
}

void run_through(Compilation* c, Phase last) {
  StageRecorder stages(c->module->name, /*all=*/false);
  run_through(c, last, &stages);
}

std::vector<std::string> describe_stages(const Target& target) {
  std::vector<std::string> out;
  const auto add = [&](const char* phase, const char* name, const char* passes, const char* holds) {
    out.push_back(fmt::format("{} {}: {}{}{}", phase, name, passes,
                              passes[0] != 0 && holds[0] != 0 ? "; " : "", holds));
  };
  for (const Stage& s : kPrepare) add("prepare", s.name, s.passes, s.guarantees);
  for (const Stage& s : kPartition) add("partition", s.name, s.passes, s.guarantees);
  for (const PassStage& s : target.simplification()) add("simplify", s.name, s.passes, "");
  for (const Stage& s : kCollectives) add("collectives", s.name, s.passes, s.guarantees);
  for (const PassStage& s : target.selection()) add("select", s.name, s.passes, "");
  return out;
}

}  // namespace tessera::compiler
