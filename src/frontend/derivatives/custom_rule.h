// SPDX-License-Identifier: Apache-2.0
// What functions with rules of their own share: staging the call, tracing the rule.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <tessera/function_body.h>

#include "src/frontend/trace/trace.h"
#include "src/frontend/trace/traced_function.h"

namespace tessera::frontend {

/// The axes that a caller may name.
struct NamedAxes {
  std::optional<ManualScope> manual;
  std::vector<ir::BatchAxis> batches;

  static NamedAxes of_caller();
};

/// A rule's computation under construction: a root trace into the op's module. A rule may use
/// arrays from outside as constants only, and name the axes that the caller may.
struct RuleTrace {
  Trace trace;
  std::vector<Array> parameters;

  RuleTrace(const std::string& name, ir::Module* module, const std::vector<AbstractValue>& values,
            const NamedAxes& axes);
};

std::vector<AbstractValue> values_of(const std::vector<ir::Instruction*>& operands);
/// TypeError if they differ; `what` names the value.
void check_type(const std::string& what, const Shape& have, const Shape& want, Location location);
/// TypeError if a rule gives another number of arrays.
void check_count(const std::string& what, std::size_t have, std::size_t want, Location location);

using MakeAttributes = std::function<ir::Attributes(const TracedFunction&, std::size_t captures)>;
/// Stages an op that calls a function. `attrs` of the traced function.
std::vector<Array> stage_call(const internal::CallInfo& info, internal::Prototype* prototype,
                              const std::string& name, ir::Opcode opcode, bool captures_first,
                              const MakeAttributes& attrs, Location location);

}  // namespace tessera::frontend
