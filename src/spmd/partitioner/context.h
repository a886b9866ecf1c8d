// SPDX-License-Identifier: Apache-2.0
// What the handlers of op families work with (families.h).
#pragma once

#include "src/spmd/partitioner/emit/communication_log.h"
#include "src/spmd/partitioner/emit/reshard_emitter.h"
#include "src/spmd/partitioner/emit/row_exchange_emitter.h"
#include "src/spmd/partitioner/emit/shard_builder.h"
#include "src/spmd/partitioner/layout_chooser.h"
#include "src/spmd/partitioner/module_partitioner.h"
#include "src/spmd/partitioner/source_computation.h"
#include "src/spmd/partitioner/values.h"
#include "src/spmd/sharding_queries.h"

namespace tessera::spmd {

/// The parts of the partitioner of one computation.
struct PartitionContext {
  ModulePartitioner& module;
  const SourceComputation& source;  ///< what the propagated module says
  LayoutChooser& layouts;           ///< how an op is best computed
  Values& values;                   ///< arrays, and their reshards
  ShardBuilder& emit;               ///< instructions of what is made
  RowExchangeEmitter& rows;         ///< collectives that move rows along a dim
  ReshardEmitter& reshards;         ///< collectives between layouts
  CommunicationReporter& report;    ///< of collectives that a handler emits itself

  ir::Builder& b() const { return emit.b(); }
};

}  // namespace tessera::spmd
