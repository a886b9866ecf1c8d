// SPDX-License-Identifier: Apache-2.0
// What functions with rules of their own share: staging the call, tracing the rule.
#include "src/frontend/derivatives/custom_rule.h"

#include <algorithm>

#include "src/frontend/trace/explicit_values.h"
#include "src/frontend/trace/rule_captures.h"
#include "src/transforms/utils/tangent.h"

namespace tessera::frontend {

using internal::CallInfo;
using internal::Prototype;
using ir::Instruction;

NamedAxes NamedAxes::of_caller() {
  NamedAxes out;
  const Trace* trace = Trace::current();
  if (trace == nullptr) return out;
  if (const ManualScope* scope = trace->manual_scope()) out.manual = *scope;
  out.batches = trace->batch_axes();
  return out;
}

namespace {

/// Rules that are tried, one within the other. A rule may call its own function, so that there is
/// always one more.
thread_local int tried = 0;
constexpr int kMaxTried = 3;

class Tried {
 public:
  Tried() { ++tried; }
  ~Tried() { --tried; }
  Tried(const Tried&) = delete;
  Tried& operator=(const Tried&) = delete;
};

/// What a rule uses from outside. A rule may refuse the stand-ins: then what it used until then.
Captures captures_of_rule(Trace& outer, const std::string& name, const TryRule& try_rule,
                          const TracedFunction& f, Location location) {
  if (tried == kMaxTried) return {};
  const Tried scope;
  Trace rule(name, &outer);
  {
    const ActiveTrace active(&rule);
    try {
      try_rule(rule, f);
    } catch (const InternalError&) {
      throw;
    } catch (const Error&) {
      // When it is needed it is run on its arguments, and says what is wrong.
    }
  }
  rule.finish({}, location);
  return rule.captures();
}

}  // namespace

RuleTrace::RuleTrace(const std::string& name, ir::Module* module,
                     const std::vector<AbstractValue>& values, const NamedAxes& axes,
                     const Captures& captures)
    : trace(name, module) {
  if (axes.manual) trace.bind_manual(*axes.manual);
  for (const ir::BatchAxis& axis : axes.batches) trace.bind_batch_axis(axis);
  trace.forbid_captures("the rule of " + name + "; pass it as an argument of " + name,
                        !SeekCaptures::active());
  for (const AbstractValue& v : values) parameters.push_back(trace.add_parameter(v));
  for (std::size_t k = 0; k < captures.size(); ++k) {
    trace.bind_capture(captures[k], trace.own(parameters[k]));
  }
}

std::vector<AbstractValue> values_of(const std::vector<Instruction*>& operands) {
  std::vector<AbstractValue> out;
  for (const Instruction* i : operands) out.push_back({i->shape, false, {}});
  return out;
}

CallTypes CallTypes::of(const Captures& captures, const std::vector<Array>& leaves,
                        const TracedFunction& f) {
  CallTypes out;
  for (const std::vector<Array>* part : {&captures, &leaves}) {
    for (const Array& a : *part) {
      out.operands.push_back(sharding_type_of(a));
      out.operand_memories.push_back(memory_of(a));
    }
  }
  for (const AbstractValue& r : f.results) {
    out.results.push_back(r.sharding);
    out.result_memories.push_back(r.memory);
  }
  return out;
}

AbstractValue typed_value(const Shape& shape, const ShardingType& type, MemoryKind memory) {
  AbstractValue out{shape, false, {}, {}, memory};
  if (type && type.dims.size() == shape.dims.size()) out.sharding = type;
  return out;
}

std::vector<AbstractValue> values_of(const std::vector<Instruction*>& operands,
                                     const CallTypes& types) {
  std::vector<AbstractValue> out;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    out.push_back(typed_value(operands[k]->shape, types.operands[k], types.operand_memories[k]));
  }
  return out;
}

void check_sharding(const std::string& what, const Array& given, const ShardingType& want,
                    Location location) {
  const ShardingType have = sharding_type_of(given);
  if (!have || !want || have.spec() == want.spec()) return;
  const Shape& shape = internal::impl_of(given).shape;
  throw ShardingTypeError(what + " is " + type_text(shape, have) + " and must be " +
                              type_text(shape, want) + "; valid: reshard() of it",
                          location);
}

void check_type(const std::string& what, const Shape& have, const Shape& want, Location location) {
  if (have == want) return;
  throw TypeError(what + " is " + have.to_string() + " and must be " + want.to_string(), location);
}

void check_count(const std::string& what, std::size_t have, std::size_t want, Location location) {
  if (have == want) return;
  throw TypeError(what + ": the rule gives " + std::to_string(have) + " arrays and must give " +
                      std::to_string(want),
                  location);
}

std::vector<Array> stage_call(const CallInfo& info, Prototype* prototype, const std::string& name,
                              const CallKind& kind, Location location) {
  return as_one_program(name, location, [&] {
    Trace& outer = *Trace::current();
    const TracedFunction f = trace_function(
        outer, name, abstract_values(info.leaves),
        [&](const std::vector<Array>& leaves) { return info.trace(leaves, prototype); }, location);
    Captures captures = f.captures;
    if (SeekCaptures::active() && kind.try_rule) {
      for (const Array& a : captures_of_rule(outer, name, kind.try_rule, f, location)) {
        const auto same = [&](const Array& b) { return same_value(a, b); };
        if (std::none_of(captures.begin(), captures.end(), same)) captures.push_back(a);
      }
    }
    const std::vector<Instruction*> arguments = lift_all(outer, info.leaves, location);
    const std::vector<Instruction*> captured = lift_all(outer, captures, location);
    const MetadataScope metadata(outer, location, name);
    ir::Computation* callee = f.computation;
    std::vector<Instruction*> operands = arguments;
    operands.insert(operands.end(), captured.begin(), captured.end());
    if (kind.captures_first && !captured.empty()) {
      ir::Builder b(outer.module()->add_computation(name));
      std::vector<Instruction*> given, in_order;
      operands = captured;
      operands.insert(operands.end(), arguments.begin(), arguments.end());
      for (const Instruction* o : operands) {
        given.push_back(b.parameter(std::int64_t(given.size()), o->shape));
      }
      in_order.assign(given.begin() + std::ptrdiff_t(captured.size()), given.end());
      in_order.insert(in_order.end(), given.begin(),
                      given.begin() + std::ptrdiff_t(f.captures.size()));
      b.computation()->set_root(b.call(callee, in_order));
      callee = b.computation();
    }
    ir::Builder& b = outer.builder();
    Instruction* call = b.emit(kind.opcode, operands, kind.attributes(f, captures), {callee});
    std::vector<Array> out;
    const std::vector<Instruction*> results = transforms::elements_of(b, call);
    for (std::size_t k = 0; k < results.size(); ++k) {
      out.push_back(outer.wrap(results[k], f.results[k].weak));
      set_varying(out.back(), f.results[k].varying);
      out.back() = with_sharding_type(out.back(), f.results[k].sharding, location);
    }
    return out;
  });
}

}  // namespace tessera::frontend
