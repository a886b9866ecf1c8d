// SPDX-License-Identifier: Apache-2.0
// What is kept of sdy's operations and attributes until all shardings are known.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/ir/module.h"

namespace tessera::text {

struct SdyRecords {
  /// An operation that moves parts of an array; checked once the shardings of both sides are known.
  struct Collective {
    ir::Instruction *operand, *result;
    std::string_view name;
    std::string axes;
    const char* at;
    /// Shardings of what a region is given aren't written at its arguments.
    bool of_argument;
    Reduction reduction = Reduction::sum;  ///< of an all-reduce or reduce-scatter
  };
  /// A constraint, reshard or edge. Along axes that are unreduced before and after it, how the
  /// parts are joined must stay.
  struct Resharded {
    ir::Instruction *operand, *result;
    std::string_view name;
    const char* at;
  };
  /// What an attribute says of an operation's values, one of which must have a sharding.
  struct PropagationEdges {
    std::vector<ir::Instruction*> values;
    std::vector<std::string> axes;
    const char* at;
  };
  struct GroupMember {
    ir::Instruction* value;
    int group;
    const char* at;
    int scope;  ///< the manual computation around it
  };

  std::vector<Collective> collectives;
  std::vector<Resharded> resharded;
  std::vector<PropagationEdges> propagation_edges;
  std::vector<GroupMember> groups;

  /// Values that have become others since they were kept.
  void replace(const std::unordered_map<const ir::Instruction*, ir::Instruction*>& by);
  /// Groups that have a value in common are one.
  void join_groups();
};

}  // namespace tessera::text
