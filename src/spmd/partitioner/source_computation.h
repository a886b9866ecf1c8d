// SPDX-License-Identifier: Apache-2.0
// What a computation of the propagated module says: who uses what, and how it is sharded.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "src/ir/module.h"
#include "src/spmd/partitioner/module_partitioner.h"

namespace tessera::spmd {

class SourceComputation {
 public:
  SourceComputation(const ModulePartitioner& module, const ir::Computation& source);

  const ir::Computation& computation() const { return source_; }
  bool has(const ir::Instruction& instruction) const { return instruction.parent == &source_; }
  /// Users of an instruction, each once.
  std::span<ir::Instruction* const> users(const ir::Instruction& instruction) const {
    return users_[std::size_t(instruction.index)];
  }
  /// The same, being the root counted.
  std::size_t user_count(const ir::Instruction& instruction) const;

  /// Shardings of the leaves as propagation chose them; replicated if it didn't. What only a
  /// constraint uses, or what is only returned, is sharded as the constraint or the result is.
  /// In a program with explicit reshards: as each op has it.
  const std::vector<TensorSharding>& shardings(const ir::Instruction& instruction) const;
  const TensorSharding& sharding(const ir::Instruction& array) const {
    return shardings(array).front();
  }
  /// The same, but for leaves that nobody uses: those may be sharded as another leaf is.
  std::vector<TensorSharding> requested_shardings(const ir::Instruction& instruction) const;
  const MeshRef& mesh() const { return module_.mesh(); }
  /// Axes along which the computation is written per device.
  const IndexList& manual_axes() const { return module_.manual_axes(source_); }
  /// Each device has all of the array, but for what is per device anyhow.
  TensorSharding replicated(std::int64_t rank) const;
  /// Whether an op can only be computed from all of the array, among several that use it: it will
  /// be gathered, and any other layout of it is then for nothing (needed_whole.cc).
  bool requires_replication(const ir::Instruction& array) const;

 private:
  /// Whether an op needs it so, or what shows it through so many views.
  bool requires_replication(const ir::Instruction& array, int views) const;

  const ModulePartitioner& module_;
  const ir::Computation& source_;
  // By index in the computation, which doesn't change.
  std::vector<ir::UserList> users_;
  mutable std::vector<const std::vector<TensorSharding>*> shardings_;
  mutable std::deque<std::vector<TensorSharding>> result_shardings_;
  std::unordered_map<const ir::Instruction*, const ir::Instruction*> constraint_of_;
  /// What is only returned: which leaf of the root it is.
  std::unordered_map<const ir::Instruction*, std::size_t> result_of_;
  mutable std::unordered_map<const ir::Instruction*, bool> requires_replication_;  ///< by array
};

/// Whether what the op computes takes all of its k-th operand: a matrix that is decomposed.
bool requires_replicated_operand(const ir::Instruction& op, std::size_t k);

}  // namespace tessera::spmd
