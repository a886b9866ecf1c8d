// SPDX-License-Identifier: Apache-2.0
// What functions with rules of their own share: staging the call, tracing the rule.
#include "src/frontend/derivatives/custom_rule.h"

#include "src/transforms/utils/tangent.h"

namespace tessera::frontend {

using internal::CallInfo;
using internal::Prototype;
using ir::Instruction;
using ir::Opcode;

NamedAxes NamedAxes::of_caller() {
  NamedAxes out;
  const Trace* trace = Trace::current();
  if (trace == nullptr) return out;
  if (const ManualScope* scope = trace->manual_scope()) out.manual = *scope;
  out.batches = trace->batch_axes();
  return out;
}

RuleTrace::RuleTrace(const std::string& name, ir::Module* module,
                     const std::vector<AbstractValue>& values, const NamedAxes& axes)
    : trace(name, module) {
  if (axes.manual) trace.bind_manual(*axes.manual);
  for (const ir::BatchAxis& axis : axes.batches) trace.bind_batch_axis(axis);
  trace.forbid_captures("the rule of " + name + "; pass it as an argument of " + name);
  for (const AbstractValue& v : values) parameters.push_back(trace.add_parameter(v));
}

std::vector<AbstractValue> values_of(const std::vector<Instruction*>& operands) {
  std::vector<AbstractValue> out;
  for (const Instruction* i : operands) out.push_back({i->shape, false, {}});
  return out;
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
                              Opcode opcode, bool captures_first, const MakeAttributes& attrs,
                              Location location) {
  return as_one_program(name, location, [&] {
    Trace& outer = *Trace::current();
    const TracedFunction f = trace_function(
        outer, name, abstract_values(info.leaves),
        [&](const std::vector<Array>& leaves) { return info.trace(leaves, prototype); }, location);
    const std::vector<Instruction*> arguments = lift_all(outer, info.leaves, location);
    const std::vector<Instruction*> captures = lift_all(outer, f.captures, location);
    const MetadataScope metadata(outer, location, name);
    ir::Computation* callee = f.computation;
    std::vector<Instruction*> operands = arguments;
    operands.insert(operands.end(), captures.begin(), captures.end());
    if (captures_first && !captures.empty()) {
      ir::Builder b(outer.module()->add_computation(name));
      std::vector<Instruction*> given, in_order;
      operands = captures;
      operands.insert(operands.end(), arguments.begin(), arguments.end());
      for (const Instruction* o : operands) {
        given.push_back(b.parameter(std::int64_t(given.size()), o->shape));
      }
      in_order.assign(given.begin() + std::ptrdiff_t(captures.size()), given.end());
      in_order.insert(in_order.end(), given.begin(),
                      given.begin() + std::ptrdiff_t(captures.size()));
      b.computation()->set_root(b.call(callee, in_order));
      callee = b.computation();
    }
    ir::Builder& b = outer.builder();
    Instruction* call = b.emit(opcode, operands, attrs(f, captures.size()), {callee});
    std::vector<Array> out;
    const std::vector<Instruction*> results = transforms::elements_of(b, call);
    for (std::size_t k = 0; k < results.size(); ++k) {
      out.push_back(outer.wrap(results[k], f.results[k].weak));
      set_varying(out.back(), f.results[k].varying);
    }
    return out;
  });
}

}  // namespace tessera::frontend
