// SPDX-License-Identifier: Apache-2.0
// Manual computations without tokens: the order that these state holds within and around them.
#include <algorithm>

#include "src/ir/analysis/device_computations.h"
#include "src/ir/cloner.h"
#include "src/ir/rewrite/builder.h"
#include "src/spmd/manual/manual.h"

namespace tessera::spmd::manual {
namespace {

using ir::Instruction;
using ir::Opcode;

bool is_token(const Shape& s) { return !s.is_tuple && !s.is_array(); }

std::vector<Shape> results_of(const Shape& s) {
  return s.is_tuple ? s.elements : std::vector<Shape>{s};
}

bool has_tokens(const Instruction& call) {
  const std::vector<Shape> results = results_of(call.shape);
  return call.called().size() == 1 &&
         (std::any_of(call.operands().begin(), call.operands().end(),
                      [](const Instruction* o) { return is_token(o->shape); }) ||
          std::any_of(results.begin(), results.end(), is_token));
}

/// The body on arrays alone: tokens begin in it.
ir::Computation* body_of_arrays(ir::Module* module, const Instruction& call) {
  const ir::Computation& body = *call.called()[0];
  ir::Computation* made = module->add_computation(body.name() + ".arrays");
  ir::Builder b(made);
  b.metadata = call.metadata;
  std::vector<Instruction*> arguments;
  std::int64_t count = 0;
  for (const Instruction* p : body.parameters()) {
    if (is_token(p->shape)) {
      arguments.push_back(b.emit_shaped(Opcode::after_all, p->shape, {}));
      continue;
    }
    arguments.push_back(b.parameter(count++, p->shape, p->name));
    arguments.back()->sharding = p->sharding;
  }
  Instruction* root = ir::inline_computation(made, body, arguments);
  std::vector<Instruction*> leaves;
  const std::vector<Shape> results = results_of(root->shape);
  for (std::size_t k = 0; k < results.size(); ++k) {
    if (is_token(results[k])) continue;
    leaves.push_back(root->shape.is_tuple ? b.get_tuple_element(root, std::int64_t(k)) : root);
  }
  made->set_root(b.tuple(leaves));
  return made;
}

/// A call of arrays alone, and what stands for its results.
Instruction* without_tokens(ir::Computation* c, Instruction* call) {
  const std::vector<Shape> results = results_of(call->shape);
  ir::ManualComputationAttrs attrs = call->get<ir::ManualComputationAttrs>();
  const bool complete = attrs.in_shardings.size() == call->operands().size() &&
                        attrs.out_shardings.size() == results.size();
  if (!complete) return nullptr;
  std::vector<Instruction*> operands;
  std::vector<TensorSharding> in, out;
  for (std::size_t k = 0; k < call->operands().size(); ++k) {
    if (is_token(call->operand(k)->shape)) continue;
    operands.push_back(call->operand(k));
    in.push_back(attrs.in_shardings[k]);
  }
  std::vector<Shape> arrays;
  for (std::size_t k = 0; k < results.size(); ++k) {
    if (is_token(results[k])) continue;
    arrays.push_back(results[k]);
    out.push_back(attrs.out_shardings[k]);
  }
  attrs.in_shardings = std::move(in);
  attrs.out_shardings = std::move(out);
  ir::Builder b(c);
  b.metadata = call->metadata;
  ir::Computation* body = body_of_arrays(c->module(), *call);
  Instruction* made = b.emit_shaped(Opcode::manual_computation, Shape::tuple(arrays), operands,
                                    std::move(attrs), {body});
  std::vector<Instruction*> leaves;
  std::int64_t next = 0;
  for (const Shape& s : results) {
    leaves.push_back(is_token(s) ? b.emit_shaped(Opcode::after_all, s, {})
                                 : b.get_tuple_element(made, next++));
  }
  return call->shape.is_tuple ? b.tuple(leaves) : leaves.at(0);
}

}  // namespace

void drop_tokens(ir::Module* module) {
  std::vector<ir::Computation*> all;
  for (const auto& c : module->computations()) all.push_back(c.get());
  bool changed = false;
  for (ir::Computation* c : all) {
    std::vector<Instruction*> calls;
    for (const auto& i : c->instructions()) {
      if (ir::is_manual_computation(*i) && has_tokens(*i)) calls.push_back(i.get());
    }
    std::vector<Instruction*> replaced;
    // Calls happen in the order in which they stand: tokens no longer say it.
    std::vector<std::pair<Instruction*, Instruction*>> places;
    for (Instruction* call : calls) {
      const std::size_t first = c->instructions().size();
      Instruction* made = without_tokens(c, call);
      if (made == nullptr) continue;
      for (std::size_t k = first; k < c->instructions().size(); ++k) {
        places.emplace_back(call, c->instructions()[k].get());
      }
      made->sharding = call->sharding;
      call->replace_all_uses_with(made);
      replaced.push_back(call);
    }
    if (replaced.empty()) continue;
    c->move_before(places);
    c->erase(replaced);  // not dead, as bodies do something
    c->remove_dead();
    changed = true;
  }
  if (changed) module->remove_dead_computations();
}

}  // namespace tessera::spmd::manual
