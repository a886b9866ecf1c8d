// SPDX-License-Identifier: Apache-2.0
// Evaluates one instruction without control flow: the switch over opcodes.
#include "src/evaluator/elementwise.h"
#include "src/evaluator/ops.h"
#include "src/evaluator/strided.h"

namespace tessera::evaluator {

using ir::Opcode;

Literal eval_elementwise(const ir::Instruction& in, Operands xs) {
  Literal out(Shape(in.shape.dtype, in.shape.dims));
  std::vector<Literal> spread;
  spread.reserve(xs.size());
  std::vector<const std::byte*> operands;
  for (const Literal* x : xs) {
    // select takes a scalar predicate, clamp scalar bounds.
    if (x->dims().empty() && !in.shape.dims.empty()) {
      spread.emplace_back(Shape(x->dtype(), in.shape.dims));
      fill(byte_size(x->dtype()), spread.back().mutable_bytes(), out.element_count(), x->bytes());
      operands.push_back(spread.back().bytes());
    } else {
      operands.push_back(x->bytes());
    }
  }
  apply_elementwise(in, operands.data(), out.mutable_bytes(), out.element_count());
  return out;
}

Literal eval_dimension_size(const ir::Instruction& in, Operands xs) {
  Literal out(in.shape);
  out.mutable_data<std::int32_t>()[0] =
      std::int32_t(xs[0]->dims().at(std::size_t(in.get<ir::DimensionsAttrs>().dims.at(0))));
  return out;
}

Literal eval_constant(const ir::Instruction& in, Operands) {
  const auto& attrs = in.get<ir::ConstantAttrs>();
  if (attrs.elided) {
    throw RuntimeError(
        "the value of constant " + in.describe() + " was left out of the program's text ({...})",
        in.location());
  }
  return attrs.value;
}

/// The id of the one replica.
Literal eval_zero(const ir::Instruction& in, Operands) { return Literal(in.shape); }

Literal eval_after_all(const ir::Instruction&, Operands) { return Literal(Shape::token()); }

Literal eval_tuple(const ir::Instruction&, Operands xs) {
  std::vector<Literal> elements;
  for (const Literal* x : xs) elements.push_back(*x);
  return Literal::tuple(std::move(elements));
}

Literal eval_get_tuple_element(const ir::Instruction& in, Operands xs) {
  return xs[0]->elements().at(std::size_t(in.get<ir::GetTupleElementAttrs>().index));
}

Literal eval_identity(const ir::Instruction&, Operands xs) { return *xs[0]; }

/// (dest, source, context): copy-start hands the copy over in front.
Literal eval_copy_start(const ir::Instruction& in, Operands xs) {
  std::vector<Literal> parts = {*xs[0], *xs[0]};
  for (std::size_t e = 2; e < in.shape.elements.size(); ++e) {
    parts.emplace_back(in.shape.elements[e]);
  }
  return Literal::tuple(std::move(parts));
}

/// Of (dest, source, context).
Literal eval_source(const ir::Instruction&, Operands xs) { return xs[0]->elements().at(0); }

/// The results of what was started: (operands, results, ...).
Literal eval_finished(const ir::Instruction&, Operands xs) { return xs[0]->elements().at(1); }

Literal eval_reshape(const ir::Instruction& in, Operands xs) {
  return xs[0]->reshaped(in.shape.dims);
}

Literal eval_host(const ir::Instruction& in, Operands) {
  throw NotImplementedError(std::string(ir::name(in.opcode)) + " " + in.describe() +
                                " talks to the host while the program runs, which is not " +
                                "supported; pass the values as arguments and results",
                            in.location());
}

Literal eval_interpreter(const ir::Instruction& in, Operands) {
  throw NotImplementedError(std::string(ir::name(in.opcode)) + " " + in.describe() +
                                " has no meaning by itself: it needs the whole program",
                            in.location());
}

Literal eval_op(const ir::Instruction& in, Operands xs) {
  switch (in.opcode) {
#define OP(enumerator, text, operands, attributes, types, shape, factors, evaluate, ...) \
  case Opcode::enumerator:                                                               \
    return evaluate(in, xs);
#include "src/ir/opcode_list.inc"
  }
  TESSERA_CHECK(false, "opcode number " + std::to_string(int(in.opcode)));
  return {};
}

}  // namespace tessera::evaluator
