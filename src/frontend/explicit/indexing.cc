// SPDX-License-Identifier: Apache-2.0
// Explicit mode's rules of gathers and scatters, and of ops that follow a factor rule.
#include <algorithm>

#include "src/base/contains.h"
#include "src/frontend/explicit/rules.h"
#include "src/spmd/rules/factor_rule.h"

namespace tessera::frontend::explicit_rules {

using AxisList = ShardingType::AxisList;

namespace {

const char* const kIndexAdvice =
    "out_sharding, the spec of the result, as in take(x, ids, axis, P(...)), "
    "at(x, {ids}).get({.out_sharding = P(...)}) or with_out_sharding(P(...), [&] { ... }); or "
    "reshard() of the operand, so that dims that are "
    "indexed aren't split";

/// The axes of two dims that must agree; the one that has some wins.
const AxisList& agreed(const TypedOp& op, const std::string& what, const AxisList& a,
                       const AxisList& b) {
  if (!a.empty() && !b.empty() && a != b) {
    op.refuse(what + " are split differently, as " + SpecEntry(a).to_string() + " and " +
                  SpecEntry(b).to_string(),
              kIndexAdvice);
  }
  return a.empty() ? b : a;
}

}  // namespace

ShardingType gather(const TypedOp& op) {
  const auto& attrs = op.op.get<ir::GatherAttrs>();
  const Dims& operand = op.shape(0).dims;
  for (std::size_t d = 0; d < operand.size(); ++d) {
    if (op.axes(0, std::int64_t(d)).empty() || attrs.slice_sizes[d] == operand[d]) continue;
    if (contains(attrs.operand_batching_dims, std::int64_t(d))) continue;
    op.refuse("dim " + std::to_string(d) + " of what is indexed is split", kIndexAdvice);
  }
  // The dims of the indices, without that of the index vector, in order.
  std::vector<AxisList> of_indices;
  const std::int64_t index_rank = op.shape(1).rank();
  for (std::int64_t d = 0; d < index_rank; ++d) {
    const auto batch = std::find(attrs.start_indices_batching_dims.begin(),
                                 attrs.start_indices_batching_dims.end(), d);
    AxisList axes = op.axes(1, d);
    if (batch != attrs.start_indices_batching_dims.end()) {
      const auto n = std::size_t(batch - attrs.start_indices_batching_dims.begin());
      axes = agreed(op, "batch dims of what is indexed and of the indices", axes,
                    op.axes(0, attrs.operand_batching_dims[n]));
    } else if (!axes.empty()) {
      op.refuse("dim " + std::to_string(d) + " of the indices is split", kIndexAdvice);
    }
    if (d != attrs.index_vector_dim) of_indices.push_back(std::move(axes));
  }
  ShardingType out = ShardingType::replicated(op.mesh(), op.op.shape.dims.size());
  std::size_t next_index = 0;
  std::int64_t next_operand = 0;
  for (std::size_t d = 0; d < out.dims.size(); ++d) {
    if (!contains(attrs.offset_dims, std::int64_t(d))) {
      out.dims[d] = of_indices[next_index++];
      continue;
    }
    while (contains(attrs.collapsed_slice_dims, next_operand) ||
           contains(attrs.operand_batching_dims, next_operand)) {
      ++next_operand;
    }
    out.dims[d] = op.axes(0, next_operand++);
  }
  return out;
}

ShardingType scatter(const TypedOp& op) {
  const auto& attrs = op.op.get<ir::ScatterAttrs>();
  if (op.operands.size() != 3) return by_factors(op)[0];
  const std::int64_t rank = op.shape(0).rank();
  ShardingType out = ShardingType::replicated(op.mesh(), std::size_t(rank));
  // Windows: dims of the updates that stand for whole or partial dims of the operand.
  std::size_t next = 0;
  for (std::int64_t d = 0; d < rank; ++d) {
    AxisList& mine = out.dims[std::size_t(d)];
    mine = op.axes(0, d);
    if (contains(attrs.input_batching_dims, d)) continue;
    if (contains(attrs.inserted_window_dims, d)) {
      if (!mine.empty()) {
        op.refuse("dim " + std::to_string(d) + " of what is updated is indexed, and split",
                  kIndexAdvice);
      }
      continue;
    }
    const std::int64_t in_updates = attrs.update_window_dims[next++];
    const AxisList& theirs = op.axes(2, in_updates);
    if (op.shape(2).dim(in_updates) != op.shape(0).dim(d)) {
      if (!mine.empty() || !theirs.empty()) {
        op.refuse("a part of dim " + std::to_string(d) + " is updated, and it is split",
                  kIndexAdvice);
      }
      continue;
    }
    mine = agreed(op, "dim " + std::to_string(d) + " and its updates", mine, theirs);
  }
  // All other dims of indices and updates say which updates there are.
  std::vector<std::int64_t> of_updates;
  for (std::int64_t d = 0; d < op.shape(2).rank(); ++d) {
    if (!contains(attrs.update_window_dims, d)) of_updates.push_back(d);
  }
  std::size_t n = 0;
  for (std::int64_t d = 0; d < op.shape(1).rank(); ++d) {
    const bool vector = d == attrs.index_vector_dim;
    const AxisList updates = vector ? AxisList() : op.axes(2, of_updates[n]);
    if (!vector) ++n;
    const auto batch = std::find(attrs.scatter_indices_batching_dims.begin(),
                                 attrs.scatter_indices_batching_dims.end(), d);
    if (batch == attrs.scatter_indices_batching_dims.end()) {
      if (!op.axes(1, d).empty() || !updates.empty()) {
        op.refuse("dim " + std::to_string(d) + " of the indices, or its updates, is split",
                  kIndexAdvice);
      }
      continue;
    }
    const auto k = std::size_t(batch - attrs.scatter_indices_batching_dims.begin());
    AxisList& mine = out.dims[std::size_t(attrs.input_batching_dims[k])];
    const AxisList with_indices =
        agreed(op, "batch dims of what is updated and of the indices", mine, op.axes(1, d));
    mine = agreed(op, "batch dims of what is updated and of the updates", with_indices, updates);
  }
  return out;
}

std::vector<ShardingType> by_factors(const TypedOp& op) {
  const std::vector<Shape> shapes = flatten(op.op.shape);
  const auto rule = spmd::rule_for(op.op);
  // A function of the host without a rule gets whole arrays and gives such.
  const auto* call = op.op.attrs.get_if<ir::CustomCallAttrs>();
  const bool whole = call != nullptr && call->host != nullptr && !rule;
  const bool split = std::any_of(op.operands.begin(), op.operands.end(), [](const auto& t) {
    return t && !(t.is_replicated() && t.reduced.empty());
  });
  std::vector<ShardingType> out;
  for (const Shape& s : shapes) {
    out.push_back(s.is_array() ? ShardingType::replicated(op.mesh(), s.dims.size())
                               : ShardingType());
  }
  if (!split || whole) return out;
  const std::string advice =
      "auto_axes(f, out_sharding), which computes it without shardings in types; or reshard() of "
      "the operands";
  if (!rule) op.refuse("explicit mode has no rule for it", advice);
  std::vector<AxisList> of_factor(rule->factors.size());
  for (std::size_t k = 0; k < op.operands.size(); ++k) {
    if (!op.stated(k)) continue;
    for (std::size_t d = 0; d < op.type(k).dims.size(); ++d) {
      const AxisList& axes = op.type(k).dims[d];
      if (axes.empty()) continue;
      const IndexList& factors = rule->operands[k][d];
      const std::string dim = "dim " + std::to_string(d) + " of operand " + std::to_string(k);
      if (factors.size() != 1) op.refuse(dim + " is split, and split up or merged by it", advice);
      const auto f = std::size_t(factors[0]);
      if (rule->factors[f].kind != spmd::FactorKind::pass_through || rule->factors[f].blocked) {
        op.refuse(
            dim + " is split as " + SpecEntry(axes).to_string() + ", and it needs all of that dim",
            "reshard() of the operand, so that this dim isn't split; or auto_axes(f, "
            "out_sharding)");
      }
      if (!of_factor[f].empty() && of_factor[f] != axes) {
        op.refuse(dim + " is split as " + SpecEntry(axes).to_string() +
                      ", and another operand's as " + SpecEntry(of_factor[f]).to_string(),
                  "reshard() of one of them to the other's spec");
      }
      of_factor[f] = axes;
    }
  }
  for (std::size_t r = 0; r < out.size(); ++r) {
    for (std::size_t d = 0; d < out[r].dims.size(); ++d) {
      for (const int f : rule->results[r][d]) {
        const AxisList& axes = of_factor[std::size_t(f)];
        out[r].dims[d].insert(out[r].dims[d].end(), axes.begin(), axes.end());
      }
    }
  }
  return out;
}

}  // namespace tessera::frontend::explicit_rules
