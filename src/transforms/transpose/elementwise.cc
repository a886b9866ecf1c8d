// SPDX-License-Identifier: Apache-2.0
// Transposes of elementwise ops. Cotangents of complex numbers pair with tangents by the real part
// of the plain product, without conjugation.
#include "src/transforms/transpose/site.h"

namespace tessera::transforms {

using ir::Instruction;
using ir::Opcode;

void transpose_identity(TransposeSite& s) { s.give(0, s.ct); }

void transpose_add_dependency(TransposeSite& s) { s.give(0, s.ct); }

void transpose_add(TransposeSite& s) {
  s.give(0, s.ct);
  s.give(1, s.ct);
}

void transpose_subtract(TransposeSite& s) {
  s.give(0, s.ct);
  if (s.is_linear(1)) s.give(1, s.b.unary(Opcode::negate, s.ct.array));
}

void transpose_negate(TransposeSite& s) { s.give(0, s.b.unary(Opcode::negate, s.ct.array)); }

void transpose_multiply(TransposeSite& s) {
  const std::size_t k = s.is_linear(0) ? 0 : 1;
  s.give(k, s.b.binary(Opcode::multiply, s.ct.array, s.operand(1 - k)));
}

void transpose_divide(TransposeSite& s) {
  s.give(0, s.b.binary(Opcode::divide, s.ct.array, s.operand(1)));
}

void transpose_complex(TransposeSite& s) {
  if (s.is_linear(0)) s.give(0, s.b.unary(Opcode::real, s.ct.array));
  if (s.is_linear(1)) {
    s.give(1, s.b.unary(Opcode::negate, s.b.unary(Opcode::imag, s.ct.array)));
  }
}

void transpose_real(TransposeSite& s) {
  if (!is_complex(s.shape(0).dtype)) return s.give(0, s.ct);
  s.give(0, s.b.binary(Opcode::complex, s.ct.array, zeros(s.b, s.op.shape)));
}

void transpose_imag(TransposeSite& s) {
  if (!is_complex(s.shape(0).dtype)) return;
  Instruction* minus = s.b.unary(Opcode::negate, s.ct.array);
  s.give(0, s.b.binary(Opcode::complex, zeros(s.b, s.op.shape), minus));
}

void transpose_convert(TransposeSite& s) {
  const bool to_real = is_complex(s.op.shape.dtype) && !is_complex(s.shape(0).dtype);
  Instruction* ct = to_real ? s.b.unary(Opcode::real, s.ct.array) : s.ct.array;
  s.give(0, s.b.convert(ct, s.shape(0).dtype));
}

void transpose_reduce_precision(TransposeSite& s) { s.give(0, s.clone_on({s.ct.array})); }

void transpose_select(TransposeSite& s) {
  Instruction* chosen = s.operand(0);
  Instruction* zero = zeros(s.b, s.op.shape);
  if (s.is_linear(1)) s.give(1, s.b.select(chosen, s.ct.array, zero));
  if (s.is_linear(2)) s.give(2, s.b.select(chosen, zero, s.ct.array));
}

// ------------------------------------------------------------------ tuples, barriers, constraints

void transpose_tuple(TransposeSite& s) {
  for (std::size_t k = 0; k < s.op.operands().size(); ++k) s.give(k, s.ct.element(k));
}

void transpose_get_tuple_element(TransposeSite& s) {
  std::vector<Tangent> elements(s.shape(0).elements.size());
  elements[std::size_t(s.get<ir::GetTupleElementAttrs>().index)] = s.ct;
  s.give(0, Tangent::tuple(std::move(elements)));
}

/// A constraint on a value is one on its cotangent, too. The cotangent of a partial sum is the same
/// for all its parts, and that of a reduced value is a partial sum.
void transpose_sharding_constraint(TransposeSite& s) {
  Instruction* out = s.clone_on({s.ct.array});
  out->sharding = s.op.sharding;
  if (out->sharding.size() == 1 && out->sharding[0].mesh != nullptr) {
    TensorSharding& sharding = out->sharding[0];
    auto& reduced = out->edit<ir::ShardingConstraintAttrs>().reduced;
    std::vector<std::string> unreduced = std::move(reduced);
    reduced.clear();
    for (const int a : sharding.unreduced) {
      reduced.push_back(sharding.mesh->axes[std::size_t(a)].name);
    }
    sharding.unreduced.clear();
    for (const std::string& name : unreduced) {
      sharding.unreduced.push_back(sharding.mesh->find(name));
    }
    std::sort(sharding.unreduced.begin(), sharding.unreduced.end());
    sharding.reduction = Reduction::sum;
  }
  s.give(0, out);
}

void transpose_device_placement(TransposeSite& s) {
  ir::DevicePlacementAttrs back = s.op.get<ir::DevicePlacementAttrs>();
  std::swap(back.memory, back.source);
  s.give(0, s.b.emit(Opcode::device_placement, {s.ct.array}, std::move(back)));
}

void transpose_propagation_barrier(TransposeSite& s) {
  Instruction* out = s.clone_on({s.ct.array});
  auto& a = out->edit<ir::PropagationBarrierAttrs>();
  std::swap(a.forward, a.backward);
  s.give(0, out);
}

void transpose_opt_barrier(TransposeSite& s) {
  std::vector<Instruction*> known;
  std::vector<std::size_t> places;
  if (!s.op.shape.is_tuple) return s.give(0, s.b.unary(Opcode::opt_barrier, s.ct.array));
  for (std::size_t k = 0; k < s.op.shape.elements.size(); ++k) {
    if (s.ct.element(k).is_zero()) continue;
    known.push_back(s.ct.element(k).array);
    places.push_back(k);
  }
  std::vector<Tangent> out(s.op.shape.elements.size());
  const bool one = known.size() == 1;
  Instruction* behind = s.b.unary(Opcode::opt_barrier, one ? known[0] : s.b.tuple(known));
  const std::vector<Instruction*> elements = elements_of(s.b, behind);
  for (std::size_t k = 0; k < places.size(); ++k) out[places[k]] = elements[k];
  s.give(0, Tangent::tuple(std::move(out)));
}

}  // namespace tessera::transforms
