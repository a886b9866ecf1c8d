// SPDX-License-Identifier: Apache-2.0
// What functions with rules of their own share: staging the call, tracing the rule.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <tessera/detail/function_body.h>

#include "src/frontend/trace/trace.h"
#include "src/frontend/trace/traced_function.h"

namespace tessera::frontend {

/// The axes that a caller may name.
struct NamedAxes {
  std::optional<ManualScope> manual;
  std::vector<ir::BatchAxis> batches;

  static NamedAxes of_caller();
};

/// Arrays from outside that a call takes as its first operands: those that its function uses, and
/// those of its rule that are known.
using Captures = std::vector<Array>;

/// A rule's computation under construction: a root trace into the op's module. Of arrays from
/// outside a rule may use constants and captures, which are the first parameters. It may name the
/// axes that the caller may.
struct RuleTrace {
  Trace trace;
  std::vector<Array> parameters;

  RuleTrace(const std::string& name, ir::Module* module, const std::vector<AbstractValue>& values,
            const NamedAxes& axes, const Captures& captures = {});
};

/// The shardings in the types of a call's operands and results, in explicit mode, and in which
/// memories they are; rules see both.
struct CallTypes {
  std::vector<ShardingType> operands;  ///< captures first
  std::vector<ShardingType> results;
  std::vector<MemoryKind> operand_memories, result_memories;

  static CallTypes of(const Captures& captures, const std::vector<Array>& leaves,
                      const TracedFunction& f);
};
/// A value of that type; without it where it is of another rank.
AbstractValue typed_value(const Shape& shape, const ShardingType& type, MemoryKind memory);
std::vector<AbstractValue> values_of(const std::vector<ir::Instruction*>& operands);
std::vector<AbstractValue> values_of(const std::vector<ir::Instruction*>& operands,
                                     const CallTypes& types);
/// ShardingTypeError if an array that a rule gives has another sharding in its type than it must
/// have; arrays and types without one are left alone.
void check_sharding(const std::string& what, const Array& given, const ShardingType& want,
                    Location location);
/// TypeError if they differ; `what` names the value.
void check_type(const std::string& what, const Shape& have, const Shape& want, Location location);
/// TypeError if a rule gives another number of arrays.
void check_count(const std::string& what, std::size_t have, std::size_t want, Location location);

using MakeAttributes = std::function<ir::Attributes(const TracedFunction&, const Captures&)>;
/// Runs a rule on stand-ins for a call's arguments, in the current trace.
using TryRule = std::function<void(Trace& trace, const TracedFunction&)>;

/// How a function is called that has a rule of its own.
struct CallKind {
  ir::Opcode opcode = ir::Opcode::custom_derivative;
  bool captures_first = true;
  MakeAttributes attributes;
  TryRule try_rule = nullptr;  ///< without one the rule uses nothing from outside
};
/// Stages an op that calls a function.
std::vector<Array> stage_call(const internal::CallInfo& info, internal::Prototype* prototype,
                              const std::string& name, const CallKind& kind, Location location);

}  // namespace tessera::frontend
