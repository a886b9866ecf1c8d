// SPDX-License-Identifier: Apache-2.0
// Finds loops whose trips are steps of a stencil.
#include "src/spmd/partitioner/stencils/loop_steps.h"

#include <algorithm>
#include <optional>
#include <set>

#include "src/base/contains.h"
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

/// Smaller arrays stay in cache from one trip to the next.
constexpr std::int64_t kLeastBytes = std::int64_t(4) << 20;
/// Trips at once, and instructions of all of them: code is made for each.
constexpr std::int64_t kMostSteps = 5, kLikelySteps = 4;
constexpr std::size_t kMostInstructions = 400;

/// A step of large arrays of one shape.
class Step {
 public:
  explicit Step(const Instruction& loop) : loop_(loop) {}

  /// All that the body makes of the large arrays are such arrays, by shifts and elementwise.
  bool is_stencil() {
    for (std::size_t k = 0; k < loop_.size(); ++k) {
      const Shape& shape = loop_.shape(k);
      if (!shape.is_array() || loop_.is_invariant(k) || !is_large(shape)) continue;
      if (dims_.empty()) dims_ = shape.dims;
      if (shape.dims != dims_) return false;
      carried_.insert(k);
    }
    // Of several arrays that change, steps aren't joined yet.
    if (carried_.size() != 1 || dims_.size() < 2) return false;
    for (const auto& i : loop_.body().instructions()) {
      if (i->is(Opcode::parameter) || i->is(Opcode::tuple) || i->is(Opcode::get_tuple_element)) {
        continue;
      }
      if (!i->called().empty() || i->has_side_effect() || !i->shape.is_array()) return false;
      if (is_large(i->shape) && !is_known(*i)) return false;
      // What is small is made of what is small.
      const bool takes_large = std::any_of(
          i->operands().begin(), i->operands().end(),
          [](const Instruction* o) { return o->shape.is_array() && is_large(o->shape); });
      if (!is_large(i->shape) && takes_large && !i->is(Opcode::slice)) return false;
    }
    return shifts_;
  }

  std::int64_t rank() const { return std::int64_t(dims_.size()); }

 private:
  static bool is_large(const Shape& s) { return s.byte_count() >= kLeastBytes; }

  /// Of a large array: elementwise, or rows of one array that are shifted or rolled.
  bool is_known(const Instruction& x) {
    switch (x.opcode) {
      case Opcode::slice: {
        const auto& strides = x.get<ir::SliceAttrs>().strides;
        return std::all_of(strides.begin(), strides.end(), [](auto s) { return s == 1; });
      }
      case Opcode::concatenate:
        return rolls(x);
      case Opcode::broadcast:
      case Opcode::iota:
      case Opcode::constant:
        return true;
      default:
        return ir::is_elementwise(x.opcode) && !x.is(Opcode::bitcast_convert);
    }
  }

  /// It is a roll.
  bool rolls(const Instruction& x) {
    const std::int64_t dim = x.get<ir::DimensionsAttrs>().dims.front();
    const std::optional<RowUse> use = ir::row_use(x, dim);
    if (!use || use->parts.size() != 2) return false;
    const RowPart &a = use->parts[0], &b = use->parts[1];
    const std::int64_t size = x.shape.dim(dim);
    shifts_ = true;
    return a.array == b.array && a.array->shape.dim(dim) == size && a.offset - b.offset == size;
  }

  ir::WhileView loop_;
  Dims dims_;
  std::set<std::size_t> carried_;
  bool shifts_ = false;
};

std::int64_t steps_at_once(const Instruction& loop, std::int64_t trips) {
  const auto all = std::int64_t(loop.called(1)->instructions().size());
  const std::int64_t most = std::min(
      {kMostSteps, trips, std::int64_t(kMostInstructions) / std::max<std::int64_t>(all, 1)});
  for (std::int64_t k = most; k > 2; --k) {
    if (trips % k == 0) return k;
  }
  return std::min(most, kLikelySteps);
}

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

std::vector<Steps> unroll_loops(ir::Module* module, Origins* origins) {
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
      Step step(*loop);
      if (!step.is_stencil()) continue;
      const std::int64_t rank = step.rank();
      const std::int64_t steps = steps_at_once(*loop, *trips);
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
      unrolled_loops.push_back({unrolled->called(1), rank});
    }
  }
  return unrolled_loops;
}

}  // namespace tessera::spmd::stencils
