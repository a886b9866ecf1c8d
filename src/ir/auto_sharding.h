// SPDX-License-Identifier: Apache-2.0
// Parameters and results of a program whose shardings the compiler chooses.
#pragma once

#include <cstddef>
#include <string>

#include "src/ir/module.h"

namespace tessera::ir {

/// A frontend attribute, so that HLO text says it: `tessera.auto_sharding="true"` of a parameter;
/// of the root the numbers of the results, as in `tessera.auto_sharding="0,2,"`.
inline constexpr const char* kAutoShardingAttribute = "tessera.auto_sharding";

inline bool has_auto_sharding(const Instruction& parameter) {
  return parameter.frontend_attributes->count(kAutoShardingAttribute) > 0;
}
inline void set_auto_sharding(Instruction* parameter) {
  parameter->frontend_attributes.edit()[kAutoShardingAttribute] = "true";
}

inline bool has_auto_result(const Instruction& root, std::size_t leaf) {
  const auto found = root.frontend_attributes->find(kAutoShardingAttribute);
  if (found == root.frontend_attributes->end()) return false;
  return ("," + found->second).find("," + std::to_string(leaf) + ",") != std::string::npos;
}
inline void add_auto_result(Instruction* root, std::size_t leaf) {
  root->frontend_attributes.edit()[kAutoShardingAttribute] += std::to_string(leaf) + ",";
}

}  // namespace tessera::ir
