// SPDX-License-Identifier: Apache-2.0
// out[o] is a sum over places i of the input and k of the kernel with
//     i * lhs_dilation = o + k * rhs_dilation - pad_low,
// which counted from the other ends is the same equation with input and kernel swapped.
#include "src/passes/products/swap_convolutions.h"

#include <utility>

#include "src/ir/rewrite/patterns.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

/// To turn an element of a kernel round costs as much as so many products.
constexpr double kProductsPerReversal = 32;

/// Whether it has no strides and no groups, and the kernel covers more places: and that by more
/// than it costs to turn it round. Images of a few pixels deep in a network have large filters.
bool is_better_swapped(const Instruction& conv) {
  const auto& a = conv.get<ir::ConvolutionAttrs>();
  if (a.feature_group_count != 1 || a.batch_group_count != 1) return false;
  if (!conv.control_predecessors().empty()) return false;
  std::int64_t input = 1, kernel = 1, results = conv.shape.dim(a.output_batch);
  bool turns = false;
  for (std::size_t d = 0; d < a.window.size(); ++d) {
    if (a.window[d].stride != 1) return false;
    input *= conv.operand(0)->shape.dim(a.input_spatial[d]);
    kernel *= a.window[d].size;
    results *= conv.shape.dim(a.output_spatial[d]);
    turns = turns || (!a.window[d].reversal && a.window[d].size > 1);
  }
  if (input == 0 || input >= kernel) return false;
  // Of each element of the kernel.
  const double saved = double(results) * (1 - double(input) / double(kernel));
  constexpr std::int64_t kSmall = 1 << 14;
  return !turns || saved >= kProductsPerReversal || conv.operand(1)->shape.element_count() < kSmall;
}

ir::WindowDim swapped(const ir::WindowDim& w, std::int64_t input, std::int64_t output) {
  const std::int64_t reach = (input - 1) * w.lhs_dilation, kernel = (w.size - 1) * w.rhs_dilation;
  ir::WindowDim out;
  out.size = input;
  out.lhs_dilation = w.rhs_dilation;
  out.rhs_dilation = w.lhs_dilation;
  out.pad_low = w.pad_low + reach - kernel;
  out.pad_high = output - 1 + reach - kernel - out.pad_low;
  out.reversal = true;
  return out;
}

Instruction* as_swapped(const Instruction& conv, ir::Builder& b) {
  if (!is_better_swapped(conv)) return nullptr;
  const auto& a = conv.get<ir::ConvolutionAttrs>();
  ir::ConvolutionAttrs out;
  Dims reversed;
  for (std::size_t d = 0; d < a.window.size(); ++d) {
    out.window.push_back(swapped(a.window[d], conv.operand(0)->shape.dim(a.input_spatial[d]),
                                 conv.shape.dim(a.output_spatial[d])));
    if (!a.window[d].reversal && a.window[d].size > 1) reversed.push_back(a.kernel_spatial[d]);
  }
  out.input_batch = a.kernel_output_feature;
  out.input_feature = a.kernel_input_feature;
  out.input_spatial = a.kernel_spatial;
  out.kernel_output_feature = a.input_batch;
  out.kernel_input_feature = a.input_feature;
  out.kernel_spatial = a.input_spatial;
  out.output_batch = a.output_feature;
  out.output_feature = a.output_batch;
  out.output_spatial = a.output_spatial;
  out.operand_precision = a.operand_precision;
  if (out.operand_precision.size() == 2) {
    std::swap(out.operand_precision[0], out.operand_precision[1]);
  }
  Instruction* input = conv.operand(1);
  if (!reversed.empty()) input = b.reverse(input, reversed);
  return b.emit_shaped(Opcode::convolution, conv.shape, {input, conv.operand(0)}, std::move(out));
}

}  // namespace

std::size_t swap_convolutions(ir::Module* module) {
  static const auto& patterns =
      ir::keep(ir::PatternSet("swap-convolutions").add(Opcode::convolution, as_swapped));
  return ir::apply_patterns_greedily(module, patterns);
}

}  // namespace tessera::passes
