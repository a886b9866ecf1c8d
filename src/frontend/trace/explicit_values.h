// SPDX-License-Identifier: Apache-2.0
// Explicit mode: the shardings in the types of traced values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/frontend/trace/trace.h"

namespace tessera::frontend {

/// The sharding in the type of an array: of a traced one as its trace says, of others that of their
/// placement. Empty where types have none (AutoAxes), and without those axes that are manual.
ShardingType sharding_type_of(const Array& array);
/// The mesh of an array whose type has no sharding, as that mesh has no Explicit axes; empty if the
/// array is on none.
Mesh untyped_mesh_of(const Array& array);
/// The sharding that a type states; empty if Auto axes may split the value, too.
std::optional<Sharding> stated_sharding(const ShardingType& type);
/// That of an array's type, in the memory that the array is in.
std::optional<Sharding> stated_sharding(const Array& array);
/// A new value of the current trace under a constraint to this type; itself if that is empty.
Array with_sharding_type(const Array& array, const ShardingType& type, Location location);

/// That of an elementwise function of arrays of one shape. ShardingTypeError if they are split
/// differently.
ShardingType joined_sharding_type(const std::string& name, const std::vector<Array>& operands,
                                  Location location);

/// The arrays of an op's result, typed by the rules if an operand has a sharding in its type. Ops
/// that run programs get their types from whoever stages them. ShardingTypeError as the rules say.
std::vector<Array> typed_results(Trace& trace, ir::Instruction* result, bool weak,
                                 const std::string& op_name, Location location);

/// While in scope on this thread, these axes are treated as Auto, or all if there are none: types
/// have no shardings over them.
class AutoAxes {
 public:
  explicit AutoAxes(const std::vector<std::string>& axes = {});
  ~AutoAxes();
  AutoAxes(const AutoAxes&) = delete;
  AutoAxes& operator=(const AutoAxes&) = delete;

  /// Whether all axes are.
  static bool active();
  /// Part of the keys of traced functions.
  static std::string key();

 private:
  std::size_t before_;
  bool all_;
};

/// While in scope on this thread, somebody says how the last result is to be sharded. Ops on the
/// way to it are typed where the rules can tell, and constrained to nothing.
class OutShardingRequest {
 public:
  OutShardingRequest();
  ~OutShardingRequest();
  OutShardingRequest(const OutShardingRequest&) = delete;
  OutShardingRequest& operator=(const OutShardingRequest&) = delete;

  /// The innermost; null: none.
  static OutShardingRequest* active();
  /// Told of each op with typed operands.
  void note(const ir::Instruction& op, const std::vector<ShardingType>& operands);

  /// Of typed operands; empty if there were none.
  const Mesh& mesh() const { return mesh_; }
  /// The axes over which the last dot, sum, maximum or minimum has partial results, as its operands
  /// are sharded; empty if there was none.
  const std::optional<std::vector<std::string>>& summed() const { return summed_; }
  bool summed_by_dot() const { return summed_by_dot_; }
  /// What joins those.
  UnreducedKind summed_kind() const { return summed_kind_; }
  /// The unreduced axes of what was reshaped last, if that was the last op.
  const std::optional<std::vector<std::string>>& kept() const { return kept_; }
  UnreducedKind kept_kind() const { return kept_kind_; }

 private:
  OutShardingRequest* outer_;
  bool summed_by_dot_ = false;
  UnreducedKind summed_kind_ = UnreducedKind::sum, kept_kind_ = UnreducedKind::sum;
  Mesh mesh_;
  std::optional<std::vector<std::string>> summed_, kept_;
};

}  // namespace tessera::frontend
