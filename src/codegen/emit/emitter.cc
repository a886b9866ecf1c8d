// SPDX-License-Identifier: Apache-2.0
// Builds a plan: slots for values, constants and aliases, and the choice among fusion variants.
#include "src/codegen/emit/emitter.h"

#include <algorithm>
#include <cstring>

#include "src/base/contains.h"
#include "src/codegen/custom_calls/call_kernel.h"
#include "src/codegen/kernels/expressions/composed_view.h"
#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/loops/fused_loop.h"
#include "src/codegen/kernels/moves/copy.h"
#include "src/codegen/kernels/owned.h"
#include "src/ir/analysis/shared_matrices.h"
#include "src/ir/custom_calls/custom_call.h"

namespace tessera::codegen {

using ir::Opcode;

namespace {
/// Bytes of a splat that is filled in where it is used.
constexpr std::int64_t kLeastFilled = 32;
}  // namespace

SlotId PlanState::add_slot(std::int64_t bytes, ClassesId classes) {
  plan().slots.push_back({bytes, classes, 0});
  return SlotId(plan().slots.size()) - 1;
}

SlotId PlanState::constant(ClassesId classes, const std::vector<Literal>& values) {
  std::string key;
  for (const Literal& v : values) {
    key.append(reinterpret_cast<const char*>(v.bytes()), v.byte_count());
  }
  const auto [it, added] = constants.try_emplace({classes, std::move(key)}, -1);
  if (!added) return it->second;
  it->second = add_slot(std::int64_t(values.at(0).byte_count()), classes);
  runtime::Plan::Constant c{it->second, {}};
  for (const Literal& v : values) {
    c.values.push_back(runtime::Storage::allocate(v.byte_count()));
    if (v.byte_count() > 0) std::memcpy(c.values.back()->data(), v.bytes(), v.byte_count());
  }
  plan().constants.push_back(std::move(c));
  return it->second;
}

Emitter::Emitter(PlanState* state, const ir::Computation& computation,
                 const passes::UniformityFacts& facts, runtime::Block* block)
    : state_(state),
      computation_(computation),
      facts_(facts),
      block_(block),
      fusion_(state->fusions->runs.at(&facts)),
      slots_(computation.instructions().size()) {}

bool Emitter::is_loop(const ir::Instruction& i) const {
  return is_loop_op(i) || fuses_producers(i);
}

const passes::LeafFacts& Emitter::facts(const ir::Instruction& i, std::size_t leaf) const {
  return facts_.leaves[std::size_t(i.index)][leaf];
}

bool Emitter::is_result(const ir::Instruction& i) const {
  if (&computation_ != state_->module->entry()) return false;
  const ir::Instruction* root = computation_.root();
  return root == &i || (root->is(Opcode::tuple) && contains(root->operands(), &i));
}

std::optional<Literal> Emitter::splat(const ir::Instruction& i, std::size_t leaf) const {
  return splat_element(facts(i, leaf));
}

SlotId Emitter::filled(const ir::Instruction& i, const Shape& shape, const Literal& element,
                       ClassesId classes) {
  LoopBuilder builder;
  builder.output(builder.constant(element));
  const SlotId out = temporary(shape.byte_count(), classes);
  task(i, loop_kernel(builder.finish(), shape.element_count()), {}, {out});
  return out;
}

SlotId Emitter::slot(const ir::Instruction& i, std::size_t leaf) {
  auto& mine = slots_[std::size_t(i.index)];
  const passes::LeafFacts& f = facts(i, leaf);
  if (mine.empty()) mine.assign(leaf_count(i.shape), -1);
  if (mine[leaf] < 0 && f.known) {
    const Shape shape = flatten(i.shape)[leaf];
    const auto element = splat(i, leaf);
    // A constant stays in memory throughout, and is never written to.
    mine[leaf] = element && shape.byte_count() > kLeastFilled
                     ? filled(i, shape, *element, f.classes)
                     : state_->constant(f.classes, *f.known);
  }
  TESSERA_CHECK(mine[leaf] >= 0, "value of " + i.name + " was not emitted");
  return mine[leaf];
}

std::vector<SlotId> Emitter::slots(const ir::Instruction& i) {
  std::vector<SlotId> out(leaf_count(i.shape));
  for (std::size_t k = 0; k < out.size(); ++k) out[k] = slot(i, k);
  return out;
}

SlotId Emitter::result(const ir::Instruction& i, std::size_t leaf) {
  const std::vector<Shape> leaves = flatten(i.shape);
  auto& mine = slots_[std::size_t(i.index)];
  if (mine.empty()) mine.assign(leaves.size(), -1);
  mine[leaf] = state_->add_slot(leaves[leaf].byte_count(), facts(i, leaf).classes);
  return mine[leaf];
}

std::vector<SlotId> Emitter::results(const ir::Instruction& i) {
  const std::vector<Shape> leaves = flatten(i.shape);
  auto& mine = slots_[std::size_t(i.index)];
  mine.resize(leaves.size());
  for (std::size_t k = 0; k < leaves.size(); ++k) {
    mine[k] = state_->add_slot(leaves[k].byte_count(), facts(i, k).classes);
  }
  return mine;
}

std::vector<SlotId> Emitter::operand_slots(const ir::Instruction& i) {
  std::vector<SlotId> out;
  for (const ir::Instruction* o : i.operands()) {
    for (std::size_t k = 0; k < leaf_count(o->shape); ++k) out.push_back(slot(*o, k));
  }
  return out;
}

void Emitter::alias(const ir::Instruction& i, std::vector<SlotId> slots) {
  slots_[std::size_t(i.index)] = std::move(slots);
}

SlotId Emitter::temporary(std::int64_t bytes, ClassesId classes) {
  return state_->add_slot(bytes, classes);
}

void Emitter::step(
    const ir::Instruction& i,
    std::variant<runtime::KernelTask, runtime::Exchange, runtime::While, runtime::Conditional>
        what) {
  runtime::Step s;
  s.name = i.name;
  s.op = ir::name(i.opcode);
  s.location = i.location();
  s.what = std::move(what);
  block_->steps.push_back(std::move(s));
}

void Emitter::name_step(const std::vector<ir::Opcode>& computed) {
  constexpr std::size_t kNamed = 6;
  if (computed.size() < 2) return;
  std::string& op = block_->steps.back().op;
  op.clear();
  if (computed.size() > kNamed) op.append("...");
  for (std::size_t k = computed.size() - std::min(computed.size(), kNamed); k < computed.size();
       ++k) {
    if (!op.empty()) op.push_back('+');
    op.append(ir::name(computed[k]));
  }
}

std::vector<std::int64_t> Emitter::byte_counts(const std::vector<SlotId>& slots) const {
  std::vector<std::int64_t> out;
  for (const SlotId s : slots) out.push_back(state_->plan().slots[std::size_t(s)].bytes);
  return out;
}

void Emitter::task(const ir::Instruction& i, KernelDescriptor kernel, std::vector<SlotId> inputs,
                   std::vector<SlotId> outputs, std::vector<runtime::KernelTask::Reuse> reuse) {
  runtime::KernelTask t;
  state_->kernels->set(&t, kernel);
  t.has_effects = kernel.has_effects;
  t.inputs = std::move(inputs);
  t.outputs = std::move(outputs);
  t.reuse = std::move(reuse);
  step(i, std::move(t));
}

void Emitter::transfer(const ir::Instruction& i, KernelDescriptor kernel,
                       std::vector<SlotId> inputs, MemoryKind to) {
  task(i, std::move(kernel), std::move(inputs), {result(i)});
  std::get<runtime::KernelTask>(block_->steps.back().what).transfers_to = to;
}

SlotId Emitter::transposed(const ir::Instruction& i, SlotId from, const Shape& shape,
                           const Dims& perm) {
  if (perm.empty()) return from;
  const auto element = byte_size(shape.dtype);
  Box box;
  box.dims = reordered(shape.dims, perm);
  box.from_strides = reordered(byte_strides(shape.dims, element), perm);
  box.to_strides = byte_strides(box.dims, element);
  const SlotId out = temporary(shape.byte_count(), state_->plan().slots[std::size_t(from)].classes);
  task(i, copy_kernel({std::move(box)}, element), {from}, {out});
  return out;
}

std::shared_ptr<const LoopExpr> conversion(DType from, DType to) {
  LoopBuilder builder;
  const auto v = builder.convert(builder.contiguous(from), to);
  if (!v) return nullptr;
  builder.output(*v);
  return builder.finish();
}

SlotId Emitter::converted(const ir::Instruction& i, SlotId from, const Shape& shape, DType to) {
  if (shape.dtype == to) return from;
  auto program = conversion(shape.dtype, to);
  TESSERA_CHECK(program != nullptr, "no conversion for an operand of " + i.name);
  const SlotId out = temporary(Shape(to, shape.dims).byte_count(),
                               state_->plan().slots[std::size_t(from)].classes);
  KernelDescriptor kernel = loop_kernel(std::move(program), shape.element_count());
  kernel.access = Accesses::by_units({true});
  task(i, std::move(kernel), {from}, {out});
  return out;
}

std::vector<SlotId> Emitter::run(const std::vector<std::vector<SlotId>>& parameters) {
  for (const auto& i : computation_.instructions()) {
    if (i->is(Opcode::parameter)) {
      alias(*i, parameters.at(std::size_t(i->get<ir::ParameterAttrs>().number)));
      continue;
    }
    if (inlined(*i) || is_compile_time_constant(*i, facts_.leaves[std::size_t(i->index)])) continue;
    emit(*i);
  }
  return slots(*computation_.root());
}

bool Emitter::emit_names(const ir::Instruction& i) {
  switch (i.opcode) {
    case Opcode::tuple:
      alias(i, operand_slots(i));
      return true;
    case Opcode::get_tuple_element: {
      const Shape& tuple = i.operand(0)->shape;
      std::size_t first = 0;
      const auto index = std::size_t(i.get<ir::GetTupleElementAttrs>().index);
      for (std::size_t k = 0; k < index; ++k) first += leaf_count(tuple.elements[k]);
      std::vector<SlotId> mine;
      for (std::size_t k = 0; k < leaf_count(i.shape); ++k) {
        mine.push_back(slot(*i.operand(0), first + k));
      }
      alias(i, std::move(mine));
      return true;
    }
    case Opcode::after_all:
      alias(i, {state_->constant(0, {Literal(Shape(DType::u8, {0}))})});
      return true;
    case Opcode::fusion:
    case Opcode::call: {
      std::vector<std::vector<SlotId>> parameters;
      for (const ir::Instruction* o : i.operands()) parameters.push_back(slots(*o));
      Emitter inner(state_, *i.called().at(0), called_facts(i, 0), block_);
      alias(i, inner.run(parameters));
      return true;
    }
    default:
      break;
  }
  // The same bytes: arrays are row-major, whatever layout a text gives.
  const bool same_bytes =
      i.is(Opcode::bitcast_convert) && !inlined(*i.operand(0)) &&
      i.operand(0)->shape.byte_count() == i.shape.byte_count() &&
      (is_loop(i) || byte_size(i.shape.dtype) != byte_size(i.operand(0)->shape.dtype));
  if (!ir::is_alias(i.opcode) && !same_bytes && !ir::only_shows_matrix(i)) return false;
  alias(i, slots(*i.operand(0)));
  return true;
}

void Emitter::emit(const ir::Instruction& i) {
  if (emit_names(i)) return;
  if (is_loop(i)) return emit_loop(*this, i);
  if (const EmitOp emit_op = emitter_of(i.opcode); emit_op && emit_op(*this, i)) return;
  if (ir::has_side_effect(i.opcode) || ir::is_collective(i.opcode)) {
    throw NotImplementedError(
        std::string(ir::name(i.opcode)) + " (" + i.describe() + ") can't run here yet",
        i.location());
  }
  std::vector<SlotId> inputs = operand_slots(i);
  // What partitioning leaves none of, or a call that lacks its body.
  const bool calls = i.is(Opcode::custom_partitioning) || i.is(Opcode::manual_computation);
  if (calls) ir::need_custom_call(i);
  if (flatten(i.shape).empty()) {
    throw NotImplementedError(i.describe() + " gives nothing; valid: a result, a token at least",
                              i.location());
  }
  task(i, kernel_of_op(i), std::move(inputs), results(i));
  if (!i.is(Opcode::custom_call) && !has_solver_kernel(i)) {
    state_->built->evaluator_ops.push_back(std::string(ir::name(i.opcode)) + " " + i.describe());
  }
}

KernelDescriptor Emitter::kernel_of_op(const ir::Instruction& i) {
  const bool call = i.is(Opcode::custom_call);
  const std::shared_ptr<const ir::Instruction> copy = owned_copy(i);
  const Location at = i.location();
  std::string key = kernel_key(call ? "call" : "evaluator", canonical_text(*copy->parent),
                               at.file == nullptr ? std::string() : std::string(at.file), at.line);
  if (const KernelDescriptor* known = state_->kernels->find(key)) return *known;
  KernelDescriptor kernel = library_kernel(i, copy);
  kernel.key = std::move(key);
  return kernel;
}

}  // namespace tessera::codegen
