// SPDX-License-Identifier: Apache-2.0
// A window says whether it goes through the filter from its end, and the dim numbers say where each
// dim of the filter is.
#include "src/passes/products/fold_filter_views.h"

#include <algorithm>
#include <utility>

#include "src/base/contains.h"
#include "src/ir/rewrite/patterns.h"

namespace tessera::passes {
namespace {

using ir::ConvolutionAttrs;
using ir::Instruction;
using ir::Opcode;

/// With fewer features kernels go through neighbouring taps at once, which is worth more than a
/// copy of such a filter. Not so between zeros.
constexpr std::int64_t kFewFeatures = 32;

bool joins_taps(const ir::WindowDim& w, std::int64_t features) {
  return w.size > 1 && w.lhs_dilation == 1 && w.rhs_dilation == 1 && features < kFewFeatures;
}

/// False if features are reversed, too, or it doesn't pay.
bool fold_reverse(const Dims& reversed, const Shape& filter, ConvolutionAttrs* a) {
  if (contains(reversed, a->kernel_input_feature) || contains(reversed, a->kernel_output_feature)) {
    return false;
  }
  for (std::size_t d = 0; d < a->window.size(); ++d) {
    if (contains(reversed, a->kernel_spatial[d]) &&
        joins_taps(a->window[d], filter.dim(a->kernel_input_feature))) {
      return false;
    }
  }
  for (std::size_t d = 0; d < a->window.size(); ++d) {
    if (!contains(reversed, a->kernel_spatial[d])) continue;
    a->window[d].reversal = !a->window[d].reversal && a->window[d].size > 1;
  }
  return true;
}

void fold_transpose(const Dims& perm, ConvolutionAttrs* a) {
  const auto before = [&](std::int64_t* d) { *d = perm[std::size_t(*d)]; };
  before(&a->kernel_input_feature);
  before(&a->kernel_output_feature);
  std::for_each(a->kernel_spatial.begin(), a->kernel_spatial.end(),
                [&](std::int64_t& d) { before(&d); });
}

Instruction* filter_as_it_is(const Instruction& conv, ir::Builder& b) {
  const Instruction& view = *conv.operand(1);
  if (!conv.control_predecessors().empty() || !view.control_predecessors().empty()) return nullptr;
  ConvolutionAttrs a = conv.get<ConvolutionAttrs>();
  if (view.is(Opcode::transpose)) {
    fold_transpose(view.get<ir::DimensionsAttrs>().dims, &a);
  } else if (!view.is(Opcode::reverse) ||
             !fold_reverse(view.get<ir::DimensionsAttrs>().dims, view.shape, &a)) {
    return nullptr;
  }
  Instruction* out = b.emit_shaped(Opcode::convolution, conv.shape,
                                   {conv.operand(0), view.operand(0)}, std::move(a));
  out->frontend_attributes = conv.frontend_attributes;
  out->backend_config = conv.backend_config;
  return out;
}

}  // namespace

std::size_t fold_filter_views(ir::Module* module) {
  static const auto& patterns =
      ir::keep(ir::PatternSet("fold-filter-views").add(Opcode::convolution, filter_as_it_is));
  return ir::apply_patterns_greedily(module, patterns);
}

}  // namespace tessera::passes
