// SPDX-License-Identifier: Apache-2.0
// What windows cost, and what the same rows cost as they are.
#include <algorithm>
#include <cstddef>
#include <set>
#include <tuple>
#include <utility>

#include "src/base/contains.h"
#include "src/cost/work.h"
#include "src/spmd/partitioner/stencils/region.h"
#include "src/spmd/reshard/row_exchange.h"
#include "src/spmd/sharding_queries.h"

namespace tessera::spmd::stencils {

using ir::Instruction;
using ir::Opcode;

namespace {

/// Arrays that are looked at for the price of a window.
constexpr int kMostVisits = 200;
constexpr double kNever = 1e30;

}  // namespace

double Region::row_bytes(const Node& n) const {
  const auto layout = this->layout(n);
  return layout ? spmd::row_bytes(n.x->shape, *layout, n.dim)
                : double(n.x->shape.byte_count()) / double(rows(n));
}

/// It only says where elements of one array are.
bool Region::is_view(const Node& n) const {
  return n.use && n.use->parts.size() == 1 && price_of_work(n, 1) == 0;
}

double Region::price_of_work(const Node& n, std::int64_t count) const {
  // What only moves elements is read where they are.
  if (ir::has_trait(n.x->opcode, ir::traits::alias | ir::traits::repeats | ir::traits::permutes) ||
      n.x->is(Opcode::slice) || n.x->is(Opcode::pad) || n.x->is(Opcode::concatenate)) {
    return 0;
  }
  // What one op alone reads is computed where that is.
  const bool fused = n.use && ir::is_elementwise(n.x->opcode) && n.x->users().size() < 2;
  const double arithmetic =
      fused ? machine_.work(row_bytes(n) / 4 * double(count)) : price_of_copy(n, count);
  return arithmetic + price_of_op(n) * double(count);
}

/// Of the arithmetic of a row, where that is what takes time.
double Region::price_of_op(const Node& n) const {
  if (!n.x->is(Opcode::convolution)) return 0;
  const auto layout = this->layout(n);
  double parts = 1;
  for (std::int64_t d = 0; layout && d < layout->rank(); ++d) parts *= double(layout->shards(d));
  return machine_.work(cost::contraction_flops(*n.x)) * double(ways_) /
         (std::max(parts, double(ways_)) * double(rows(n)));
}

/// Of rows that are written, and read.
double Region::price_of_copy(const Node& n, std::int64_t count) const {
  return 2 * machine_.pass(row_bytes(n) * double(count));
}

namespace {

/// The rows of a window that other devices have.
std::int64_t rows_below(const Window& w) { return std::max<std::int64_t>(-w.lo, 0); }
std::int64_t rows_above(const Node& n, const Window& w) {
  return std::max<std::int64_t>(w.hi - n.block, 0);
}

int permutes_of_window(const Node& n, const Window& w) {
  return int(ceil_div(rows_below(w), n.block) + ceil_div(rows_above(n, w), n.block));
}

}  // namespace

/// Of the rows that other devices have.
double Region::price_of_window(const Node& n, const Window& w) const {
  const std::int64_t rows = rows_below(w) + rows_above(n, w);
  if (rows == 0) return 0;
  return machine_.permutes(double(rows) * row_bytes(n), permutes_of_window(n, w),
                           machine_.route(*mesh_, axes_));
}

/// Several ops take it, or views of it.
bool Region::is_shared(const Node& n) const {
  const auto users = ir::row_users(*n.x, n.dim);
  if (users.size() != 1) return users.size() > 1;
  const Node* user = find(users.front());
  return user && is_view(*user) && is_shared(*user);
}

/// What a window takes of arrays that are there, and what it takes to compute it.
bool Region::take(const Instruction* x, const Window& w, Taken* out) const {
  if (++out->visits > kMostVisits) return false;
  const Node& n = *find(x);
  const auto clipped = valid(n, w);
  if (!clipped) return true;
  if (n.computed && n.use->parts.empty()) return true;
  // What several ops take may be fetched, too, and saves looking further.
  if (!n.computed || (n.plain && !is_view(n) && is_shared(n))) {
    const auto [it, is_new] = out->windows.emplace(n.x->index, std::pair{&n, *clipped});
    if (is_new && n.taken) it->second.second = hull(*clipped, *n.taken);
    it->second.second = hull(it->second.second, *clipped);
    return in_reach(n, it->second.second);
  }
  out->work += price_of_work(n, clipped->rows());
  std::vector<std::pair<const Instruction*, Window>> parts;
  parts_of(n, *clipped, &parts);
  return std::all_of(parts.begin(), parts.end(),
                     [&](const auto& part) { return take(part.first, part.second, out); });
}

double Region::price_of(const Node& n, const Window& w) const {
  Taken taken;
  taken.work = price_of_work(n, w.rows());
  std::vector<std::pair<const Instruction*, Window>> parts;
  parts_of(n, w, &parts);
  for (const auto& [part, window] : parts) {
    if (!take(part, window, &taken)) return kNever;
  }
  double price = taken.work;
  for (const auto& [index, had] : taken.windows) {
    const Node& part = *had.first;
    price += price_of_window(part, had.second);
    if (part.taken) price -= price_of_window(part, *part.taken);
  }
  return price;
}

/// Only concatenations along the dim use it, which take its rows from where they are.
bool Region::taken_through(const Node& n) const {
  if (!n.x->is(Opcode::slice) || !n.use->parts[0].is_shift()) return false;
  const auto users = ir::row_users(*n.x, n.dim);
  return !users.empty() && std::all_of(users.begin(), users.end(), [&](const Instruction* u) {
    const Node* user = find(u);
    return u->is(Opcode::concatenate) && user && user->use && user->use->moves_rows();
  });
}

namespace {

/// Rows of one part without padding.
bool is_one_box(const RowUse& use) {
  return use.parts.size() == 1 && use.parts[0].begin == 0 && use.parts[0].array != nullptr &&
         use.kind == RowUse::Kind::moved && use.parts[0].spread == 1;
}

}  // namespace

/// Somebody outside fetches rows of the array around windows, too.
bool Region::is_fetched_outside(const Node& n) const {
  const auto users = n.x->users();
  return std::any_of(users.begin(), users.end(), [&](const Instruction* u) {
    const Node* user = find(u);
    if (u->operand(0) != n.x || (user && user->computed)) return false;
    if (const auto* w = u->attrs.get_if<ir::WindowAttrs>()) {
      return w->dims[std::size_t(n.dim)].size > 1;
    }
    const auto* c = u->attrs.get_if<ir::ConvolutionAttrs>();
    return c && contains(c->input_spatial, n.dim);
  });
}

Region::Price Region::price_as_it_is() const {
  Price price;
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> fetched;
  for (const Node& n : nodes_) {
    if (!n.computed || !n.use->moves_rows() || taken_through(n)) continue;
    if (n.use->kind == RowUse::Kind::windows) {
      const RowPart& p = n.use->parts[0];
      const std::int64_t block = ceil_div(rows(n), ways_);
      const std::int64_t spread = (p.array->shape.dim(p.dim) - 1) * p.spread + 1;
      const auto begin = ByCoordinate::line(ways_, p.offset, block * p.stride);
      const RowExchangePlan plan =
          plan_windows({spread_part(ways_, p.array->shape.dim(p.dim), 0, p.spread - 1, spread)},
                       begin, spread, (block - 1) * p.stride + p.extent, PlanFor::price);
      const Node& part = *find(p.array);
      // Equal rows are fetched once.
      const bool is_new = fetched.emplace(part.x->index, begin[0], plan.block).second;
      if (is_new && !is_fetched_outside(part)) {
        price.moved += machine_.permutes(double(plan.rows_moved) * row_bytes(part), plan.permutes,
                                         machine_.route(*mesh_, axes_));
        price.permutes += plan.permutes;
      }
      if (plan.permutes > 0) price.copied += price_of_copy(part, plan.block);
      continue;
    }
    if (ways_ == 1) {
      if (!is_one_box(*n.use)) price.copied += price_of_copy(n, rows(n));
      continue;
    }
    std::vector<RowSource> sources;
    for (const RowPart& p : n.use->parts) {
      std::int64_t size = p.array->shape.dim(p.dim), offset = p.offset;
      if (const Node* part = find(p.array); part->computed && taken_through(*part)) {
        size = part->use->parts[0].array->shape.dim(p.dim);
        offset += part->use->parts[0].offset;
      }
      RowSource s;
      const std::int64_t block = ceil_div(size, ways_);
      s.array = sources.size();
      s.rows = ceil_div(block * p.spread, p.stride);
      const std::int64_t spread = block * p.spread;
      s.start = ByCoordinate::quotients(ways_, -offset, spread, p.stride);
      s.lo = s.start.at_least(p.begin);
      s.hi = ByCoordinate::quotients(ways_, spread - offset, spread, p.stride)
                 .at_most(ceil_div(size * p.spread - offset, p.stride))
                 .at_most(p.end);
      sources.push_back(std::move(s));
    }
    const RowExchangePlan plan =
        plan_row_exchange(sources, ways_, rows(n), ceil_div(rows(n), ways_), PlanFor::price);
    price.moved += machine_.permutes(double(plan.rows_moved) * row_bytes(n), plan.permutes,
                                     machine_.route(*mesh_, axes_));
    price.permutes += plan.permutes;
    // Blocks of other lengths don't lie in the same place on each device: rows are picked one by
    // one.
    const bool aligned = std::all_of(sources.begin(), sources.end(), [&](const RowSource& s) {
      return s.rows == plan.block || s.rows < plan.block / 2;
    });
    if (!aligned) price.copied += price_of_copy(n, plan.block);
  }
  return price;
}

Region::Price Region::price_by_windows() const {
  Price price;
  for (const Node& n : nodes_) {
    if (n.taken && (!n.computed || n.cut) && !Window{0, n.block, false}.has(*n.taken)) {
      price.moved += price_of_window(n, *n.taken);
      price.permutes += permutes_of_window(n, *n.taken);
      price.copied += price_of_copy(n, n.taken->rows());
    }
    if (n.wanted && !n.plain) {
      const RowExchangePlan plan =
          plan_row_exchange({block_part(ways_, rows(n), n.block)}, ways_, rows(n),
                            ceil_div(rows(n), ways_), PlanFor::price);
      price.moved += machine_.permutes(double(plan.rows_moved) * row_bytes(n), plan.permutes,
                                       machine_.route(*mesh_, axes_));
      price.permutes += plan.permutes;
      price.copied += price_of_copy(n, plan.block);
    }
    for (const Window& w : n.windows) {
      const std::int64_t more = w.rows() - n.block;
      if (n.computed && more > 0) price.moved += price_of_work(n, more);
      if (!n.computed || n.use->kind != RowUse::Kind::windows || has_padding(n)) continue;
      const Node& part = *find(n.use->parts.front().array);
      const Window from{n.use->parts.front().first_of(w.lo), n.use->parts.front().end_of(w.hi)};
      if (padded(n, from).stretches.size() > 1) price.copied += price_of_copy(part, from.rows());
    }
  }
  return price;
}

std::optional<Region::Exchange> Region::exchange() {
  if (!consistent_ || !choose_block()) return std::nullopt;
  const double start = machine_.permutes(0, 1, machine_.route(*mesh_, axes_));
  std::optional<Exchange> least;
  const std::vector<Node> before = nodes_;
  constexpr double kByPrice = 1, kAlways = 1e9;
  for (const double repeats : {kAlways, kByPrice}) {
    nodes_ = before;
    repeats_ = repeats;
    if (!demand_rows()) continue;
    const auto ops = std::count_if(nodes_.begin(), nodes_.end(),
                                   [](const Node& n) { return n.computed && n.use->moves_rows(); });
    for (const Price& p : {price_by_windows(), price_as_it_is()}) {
      const Exchange one{p.permutes, p.moved - start * p.permutes, std::size_t(ops)};
      const bool is_less = !least || p.moved < start * least->permutes + least->seconds;
      if (is_less) least = one;
    }
  }
  return least;
}

bool Region::pays(bool steps) {
  if (!consistent_ || !choose_block()) return false;
  // What is best for one array needn't be so for all.
  const std::vector<Node> before = nodes_;
  const auto tried = [&](double repeats) {
    nodes_ = before;
    repeats_ = repeats;
    return demand_rows();
  };
  constexpr double kNotAtAll = 0, kByPrice = 1, kRather = 4, kAlways = 1e9, kHardlyMore = 1.05;
  // Steps without exchanges in between go through memory once.
  constexpr double kMoreForSteps = 1.25;
  double best = kByPrice, least = kNever;
  for (const double repeats : {kAlways, kByPrice, kNotAtAll, kRather}) {
    if (!tried(repeats)) continue;
    const Price windows = price_by_windows(), as_it_is = price_as_it_is();
    const bool less_in_all = windows.moved + windows.copied < as_it_is.moved + as_it_is.copied;
    const bool pays = windows.moved < as_it_is.moved || (ways_ == 1 && less_in_all) ||
                      (windows.moved <= kHardlyMore * as_it_is.moved && less_in_all);
    // Where nothing goes around, steps read shifted rows as they are.
    const bool helps_steps =
        ways_ > 1 || std::any_of(nodes_.begin(), nodes_.end(), [](const Node& n) {
          return (n.taken && n.taken->cyclic) ||
                 std::any_of(n.windows.begin(), n.windows.end(),
                             [](const Window& w) { return w.cyclic; });
        });
    if (steps && !helps_steps) return false;
    if (steps && repeats == kAlways && windows.moved <= kMoreForSteps * as_it_is.moved) return true;
    if (!pays || windows.moved + windows.copied >= least) continue;
    least = windows.moved + windows.copied;
    best = repeats;
  }
  return least < kNever && tried(best);
}

}  // namespace tessera::spmd::stencils
