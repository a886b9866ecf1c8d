// SPDX-License-Identifier: Apache-2.0
// Copies what one loop computes into a computation of its own.
#include "src/codegen/fusion/fusion_body.h"

#include <optional>

#include "src/base/check.h"
#include "src/codegen/kernels/expressions/loop_expr.h"
#include "src/ir/rewrite/builder.h"

namespace tessera::codegen {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

Computation* FusedProgram::function(const Computation& of) {
  auto [it, added] = functions.try_emplace(&of, nullptr);
  if (added) it->second = module->import(of);
  return it->second;
}

std::unique_ptr<Instruction> bare_copy(const Instruction& i) {
  return std::make_unique<Instruction>(static_cast<const ir::InstructionData&>(i));
}

Instruction* add_transpose(Instruction* of, const Dims& order, const Instruction& user) {
  ir::Builder b(of->parent);
  b.metadata = user.metadata;
  return b.transpose(of, order);
}

FusionBody::FusionBody(FusedProgram* program, const FusionSource& source, Opcode root)
    : program_(*program),
      source_(source),
      target_(program->module->add_computation("fused_" + std::string(ir::name(root)))) {}

Instruction* FusionBody::add(const Instruction& root) {
  std::set<std::int64_t> members = {root.index};
  collect(root, &members);
  for (const std::int64_t n : members)
    add_copy(*source_.computation.instructions()[std::size_t(n)]);
  Instruction* made = copies_.at(&root);
  target_->set_root(made);
  return made;
}

void FusionBody::transpose(const Dims& order, const Instruction& user) {
  target_->set_root(add_transpose(target_->root(), order, user));
}

Instruction* FusionBody::call(Computation* caller, std::vector<Instruction*> operands,
                              const Cow<ir::Metadata>& metadata) const {
  const Instruction& root = *target_->root();
  const bool folds = root.is(Opcode::reduce) || root.is(Opcode::reduce_window);
  auto made = std::make_unique<Instruction>();
  made->opcode = Opcode::fusion;
  made->shape = root.shape;
  made->metadata = metadata;
  made->attrs = ir::TextAttrs{{{"kind", folds ? "kInput" : "kLoop"}}};
  made->add_called(target_);
  made->set_operands(std::move(operands));
  return caller->add(std::move(made));
}

void FusionBody::collect(const Instruction& user, std::set<std::int64_t>* members) const {
  std::vector<const Instruction*> pending = {&user};
  while (!pending.empty()) {
    const Instruction& i = *pending.back();
    pending.pop_back();
    for (std::size_t k = 0; k < i.operands().size(); ++k) {
      const Instruction& o = *i.operand(k);
      if (!source_.inlined(o) || source_.fusion.is_part(i, k)) continue;
      if (members->insert(o.index).second) pending.push_back(&o);
    }
  }
}

void FusionBody::add_copy(const Instruction& i) {
  std::vector<Instruction*> operands;
  for (std::size_t k = 0; k < i.operands().size(); ++k) operands.push_back(operand(i, k));
  auto copy = bare_copy(i);
  copy->sharding.clear();
  copy->set_operands(std::move(operands));
  for (const Computation* c : i.called()) copy->add_called(program_.function(*c));
  copies_[&i] = target_->add(std::move(copy));
}

Instruction* FusionBody::operand(const Instruction& user, std::size_t k) {
  const Instruction& o = *user.operand(k);
  if (source_.inlined(o)) return source_.fusion.is_part(user, k) ? part(o) : copies_.at(&o);
  const bool elementwise = ir::is_elementwise(user.opcode) || (is_element_gather(user) && k == 1);
  if (!elementwise || o.shape.is_scalar()) return in_memory(o);
  const std::optional<Literal> element = splat_element(source_.leaves(o).at(0));
  return element ? splat(o, *element) : in_memory(o);
}

Instruction* FusionBody::splat(const Instruction& of, const Literal& element) {
  auto [it, added] = splats_.try_emplace(&of, nullptr);
  if (!added) return it->second;
  ir::Builder b(target_);
  it->second = b.splat(b.constant(element), of.shape.dims);
  return it->second;
}

Instruction* FusionBody::in_memory(const Instruction& o) {
  auto [it, added] = read_.try_emplace(&o, nullptr);
  if (!added) return it->second;
  const std::vector<passes::LeafFacts>& leaves = source_.leaves(o);
  TESSERA_CHECK(leaves.size() == 1 && o.shape.is_array(), o.name + " is read in a loop");
  auto made = std::make_unique<Instruction>();
  made->shape = o.shape;
  const std::optional<Literal> element = splat_element(leaves[0]);
  if (element && o.shape.is_scalar()) {
    made->opcode = Opcode::constant;
    made->name = o.name;
    made->attrs = ir::ConstantAttrs{*element};
  } else {
    made->opcode = Opcode::parameter;
    made->name = "param_" + std::to_string(parameters_.size());
    made->attrs = ir::ParameterAttrs{std::int64_t(parameters_.size())};
    parameters_.push_back(&o);
  }
  it->second = target_->add(std::move(made));
  return it->second;
}

Instruction* FusionBody::part(const Instruction& o) {
  auto [it, added] = parts_.try_emplace(&o, nullptr);
  if (!added) return it->second;
  FusionBody body(&program_, source_, o.opcode);
  body.add(o);
  std::vector<Instruction*> operands;
  for (const Instruction* p : body.parameters()) operands.push_back(in_memory(*p));
  return parts_[&o] = body.call(target_, std::move(operands), o.metadata);
}

}  // namespace tessera::codegen
