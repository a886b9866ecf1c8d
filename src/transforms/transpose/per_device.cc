// SPDX-License-Identifier: Apache-2.0
// Transposes of linear code per device (shard_map).
#include "src/transforms/transpose/site.h"
#include "src/transforms/transpose/varying_types.h"
#include "src/transforms/utils/leaves.h"

namespace tessera::transforms {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

/// Cotangents go in as the results came out, and come out as the operands went in.
void transpose_manual_computation(TransposeSite& s) {
  const auto& attrs = s.get<ir::ManualComputationAttrs>();
  for (const TensorSharding& sharding : attrs.out_shardings) {
    if (sharding.unreduced.empty()) continue;
    s.refuse("a result of it is unreduced: " + sharding.to_string());
  }
  ir::ManualComputationAttrs back_attrs = attrs;
  back_attrs.in_shardings.clear();
  back_attrs.out_shardings.clear();
  std::vector<bool> linear;
  for (std::size_t k = 0; k < s.op.operands().size(); ++k) linear.push_back(s.is_linear(k));
  const Computation& body = *with_explicit_pvary(s.op, linear);
  Computation* back = body.module()->add_computation(s.op.called(0)->name() + ".transpose");
  ir::Builder in(back);
  in.metadata = s.op.metadata;
  ir::Cloner cloner(body, back);
  std::vector<Instruction*> operands;
  std::int64_t number = 0;
  for (std::size_t k = 0; k < linear.size(); ++k) {
    if (linear[k]) continue;
    operands.push_back(s.operand(k));
    back_attrs.in_shardings.push_back(attrs.in_shardings[k]);
    cloner.map(body.parameter(k), in.parameter(number++, body.parameter(k)->shape));
  }
  std::vector<Instruction*> ct = leaves_of(s.ct, s.op.shape);
  for (std::size_t k = 0; k < ct.size(); ++k) {
    if (ct[k] == nullptr) continue;
    operands.push_back(ct[k]);
    back_attrs.in_shardings.push_back(attrs.out_shardings[k]);
    ct[k] = in.parameter(number++, body.root()->operand(k)->shape);
  }
  const std::vector<Tangent> out =
      transpose(body, linear, tangent_from_leaves(body.root()->shape, ct), cloner, back);
  std::vector<Instruction*> root;
  std::vector<Shape> shapes;
  for (std::size_t k = 0; k < out.size(); ++k) {
    if (out[k].is_zero()) continue;
    root.push_back(out[k].array);
    shapes.push_back(s.shape(k));
    back_attrs.out_shardings.push_back(attrs.in_shardings[k]);
  }
  in.metadata = s.op.metadata;
  back->set_root(in.tuple(root));
  const std::vector<Instruction*> all =
      elements_of(s.b, s.b.emit_shaped(Opcode::manual_computation, Shape::tuple(shapes), operands,
                                       back_attrs, {back}));
  std::size_t next = 0;
  for (std::size_t k = 0; k < out.size(); ++k) {
    if (!out[k].is_zero()) s.give(k, all[next++]);
  }
}

}  // namespace tessera::transforms
