// SPDX-License-Identifier: Apache-2.0
// Padding with the element that windows take for what is outside.
#include "src/passes/products/fold_pads.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "src/ir/rewrite/patterns.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

const Literal* scalar_constant(const Instruction& x) {
  if (!x.is(Opcode::constant) || !x.shape.is_scalar() || x.get<ir::ConstantAttrs>().elided) {
    return nullptr;
  }
  return &x.get<ir::ConstantAttrs>().value;
}

/// +0: -0 would be another sum.
bool is_zero(const Instruction& x) {
  const Literal* value = scalar_constant(x);
  return value != nullptr && std::all_of(value->bytes(), value->bytes() + value->byte_count(),
                                         [](std::byte b) { return b == std::byte(0); });
}

bool same_value(const Instruction& a, const Instruction& b) {
  if (&a == &b) return true;
  const Literal *x = scalar_constant(a), *y = scalar_constant(b);
  return x != nullptr && y != nullptr && *x == *y;
}

bool pads_nothing(const ir::PadDim& d) { return d.low == 0 && d.high == 0 && d.interior == 0; }

/// Whether windows along a dim can have the padding.
bool joins(const ir::PadDim& pad, const ir::WindowDim& window) {
  return pads_nothing(pad) ||
         (pad.low >= 0 && pad.high >= 0 && pad.interior == 0 && window.lhs_dilation == 1);
}

Instruction* padded_convolution(const Instruction& conv, ir::Builder& b) {
  const Instruction& pad = *conv.operand(0);
  if (!pad.is(Opcode::pad) || !is_zero(*pad.operand(1)) || !conv.control_predecessors().empty()) {
    return nullptr;
  }
  ir::ConvolutionAttrs a = conv.get<ir::ConvolutionAttrs>();
  const std::vector<ir::PadDim>& dims = pad.get<ir::PadAttrs>().dims;
  for (const std::int64_t d : {a.input_batch, a.input_feature}) {
    if (!pads_nothing(dims[std::size_t(d)])) return nullptr;
  }
  for (std::size_t d = 0; d < a.window.size(); ++d) {
    const ir::PadDim& p = dims[std::size_t(a.input_spatial[d])];
    if (!joins(p, a.window[d])) return nullptr;
    a.window[d].pad_low += p.low;
    a.window[d].pad_high += p.high;
  }
  Instruction* out = b.emit_shaped(Opcode::convolution, conv.shape,
                                   {pad.operand(0), conv.operand(1)}, std::move(a));
  out->frontend_attributes = conv.frontend_attributes;
  out->backend_config = conv.backend_config;
  return out;
}

Instruction* padded_windows(const Instruction& i, ir::Builder& b) {
  const Instruction& pad = *i.operand(0);
  if (i.operands().size() != 2 || !pad.is(Opcode::pad) || !i.control_predecessors().empty()) {
    return nullptr;
  }
  // What the window starts from changes nothing, however often it is combined.
  const auto op = ir::as_binary_reducer(*i.called(0));
  const auto neutral = op ? ir::identity_of(*op, i.shape.dtype) : std::nullopt;
  const Literal* value = scalar_constant(*pad.operand(1));
  if (!neutral || value == nullptr || !(*value == *neutral) ||
      !same_value(*pad.operand(1), *i.operand(1))) {
    return nullptr;
  }
  ir::WindowAttrs a = i.get<ir::WindowAttrs>();
  const std::vector<ir::PadDim>& dims = pad.get<ir::PadAttrs>().dims;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (!joins(dims[d], a.dims[d])) return nullptr;
    a.dims[d].pad_low += dims[d].low;
    a.dims[d].pad_high += dims[d].high;
  }
  return ir::emit_like(b, i, {pad.operand(0), i.operand(1)}, std::move(a), &i.shape);
}

}  // namespace

std::size_t fold_pads(ir::Module* module) {
  static const auto& patterns = ir::keep(ir::PatternSet("fold-pads")
                                             .add(Opcode::convolution, padded_convolution)
                                             .add(Opcode::reduce_window, padded_windows));
  return ir::apply_patterns_greedily(module, patterns);
}

}  // namespace tessera::passes
