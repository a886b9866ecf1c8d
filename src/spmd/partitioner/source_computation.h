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

  /// Shardings of the leaves as propagation chose them; replicated if it didn't. What is only
  /// returned is sharded as the result is.
  /// In a program with explicit reshards: as each op has it.
  const std::vector<TensorSharding>& shardings(const ir::Instruction& instruction) const;
  const TensorSharding& sharding(const ir::Instruction& array) const {
    return shardings(array).front();
  }
  const MeshRef& mesh() const { return module_.mesh(); }
  /// Axes along which the computation is written per device.
  const IndexList& manual_axes() const { return module_.manual_axes(source_); }
  /// Each device has all of the array, but for what is per device anyhow.
  TensorSharding replicated(std::int64_t rank) const;

 private:
  const ModulePartitioner& module_;
  const ir::Computation& source_;
  // By index in the computation, which doesn't change.
  std::vector<ir::UserList> users_;
  mutable std::vector<const std::vector<TensorSharding>*> shardings_;
  mutable std::deque<std::vector<TensorSharding>> result_shardings_;
  /// What is only returned: which leaf of the root it is.
  std::unordered_map<const ir::Instruction*, std::size_t> result_of_;
};

}  // namespace tessera::spmd
