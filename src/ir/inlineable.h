// SPDX-License-Identifier: Apache-2.0
// Calls that a program wants to stay calls.
#pragma once

#include "src/ir/module.h"

namespace tessera::ir {

/// Marked by XLA's attribute inlineable="false": what is called is compiled by itself.
inline bool is_not_inlineable(const Instruction& i) {
  if (!i.is(Opcode::call)) return false;
  const auto found = i.frontend_attributes->find("inlineable");
  return found != i.frontend_attributes->end() && found->second == "false";
}

}  // namespace tessera::ir
