// SPDX-License-Identifier: Apache-2.0
// The table of all passes, from those that read annotations to those that order collectives.
#include "src/compiler/pass_table.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "src/codegen/plan/plan_builder.h"
#include "src/ir/analysis/layouts.h"
#include "src/ir/custom_calls/custom_call.h"
#include "src/ir/shapes/shape_inference.h"
#include "src/passes/analysis/trip_counts.h"
#include "src/passes/control/expand_scans.h"
#include "src/passes/control/inline_calls.h"
#include "src/passes/control/join_async.h"
#include "src/passes/control/merge_loop_carries.h"
#include "src/passes/control/move_invariants.h"
#include "src/passes/control/separate_bodies.h"
#include "src/passes/control/sink_constants.h"
#include "src/passes/eliminate_common.h"
#include "src/passes/expand_batch_norms.h"
#include "src/passes/expand_derivative_ops.h"
#include "src/passes/expand_rare_ops.h"
#include "src/passes/indexed/expand_counted_indices.h"
#include "src/passes/indexed/expand_window_scatters.h"
#include "src/passes/indexed/flatten_gathers.h"
#include "src/passes/indexed/flatten_scatters.h"
#include "src/passes/indexed/separate_gathers.h"
#include "src/passes/indexed/strength_reduce_gathers.h"
#include "src/passes/indexed/update_single_scatters.h"
#include "src/passes/products/channels_last.h"
#include "src/passes/products/clip_windows.h"
#include "src/passes/products/convolutions_as_dots.h"
#include "src/passes/products/drop_unit_windows.h"
#include "src/passes/products/expand_dot_variants.h"
#include "src/passes/products/fold_filter_views.h"
#include "src/passes/products/fold_pads.h"
#include "src/passes/products/fold_transposes.h"
#include "src/passes/products/share_factors.h"
#include "src/passes/products/sink_divisions.h"
#include "src/passes/products/sink_transposes.h"
#include "src/passes/products/split_batches.h"
#include "src/passes/products/strength_reduce_dots.h"
#include "src/passes/products/sums_as_dots.h"
#include "src/passes/products/swap_convolutions.h"
#include "src/passes/products/unroll_dots.h"
#include "src/passes/reductions/expand_selections.h"
#include "src/passes/reductions/reduce_broadcasts.h"
#include "src/passes/reductions/share_reducers.h"
#include "src/passes/reductions/sorts_as_topk.h"
#include "src/passes/reductions/split_reductions.h"
#include "src/passes/reductions/unroll_reductions.h"
#include "src/passes/reductions/windows_as_reductions.h"
#include "src/passes/schedule_placements.h"
#include "src/passes/simplify.h"
#include "src/passes/sink_broadcasts.h"
#include "src/passes/strength_reduce_powers.h"
#include "src/passes/unify_dim_orders.h"
#include "src/passes/widen_small_types.h"
#include "src/spmd/collectives/optimize.h"
#include "src/spmd/dedupe_collectives.h"
#include "src/spmd/manual/manual.h"
#include "src/spmd/partitioner/partition.h"
#include "src/spmd/partitioner/stencils/stencils.h"
#include "src/spmd/propagation/graph.h"
#include "src/spmd/propagation/propagate.h"

