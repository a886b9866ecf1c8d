// SPDX-License-Identifier: Apache-2.0
// Propagates and partitions a program, and checks its device program against the original.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/base/arrays/literal.h"
#include "src/ir/module.h"
#include "src/spmd/auto_sharding/auto_sharding.h"
#include "src/spmd/partitioner/partition.h"

namespace tessera::testing {

struct PartitionCase {
  std::unique_ptr<ir::Module> device;
  spmd::PartitionReport report;
  std::string text;  ///< of the device program

  /// How many instructions of that opcode the device program has.
  int count(ir::Opcode op) const;
  int collectives() const;
  double bytes() const;
  bool full_gather() const;
};

/// Expects that the device program computes the same. Arguments are small random integers, or
/// `arguments`. `tolerance` 0 compares bits.
PartitionCase check_partition(std::unique_ptr<ir::Module> module, double tolerance = 0,
                              std::vector<Literal> arguments = {},
                              const spmd::PartitionOptions& options = {});
/// The same with the search for better intermediate shardings.
PartitionCase check_solved(std::unique_ptr<ir::Module> module, double tolerance = 0,
                           const spmd::AutoShardingOptions& options = {});
/// Expects that the device program computes `whole`.
PartitionCase check_against(std::unique_ptr<ir::Module> module, const Literal& whole,
                            double tolerance, std::vector<Literal> arguments,
                            const spmd::PartitionOptions& options = {});
/// A module with an entry of these lines; 8 devices. See wrap_entry for what is put around them.
PartitionCase check_partition(const std::string& entry_lines, double tolerance = 0,
                              std::vector<Literal> arguments = {},
                              const spmd::PartitionOptions& options = {});
std::unique_ptr<ir::Module> parse_entry(const std::string& entry_lines,
                                        const std::string& computations = "");

}  // namespace tessera::testing
