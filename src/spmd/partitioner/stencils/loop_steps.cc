// SPDX-License-Identifier: Apache-2.0
// Finds loops whose trips are steps of a stencil.
#include "src/spmd/partitioner/stencils/loop_steps.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <utility>

#include "src/cost/work.h"
#include "src/ir/analysis/device_computations.h"
#include "src/ir/analysis/row_use.h"
#include "src/ir/rewrite/unroll_loop.h"
#include "src/ir/rewrite/while_view.h"

namespace tessera::spmd::stencils {
namespace {

using ir::Instruction;
using ir::Opcode;
using ir::RowPart;
using ir::RowUse;

/// Trips at once, and instructions of all of them: code is made for each.
constexpr std::int64_t kMostSteps = 8;
constexpr std::size_t kMostInstructions = 400;
/// Of what changes from trip to trip, the least part that an array has which counts as large.
constexpr std::int64_t kLargeShare = 32;
/// What is in cache of all arrays at a time, and the part of its rows that may be made twice.
constexpr double kCacheBytes = 1 << 20, kMostAround = 0.25;
/// Each array is made by itself in such a block, with all it is made of.
constexpr std::int64_t kMostArrays = 4;
/// Part of a device's rows that may be those of neighbours: beyond, they are fetched each step.
constexpr std::int64_t kLeastRowsToSteps = 8;

/// A step of large arrays.
class Step {
 public:
  Step(const Instruction& loop, std::int64_t least_bytes)
      : loop_(loop), least_bytes_(least_bytes), large_bytes_(least_bytes / kLargeShare) {}

  /// All that the body makes of the large arrays are such arrays, by shifts and elementwise, and
  /// small ones.
  bool is_stencil() {
    for (std::size_t k = 0; k < loop_.size(); ++k) {
      const Shape& shape = loop_.shape(k);
      if (!shape.is_array() || loop_.is_invariant(k) || !is_large(shape)) continue;
      if (shape.rank() < 2) return false;
      rank_ = std::max(rank_, shape.rank());
      bytes_ += double(shape.byte_count());
    }
    if (bytes_ < double(least_bytes_) || rank_ == 0) return false;
    reach_.assign(std::size_t(rank_), 0);
    for (const auto& i : loop_.body().instructions()) {
      if (i->is(Opcode::parameter) || i->is(Opcode::tuple) || i->is(Opcode::get_tuple_element)) {
        continue;
      }
      if (i->has_side_effect() || !i->shape.is_array()) return false;
      if (!i->called().empty() && !i->is(Opcode::reduce)) return false;
      if (is_large(i->shape) && !is_known(*i)) return false;
      // What is small is made of what is small, or says something about what is large.
      const bool takes_large = std::any_of(
          i->operands().begin(), i->operands().end(),
          [this](const Instruction* o) { return o->shape.is_array() && is_large(o->shape); });
      if (!is_large(i->shape) && takes_large && !i->is(Opcode::slice) && !i->is(Opcode::reduce)) {
        return false;
      }
      add_reach(*i);
    }
    return shifts_;
  }

  std::int64_t rank() const { return rank_; }
  std::int64_t large_bytes() const { return large_bytes_; }

  /// How many steps at once take the least time; 1: one after the other.
  std::int64_t steps_at_once(std::int64_t trips, const cost::Machine& machine,
                             const MeshRef& mesh) const {
    const auto all = std::max<std::size_t>(loop_.body().instructions().size(), 1);
    const auto most =
        std::min<std::int64_t>({kMostSteps, trips, std::int64_t(kMostInstructions / all)});
    std::int64_t best = 1;
    double least = 0;
    for (std::int64_t k = 1; k <= most; ++k) {
      const std::optional<double> one = price_of_step(k, machine, mesh);
      if (!one) break;
      // What is left over goes step by step.
      const double price = double(trips / k * k) * *one +
                           double(trips % k) * price_of_step(1, machine, mesh).value();
      if (k == 1 || price < least) {
        least = price;
        best = k;
      }
    }
    return best;
  }

 private:
  bool is_large(const Shape& s) const { return s.byte_count() >= large_bytes_; }

