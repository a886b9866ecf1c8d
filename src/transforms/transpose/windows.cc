// SPDX-License-Identifier: Apache-2.0
// Transposes of sums over windows, and of choices within windows.
#include "src/transforms/utils/windows.h"
#include "src/transforms/transpose/site.h"

namespace tessera::transforms {

using ir::Instruction;
using ir::Opcode;

namespace {

/// Of a sum over windows: each element goes back to all places of its window, which is a sum over
/// windows of the dilated cotangent.
Instruction* spread(TransposeSite& s) {
  const auto& a = s.get<ir::WindowAttrs>();
  ir::WindowAttrs back = a;
  std::vector<ir::PadDim> pad;
  for (std::size_t d = 0; d < a.dims.size(); ++d) {
    const ir::WindowDim& w = a.dims[d];
    const std::int64_t window = dilated(w.size, w.rhs_dilation);
    const std::int64_t in = dilated(s.shape(0).dims[d], w.lhs_dilation);
    const std::int64_t out = dilated(s.op.shape.dims[d], w.stride);
    const std::int64_t low = window - 1 - w.pad_low;
    pad.push_back({low, in + window - 1 - out - low, w.stride - 1});
    back.dims[d] = ir::WindowDim{w.size, w.lhs_dilation, 0, 0, 1, w.rhs_dilation, false};
  }
  Instruction* zero = s.b.zero(s.op.shape.dtype);
  return s.b.emit(Opcode::reduce_window, {s.b.pad(s.ct.array, zero, pad), zero}, back,
                  {s.op.called(0)});
}

}  // namespace

void transpose_reduce_window(TransposeSite& s) {
  const std::size_t count = s.op.operands().size() / 2;
  if (count == 1) {
    if (s.is_linear(0)) s.give(0, spread(s));
    if (s.is_linear(1)) s.refuse("its initial value may not depend on what is differentiated");
    return;
  }
  // What jvp makes of a maximum over windows: of each window the tangent at the place that a key
  // chooses.
  const std::optional<ir::Direction> direction = chosen_tangent_direction(s.op);
  if (!direction || s.is_linear(0) || !s.is_linear(1)) {
    s.refuse("reduce-window of several arrays is not linear");
  }
  ir::Computation* select = comparison(s.b.module(), *direction, s.shape(0).dtype);
  ir::Computation* adder = ir::scalar_computation(s.b.module(), Opcode::add, s.shape(1).dtype);
  s.give(1, s.b.emit(Opcode::select_and_scatter,
                     {s.operand(0), s.ct.element(1).array, s.b.zero(s.shape(1).dtype)},
                     s.get<ir::WindowAttrs>(), {select, adder}));
}

void transpose_select_and_scatter(TransposeSite& s) {
  if (s.is_linear(0)) s.refuse("it is not linear in what it compares");
  if (s.is_linear(2)) s.refuse("its initial value may not depend on what is differentiated");
  const std::optional<ir::Direction> direction = comparison_direction(*s.op.called(0));
  if (!direction) s.refuse("only comparisons by ge, gt, le and lt have a transpose");
  // An operand that overlapping windows share gives to each; where windows lie does not matter.
  s.give(1, chosen_in_windows(s.b, s.operand(0), s.ct.array, s.get<ir::WindowAttrs>(), *direction));
}

}  // namespace tessera::transforms