namespace tessera::compiler {
namespace {

using Argument = std::optional<std::int64_t>;
using Count = std::optional<std::size_t>;

/// A pass that returns how much it changed, or nothing.
template <auto F>
Count counted(ModulePtr& m, Argument) {
  return std::size_t(F(m.get()));
}
template <auto F>
Count uncounted(ModulePtr& m, Argument) {
  F(m.get());
  return std::nullopt;
}

/// Up to how many instructions bodies are copied.
std::size_t limit_of_copies(const ir::Module& module, Argument n) {
  return n ? std::size_t(*n) : passes::room_for_copies(module);
}

constexpr Pass kPasses[] = {
    {"normalize-layouts", "Make all arrays row-major; bitcasts that depend on layouts transpose",
     counted<ir::normalize_layouts>},
    {"expand-custom-calls", "Replace custom calls that stand for a program by that program",
     [](ModulePtr& m, Argument) { return Count(ir::expand_custom_calls(m.get(), false)); }},
    {"expand-derivative-ops", "Replace remats and custom derivatives by what they run",
     counted<passes::expand_derivative_ops>},
    {"expand-scans", "Replace scans by while loops", counted<passes::expand_scans>},
    {"expand-batch-norms", "Write batch norms as sums and elementwise ops",
     counted<passes::expand_batch_norms>},
    {"expand-dot-variants",
     "Write ragged and scaled dots as dots of all groups, and of scaled arrays",
     counted<passes::expand_dot_variants>},
    {"expand-markers", "Replace what only propagation and partitioning read",
     [](ModulePtr& m, Argument) { return Count(ir::expand_custom_calls(m.get(), true)); }},
    {"share-reducers", "Make one computation of equal reducers", counted<passes::share_reducers>},
    {"separate-calls<N>", "Put bodies of calls in place, up to N instructions in all",
     [](ModulePtr& m, Argument n) {
       return Count(passes::separate_calls(m.get(), limit_of_copies(*m, n)));
     },
     true},
    {"separate-bodies<N>", "Copy bodies that several loops run, up to N instructions in all",
     [](ModulePtr& m, Argument n) {
       return Count(passes::separate_bodies(m.get(), limit_of_copies(*m, n)));
     },
     true},
    {"sink-constants-into-loops", "Have loops make constants that they carry",
     counted<passes::sink_constants_into_loops>},
    {"merge-loop-carries",
     "Carry equal arrays through loops once, and what nobody reads not at all",
     counted<passes::merge_loop_carries>},
    {"move-invariants-out-of-loops", "Compute once before a loop what is the same in all its trips",
     counted<passes::move_invariants_out_of_loops>},
    {"trip-counts", "Note how often loops run that count to a constant",
     counted<passes::find_trip_counts>},
    {"expand-window-scatters",
     "Make scatters of one window at a known place elementwise, as for several devices",
     [](ModulePtr& m, Argument) { return Count(passes::expand_window_scatters(m.get(), true)); }},
    {"raise-manual", "Read the forms that HLO text has for manual computations",
     uncounted<spmd::manual::raise>},
    {"bind-manual", "Turn what manual computations state into shardings",
     uncounted<spmd::manual::bind>},
    {"normalize-custom-calls",
     "Read sharding groups and open dims of constraints from custom calls",
     uncounted<spmd::propagation::normalize_custom_calls>},
    {"fold-moves", "Join ops that move elements where they are one move",
     uncounted<spmd::propagation::fold_moves>},
    {"split-constants", "Give each user of a constant or iota its own",
     uncounted<spmd::propagation::split_constants>},
    {"free-roots", "Copy roots of called computations that have shardings",
     uncounted<spmd::propagation::free_roots>},
    {"swap-convolutions", "Convolve with the smaller of two arrays as the kernel",
     counted<passes::swap_convolutions>},
    {"propagate", "Give every instruction a sharding",
     [](ModulePtr& m, Argument) {
       spmd::propagate(m.get());
       return Count();
     }},
    {"gather-before-loops", "Gather what loops slice along a split dim, in a propagated program",
     uncounted<spmd::propagation::gather_before_loops>},
    {"expand-stencils", "Compute stencils along split dims from windows of rows",
     [](ModulePtr& m, Argument) {
       spmd::Origins origins;
       for (const auto& c : m->computations()) {
         for (const auto& i : c->instructions()) origins[i.get()] = i.get();
       }
       return Count(spmd::expand_stencils(m.get(), {}, &origins));
     }},
    {"insert-reshards", "Compute each op of a propagated program in the cheapest layout",
     [](ModulePtr& m, Argument) {
       m = spmd::insert_reshards(*m, {}).module;
       return Count();
     }},
    {"optimize-reshards", "Merge reshards, join them, and move them out of loops",
     [](ModulePtr& m, Argument) {
       spmd::ExplicitProgram program{std::move(m), {}};
       const std::size_t changes = spmd::optimize_reshards(&program, {});
       m = std::move(program.module);
       return Count(changes);
     }},
    {"lower-reshards", "From a program with explicit reshards to that of one device",
     [](ModulePtr& m, Argument) {
       m = spmd::lower_reshards({m->clone(), {}}, {}, nullptr);
       return Count();
     }},
    {"partition", "All of these: from a propagated program to that of one device",
     [](ModulePtr& m, Argument) {
       m = spmd::partition(*m, {}, nullptr);
       return Count();
     }},
    {"inline-calls", "Put the bodies of calls and fusions in their callers' places",
     counted<passes::inline_calls>},
    {"join-async", "Make one collective of a start and its done", counted<passes::join_async>},
    {"clip-windows", "Leave out taps of convolutions that see padding only",
     counted<passes::clip_windows>},
    {"drop-unit-windows", "Leave out dims along which nothing is convolved",
     counted<passes::drop_unit_windows>},
    {"fold-filter-views", "Let convolutions read reversed and transposed filters as they are",
     counted<passes::fold_filter_views>},
    {"fold-pads", "Let windows have the padding that stands in front of them",
     counted<passes::fold_pads>},
    {"channels-last", "Compute with features last what convolutions make with features in front",
     counted<passes::put_channels_last>},
    {"convolutions-as-dots",
     "Make dots of convolutions by filters that stand by output features, where that costs less",
     counted<passes::convolutions_as_dots>},
    {"sink-broadcasts", "Compute once what is the same along a dim",
     counted<passes::sink_broadcasts>},
    {"sums-as-dots", "Make dots of sums of products of what is the same along some dims each",
     counted<passes::sums_as_dots>},
    {"share-factors", "Make one dot of a batch of dots by the same matrix",
     counted<passes::share_factors>},
    {"batch-outer-dims", "Make batches of dots that would have to move an operand",
     counted<passes::batch_outer_dims>},
    {"split-batches", "Let dots have the dims of a batch that reshapes merge",
     counted<passes::split_batches>},
    {"strength-reduce-dots", "Make outer products and products of vectors elementwise",
     counted<passes::strength_reduce_dots>},
    {"strength-reduce-powers", "Multiply instead of raising to a small constant power",
     counted<passes::strength_reduce_powers>},
    {"strength-reduce-gathers", "Make selects of gathers from a few stacked arrays",
     counted<passes::strength_reduce_gathers>},
    {"expand-counted-indices",
     "Slice and add up what gathers and scatters find by indices that the program counts",
     counted<passes::expand_counted_indices>},
    {"separate-gathers", "Gather by rows, then by columns, where all of both are combined",
     counted<passes::separate_gathers>},
    {"windows-as-reductions", "Make reductions of windows that see all of an array",
     counted<passes::windows_as_reductions>},
    {"windows-as-copies", "Repeat the elements of which windows see one each",
     counted<passes::windows_as_copies>},
    {"reduce-broadcasts", "Multiply instead of summing up what is the same along a dim",
     counted<passes::reduce_broadcasts>},
    {"expand-selections", "Write select-and-scatters without a kernel as windows and scatters",
     counted<passes::expand_selections>},
    {"sorts-as-top-k", "Make top-ks of sorts of which only the first elements are read",
     counted<passes::sorts_as_topk>},
    {"expand-rare-ops", "Write what is too rare for a kernel as operations that have some",
     counted<passes::expand_rare_ops>},
    {"widen-small-types", "Compute in wider types what has no kernel for numbers of a byte or less",
     counted<passes::widen_small_types>},
    {"simplify<N>", "Take out what does nothing, until nothing changes, in N rounds at most",
     [](ModulePtr& m, Argument n) {
       std::size_t changes = 0;
       // Each round only removes; the bound is for safety's sake.
       for (std::int64_t k = 0; k < n.value_or(100); ++k) {
         const std::size_t more = passes::simplify(m.get());
         if (more == 0) break;
         changes += more;
       }
       return Count(changes);
     },
     true},
    {"fold-transposes", "Make dots of transposed arrays dots of the arrays",
     counted<passes::fold_transposes>},
    {"keep-last-dims", "Let transposes that dots read leave the last dim last",
     counted<passes::keep_last_dims>},
    {"swap-transposed-dots", "Swap the operands of dots that are only read transposed",
     counted<passes::swap_transposed_dots>},
    {"sink-transposes", "Transpose what dots read of elementwise ops, not what these read",
     counted<passes::sink_transposes>},
    {"cancel-transposes", "Compute transposed what is transposed back then",
     counted<passes::cancel_transposes>},
    {"unify-dim-orders", "Have what is between dots in one order of dims, if less is moved then",
     counted<passes::unify_dim_orders>},
    {"sink-divisions", "Divide what dots make of softmaxes instead of these",
     counted<passes::sink_divisions>},
    {"eliminate-common", "Compute equal things once", counted<passes::eliminate_common>},
    {"eliminate-dead", "Drop what nothing needs", counted<passes::eliminate_dead>},
    {"dedupe-collectives", "Make one collective of several with the same operands",
     counted<spmd::dedupe_collectives>},
    {"localize-loop-exits", "Let each device leave a loop when its own rows are done",
     [](ModulePtr& m, Argument) { return Count(spmd::localize_loop_exits(m.get())); }},
    {"reassociate-collectives", "Move collectives past sums and elementwise ops to need fewer",
     counted<spmd::reassociate_collectives>},
    {"create-reduce-scatters", "Make reduce-scatters of all-reduces of which a part is taken",
     counted<spmd::create_reduce_scatters>},
    {"move-collectives-out-of-loops",
     "Move collectives of loop invariants and of sums out of loops",
     counted<spmd::move_collectives_out_of_loops>},
    {"expand-collective-matmuls<N>", "Make loops of dots with gathered operands of N bytes or more",
     [](ModulePtr& m, Argument n) {
       return Count(spmd::expand_collective_matmuls(
           m.get(), n.value_or(spmd::CollectiveOptions().collective_matmul_from_bytes)));
     },
     true},
    {"combine-collectives<N>", "Combine collectives of one kind into one of at most N bytes",
     [](ModulePtr& m, Argument n) {
       spmd::CombineOptions options;
       if (n) options.max_bytes = options.max_copied_bytes = *n;
       return Count(spmd::combine_collectives(m.get(), options));
     },
     true},
    {"schedule-for-memory", "Order instructions so that less is held at a time",
     [](ModulePtr& m, Argument) { return Count(spmd::schedule_for_memory(m.get())); }},
    {"schedule-collectives-early", "Move each collective to where its operands are there",
     counted<spmd::schedule_collectives_early>},
    {"schedule-placements", "Let arrays leave for the host early, and come back late",
     counted<passes::schedule_placements>},
    {"optimize-collectives", "All passes on collectives, with memory as it is estimated",
     [](ModulePtr& m, Argument) {
       spmd::CollectiveOptions options;
       options.merge_equal = passes::eliminate_common;
       spmd::optimize_collectives(&m, options);
       passes::eliminate_dead(m.get());
       return Count();
     }},
    {"tile-stencil-loops", "Run several rounds of a stencil at once, on one device",
     [](ModulePtr& m, Argument) {
       return Count(m->num_partitions > 1 ? 0 : spmd::tile_stencil_loops(m.get()));
     }},
    {"unroll-reductions", "Combine a few arrays that were stacked to be reduced, one by one",
     counted<passes::unroll_reductions>},
    {"unroll-dots", "Write out products of a few elements as sums", counted<passes::unroll_dots>},
    {"flatten-gathers", "Gather single elements by one index each, of an array of one dim",
     counted<passes::flatten_gathers>},
    {"update-single-scatters", "Update slices where a scatter has one small window",
     counted<passes::update_single_scatters>},
    {"flatten-scatters", "Scatter elements and rows by one index each, along one dim",
     counted<passes::flatten_scatters>},
    {"split-reductions", "Reduce long stretches side by side, then their results",
     counted<passes::split_reductions>},
    {"fuse", "Make a fusion of what one loop computes, as the plan chooses",
     [](ModulePtr& m, Argument) {
       m = codegen::plan_program(*m).fused();
       return Count();
     }},
};

constexpr PassGroup kGroups[] = {
    {"cpu-simplify", "What makes a device's program smaller, with dots as CPUs want them",
     "eliminate-dead,sorts-as-top-k,windows-as-reductions,windows-as-copies,expand-selections,"
     "expand-rare-ops,"
     "widen-small-types,fold-pads,fold-filter-views,clip-windows,drop-unit-windows,channels-last,"
     "convolutions-as-dots,sink-broadcasts,sums-as-dots,share-factors,"
     "split-batches?(simplify<4>),"
     "reduce-broadcasts?(simplify<4>),expand-counted-indices,separate-gathers,strength-reduce-dots,"
     "strength-reduce-gathers,strength-reduce-powers,simplify<4>,"
     "reduce-broadcasts?(simplify<1>),cancel-transposes,sink-transposes,"
     "fold-transposes,keep-last-dims,batch-outer-dims?(simplify<1>),swap-transposed-dots,"
     "unify-dim-orders?(simplify<1>,fold-transposes),sink-divisions"},
    {"common", "Compute equal things once, and nothing that nobody needs",
     "eliminate-common,eliminate-dead"},
    {"cpu-stencils", "Stencils of one device in tiles", "tile-stencil-loops?(cpu-simplify,common)"},
    {"cpu-elementwise", "Make loops over elements of what else would be a kernel of its own",
     "(unroll-reductions,unroll-dots,update-single-scatters)?(cpu-simplify),flatten-gathers,"
     "flatten-scatters"},
};

/// Without the `<N>` that shows that a pass takes an argument.
std::string_view base_name(const Pass& pass) {
  const std::string_view name = pass.name;
  return name.substr(0, name.find('<'));
}

}  // namespace

std::span<const Pass> all_passes() { return kPasses; }
std::span<const PassGroup> all_groups() { return kGroups; }

const PassGroup* find_group(std::string_view name) {
  const auto found = std::find_if(std::begin(kGroups), std::end(kGroups),
                                  [&](const PassGroup& g) { return name == g.name; });
  return found == std::end(kGroups) ? nullptr : found;
}

PassCall parse_pass(std::string_view text) {
  const std::string_view name = text.substr(0, text.find('<'));
  const auto found = std::find_if(std::begin(kPasses), std::end(kPasses),
                                  [&](const Pass& p) { return base_name(p) == name; });
  if (found == std::end(kPasses)) {
    throw ValueError("there is no pass '" + std::string(name) + "'");
  }
  PassCall call{found, std::nullopt};
  if (name.size() == text.size()) return call;
  std::string_view number = text.substr(name.size() + 1);
  const bool closed = !number.empty() && number.back() == '>';
  if (closed) number.remove_suffix(1);
  std::int64_t value = 0;
  const char* const end = number.data() + number.size();
  const auto [stop, fault] = std::from_chars(number.data(), end, value);
  if (!found->takes_argument || !closed || fault != std::errc() || stop != end || value < 0) {
    throw ValueError("'" + std::string(text) + "' is no pass; " + found->name + " is" +
                     (found->takes_argument ? ", with an integer N of 0 or more" : ""));
  }
  call.argument = value;
  return call;
}

std::optional<std::size_t> run_pass(const PassCall& call, ModulePtr& module, bool verify) {
  const Count changes = call.pass->run(module, call.argument);
  if (verify) ir::verify(*module);
  return changes;
}

}  // namespace tessera::compiler
