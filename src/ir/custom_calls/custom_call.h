// SPDX-License-Identifier: Apache-2.0
// What custom calls mean: targets by name, each with a sharding rule, an equivalent program, or
// both. Layers above register theirs; the evaluator, the partitioner and codegen ask.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tessera/custom/call_attributes.h>

#include "src/ir/hooks.h"

namespace tessera::ir {

/// What passes ask of a target. How it is computed on buffers, codegen knows.
class CustomCallTarget {
 public:
  virtual ~CustomCallTarget() = default;

  /// The program that it stands for: a computation of the call's operands in `module`, its root of
  /// the call's shape. Null: a kernel computes it.
  virtual Computation* body(Module* module, const Instruction& call) const;
  /// The partitioner and propagation know the target by name: its body is put in place after them.
  virtual bool is_marker() const { return false; }

  /// How dims of operands and results hang together; empty: nothing is known, all is gathered.
  virtual std::optional<FactorRuleSpec> rule(const Instruction& call) const;
  /// Any number of leading dims of all operands and results are a batch, of which the call does
  /// each entry by itself.
  virtual bool has_leading_batch_dims() const { return false; }
  /// It looks at what each device has of its operands, however they are split, and gives nothing.
  virtual bool takes_parts() const { return false; }
  /// Equal operands give equal results, and nothing else happens: devices share the work.
  virtual bool is_pure() const { return true; }
};

/// ValueError if the name is taken.
void register_custom_call(const std::string& name, std::shared_ptr<const CustomCallTarget> target,
                          Location location = {});
/// Null if nobody registered that name. Targets stay for the life of the process.
const CustomCallTarget* find_custom_call(const std::string& name);
/// NotImplementedError that names the target, the user's line and how to register one. Callbacks
/// into Python within a branch or loop pass, as targets about which nothing is known.
const CustomCallTarget& need_custom_call(const Instruction& call);
/// NotImplementedError: a callback into Python can't run.
[[noreturn]] void refuse_python(const Instruction& call);
/// All names, sorted.
std::vector<std::string> custom_call_names();

/// The rule of a call: the target's own, else that of the text (xla.sdy.sharding_rule), where
/// factors that one tensor has alone must be whole.
std::optional<FactorRuleSpec> custom_call_rule(const Instruction& call);
/// Reads `#sdy.op_sharding_rule<([i, j])->([i, k]) {i=8, j=4, k=4} reduction={j}, custom>`.
/// ParseError.
FactorRuleSpec parse_sharding_rule(std::string_view text, Location location = {});

/// Minor-to-major orders that `operand_layout_constraints` gives, one per operand; empty without.
std::vector<Dims> operand_layouts(const Instruction& call);
/// Gives a copy of a call on other shapes (of one device's parts) the layouts that `source` asks
/// for, in its operand_layout_constraints and in its results.
void keep_call_layouts(const Instruction& source, Instruction* copy);

/// The call's operands and results for messages: `f32[4,4], s32[] -> f32[4]`.
std::string call_signature(const Instruction& call);

/// Replaces calls of targets that stand for a program: markers only if `markers`. Ops that give
/// their operand go with them: pvary at once, constraints and barriers with markers. Returns how
/// many.
std::size_t expand_custom_calls(Module* module, bool markers);

/// Targets that need nothing but the IR: markers of shardings and places, ops of other dialects
/// that HLO has. The registry holds them from the start.
std::vector<std::pair<std::string, std::shared_ptr<const CustomCallTarget>>> plain_custom_calls();

}  // namespace tessera::ir
