// SPDX-License-Identifier: Apache-2.0
// The list of all compiler stages, in order, and the stages themselves.
#include "src/compiler/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <set>

#include "src/base/env.h"
#include "src/base/log.h"
#include "src/base/profiler.h"
#include "src/codegen/custom_calls/custom_calls.h"
#include "src/codegen/liveness.h"
#include "src/compiler/context_pool.h"
#include "src/compiler/dump.h"
#include "src/cost/peak_memory.h"
#include "src/ir/analysis/layouts.h"
#include "src/ir/analysis/memory_kinds.h"
#include "src/ir/custom_calls/custom_call.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/rewrite/builder.h"
#include "src/ir/shapes/shape_inference.h"
#include "src/passes/analysis/trip_counts.h"
#include "src/passes/dim_orders.h"
#include "src/passes/eliminate_common.h"
#include "src/passes/expand_derivative_ops.h"
#include "src/passes/expand_scans.h"
#include "src/passes/flatten_gathers.h"
#include "src/passes/flatten_scatters.h"
#include "src/passes/inline_calls.h"
#include "src/passes/join_async.h"
#include "src/passes/late_divisions.h"
#include "src/passes/late_transposes.h"
#include "src/passes/loop_carries.h"
#include "src/passes/schedule_placements.h"
#include "src/passes/separate_bodies.h"
#include "src/passes/share_reducers.h"
#include "src/passes/simplify.h"
#include "src/passes/single_scatters.h"
#include "src/passes/split_reductions.h"
#include "src/passes/strength_reduce_dots.h"
#include "src/passes/strength_reduce_gathers.h"
#include "src/passes/swap_convolutions.h"
#include "src/passes/transposed_dots.h"
#include "src/passes/unit_windows.h"
#include "src/passes/unroll_dots.h"
#include "src/passes/unroll_reductions.h"
#include "src/passes/window_scatters.h"
#include "src/runtime/verify_plan.h"
#include "src/spmd/auto_sharding/auto_sharding.h"
#include "src/spmd/collectives/optimize.h"
#include "src/spmd/partitioner/stencils/stencils.h"
#include "src/spmd/propagation/propagate.h"

