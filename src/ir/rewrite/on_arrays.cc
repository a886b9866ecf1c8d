// SPDX-License-Identifier: Apache-2.0
// Scalar computations, as reducers, comparators and maps call them, on whole arrays.
#include "src/ir/rewrite/on_arrays.h"

namespace tessera::ir {

const Instruction* not_on_arrays(const Computation& scalar) {
  for (const auto& i : scalar.instructions()) {
    switch (i->opcode) {
      case Opcode::parameter:
      case Opcode::constant:
      case Opcode::tuple:
      case Opcode::copy:
        break;
      case Opcode::call:
        if (const Instruction* inner = not_on_arrays(*i->called().front())) return inner;
        break;
      case Opcode::get_tuple_element:
        if (!i->operand(0)->is(Opcode::call) && !i->operand(0)->is(Opcode::tuple)) return i.get();
        break;
      default:
        if (!is_elementwise(i->opcode) || !i->shape.is_array()) return i.get();
    }
    if (i->shape.is_array() && !i->shape.is_scalar()) return i.get();
    for (const Instruction* o : i->operands()) {
      if (o->shape.is_tuple && !i->is(Opcode::get_tuple_element)) return i.get();
    }
  }
  return nullptr;
}

std::vector<Instruction*> on_arrays(Builder& b, const Computation& scalar,
                                    std::span<Instruction* const> arrays) {
  const Dims dims = arrays.front()->shape.dims;
  std::vector<std::vector<Instruction*>> made(scalar.instructions().size());
  for (const auto& i : scalar.instructions()) {
    std::vector<Instruction*> operands;
    for (const Instruction* o : i->operands()) {
      const auto& of = made[std::size_t(o->index)];
      operands.insert(operands.end(), of.begin(), of.end());
    }
    std::vector<Instruction*>& out = made[std::size_t(i->index)];
    switch (i->opcode) {
      case Opcode::parameter:
        out = {arrays[std::size_t(i->get<ParameterAttrs>().number)]};
        break;
      case Opcode::constant:
        out = {b.splat(b.constant(i->get<ConstantAttrs>().value), dims)};
        break;
      case Opcode::tuple:
      case Opcode::copy:
        out = operands;
        break;
      case Opcode::call:
        out = on_arrays(b, *i->called().front(), operands);
        break;
      case Opcode::get_tuple_element:
        out = {operands[std::size_t(i->get<GetTupleElementAttrs>().index)]};
        break;
      default:
        out = {b.emit_shaped(i->opcode, Shape(i->shape.dtype, dims), operands, i->attrs)};
    }
  }
  return made[std::size_t(scalar.root()->index)];
}

}  // namespace tessera::ir