  /// Of a large array: elementwise, or rows of others that are shifted, rolled or put in place.
  bool is_known(const Instruction& x) {
    switch (x.opcode) {
      case Opcode::slice: {
        const auto& strides = x.get<ir::SliceAttrs>().strides;
        return std::all_of(strides.begin(), strides.end(), [](auto s) { return s == 1; });
      }
      case Opcode::pad: {
        const auto& dims = x.get<ir::PadAttrs>().dims;
        shifts_ = true;
        return std::all_of(dims.begin(), dims.end(), [](const auto& d) { return d.interior == 0; });
      }
      case Opcode::concatenate:
      case Opcode::dynamic_update_slice:
        shifts_ = true;
        return is_put_together(x);
      case Opcode::broadcast:
      case Opcode::iota:
      case Opcode::constant:
      case Opcode::reshape:
        return true;
      default:
        return ir::is_elementwise(x.opcode) && !x.is(Opcode::bitcast_convert);
    }
  }

  /// Along each dim it is known where rows come from.
  static bool is_put_together(const Instruction& x) {
    for (std::int64_t d = 0; d < x.shape.rank(); ++d) {
      if (!ir::row_use(x, d)) return false;
    }
    return true;
  }

  /// How many rows around its own a step takes of an array, about.
  void add_reach(const Instruction& x) {
    if (!is_large(x.shape)) return;
    for (std::int64_t d = 0; d < x.shape.rank() && d < rank_; ++d) {
      std::int64_t most = 0;
      for (const Instruction* o : x.operands()) {
        const auto it = reach_of_.find({o->index, d});
        if (it != reach_of_.end()) most = std::max(most, it->second);
      }
      const std::optional<RowUse> use = ir::row_use(x, d);
      if (use && use->only_moves() && !x.is(Opcode::slice)) {
        std::int64_t nearest = 0;
        for (const RowPart& p : use->parts) {
          const std::int64_t size = x.shape.dim(d), by = std::abs(p.offset);
          const bool is_most = 2 * (p.end - p.begin) > size;
          if (is_most) nearest = std::max(nearest, std::min(by, std::abs(size - by)));
        }
        most += nearest;
      }
      reach_of_[{x.index, d}] = most;
      reach_[std::size_t(d)] = std::max(reach_[std::size_t(d)], most);
    }
  }

  /// Of one of so many at once; none if they don't fit a device's rows.
  std::optional<double> price_of_step(std::int64_t steps, const cost::Machine& machine,
                                      const MeshRef& mesh) const {
    double share = 1, exchange = 0, repeated = 0, row_bytes = 0;
    std::int64_t arrays = 0;
    for (std::size_t k = 0; k < loop_.size(); ++k) {
      const Shape& shape = loop_.shape(k);
      if (!shape.is_array() || loop_.is_invariant(k) || !is_large(shape)) continue;
      ++arrays;
      const TensorSharding* split = sharding_of_carry(k);
      double parts = 1, columns = 1;
      for (std::int64_t d = 0; mesh && d < shape.rank(); ++d) {
        const std::int64_t ways = split ? split->shards(d) : 1;
        const std::int64_t reach = reach_[std::size_t(d)];
        parts *= double(ways);
        if (d > 0) columns *= double(ways);
        if (ways == 1 || reach == 0) continue;
        const std::int64_t block = ceil_div(shape.dim(d), ways);
        if (steps > 1 && steps * reach * kLeastRowsToSteps > block) return std::nullopt;
        exchange += 2 * machine.start() / double(steps);
        repeated = std::max(repeated, double(reach) / double(block));
      }
      share = std::min(share, 1 / parts);
      row_bytes += double(shape.byte_count()) / double(shape.dim(0)) / columns;
    }
    // A block of rows of all arrays, as they are and as they will be, is in cache at a time.
    const double rows = kCacheBytes / (2 * row_bytes);
    const double reached = double(reach_[0]) / rows;
    const bool fits = arrays <= kMostArrays && reached * double(steps + 1) <= kMostAround;
    if (steps > 1 && !fits) return std::nullopt;
    repeated = std::max(repeated, reached);
    double work = 0;
    for (const auto& i : loop_.body().instructions()) {
      if (i->shape.is_array() && is_large(i->shape)) {
        work += machine.work(cost::layout_work(*i)) * share;
      }
    }
    const double pass = 2 * machine.pass(bytes_ * share);
    // Rows of neighbours are put together with a device's own.
    const double copies = exchange > 0 || steps > 1 ? pass / double(steps) : 0;
    return exchange + copies + pass / double(steps) + work * (1 + repeated * double(steps - 1));
  }