namespace tessera::compiler {
namespace {

bool is_global(const Compilation& c) {
  return c.module->num_partitions > 1 && !c.options.partitioned_input;
}

/// Text may name any device in a collective; those that don't exist can't take part.
void check_devices(const ir::Module& module) {
  const auto check = [&](const ir::Instruction& i, std::int64_t device, const char* where) {
    if (device < module.num_partitions) return;
    throw CompileError(fmt::format("{} names device {} in its {}; module {} is for {} devices, "
                                   "numbered from 0",
                                   i.describe(), device, where, module.name, module.num_partitions),
                       i.location());
  };
  for (const auto& computation : module.computations()) {
    for (const auto& i : computation->instructions()) {
      if (const auto* permute = i->attrs.get_if<ir::PermuteAttrs>()) {
        for (const auto& [source, target] : permute->source_target_pairs) {
          check(*i, std::max(source, target), "source_target_pairs");
        }
      } else if (const auto* collective = i->attrs.get_if<ir::CollectiveAttrs>()) {
        for (const auto& group : collective->groups.lists) {
          for (const std::int64_t device : group) check(*i, device, "replica_groups");
        }
      }
    }
  }
}

void verify(Compilation& c) {
  for (const auto& [what, n] : {std::pair{"num_partitions", c.module->num_partitions},
                                std::pair{"replica_count", c.module->replica_count}}) {
    if (n >= 1 && n <= kMaxDevices) continue;
    throw CompileError(fmt::format("module {} has {}={}; valid are 1 to {}", c.module->name, what,
                                   n, kMaxDevices));
  }
  ir::verify(*c.module);
  check_devices(*c.module);
}

void keep_input(Compilation& c) {
  for (const ir::Instruction* p : c.module->entry()->parameters()) {
    for (const Shape& leaf : flatten(p->shape)) c.parameter_shapes.push_back(leaf);
  }
  c.result_shapes = flatten(c.module->entry()->root()->shape);
  if (c.options.keep_stages) c.input = c.module->clone();
}

// A plan takes as long as all else; a program of more instructions is planned once.
constexpr std::int64_t kPlannedTwice = 1500;
// The plan of a program that isn't run tells no more devices than these apart.
constexpr std::int64_t kToldApart = 64;

// Three times what there is, but a small program in any case.
void separate_calls(Compilation& c) {
  if (!is_global(c)) return;
  const std::size_t most = 20000 + 2 * c.module->instruction_count();
  passes::separate_calls(c.module.get(), most);
  passes::separate_bodies(c.module.get(), most);
}

void share_reducers(Compilation& c) { passes::share_reducers(c.module.get()); }
void merge_carries(Compilation& c) { passes::merge_loop_carries(c.module.get()); }
void expand_window_scatters(Compilation& c) {
  // On one device many scatters write less.
  passes::expand_window_scatters(c.module.get(), is_global(c));
}
void swap_convolutions(Compilation& c) { passes::swap_convolutions(c.module.get()); }
void find_trip_counts(Compilation& c) { passes::find_trip_counts(c.module.get()); }

void propagate(Compilation& c) {
  if (!is_global(c)) return;
  if (c.options.layouts == Layouts::propagated) {
    spmd::propagate(c.module.get());
    return;
  }
  if (!c.context) c.context = take_context();
  spmd::AutoShardingOptions options;
  options.partition = c.partition;
  if (c.options.network) options.partition.machine = cost::Machine(*c.options.network);
  options.partition.context = c.context.get();
  if (c.options.memory_budget) options.memory_budget = double(*c.options.memory_budget);
  options.decisions = c.for_decisions;
  spmd::AutoSharding found = spmd::propagate_and_solve(std::move(c.module), options);
  c.module = std::move(found.module);
  c.decisions = std::move(found.decisions);
  if (c.for_report) return;  // reports want all records
  c.reshards = std::move(found.reshards);
  c.device = std::move(found.device);
  c.report = std::move(found.report);
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

spmd::PartitionOptions partition_options(Compilation& c) {
  spmd::PartitionOptions options = c.partition;
  if (c.options.network) options.machine = cost::Machine(*c.options.network);
  options.all_records = c.for_report;
  if (!c.context) c.context = take_context();
  options.context = c.context.get();
  return options;
}

void make_reshards_explicit(Compilation& c) {
  if (!is_global(c)) return;
  if (!c.reshards.module) {
    const spmd::PartitionOptions options = partition_options(c);
    c.reshards = spmd::insert_reshards(*c.module, options);
    spmd::optimize_reshards(&c.reshards, options);
  }
  c.source = std::move(c.module);
  c.module = std::move(c.reshards.module);
}

void partition(Compilation& c) {
  if (!is_global(c)) return;
  std::unique_ptr<ir::Module> device = std::move(c.device);
  c.reshards.module = std::move(c.module);
  if (!device) device = spmd::lower_reshards(c.reshards, partition_options(c), &c.report);
  c.reshards = {};
  c.context = nullptr;
  if (!c.for_report) c.source = nullptr;
  c.module = std::move(device);
  c.root_sharding = c.module->entry()->root()->sharding;
  ir::verify(*c.module);
  if (c.for_report) return;
  const FullGathers policy = c.options.full_gathers;
  if (policy == FullGathers::error && c.refuse_full_gathers) c.refuse_full_gathers(c);
  if (policy != FullGathers::warn) return;
  for (const spmd::CommunicationRecord& r : c.report.records) {
    if (!r.full_gather) continue;
    log_warning(
        fmt::format("{}{}{}: {} from {} to {} gathers the entire array on each device "
                    "({:.0f} bytes received), for {}",
                    r.location.to_string(), r.location.known() ? ": " : "", r.for_op, r.kind,
                    r.from, r.to, r.bytes_received, r.reason));
  }
}

// Arrays are row-major from here on.
void drop_layouts(Compilation& c) { ir::normalize_layouts(c.module.get()); }
// Calls that stand for a program are that program from here on.
void expand_calls(Compilation& c) { ir::expand_custom_calls(c.module.get(), false); }
void expand_derivative_ops(Compilation& c) { passes::expand_derivative_ops(c.module.get()); }
void expand_scans(Compilation& c) { passes::expand_scans(c.module.get()); }
void drop_markers(Compilation& c) { ir::expand_custom_calls(c.module.get(), true); }
void inline_calls(Compilation& c) { passes::inline_calls(c.module.get()); }
void join_async(Compilation& c) { passes::join_async(c.module.get()); }
void simplify(Compilation& c) {
  passes::eliminate_dead(c.module.get());
  passes::drop_unit_windows(c.module.get());
  passes::strength_reduce_dots(c.module.get());
  passes::strength_reduce_gathers(c.module.get());
  for (int k = 0; k < 4 && passes::simplify(c.module.get()) > 0; ++k) {
  }
  passes::transpose_late(c.module.get());
  passes::fold_transposes(c.module.get());
  passes::keep_last_dims(c.module.get());
  passes::swap_transposed_dots(c.module.get());
  if (passes::unify_dim_orders(c.module.get()) > 0) {
    passes::simplify(c.module.get());
    passes::fold_transposes(c.module.get());
  }
  passes::divide_late(c.module.get());
}
void eliminate_common(Compilation& c) {
  passes::eliminate_common(c.module.get());
  passes::eliminate_dead(c.module.get());
}

void tile_stencils(Compilation& c) {
  if (c.module->num_partitions > 1 || spmd::tile_stencil_loops(c.module.get()) == 0) return;
  simplify(c);
  eliminate_common(c);
}

/// As the plan of the program would hold them; of a large one, or one that calls what isn't known
/// here and so has no plan, about.
double peak_bytes(const ir::Module& module, bool runs) {
  if (std::int64_t(module.instruction_count()) > kPlannedTwice)
    return cost::estimated_peak_bytes(module);
  try {
    const bool all = runs || module.num_partitions <= kToldApart;
    codegen::BuiltPlan built =
        all ? codegen::plan_program(module).built : codegen::build_plan_of_one_device(module);
    codegen::plan_memory(&built.plan);
    runtime::finalize(&built.plan);
    return double(codegen::estimate_memory(built.plan, {}).peak);
  } catch (const NotImplementedError&) {
    return cost::estimated_peak_bytes(module);
  }
}
void optimize_collectives(Compilation& c) {
  if (!is_global(c)) return;
  spmd::CollectiveOptions options;
  options.combine_any = !c.for_report;
  if (!c.for_figures) {
    options.peak = [&](const ir::Module& m) { return peak_bytes(m, c.options.runs); };
  }
  options.order = !c.for_figures;
  options.max_tried = kPlannedTwice;
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
  if (!c.for_report) spmd::drop_record_ids(c.module.get());
  ir::verify(*c.module);
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

void schedule_placements(Compilation& c) { passes::schedule_placements(c.module.get()); }

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

// Uniformity and fusion are decided while the plan is built, from the module as it is now. That
// stays: the plan is of the program that fused_program shows.
void build_plan(Compilation& c) {
  c.built = c.options.runs ? codegen::build_plan(*c.module)
                           : codegen::build_plan_of_one_device(*c.module);
}
std::unique_ptr<ir::Module> fused_program(const Compilation& c) {
  return codegen::fuse_program(*c.module, c.options.runs ? c.module->num_partitions : 1);
}
/// What makes loops of other ops.
void make_elementwise(Compilation& c) {
  const std::size_t unrolled = passes::unroll_reductions(c.module.get()) +
                               passes::unroll_dots(c.module.get()) +
                               passes::update_single_scatters(c.module.get());
  if (unrolled > 0) simplify(c);
  passes::flatten_gathers(c.module.get());
  passes::flatten_scatters(c.module.get());
}
void split_reductions(Compilation& c) { passes::split_reductions(c.module.get()); }
void plan_memory(Compilation& c) { codegen::plan_memory(&c.built.plan); }
void finalize_plan(Compilation& c) { runtime::finalize(&c.built.plan); }

struct Stage {
  const char* name;
  void (*run)(Compilation& c);
  enum class Leaves { nothing, module, fusions, plan } leaves;
};

// All that happens between a module and something that runs, in this order.
constexpr Stage kStages[] = {
    {"verify", verify, Stage::Leaves::nothing},
    {"input", keep_input, Stage::Leaves::module},
    {"layouts", drop_layouts, Stage::Leaves::nothing},
    {"custom-calls", expand_calls, Stage::Leaves::nothing},
    {"derivative-ops", expand_derivative_ops, Stage::Leaves::nothing},
    {"scans", expand_scans, Stage::Leaves::nothing},
    {"reducers", share_reducers, Stage::Leaves::nothing},
    {"separate-calls", separate_calls, Stage::Leaves::nothing},
    {"loop-carries", merge_carries, Stage::Leaves::nothing},
    {"trip-counts", find_trip_counts, Stage::Leaves::nothing},
    {"window-scatters", expand_window_scatters, Stage::Leaves::nothing},
    {"swap-convolutions", swap_convolutions, Stage::Leaves::nothing},
    {"propagate", propagate, Stage::Leaves::module},
    {"shardings", keep_shardings, Stage::Leaves::nothing},
    {"reshards", make_reshards_explicit, Stage::Leaves::module},
    {"partition", partition, Stage::Leaves::module},
    {"markers", drop_markers, Stage::Leaves::nothing},
    {"inline-calls", inline_calls, Stage::Leaves::nothing},
    {"join-async", join_async, Stage::Leaves::nothing},
    {"simplify", simplify, Stage::Leaves::nothing},
    {"common", eliminate_common, Stage::Leaves::nothing},
    {"stencils", tile_stencils, Stage::Leaves::nothing},
    {"collectives", optimize_collectives, Stage::Leaves::nothing},
    {"placements", schedule_placements, Stage::Leaves::nothing},
    {"aliases", alias_donations, Stage::Leaves::nothing},
    {"mark-root", mark_root, Stage::Leaves::module},
    {"elementwise", make_elementwise, Stage::Leaves::nothing},
    {"split-reductions", split_reductions, Stage::Leaves::nothing},
    {"build-plan", build_plan, Stage::Leaves::fusions},
    {"memory", plan_memory, Stage::Leaves::nothing},
    {"plan", finalize_plan, Stage::Leaves::plan},
};

std::string text_after(const Stage& stage, const Compilation& c) {
  if (stage.leaves == Stage::Leaves::plan) return runtime::to_string(c.built.plan);
  return ir::to_string(stage.leaves == Stage::Leaves::fusions ? *fused_program(c) : *c.module);
}

/// A stage that leaves a module which isn't well formed is at fault itself.
void verify_after(const Stage& stage, const Compilation& c) {
  if (stage.leaves == Stage::Leaves::plan) return runtime::verify_plan(c.built.plan);
  if (!c.module) return;
  try {
    ir::verify(stage.leaves == Stage::Leaves::fusions ? *fused_program(c) : *c.module);
  } catch (const InternalError&) {
    throw;
  } catch (const Error& e) {
    throw InternalError(std::string("after the stage ") + stage.name + ": " + e.what());
  }
}

bool verifies_stages() {
#ifdef NDEBUG
  constexpr bool kByDefault = false;
#else
  constexpr bool kByDefault = true;
#endif
  return env_flag("TESSERA_VERIFY", kByDefault);
}

}  // namespace

void run_until(Compilation* c, const std::string& stage) {
  const bool verify = verifies_stages();
  codegen::register_builtin_custom_calls();
  for (; c->next_stage < std::size(kStages); ++c->next_stage) {
    if (kStages[c->next_stage].name == stage) return;
    kStages[c->next_stage].run(*c);
    if (verify) verify_after(kStages[c->next_stage], *c);
  }
  TESSERA_CHECK(false, "there is no stage " + stage);
}

void skip_until(Compilation* c, const std::string& stage) {
  while (c->next_stage < std::size(kStages) && kStages[c->next_stage].name != stage) {
    ++c->next_stage;
  }
}

void run_pipeline(Compilation* c) {
  using Clock = std::chrono::steady_clock;
  const bool verify = verifies_stages();
  codegen::register_builtin_custom_calls();
  const std::string name = c->module->name;
  Dump dump(name);
  std::string times;
  const auto start = Clock::now();
  const bool profiled = profiler::on();
  const std::int64_t started = profiled ? profiler::now() : 0;
  for (const Stage& stage : kStages) {
    const auto before = Clock::now();
    const std::int64_t begin = profiled ? profiler::now() : 0;
    stage.run(*c);
    if (profiled) {
      profiler::record({profiler::Kind::stage, stage.name, name, {}, begin, profiler::now()});
    }
    if (verify) verify_after(stage, *c);
    const std::chrono::duration<double, std::milli> took = Clock::now() - before;
    times += fmt::format(" {} {:.2f}", stage.name, took.count());
    if (!dump.enabled() || stage.leaves == Stage::Leaves::nothing) continue;
    dump.write(stage.name, text_after(stage, *c));
  }
  if (profiled) {
    profiler::record(
        {profiler::Kind::compile, "compile " + name, "", {}, started, profiler::now()});
  }
  const std::chrono::duration<double, std::milli> total = Clock::now() - start;
  log(LogLevel::debug, fmt::format("compiled {} in {:.2f} ms:{}", name, total.count(), times));
}

std::vector<std::string> stage_names() {
  std::vector<std::string> out;
  for (const Stage& stage : kStages) out.emplace_back(stage.name);
  return out;
}

}  // namespace tessera::compiler
