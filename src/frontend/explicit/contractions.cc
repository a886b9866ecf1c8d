// SPDX-License-Identifier: Apache-2.0
// Explicit mode's rules of dots and convolutions.
#include <algorithm>

#include "src/base/contains.h"
#include "src/frontend/explicit/rules.h"

namespace tessera::frontend::explicit_rules {

using AxisList = ShardingType::AxisList;

namespace {

std::string entry(const AxisList& axes) { return SpecEntry(axes).to_string(); }

/// The result's dims as the operands' free dims say, whatever is contracted.
ShardingType free_dims(const TypedOp& op) {
  const auto& attrs = op.op.get<ir::DotAttrs>();
  ShardingType out = ShardingType::replicated(op.mesh(), 0);
  for (std::size_t n = 0; n < attrs.lhs_batch.size(); ++n) {
    const AxisList& l = op.axes(0, attrs.lhs_batch[n]);
    out.dims.push_back(l.empty() ? op.axes(1, attrs.rhs_batch[n]) : l);
  }
  const auto add_free = [&](std::size_t k, const Dims& batch, const Dims& contracting) {
    for (std::int64_t d = 0; d < op.shape(k).rank(); ++d) {
      if (!contains(batch, d) && !contains(contracting, d)) out.dims.push_back(op.axes(k, d));
    }
  };
  add_free(0, attrs.lhs_batch, attrs.lhs_contracting);
  add_free(1, attrs.rhs_batch, attrs.rhs_contracting);
  return out;
}

}  // namespace

ShardingType dot(const TypedOp& op) {
  const auto& attrs = op.op.get<ir::DotAttrs>();
  const auto check = [&](const char* which, const Dims& left, const Dims& right) {
    for (std::size_t n = 0; n < left.size(); ++n) {
      const AxisList& l = op.axes(0, left[n]);
      const AxisList& r = op.axes(1, right[n]);
      if (l.empty() || r.empty() || l == r) continue;
      op.refuse(std::string("the ") + which + " dims " + std::to_string(left[n]) + " and " +
                    std::to_string(right[n]) + " are split differently, as " + entry(l) + " and " +
                    entry(r),
                "reshard() of one operand, so that both are split alike or one isn't split");
    }
  };
  check("batch", attrs.lhs_batch, attrs.rhs_batch);
  check("contracting", attrs.lhs_contracting, attrs.rhs_contracting);
  const ShardingType out = free_dims(op);
  for (std::size_t n = 0; n < attrs.lhs_contracting.size(); ++n) {
    const AxisList& axes = op.axes(0, attrs.lhs_contracting[n]);
    if (axes.empty() || op.axes(1, attrs.rhs_contracting[n]).empty()) continue;
    const std::string sharding = out.spec().to_string();
    op.refuse("the contracting dims " + std::to_string(attrs.lhs_contracting[n]) + " and " +
                  std::to_string(attrs.rhs_contracting[n]) + " are both split as " + entry(axes) +
                  ", so that how the result is sharded is ambiguous",
              "out_sharding: " + sharding +
                  ", for which the parts are added up (an all-reduce); a " + "spec with " +
                  entry(axes) + " on a dim of the result (a reduce-scatter); or " +
                  "one with unreduced={" + entry(axes) + "}, which leaves the sum for later");
  }
  return out;
}

ShardingType convolution(const TypedOp& op) {
  const auto& attrs = op.op.get<ir::ConvolutionAttrs>();
  const std::string valid =
      "out_sharding, the spec of the result; or reshard() of the operands, so that the kernel and "
      "the input's features aren't split";
  if (op.stated(1) && !op.type(1).is_replicated()) op.refuse("the kernel is split", valid);
  if (!op.axes(0, attrs.input_feature).empty()) op.refuse("the input's features are split", valid);
  ShardingType out = ShardingType::replicated(op.mesh(), op.op.shape.dims.size());
  const auto move = [&](std::int64_t from, std::int64_t to) {
    const AxisList& axes = op.axes(0, from);
    const std::int64_t parts = axes.empty() ? 1 : op.type(0).parts(std::size_t(from));
    if (op.op.shape.dims[std::size_t(to)] % parts != 0) {
      op.refuse("dim " + std::to_string(to) + " of the result, " +
                    std::to_string(op.op.shape.dims[std::size_t(to)]) +
                    ", is not a multiple of the " + std::to_string(parts) + " parts of " +
                    entry(axes),
                valid);
    }
    out.dims[std::size_t(to)] = axes;
  };
  move(attrs.input_batch, attrs.output_batch);
  for (std::size_t s = 0; s < attrs.input_spatial.size(); ++s) {
    move(attrs.input_spatial[s], attrs.output_spatial[s]);
  }
  return out;
}

}  // namespace tessera::frontend::explicit_rules
