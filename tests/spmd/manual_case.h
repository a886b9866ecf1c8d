// SPDX-License-Identifier: Apache-2.0
// A plain execution of programs with manual computations: every device has all global arrays and
// takes its shard where a manual computation begins.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/base/arrays/literal.h"
#include "src/ir/module.h"
#include "tests/spmd/partitioner/partition_case.h"

namespace tessera::testing {

/// What the program computes. The devices' copies are expected to be equal.
Literal evaluate_manual(const ir::Module& module, const std::vector<Literal>& arguments);

/// Propagates, partitions and runs; expects what evaluate_manual gives.
PartitionCase check_manual(std::unique_ptr<ir::Module> module, double tolerance = 0,
                           std::vector<Literal> arguments = {},
                           const spmd::PartitionOptions& options = {});

}  // namespace tessera::testing
