// SPDX-License-Identifier: Apache-2.0
// The walk back over a linear computation.
#include "src/transforms/transpose/transpose.h"

#include "src/ir/channels.h"
#include "src/transforms/transpose/site.h"
#include "src/transforms/utils/forward_slice.h"

namespace tessera::transforms {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

namespace {

void apply_rule(TransposeSite& site) {
  switch (site.op.opcode) {
#define OP(enumerator, text, operands, attributes, types, shape, factors, evaluate, traits, \
           linear, work, calls, dialect, jvp, transpose, ...)                               \
  case Opcode::enumerator:                                                                  \
    return transpose(site);
#include "src/ir/opcode_list.inc"
  }
  TESSERA_CHECK(false, "opcode number " + std::to_string(int(site.op.opcode)));
}

}  // namespace

std::vector<Tangent> transpose(const Computation& source, const std::vector<bool>& linear,
                               const Tangent& cotangent, ir::Cloner& cloner, Computation* target) {
  const std::vector<bool> reached = forward_slice(source, linear);
  std::vector<Tangent> cotangents(source.instructions().size());
  ir::Builder b(target);
  if (reached[std::size_t(source.root()->index)]) {
    cotangents[std::size_t(source.root()->index)] = cotangent;
  }
  for (std::size_t n = source.root()->index + 1; n-- > 0;) {
    const Instruction& i = *source.instructions()[n];
    if (i.is(Opcode::parameter) || cotangents[n].is_zero()) continue;
    b.metadata = i.metadata;
    TransposeSite site{b, i, std::move(cotangents[n]), cloner, reached, cotangents};
    apply_rule(site);
  }
  std::vector<Tangent> out(linear.size());
  for (std::size_t k = 0; k < linear.size(); ++k) {
    if (linear[k]) out[k] = cotangents[std::size_t(source.parameter(k)->index)];
  }
  return out;
}

Instruction* TransposeSite::operand(std::size_t k) const {
  TESSERA_CHECK(!is_linear(k), op.describe() + ": operand " + std::to_string(k) + " is linear");
  return cloner.clone_with_operands(*op.operand(k));
}

void TransposeSite::give(std::size_t k, const Tangent& cotangent) const {
  if (!is_linear(k) || cotangent.is_zero()) return;
  Tangent& all = cotangents[std::size_t(op.operand(k)->index)];
  all = sum(b, all, cotangent);
}

Instruction* TransposeSite::clone_on(std::vector<Instruction*> operands) const {
  ir::InstructionData data = op;
  if (ir::is_collective(op.opcode)) ir::give_fresh_channel(&data.attrs, b.module());
  auto copy = std::make_unique<Instruction>(std::move(data));
  copy->set_operands(std::move(operands));
  copy->set_called(op.called());
  return b.computation()->add(std::move(copy));
}

void TransposeSite::refuse(const std::string& why) const {
  throw NotImplementedError("can't transpose " + op.describe() + ": " + why, op.location());
}

void transpose_none(TransposeSite& s) {
  s.refuse(std::string(ir::name(s.op.opcode)) + " is not linear in what it depends on");
}

}  // namespace tessera::transforms
