// SPDX-License-Identifier: Apache-2.0
// Rewrites that make programs smaller and never change a result's bits.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::passes {

/// Puts the bodies of `call`, `fusion` and custom_partitioning calls in their callers' places, so
/// that the other passes see through them. Returns how many.
std::size_t inline_calls(ir::Module* module);
/// Puts the bodies of `call` and `fusion` in their callers' places, so that one call's shardings
/// don't bind another's: calls of one function would lie alike. Does nothing if that made more than
/// so many instructions. Calls stay that have shardings or arguments or results with some, that
/// wait for other instructions, or that the program marks with the attribute "inlineable". Returns
/// how many.
std::size_t separate_calls(ir::Module* module, std::size_t max_instructions);
/// Gives each loop and branch bodies that no other one runs, so that one's shardings don't bind
/// another's. Does nothing if that made more than so many instructions. Returns how many copies.
std::size_t separate_bodies(ir::Module* module, std::size_t max_instructions);
/// Start and done pairs become the plain collectives: exchanges are synchronous in one process.
std::size_t join_async(ir::Module* module);
/// Ops that do nothing, elements of tuples just made, reshapes of reshapes, ... Returns how many.
std::size_t simplify(ir::Module* module);
/// Outer products and products of two vectors become multiplications (and a sum), which are
/// fused with what is around them. Returns how many.
std::size_t strength_reduce_dots(ir::Module* module);
/// Gathers of each element from one of a few stacked arrays become selects. Returns how many.
std::size_t strength_reduce_gathers(ir::Module* module);
/// Scatters of one window, a large part of its array, to a place that is known become elementwise
/// ops with the padded window. Returns how many.
std::size_t expand_window_scatters(ir::Module* module);
/// Dots that are only sent or returned transposed become dots of their operands the other way
/// round, where that is the order of dims asked for. Returns how many.
std::size_t swap_transposed_dots(ir::Module* module);
/// Dots of transposed arrays become dots of the arrays, where no kernel would move them. Returns
/// how many operands.
std::size_t fold_transposes(ir::Module* module);
/// Instructions that compute the same from the same operands, with the same sharding if any, become
/// one. Returns how many arrays fewer are computed.
std::size_t eliminate_common(ir::Module* module);
/// Additions, maxima and the like that are written once for each op that reduces by them become one
/// computation each. Returns how many uses were redirected.
std::size_t share_reducers(ir::Module* module);
/// What loops carry twice, or carry for nobody: arrays that are alike before the loop and in each
/// trip become one (as of scans that save one value several times for their gradients), and those
/// go that only their own next value is computed from. Returns how many arrays fewer are carried.
std::size_t merge_loop_carries(ir::Module* module);
/// Instructions and computations that nothing needs. Returns how many instructions.
std::size_t eliminate_dead(ir::Module* module);

}  // namespace tessera::passes
