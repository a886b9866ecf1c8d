// SPDX-License-Identifier: Apache-2.0
// Enumerates strategies, and groups them by what they ask of tensors.
#include "src/spmd/auto_sharding/strategies.h"

#include <bit>
#include <cstdint>
#include <utility>

#include "src/spmd/rules/axis_assignment.h"
#include "src/spmd/rules/projection.h"

namespace tessera::spmd::auto_sharding {
namespace {

/// Of one op.
constexpr std::size_t kMaxStrategies = 1024;

}  // namespace

Strategies enumerate(const ModelState& state, const propagation::Op& op, const FactorAxes& now) {
  const FactorRule& rule = *op.rule;
  Strategies out;
  out.uses = factor_uses(rule);
  std::vector<Projection> projections;
  std::vector<char> placed = state.inactive();
  const auto look = [&](const IndexList& values, const std::vector<TensorFactors>& tensors) {
    for (std::size_t k = 0; k < values.size(); ++k) {
      if (!state.takes_part(values[k])) continue;
      // Rules of data flow don't know the sizes.
      const Dims& dims = state.graph.values[std::size_t(values[k])].dims;
      for (std::size_t d = 0; d < tensors[k].size() && d < dims.size(); ++d) {
        if (tensors[k][d].size() == 1) out.uses[std::size_t(tensors[k][d][0])].size = dims[d];
      }
      const TensorSharding& s = state.current[std::size_t(values[k])];
      if (s.dims.size() != tensors[k].size()) continue;
      projections.push_back(project(*state.mesh, rule, tensors[k], s));
      state.place_manual(s, &placed);
    }
  };
  look(op.operands, rule.operands);
  look(op.results, rule.results);
  out.list.push_back(now);
  AxisAssignments all(
      state.groups, std::move(placed),
      [&](std::size_t f, const IndexList& axes) {
        return out.uses[f].carries && !rule.factors[f].blocked &&
               (rule.factors[f].uneven || can_split(*state.mesh, out.uses, projections, f, axes));
      },
      [&](const FactorAxes& axes) {
        if (axes != now && is_expressible(*state.mesh, rule, axes)) out.list.push_back(axes);
        return out.list.size() < kMaxStrategies;
      });
  FactorAxes fixed = now;
  for (IndexList& axes : fixed) axes = state.without_active(axes);
  all.run(std::move(fixed));
  return out;
}

std::optional<FactorAxes> agreement(const ModelState& state, const propagation::Op& op) {
  const FactorRule& rule = *op.rule;
  const std::vector<FactorUse> uses = factor_uses(rule);
  std::vector<Projection> projections;
  const auto add = [&](const IndexList& values, const std::vector<TensorFactors>& tensors) {
    for (std::size_t k = 0; k < values.size(); ++k) {
      if (!state.takes_part(values[k])) continue;
      const TensorSharding& s = state.current[std::size_t(values[k])];
      if (s.dims.size() != tensors[k].size() || !s.unreduced.empty()) return false;
      projections.push_back(project(*state.mesh, rule, tensors[k], s));
    }
    return true;
  };
  if (!add(op.operands, rule.operands) || !add(op.results, rule.results)) return std::nullopt;
  std::optional<FactorAxes> out = common_axes(rule, projections);
  for (std::size_t f = 0; out && f < out->size(); ++f) {
    if ((*out)[f].empty()) continue;
    // What is summed up must then be completed.
    if (!uses[f].carries || rule.factors[f].blocked || !uses[f].in_result) return std::nullopt;
  }
  return out;
}

Columns columns_of(const FactorRule& rule, const Strategies& strategies,
                   const std::vector<TensorUse>& tensors) {
  std::vector<char> matters(rule.factors.size(), 0);
  for (const TensorUse& t : tensors) {
    for (const IndexList& dim : *t.factors) {
      for (const int f : dim) matters[std::size_t(f)] = 1;
    }
    for (std::size_t f = 0; t.is_result && f < matters.size(); ++f) {
      matters[f] |= !strategies.uses[f].in_result;
    }
  }
  const auto same = [&](const FactorAxes& a, const FactorAxes& b) {
    for (std::size_t f = 0; f < matters.size(); ++f) {
      if (matters[f] && a[f] != b[f]) return false;
    }
    return true;
  };
  Columns out;
  out.of.reserve(strategies.list.size());
  // By hash: the first column with it, and by column the next one.
  std::vector<int> first(std::bit_ceil(2 * strategies.list.size()), -1), next;
  for (const FactorAxes& axes : strategies.list) {
    std::uint64_t hash = 0;
    for (std::size_t f = 0; f < matters.size(); ++f) {
      if (!matters[f]) continue;
      for (const int a : axes[f]) hash = (hash + std::uint64_t(a) + 1) * 0x9E3779B97F4A7C15ull;
      hash = (hash + 0x55) * 0x9E3779B97F4A7C15ull;
    }
    int& head = first[std::size_t(hash >> 32) & (first.size() - 1)];
    int column = head;
    while (column >= 0 && !same(strategies.list[out.example[std::size_t(column)]], axes)) {
      column = next[std::size_t(column)];
    }
    if (column < 0) {
      column = int(out.example.size());
      out.example.push_back(out.of.size());
      next.push_back(std::exchange(head, column));
    }
    out.of.push_back(column);
  }
  return out;
}

std::vector<std::vector<std::size_t>> blocks(std::size_t groups) {
  std::vector<std::vector<std::size_t>> out;
  if (groups <= 2) {
    out.emplace_back(groups);
    for (std::size_t g = 0; g < groups; ++g) out.back()[g] = g;
    return out;
  }
  for (std::size_t a = 0; a < groups; ++a) {
    for (std::size_t b = a + 1; b < groups; ++b) out.push_back({a, b});
  }
  return out;
}

}  // namespace tessera::spmd::auto_sharding
