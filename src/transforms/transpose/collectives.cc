// SPDX-License-Identifier: Apache-2.0
// Transposes of collectives.
#include "src/transforms/transpose/site.h"

namespace tessera::transforms {

using ir::Instruction;
using ir::Opcode;

void transpose_all_gather(TransposeSite& s) {
  const auto& a = s.get<ir::CollectiveAttrs>();
  if (s.op.operands().size() != 1) s.refuse("all-gathers of several arrays have no transpose");
  ir::Computation* adder = ir::scalar_computation(s.b.module(), Opcode::add, s.op.shape.dtype);
  s.give(0, s.b.reduce_scatter(s.ct.array, adder, a.dims[0], a.groups));
}

void transpose_reduce_scatter(TransposeSite& s) {
  const auto& a = s.get<ir::CollectiveAttrs>();
  if (s.op.operands().size() != 1) s.refuse("reduce-scatters of several arrays have no transpose");
  s.give(0, s.b.all_gather(s.ct.array, a.dims[0], a.groups));
}

void transpose_all_to_all(TransposeSite& s) {
  const auto& a = s.get<ir::CollectiveAttrs>();
  if (s.op.operands().size() != 1 || a.dims.empty()) {
    s.refuse("all-to-alls of several arrays have no transpose");
  }
  // Block i of device j goes to place j of device i: its own inverse.
  s.give(0, s.clone_on({s.ct.array}));
}

void transpose_collective_permute(TransposeSite& s) {
  auto pairs = s.get<ir::PermuteAttrs>().source_target_pairs;
  for (auto& [source, target] : pairs) std::swap(source, target);
  s.give(0, s.b.collective_permute(s.ct.array, pairs));
}

void transpose_all_reduce(TransposeSite& s) {
  s.refuse("it belongs to code per device, of which there are no transposes yet");
}

void transpose_pvary(TransposeSite& s) {
  s.refuse("it belongs to code per device, of which there are no transposes yet");
}

}  // namespace tessera::transforms