  /// Null if it isn't split.
  const TensorSharding* sharding_of_carry(std::size_t k) const {
    for (const Instruction* read : loop_.reads(k)) {
      if (!read->sharding.empty() && read->sharding.front().kind == TensorSharding::Kind::axes) {
        return &read->sharding.front();
      }
    }
    return nullptr;
  }

  ir::WhileView loop_;
  std::int64_t least_bytes_, large_bytes_;
  std::int64_t rank_ = 0;
  double bytes_ = 0;  ///< of what changes
  Dims reach_;        ///< of a step, by dim
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> reach_of_;
  bool shifts_ = false;
};

TensorSharding sharding_of(const Instruction& x, const MeshRef& mesh) {
  return x.sharding.empty() ? TensorSharding::replicated_on(mesh, x.shape.rank())
                            : x.sharding.front();
}

/// The loop carries a counter more, which all devices have.
void give_shardings(Instruction* loop, const MeshRef& mesh) {
  const ir::WhileView view(*loop);
  std::vector<TensorSharding> all;
  for (std::size_t k = 0; k < view.size(); ++k) all.push_back(sharding_of(*view.init(k), mesh));
  // Carries are as the body has them.
  for (Instruction* read : view.body().parameter(0)->users()) {
    const auto k = std::size_t(read->get<ir::GetTupleElementAttrs>().index);
    if (!read->sharding.empty()) all[k] = read->sharding.front();
  }
  for (Instruction* x : {loop, loop->operands()[0], view.body().parameter(0),
                         view.condition().parameter(0), view.body().root()}) {
    x->sharding = all;
  }
  for (ir::Computation* c : {loop->parent, &view.body(), &view.condition()}) {
    for (const auto& x : c->instructions()) {
      if (!x->sharding.empty() || !x->shape.is_array()) continue;
      const bool reads =
          x->is(Opcode::get_tuple_element) &&
          (c == loop->parent ? x->operand(0) == loop : x->operand(0) == c->parameter(0));
      x->sharding = {reads ? all[std::size_t(x->get<ir::GetTupleElementAttrs>().index)]
                           : TensorSharding::replicated_on(mesh, x->shape.rank())};
    }
  }
}

}  // namespace

std::vector<Steps> unroll_loops(ir::Module* module, const PartitionOptions& options,
                                Origins* origins) {
  std::vector<Steps> unrolled_loops;
  for (ir::Computation* c : ir::device_computations(*module)) {
    std::vector<Instruction*> loops;
    for (const auto& i : c->instructions()) {
      if (i->is(Opcode::while_)) loops.push_back(i.get());
    }
    for (Instruction* loop : loops) {
      const ir::WhileView view(*loop);
      const std::optional<std::int64_t> trips = view.trips();
      if (!trips || *trips < 3 || !view.has_separate_carries()) continue;
      Step step(*loop, options.least_looped_bytes);
      if (!step.is_stencil()) continue;
      const std::int64_t steps = step.steps_at_once(*trips, options.machine, module->mesh);
      if (steps < 2) continue;
      const Instruction* origin = origins ? origins->at(loop) : nullptr;
      Instruction* unrolled =
          ir::unroll_loop(loop, *trips, steps, [&](const Instruction& from, const Instruction& to) {
            if (origins) (*origins)[&to] = origins->at(&from);
          });
      if (origins) give_shardings(unrolled, module->mesh);
      for (const ir::Computation* of : {static_cast<const ir::Computation*>(c),
                                        static_cast<const ir::Computation*>(unrolled->called(0)),
                                        static_cast<const ir::Computation*>(unrolled->called(1))}) {
        for (const auto& i : of->instructions()) {
          if (origins) origins->emplace(i.get(), origin);
        }
      }
      unrolled_loops.push_back({unrolled->called(1), step.rank(), step.large_bytes()});
    }
  }
  return unrolled_loops;
}

}  // namespace tessera::spmd::stencils
