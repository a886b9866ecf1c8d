// SPDX-License-Identifier: Apache-2.0
// From the planner's steps to collectives and slices.
#pragma once

#include <cstdint>
#include <deque>
#include <tuple>
#include <utility>
#include <vector>

#include "src/spmd/partitioner/emit/communication_log.h"
#include "src/spmd/partitioner/emit/reshard_reason.h"
#include "src/spmd/partitioner/emit/row_exchange_emitter.h"
#include "src/spmd/partitioner/emit/shard_builder.h"
#include "src/spmd/reshard/planner.h"

namespace tessera::spmd {

class ReshardEmitter {
 public:
  ReshardEmitter(ShardBuilder& emit, CommunicationReporter& report, RowExchangeEmitter& rows)
      : emit_(emit), report_(report), rows_(rows) {}

  /// All steps of a plan for a shard of an array of `global` shape that is laid out by `from`.
  /// `partial_op`: joins the partial values of unreduced axes.
  ir::Instruction* emit(const ReshardPlan& plan, ir::Instruction* shard, const TensorSharding& from,
                        const TensorSharding& to, const Shape& global, ir::Opcode partial_op,
                        const ReshardReason& reason);
  /// A shard by `from` as the shard by `to`, where one of both is on another order of the devices
  /// and the other is equivalent to it on the module's mesh (reshard/device_orders.h).
  ir::Instruction* reordered(ir::Instruction* local, const TensorSharding& from,
                             const TensorSharding& to, const std::string& reason);

 private:
  /// What is moved, and why.
  struct Moved {
    const Shape& global;
    ir::Opcode partial_op;
    const ReshardReason& reason;
  };
  /// A collective-permute (source, target), joined with the one that made `x`, if one did.
  ir::Instruction* permuted(ir::Instruction* x, DevicePairs pairs, const ReshardReason& reason);
  ir::Instruction* step(const ReshardStep& step, ir::Instruction* x, const TensorSharding& before,
                        const Dims& padded, const Moved& moved);
  /// A step after which one dim has another number of blocks.
  ir::Instruction* change_blocks(const ReshardStep& step, ir::Instruction* x,
                                 const TensorSharding& before, const Dims& padded,
                                 const Moved& moved);
  /// Completes partial values on all devices along the axes.
  ir::Instruction* all_reduce(const ReshardStep& step, ir::Instruction* x, const Moved& moved);
  /// Shards become parts of a sum, or of whatever joins them.
  ir::Instruction* unshard(const ReshardStep& step, ir::Instruction* x,
                           const TensorSharding& before, const Dims& padded, const Moved& moved);
  ir::Instruction* all_to_all(const ReshardStep& step, ir::Instruction* x,
                              const TensorSharding& before, const Dims& padded, const Moved& moved);
  /// All-to-alls in a row that don't touch each other's dims, as one. Returns how many; none if
  /// there is but one.
  std::size_t emit_exchanges(const ReshardPlan& plan, std::size_t first, ir::Instruction** x,
                             const TensorSharding& before, const Moved& moved);
  ir::Instruction* reblock(ir::Instruction* x, std::int64_t dim, const IndexList& axes,
                           std::int64_t from_block, std::int64_t to_block, const Moved& moved);
  ir::Instruction* noted(ir::Instruction* collective, const Moved& moved) {
    report_.note(collective, moved.reason);
    return collective;
  }

  ShardBuilder& emit_;
  CommunicationReporter& report_;
  RowExchangeEmitter& rows_;
  /// Of shardings before and after. Few: looked through in order.
  using KnownPairs = std::deque<std::tuple<TensorSharding, TensorSharding, DevicePairs>>;
  KnownPairs reordered_, permuted_;
};

}  // namespace tessera::spmd
