// SPDX-License-Identifier: Apache-2.0
// Inlines calls and fusions, before partitioning only those without shardings of their own.
#include "src/passes/inline_calls.h"

#include <algorithm>
#include <limits>
#include <set>
#include <unordered_map>
#include <vector>

#include "src/ir/cloner.h"
#include "src/ir/hooks.h"

namespace tessera::passes {

using ir::Instruction;
using ir::Opcode;

namespace {

/// Before partitioning what says something about shardings stays a call.
enum class Scope { all, before_partitioning };

/// What a caller's argument shall look like within, and the result, is a statement of its own.
bool states_shardings(const Instruction& call) {
  const ir::Computation& callee = *call.called()[0];
  const auto& parameters = callee.parameters();
  return call.has_sharding() || callee.root()->has_sharding() ||
         std::any_of(parameters.begin(), parameters.end(),
                     [](const Instruction* p) { return p->has_sharding(); });
}

bool can_inline(const Instruction& i, Scope scope) {
  if (i.called().size() != 1) return false;
  if (scope == Scope::before_partitioning) {
    return (i.is(Opcode::call) || i.is(Opcode::fusion)) && !states_shardings(i) &&
           i.control_predecessors().empty() && i.frontend_attributes->count("inlineable") == 0;
  }
  if (i.is(Opcode::call) || i.is(Opcode::fusion)) return true;
  // A manual computation is left where nothing was partitioned: on one device.
  return i.is(Opcode::custom_partitioning) || i.is(Opcode::manual_computation);
}

/// Code per device is one device's program as it stands only if a part is the whole.
void check_shapes(const Instruction& call, const ir::Computation& callee) {
  const auto differ = [](const Shape& a, const Shape& b) {
    const std::vector<Shape> x = flatten(a), y = flatten(b);
    return !std::equal(x.begin(), x.end(), y.begin(), y.end(), [](const Shape& s, const Shape& t) {
      return s.dtype == t.dtype && s.dims == t.dims;
    });
  };
  const auto refuse = [&](const std::string& what, const Shape& inside, const Shape& outside) {
    throw ShardingError("code per device (" + call.describe() + ") has " + what + " " +
                            inside.to_string() + " where the program has " + outside.to_string() +
                            ": it is written for several devices, and this program is for one; "
                            "valid: the mesh that the module names",
                        call.location());
  };
  for (std::size_t k = 0; k < call.operands().size() && k < callee.parameters().size(); ++k) {
    const Shape& inside = callee.parameters()[k]->shape;
    if (!differ(inside, call.operand(k)->shape)) continue;
    refuse("parameter " + std::to_string(k), inside, call.operand(k)->shape);
  }
  if (differ(callee.root()->shape, call.shape)) {
    refuse("the result", callee.root()->shape, call.shape);
  }
}

/// Appends the callee's instructions to the caller, and the calls among them to `calls`; returns
/// what the call's users shall use.
Instruction* expand(ir::Computation* caller, const Instruction& call,
                    std::vector<Instruction*>* calls, Scope scope) {
  const ir::Computation& callee = *call.called()[0];
  if (!call.is(Opcode::call) && !call.is(Opcode::fusion)) check_shapes(call, callee);
  ir::CloneOptions options;
  options.default_metadata = call.metadata;
  ir::Cloner cloner(callee, caller, options);
  cloner.map_parameters(call.operands());
  for (const auto& i : callee.instructions()) {
    if (i->is(Opcode::parameter)) continue;
    Instruction* added = cloner.clone(*i);
    if (can_inline(*added, scope)) calls->push_back(added);
  }
  return cloner[callee.root()];
}

/// Computations that something else than such a call uses: the others needn't be expanded
/// themselves, which would cost the square of the calls' depth.
std::set<const ir::Computation*> computations_that_stay(const ir::Module& module, Scope scope) {
  std::set<const ir::Computation*> out{module.entry()};  // looked up, never walked
  for (const auto& c : module.computations()) {
    for (const auto& i : c->instructions()) {
      if (!can_inline(*i, scope)) out.insert(i->called().begin(), i->called().end());
    }
  }
  return out;
}

/// Instructions that there would be.
double expanded_size(const ir::Module& module, const std::set<const ir::Computation*>& stay,
                     Scope scope) {
  std::unordered_map<const ir::Computation*, double> sizes;
  double total = 0;
  for (const auto& c : module.computations()) {
    double size = double(c->instructions().size());
    for (const auto& i : c->instructions()) {
      if (can_inline(*i, scope)) size += sizes[i->called()[0]];
    }
    sizes[c.get()] = size;
    if (stay.count(c.get())) total += size;
  }
  return total;
}

std::size_t inline_all(ir::Module* module, Scope scope, double max_instructions) {
  std::size_t count = 0;
  const std::set<const ir::Computation*> stay = computations_that_stay(*module, scope);
  if (expanded_size(*module, stay, scope) > max_instructions) return 0;
  for (const auto& c : module->computations()) {
    if (stay.count(c.get()) == 0) continue;
    std::vector<Instruction*> calls;
    for (const auto& i : c->instructions()) {
      if (can_inline(*i, scope)) calls.push_back(i.get());
    }
    if (calls.empty()) continue;
    // Grows while it is walked: by the calls in what was copied.
    for (std::size_t k = 0; k < calls.size(); ++k) {
      Instruction* result = expand(c.get(), *calls[k], &calls, scope);
      calls[k]->replace_all_uses_with(result);
    }
    // Without a callee it has no side effects any more, and goes with the dead ones.
    for (Instruction* call : calls) {
      call->opcode = Opcode::tuple;
      call->attrs = {};
      call->set_called({});
    }
    c->sort_topologically();
    c->remove_dead();
    count += calls.size();
  }
  if (count > 0) module->remove_dead_computations();
  return count;
}

}  // namespace

std::size_t inline_calls(ir::Module* module) {
  return inline_all(module, Scope::all, std::numeric_limits<double>::infinity());
}

std::size_t separate_calls(ir::Module* module, std::size_t max_instructions) {
  return inline_all(module, Scope::before_partitioning, double(max_instructions));
}

}  // namespace tessera::passes
