// SPDX-License-Identifier: Apache-2.0
// Parameters of a program whose shardings the compiler chooses.
#pragma once

#include "src/ir/module.h"

namespace tessera::ir {

/// A frontend attribute, so that HLO text says it: `tessera.auto_sharding="true"`.
inline constexpr const char* kAutoShardingAttribute = "tessera.auto_sharding";

inline bool has_auto_sharding(const Instruction& parameter) {
  return parameter.frontend_attributes->count(kAutoShardingAttribute) > 0;
}
inline void set_auto_sharding(Instruction* parameter) {
  parameter->frontend_attributes.edit()[kAutoShardingAttribute] = "true";
}

}  // namespace tessera::ir
