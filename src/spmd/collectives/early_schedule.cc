// SPDX-License-Identifier: Apache-2.0
// Schedules each collective as early as its operands allow.
#include <algorithm>
#include <numeric>

#include "src/cost/peak_memory.h"
#include "src/ir/analysis/last_uses.h"
#include "src/spmd/collectives/collective_ops.h"
#include "src/spmd/collectives/optimize.h"

namespace tessera::spmd {
namespace {

using ir::Instruction;

class EarlyScheduler {
 public:
  explicit EarlyScheduler(ir::Computation* c)
      : computation_(c),
        live_(cost::live_bytes(*c)),
        most_(*std::max_element(live_.begin(), live_.end())),
        last_use_(ir::last_uses_of_arrays(*c)),
        behind_(c->instructions().size()),
        moves_(c->instructions().size(), 0),
        anchor_(c->instructions().size()) {
    std::iota(anchor_.begin(), anchor_.end(), 0);
  }

  std::size_t run() {
    std::size_t count = 0;
    for (const auto& i : computation_->instructions()) count += consider(i.get()) ? 1 : 0;
    if (count == 0) return 0;
    std::vector<Instruction*> order;
    auto place = [&](auto&& self, Instruction* i) -> void {
      order.push_back(i);
      for (Instruction* next : behind_[std::size_t(i->index)]) self(self, next);
    };
    for (const auto& i : computation_->instructions()) {
      if (!moves_[std::size_t(i->index)]) place(place, i.get());
    }
    computation_->set_order(order);
    return count;
  }

 private:
  /// Behind its last operand, or as far before its place as what is live there allows.
  bool consider(Instruction* i) {
    if (!ir::is_collective(i->opcode) || !i->control_predecessors().empty() ||
        i == computation_->root()) {
      return false;
    }
    std::int64_t first = -1;
    for (const Instruction* o : i->operands()) first = std::max(first, o->index);
    if (first < 0) return false;
    double growth = double(i->shape.byte_count());
    for (const Instruction* o : i->operands()) {
      const bool dies =
          last_use_[std::size_t(o->index)] == i->index && o->opcode != ir::Opcode::parameter;
      if (dies) growth -= double(o->shape.byte_count());
    }
    std::int64_t at = i->index - 1;
    while (at > first && live_[std::size_t(at)] + growth <= most_) --at;
    // What moves itself has a place of its own in the order, not this one.
    while (at < i->index && moves_[std::size_t(at)] && !(at == first && moves_last(*i, first)))
      ++at;
    if (at >= i->index - 1) return false;
    for (std::int64_t n = at + 1; n < i->index; ++n) live_[std::size_t(n)] += growth;
    behind_[std::size_t(at)].push_back(i);
    moves_[std::size_t(i->index)] = 1;
    anchor_[std::size_t(i->index)] = anchor_[std::size_t(at)];
    return true;
  }

  /// Whether `last`, an operand that moves, still comes behind the other operands where it goes.
  bool moves_last(const Instruction& i, std::int64_t last) const {
    const std::int64_t place = anchor_[std::size_t(last)];
    return std::all_of(i.operands().begin(), i.operands().end(), [&](const Instruction* o) {
      const std::int64_t other = anchor_[std::size_t(o->index)];
      return o->index == last || other < place ||
             (other == place && !moves_[std::size_t(o->index)]);
    });
  }

  ir::Computation* computation_;
  std::vector<double> live_;
  double most_ = 0;
  std::vector<std::int64_t> last_use_;
  /// Behind which instruction the collectives go that move.
  std::vector<std::vector<Instruction*>> behind_;
  std::vector<char> moves_;
  /// The last instruction that stays in front of each one's place: itself, if it stays.
  std::vector<std::int64_t> anchor_;
};

}  // namespace

std::size_t schedule_collectives_early(ir::Module* module) {
  std::size_t moved = 0;
  for (const auto& c : module->computations()) {
    const auto& all = c->instructions();
    const bool any = std::any_of(all.begin(), all.end(),
                                 [](const auto& i) { return ir::is_collective(i->opcode); });
    if (any) moved += EarlyScheduler(c.get()).run();
  }
  return moved;
}

}  // namespace tessera::spmd
