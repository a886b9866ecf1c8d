// SPDX-License-Identifier: Apache-2.0
// Convolutions without dims along which nothing is convolved.
#include "src/passes/products/drop_unit_windows.h"

#include <initializer_list>
#include <utility>

#include "src/ir/rewrite/patterns.h"

namespace tessera::passes {
namespace {

using ir::ConvolutionAttrs;
using ir::Instruction;
using ir::Opcode;

bool is_unit(const Instruction& op, const ConvolutionAttrs& a, std::size_t s) {
  const ir::WindowDim& w = a.window[s];
  return w.size == 1 && w.pad_low == 0 && w.pad_high == 0 &&
         op.operand(0)->shape.dim(a.input_spatial[s]) == 1 &&
         op.operand(1)->shape.dim(a.kernel_spatial[s]) == 1 &&
         op.shape.dim(a.output_spatial[s]) == 1;
}

/// Drops dim `spatial[s]` of `dims`, and what numbers dims behind it.
void drop(Dims* dims, Dims* spatial, std::size_t s, std::initializer_list<std::int64_t*> others) {
  const std::int64_t at = (*spatial)[s];
  dims->erase(dims->begin() + at);
  spatial->erase(spatial->begin() + std::ptrdiff_t(s));
  for (std::int64_t& d : *spatial) d -= d > at ? 1 : 0;
  for (std::int64_t* d : others) *d -= *d > at ? 1 : 0;
}

Instruction* without_units(const Instruction& op, ir::Builder& b) {
  ConvolutionAttrs a = op.get<ConvolutionAttrs>();
  Dims in = op.operand(0)->shape.dims, kernel = op.operand(1)->shape.dims, out = op.shape.dims;
  const std::size_t before = a.window.size();
  for (std::size_t s = before; s-- > 0 && a.window.size() > 1;) {
    // Dims that are left have other numbers, but stand in the same order.
    const ConvolutionAttrs& of = op.get<ConvolutionAttrs>();
    if (!is_unit(op, of, s)) continue;
    drop(&in, &a.input_spatial, s, {&a.input_batch, &a.input_feature});
    drop(&kernel, &a.kernel_spatial, s, {&a.kernel_input_feature, &a.kernel_output_feature});
    drop(&out, &a.output_spatial, s, {&a.output_batch, &a.output_feature});
    a.window.erase(a.window.begin() + std::ptrdiff_t(s));
  }
  if (a.window.size() == before || !op.control_predecessors().empty()) return nullptr;
  Instruction* x = b.reshape(op.operands()[0], in);
  Instruction* k = b.reshape(op.operands()[1], kernel);
  Instruction* made = b.emit_shaped(Opcode::convolution, Shape(op.shape.dtype, out), {x, k}, a);
  made->frontend_attributes = op.frontend_attributes;
  made->backend_config = op.backend_config;
  return b.reshape(made, op.shape.dims);
}

}  // namespace

std::size_t drop_unit_windows(ir::Module* module) {
  static const auto& patterns =
      ir::keep(ir::PatternSet("drop-unit-windows").add(Opcode::convolution, without_units));
  return ir::apply_patterns_greedily(module, patterns);
}

}  // namespace tessera::passes
