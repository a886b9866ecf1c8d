// SPDX-License-Identifier: Apache-2.0
// Entries of arrays alone, none of them a partial value.
#include "src/ir/rewrite/whole_arrays.h"

#include <algorithm>

#include "src/ir/cloner.h"
#include "src/ir/rewrite/builder.h"

namespace tessera::ir {
namespace {

bool is_partial(const TensorSharding& s) { return !s.unreduced.empty(); }

void complete(std::vector<TensorSharding>* shardings) {
  for (TensorSharding& s : *shardings) {
    s.unreduced.clear();
    s.reduction = Reduction::sum;
  }
}

void complete_parameters(Computation* entry) {
  bool any = false;
  for (Instruction* p : entry->parameters()) {
    if (!p->shape.is_array() || std::none_of(p->sharding.begin(), p->sharding.end(), is_partial)) {
      continue;
    }
    auto part = std::make_unique<Instruction>();
    part->opcode = Opcode::sharding_constraint;
    part->shape = p->shape;
    part->name = p->name + ".unreduced";
    part->metadata = p->metadata;
    part->attrs = ShardingConstraintAttrs{};
    part->sharding = p->sharding;
    complete(&p->sharding);
    Instruction* made = entry->add(std::move(part));
    p->replace_all_uses_with(made);
    made->set_operands({p});
    any = true;
  }
  if (any) entry->sort_topologically();
}

bool has_partial(const Module& module) {
  for (const auto& c : module.computations()) {
    for (const auto& i : c->instructions()) {
      if (std::any_of(i->sharding.begin(), i->sharding.end(), is_partial)) return true;
    }
  }
  return false;
}

/// What per-device code and functions give may be partial without the root saying so.
void free_root(const Module& module) {
  Computation* entry = module.entry();
  Instruction* root = entry->root();
  const Instruction* source = root;
  while (source->is(Opcode::get_tuple_element) || source->is(Opcode::opt_barrier) ||
         source->is(Opcode::add_dependency)) {
    source = source->operand(0);
  }
  if (root->has_sharding()) return;
  const bool is_manual = source->is(Opcode::manual_computation);
  if (!is_manual && !(runs_program(source->opcode) && has_partial(module))) return;
  Builder b(entry);
  b.metadata = root->metadata;
  if (!root->shape.is_tuple) return entry->set_root(b.unary(Opcode::copy, root));
  std::vector<Instruction*> leaves;
  for (std::size_t k = 0; k < root->shape.elements.size(); ++k) {
    leaves.push_back(b.get_tuple_element(root, std::int64_t(k)));
  }
  entry->set_root(b.tuple(leaves));
}

/// The same program with arrays for parameters and results; tokens begin in it.
void drop_tokens(Module* module) {
  Computation* entry = module->entry();
  const Shape given = entry->root()->shape;
  const auto is_token = [](const Shape& s) { return !s.is_tuple && !s.is_array(); };
  const bool in = std::any_of(entry->parameters().begin(), entry->parameters().end(),
                              [&](const Instruction* p) { return is_token(p->shape); });
  const bool out =
      is_token(given) ||
      (given.is_tuple && std::any_of(given.elements.begin(), given.elements.end(), is_token));
  if (!in && !out) return;
  const std::vector<TensorSharding> stated = entry->root()->sharding;
  const std::string name = entry->name();
  entry->set_name(name + ".with_tokens");
  Builder b(module->add_computation(name));
  std::vector<Instruction*> arguments;
  std::vector<std::int64_t> numbers;  // new, by old; -1: none
  for (const Instruction* p : entry->parameters()) {
    b.metadata = p->metadata;
    if (is_token(p->shape)) {
      arguments.push_back(b.emit_shaped(Opcode::after_all, p->shape, {}));
      numbers.push_back(-1);
      continue;
    }
    numbers.push_back(std::int64_t(b.computation()->parameters().size()));
    arguments.push_back(b.parameter(numbers.back(), p->shape, p->name));
    arguments.back()->sharding = p->sharding;
    arguments.back()->frontend_attributes = p->frontend_attributes;
  }
  Instruction* root = inline_computation(b.computation(), *entry, arguments);
  std::vector<Instruction*> results;
  std::vector<TensorSharding> shardings;
  std::vector<std::int64_t> places;
  const std::size_t count = given.is_tuple ? given.elements.size() : 1;
  for (std::size_t k = 0; k < count; ++k) {
    const bool token = is_token(given.is_tuple ? given.elements[k] : given);
    places.push_back(token ? -1 : std::int64_t(results.size()));
    if (token) continue;
    results.push_back(given.is_tuple ? b.get_tuple_element(root, std::int64_t(k)) : root);
    if (k < stated.size()) shardings.push_back(stated[k]);
  }
  root->sharding.clear();
  Instruction* tuple = b.tuple(results);
  if (shardings.size() == results.size()) tuple->sharding = shardings;
  b.computation()->set_root(tuple);
  module->set_entry(b.computation());
  std::vector<Alias> aliases;
  for (Alias alias : module->input_output_alias) {
    if (!alias.output.empty()) alias.output[0] = places[std::size_t(alias.output[0])];
    if (alias.output.empty()) alias.output = {0};
    alias.parameter = numbers[std::size_t(alias.parameter)];
    if (alias.parameter >= 0 && alias.output[0] >= 0) aliases.push_back(std::move(alias));
  }
  module->input_output_alias = std::move(aliases);
  auto& donors = module->buffer_donor;
  for (auto& [parameter, index] : donors) parameter = numbers[std::size_t(parameter)];
  donors.erase(
      std::remove_if(donors.begin(), donors.end(), [](const auto& d) { return d.first < 0; }),
      donors.end());
  module->remove_dead_computations();
}

}  // namespace

void take_whole_arrays(Module* module) {
  drop_tokens(module);
  complete_parameters(module->entry());
  free_root(*module);
  complete(&module->entry()->root()->sharding);
}

}  // namespace tessera::ir
