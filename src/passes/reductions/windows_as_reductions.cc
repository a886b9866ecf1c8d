// SPDX-License-Identifier: Apache-2.0
// Makes reductions of windows that see all elements of the dims that they see, and copies of those
// that see one element each.
#include "src/passes/reductions/windows_as_reductions.h"

#include <optional>
#include <vector>

#include "src/ir/analysis/splat_constants.h"
#include "src/ir/rewrite/patterns.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

Instruction* as_reduction(const Instruction& i, ir::Builder& b) {
  if (i.shape.is_tuple || i.operands().size() != 2 || !i.control_predecessors().empty()) {
    return nullptr;
  }
  const Shape& x = i.operand(0)->shape;
  if (x.dtype != i.shape.dtype) return nullptr;
  const auto& window = i.get<ir::WindowAttrs>().dims;
  Dims reduced;
  for (std::int64_t d = 0; d < x.rank(); ++d) {
    ir::WindowDim whole;
    whole.size = x.dim(d);
    // There is one place for it, so that it doesn't matter how far apart they are.
    whole.stride = window[std::size_t(d)].stride;
    if (window[std::size_t(d)] == ir::WindowDim{}) continue;
    if (x.dim(d) == 0 || window[std::size_t(d)] != whole) return nullptr;
    reduced.push_back(d);
  }
  if (reduced.empty()) return nullptr;
  Instruction* sums = b.reduce(i.operand(0), i.operand(1), reduced, i.called().at(0));
  return b.reshape(sums, i.shape.dims);
}

/// How often elements along a dim are repeated by windows that see one of them each, from the first
/// result on; 1 if windows are single elements, as they stand. `pad`: in front of the window's own.
std::optional<std::int64_t> repeats(const ir::WindowDim& w, const ir::PadDim& pad) {
  if (w == ir::WindowDim{} && pad.low == 0 && pad.high == 0 && pad.interior == 0) return 1;
  // Both are possible, but nobody writes that.
  if (pad.interior > 0 && w.lhs_dilation > 1) return std::nullopt;
  const std::int64_t apart = pad.interior > 0 ? pad.interior + 1 : w.lhs_dilation;
  const bool plain = w.stride == 1 && w.rhs_dilation == 1 && !w.reversal;
  if (apart == 1 || !plain || w.size != apart || pad.low < 0 || w.pad_low < 0 ||
      pad.low + w.pad_low != apart - 1 || pad.high < 0 || w.pad_high < 0) {
    return std::nullopt;
  }
  return apart;
}

Instruction* as_copies(const Instruction& i, ir::Builder& b) {
  if (i.shape.is_tuple || i.operands().size() != 2 || !i.control_predecessors().empty() ||
      i.operand(0)->shape.dtype != i.shape.dtype) {
    return nullptr;
  }
  // What windows begin with, and see around the elements, changes nothing.
  const auto op = ir::as_binary_reducer(*i.called().at(0));
  const auto neutral = op ? ir::identity_of(*op, i.shape.dtype) : std::nullopt;
  const Literal* init = ir::splat_constant(*i.operand(1));
  if (!neutral || init == nullptr || !(*init == *neutral)) return nullptr;
  Instruction* x = i.operand(0);
  std::vector<ir::PadDim> pads(x->shape.dims.size());
  if (x->is(Opcode::pad)) {
    const Literal* between = ir::splat_constant(*x->operand(1));
    if (between == nullptr || !(*between == *neutral)) return nullptr;
    pads = x->get<ir::PadAttrs>().dims;
    x = x->operand(0);
  }
  Dims apart, places, whole;
  std::vector<ir::PadDim> behind(pads.size());
  bool any = false;
  for (std::size_t d = 0; d < pads.size(); ++d) {
    const auto times = repeats(i.get<ir::WindowAttrs>().dims[d], pads[d]);
    const std::int64_t size = x->shape.dims[d];
    if (!times || size == 0) return nullptr;
    places.push_back(std::int64_t(apart.size()));
    apart.push_back(size);
    if (*times > 1) apart.push_back(*times);
    whole.push_back(size * *times);
    behind[d].high = i.shape.dims[d] - whole.back();
    any = any || *times > 1;
  }
  if (!any) return nullptr;
  Instruction* out = b.reshape(b.broadcast(x, apart, places), whole);
  return whole == i.shape.dims ? out : b.pad(out, i.operand(1), behind);
}

}  // namespace

std::size_t windows_as_copies(ir::Module* module) {
  static const auto& patterns =
      ir::keep(ir::PatternSet("windows-as-copies").add(Opcode::reduce_window, as_copies));
  return ir::walk_and_apply_patterns(module, patterns);
}

std::size_t windows_as_reductions(ir::Module* module) {
  static const auto& patterns =
      ir::keep(ir::PatternSet("windows-as-reductions").add(Opcode::reduce_window, as_reduction));
  return ir::walk_and_apply_patterns(module, patterns);
}

}  // namespace tessera::passes
