// SPDX-License-Identifier: Apache-2.0
// Emits row exchanges (reshard/row_exchange.h).
#pragma once

#include <cstdint>
#include <vector>

#include "src/spmd/partitioner/emit/communication_log.h"
#include "src/spmd/partitioner/emit/reshard_reason.h"
#include "src/spmd/partitioner/emit/shard_builder.h"
#include "src/spmd/reshard/row_exchange.h"

namespace tessera::spmd {

class RowExchangeEmitter {
 public:
  RowExchangeEmitter(ShardBuilder& emit, CommunicationReporter& report)
      : emit_(emit), report_(report) {}

  /// Moves rows along `dim` among the devices of `axes`. `fill`: a scalar for rows that no part
  /// covers, null where those don't matter.
  ir::Instruction* exchange(const RowExchangePlan& plan,
                            const std::vector<ir::Instruction*>& arrays, std::int64_t dim,
                            const IndexList& axes, ir::Instruction* fill,
                            const ReshardReason& reason);
  /// The same where the destination is several arrays, so many rows of each in a device's block.
  std::vector<ir::Instruction*> exchange_blocks(const RowExchangePlan& plan,
                                                const std::vector<ir::Instruction*>& arrays,
                                                std::int64_t dim, const IndexList& axes,
                                                ir::Instruction* fill, const Dims& blocks,
                                                const ReshardReason& reason);

 private:
  /// What the rows of all moves are put into: a shard of this shape.
  struct Destination {
    std::int64_t dim = 0;
    const IndexList& axes;
    ir::Instruction* fill = nullptr;   ///< null: what no move covers doesn't matter
    ir::Instruction* other = nullptr;  ///< what stands there then: `fill`, or zero
    Dims dims;
  };

  /// The rows of one move where they arrive. `share`: of their bytes, for the report.
  ir::Instruction* moved_rows(const RowPermute& move, const std::vector<ir::Instruction*>& arrays,
                              std::int64_t dim, const IndexList& axes, double share,
                              const ReshardReason& reason);
  /// Puts the rows of all moves in their places, in whichever way fits:
  ir::Instruction* placed_rows(const RowExchangePlan& plan,
                               const std::vector<ir::Instruction*>& moved, const Destination& to);
  /// - side by side, where all devices have them in the same places;
  ir::Instruction* concatenated_rows(const RowExchangePlan& plan,
                                     const std::vector<ir::Instruction*>& moved,
                                     const Destination& to);
  /// - picked by a table, where that is small;
  ir::Instruction* gathered_rows(const RowExchangePlan& plan, std::vector<ir::Instruction*> moved,
                                 const Destination& to);
  /// - by shifting each move's rows and masking.
  ir::Instruction* shifted_rows(const RowExchangePlan& plan,
                                const std::vector<ir::Instruction*>& moved, const Destination& to);
  ir::Instruction* joined(const std::vector<ir::Instruction*>& parts, std::int64_t dim);

  ShardBuilder& emit_;
  CommunicationReporter& report_;
};

}  // namespace tessera::spmd
