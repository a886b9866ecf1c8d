// SPDX-License-Identifier: Apache-2.0
// Prices stencils as if all their arrays were split.
#include "src/spmd/auto_sharding/halo_prices.h"

#include <algorithm>
#include <cstdlib>

#include "src/ir/analysis/device_computations.h"
#include "src/ir/analysis/row_use.h"
#include "src/spmd/partitioner/stencils/region.h"
#include "src/spmd/rules/factor_use.h"

namespace tessera::spmd::auto_sharding {

using ir::Opcode;
using propagation::Op;

namespace {

bool may_move_rows(const ir::Instruction& x) {
  return x.is(Opcode::slice) || x.is(Opcode::pad) || x.is(Opcode::concatenate) ||
         x.is(Opcode::dynamic_update_slice) || x.is(Opcode::reduce_window) ||
         x.is(Opcode::convolution);
}

/// Nearly all rows of the result are those of one array, about where they are in it.
bool is_shift(const ir::RowUse& use, std::int64_t size) {
  constexpr std::int64_t kNear = 8;  // one in so many is elsewhere, or missing
  if (use.kind == ir::RowUse::Kind::windows) return true;
  return std::any_of(use.parts.begin(), use.parts.end(), [&](const ir::RowPart& p) {
    const std::int64_t of = p.array->shape.dim(p.dim);
    const std::int64_t had = std::max(size * p.stride, of * p.spread);
    return std::abs(p.offset) * kNear <= had &&
           std::abs(size * p.stride - of * p.spread) * kNear <= had;
  });
}

}  // namespace

bool has_shifts(const ir::Module& module) {
  for (const ir::Computation* c : ir::device_computations(module)) {
    for (const auto& i : c->instructions()) {
      if (!may_move_rows(*i) || !i->shape.is_array()) continue;
      for (std::int64_t d = 0; d < i->shape.rank(); ++d) {
        const std::optional<ir::RowUse> use = ir::row_use(*i, d);
        if (use && use->moves_rows() && is_shift(*use, i->shape.dim(d))) return true;
      }
    }
  }
  return false;
}

HaloPrices::HaloPrices(const propagation::Graph& graph, MeshRef mesh, cost::Machine machine,
                       bool known)
    : mesh_(std::move(mesh)), machine_(std::move(machine)), ops_(graph.ops) {
  moves_.resize(ops_.size());
  uneven_.resize(graph.values.size());
  if (!known) return;
  for (std::size_t o = 0; o < ops_.size(); ++o) find_moves(o);
  // What is computed of uneven arrays element by element is as uneven.
  bool changed = true;
  while (changed) {
    changed = false;
    for (const Op& op : ops_) {
      if (!op.elementwise || op.results.size() != 1) continue;
      const auto r = std::size_t(op.results[0]);
      for (const int v : op.operands) {
        const auto o = std::size_t(v);
        if (graph.values[o].dims != graph.values[r].dims || uneven_[o] == uneven_[r]) continue;
        uneven_[o].resize(graph.values[o].dims.size());
        uneven_[r].resize(graph.values[o].dims.size());
        for (std::size_t d = 0; d < uneven_[o].size(); ++d) {
          const char any = char(uneven_[o][d] | uneven_[r][d]);
          changed = changed || any != uneven_[o][d] || any != uneven_[r][d];
          uneven_[o][d] = uneven_[r][d] = any;
        }
      }
    }
  }
}

/// Of an op with one result.
void HaloPrices::find_moves(std::size_t o) {
  Op& op = ops_[o];
  const ir::Instruction& x = *op.instruction;
  if (!may_move_rows(x) || !x.shape.is_array() || op.rule->results.size() != 1) return;
  FactorRule rule = *op.rule;
  if (rule.operands.size() != x.operands().size()) return;
  for (std::int64_t d = 0; d < x.shape.rank(); ++d) {
    const std::optional<ir::RowUse> use = ir::row_use(x, d);
    const IndexList& factors = rule.results[0][std::size_t(d)];
    if (!use || !use->moves_rows() || factors.size() != 1) continue;
    const int f = factors[0];
    // What is put together, or in place, is split as well.
    const bool puts = x.is(Opcode::concatenate) || x.is(Opcode::dynamic_update_slice);
    for (std::size_t k = 0; puts && k < rule.operands.size(); ++k) {
      if (x.operand(k)->shape.rank() == x.shape.rank()) {
        rule.operands[k][std::size_t(d)] = {f};
      }
    }
    rule.factors[std::size_t(f)].kind = FactorKind::permutation;
    rule.factors[std::size_t(f)].uneven = true;
    moves_[o].push_back({f, d});
  }
  if (moves_[o].empty()) return;
  rules_.push_back(std::move(rule));
  op.rule = &rules_.back();
  const auto mark = [&](const IndexList& values, const std::vector<TensorFactors>& tensors) {
    for (std::size_t k = 0; k < values.size(); ++k) {
      std::vector<char>& dims = uneven_[std::size_t(values[k])];
      dims.resize(tensors[k].size());
      for (std::size_t d = 0; d < dims.size(); ++d) {
        for (const int f : tensors[k][d]) {
          dims[d] = char(dims[d] | char(op.rule->factors[std::size_t(f)].uneven));
        }
      }
    }
  };
  mark(op.operands, op.rule->operands);
  mark(op.results, op.rule->results);
}

bool HaloPrices::may_be_uneven(int value, std::size_t dim) const {
  const std::vector<char>& dims = uneven_[std::size_t(value)];
  return dim < dims.size() && dims[dim] != 0;
}

double HaloPrices::of(std::size_t op, const std::vector<IndexList>& factor_axes) {
  double total = 0;
  for (const Moved& m : moves_[op]) {
    const IndexList& axes = factor_axes[std::size_t(m.factor)];
    if (axes.empty()) continue;
    // Rows are shorter where other dims are split.
    double share = 1;
    for (std::size_t f = 0; f < factor_axes.size(); ++f) {
      if (int(f) != m.factor) share /= double(ways_of(*mesh_, factor_axes[f]));
    }
    const Part part = part_of(*ops_[op].instruction, m.dim, axes);
    total += part.permutes * machine_.permutes(0, 1, machine_.route(*mesh_, axes)) +
             part.seconds * share;
  }
  return total;
}

HaloPrices::Part HaloPrices::part_of(const ir::Instruction& x, std::int64_t dim,
                                     const IndexList& axes) {
  auto& known = parts_[{dim, axes}];
  if (const auto it = known.find(&x); it != known.end()) return it->second;
  stencils::Region region(const_cast<ir::Instruction*>(&x), dim, axes, mesh_, machine_);
  const std::optional<stencils::Region::Exchange> exchange = region.exchange();
  if (exchange && exchange->ops > 0) {
    const double ops = double(exchange->ops);
    const Part part{exchange->permutes / ops, exchange->seconds / ops};
    for (const stencils::Node& n : region.nodes()) {
      if (!may_move_rows(*n.x)) continue;
      const bool moves = n.computed && n.use->moves_rows();
      parts_[{n.dim, axes}].emplace(n.x, moves ? part : Part{});
    }
  }
  // Otherwise nearly all rows go to other devices.
  const double ways = double(ways_of(*mesh_, axes));
  const auto it = parts_[{dim, axes}].emplace(
      &x, Part{2, machine_.least_of_bytes(double(x.shape.byte_count()) / ways)});
  return it.first->second;
}

}  // namespace tessera::spmd::auto_sharding
