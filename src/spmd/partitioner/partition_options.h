// SPDX-License-Identifier: Apache-2.0
// What a partitioning may be told.
#pragma once

#include <cstdint>

#include "src/cost/machine.h"

namespace tessera::spmd {

struct CompileContext;

struct PartitionOptions {
  cost::Machine machine;
  /// What is worked out once for several partitionings (compile_context.h). Null: each has its own.
  CompileContext* context = nullptr;
  /// The report has all records, also of collectives that the partitioner drops again, and each
  /// says which op and which array of the source module it is about.
  bool all_records = false;
  /// Loops of stencils do several steps at once where more bytes change in each.
  std::int64_t least_looped_bytes = std::int64_t(4) << 20;
};

}  // namespace tessera::spmd
