// SPDX-License-Identifier: Apache-2.0
// Inlines calls and fusions, before partitioning only those without shardings of their own.
#include "src/passes/control/inline_calls.h"

#include <algorithm>
#include <limits>
#include <set>
#include <unordered_map>
#include <vector>

#include "src/ir/cloner.h"
#include "src/ir/hooks.h"
#include "src/ir/inlineable.h"
#include "src/ir/rewrite/builder.h"

namespace tessera::passes {

using ir::Instruction;
using ir::Opcode;

namespace {

/// Before partitioning what says something about shardings stays a call. One device's program keeps
/// the calls that it marks; those of several would part collectives that belong together.
enum class Scope { all, all_but_marked, before_partitioning };

/// What a caller's argument shall look like within, and the result, is a statement of its own.
bool states_shardings(const Instruction& call) {
  const ir::Computation& callee = *call.called()[0];
  const auto& parameters = callee.parameters();
  return call.has_sharding() || callee.root()->has_sharding() ||
         std::any_of(parameters.begin(), parameters.end(),
                     [](const Instruction* p) { return p->has_sharding(); });
}

/// Whether arguments or results are stated to be partial values, which a call can't pass on.
bool passes_partial_values(const Instruction& call) {
  const ir::Computation& callee = *call.called()[0];
  const auto partial = [](const Instruction* i) {
    return std::any_of(i->sharding.begin(), i->sharding.end(),
                       [](const TensorSharding& s) { return !s.unreduced.empty(); });
  };
  const auto& parameters = callee.parameters();
  const Shape& result = callee.root()->shape;
  const bool flat = !result.is_tuple || std::none_of(result.elements.begin(), result.elements.end(),
                                                     [](const Shape& s) { return s.is_tuple; });
  return flat && (partial(&call) || partial(callee.root()) ||
                  std::any_of(parameters.begin(), parameters.end(), partial));
}

/// The value with a statement for each of its leaves.
Instruction* stated(ir::Builder& b, Instruction* x, const std::vector<TensorSharding>& shardings) {
  if (shardings.empty()) return x;
  const auto one = [&](Instruction* leaf, const TensorSharding& s) {
    const bool says = s.kind != TensorSharding::Kind::axes || s.mesh;
    if (!leaf->shape.is_array() || !says) return leaf;
    Instruction* made = b.emit_shaped(Opcode::sharding_constraint, leaf->shape, {leaf},
                                      ir::ShardingConstraintAttrs{});
    made->sharding = {s};
    return made;
  };
  if (!x->shape.is_tuple) return one(x, shardings[0]);
  std::vector<Instruction*> leaves;
  for (std::size_t k = 0; k < x->shape.elements.size(); ++k) {
    Instruction* leaf = b.get_tuple_element(x, std::int64_t(k));
    leaves.push_back(k < shardings.size() ? one(leaf, shardings[k]) : leaf);
  }
  return b.tuple(leaves);
}

bool can_inline(const Instruction& i, Scope scope) {
  if (i.called().size() != 1) return false;
  if (scope == Scope::before_partitioning) {
    return (i.is(Opcode::call) || i.is(Opcode::fusion)) &&
           (!states_shardings(i) || passes_partial_values(i)) && i.control_predecessors().empty() &&
           !ir::is_not_inlineable(i);
  }
  if (scope == Scope::all_but_marked && ir::is_not_inlineable(i)) return false;
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
  const bool states = scope == Scope::before_partitioning && states_shardings(call);
  ir::Builder b(caller);
  b.metadata = call.metadata;
  std::vector<Instruction*> arguments = call.operands();
  for (std::size_t k = 0; states && k < arguments.size(); ++k) {
    arguments[k] = stated(b, arguments[k], callee.parameter(k)->sharding);
  }
  cloner.map_parameters(arguments);
  for (const auto& i : callee.instructions()) {
    if (i->is(Opcode::parameter)) continue;
    Instruction* added = cloner.clone(*i);
    if (can_inline(*added, scope)) calls->push_back(added);
  }
  Instruction* result = cloner[callee.root()];
  if (!states) return result;
  const std::vector<TensorSharding> within = callee.root()->sharding;
  if (result->is(Opcode::tuple)) result->sharding.clear();
  return stated(b, stated(b, result, within), call.sharding);
}

/// Whether a computation does something besides giving its result.
class Effects {
 public:
  bool of(const Instruction& i) {
    return i.has_side_effect() || std::any_of(i.called().begin(), i.called().end(),
                                              [&](const ir::Computation* c) { return of(*c); });
  }

 private:
  bool of(const ir::Computation& c) {
    if (const auto known = known_.find(&c); known != known_.end()) return known->second;
    const auto& all = c.instructions();
    return known_[&c] = std::any_of(all.begin(), all.end(), [&](const auto& i) { return of(*i); });
  }

  std::unordered_map<const ir::Computation*, bool> known_;
};

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
  Effects effects;
  const std::set<const ir::Computation*> stay = computations_that_stay(*module, scope);
  if (expanded_size(*module, stay, scope) > max_instructions) return 0;
  for (const auto& c : module->computations()) {
    if (stay.count(c.get()) == 0) continue;
    std::vector<Instruction*> calls;
    for (const auto& i : c->instructions()) {
      if (can_inline(*i, scope)) calls.push_back(i.get());
    }
    if (calls.empty()) continue;
    // What happens does so in the order in which it stands.
    std::vector<std::pair<Instruction*, Instruction*>> places;
    // Grows while it is walked: by the calls in what was copied.
    for (std::size_t k = 0; k < calls.size(); ++k) {
      const std::size_t first = c->instructions().size();
      const bool acts = effects.of(*calls[k]);
      Instruction* result = expand(c.get(), *calls[k], &calls, scope);
      for (std::size_t n = first; acts && n < c->instructions().size(); ++n) {
        places.emplace_back(calls[k], c->instructions()[n].get());
      }
      calls[k]->replace_all_uses_with(result);
    }
    if (!places.empty()) c->move_before(places);
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
  const bool one = module->num_partitions == 1 && module->replica_count == 1;
  return inline_all(module, one ? Scope::all_but_marked : Scope::all,
                    std::numeric_limits<double>::infinity());
}

std::size_t separate_calls(ir::Module* module, std::size_t max_instructions) {
  return inline_all(module, Scope::before_partitioning, double(max_instructions));
}

}  // namespace tessera::passes
