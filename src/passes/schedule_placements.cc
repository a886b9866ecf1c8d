// SPDX-License-Identifier: Apache-2.0
// Moves transfers to the host up to what they copy, and those from the host down to their users.
#include "src/passes/schedule_placements.h"

#include <algorithm>
#include <vector>

namespace tessera::passes {
namespace {

using ir::Instruction;

/// Whether it is a transfer to the host, or to the device.
bool transfers(const Instruction& i, bool to_host) {
  const auto* placement = i.attrs.get_if<ir::DevicePlacementAttrs>();
  return placement != nullptr && is_host(placement->memory) == to_host;
}

class Order {
 public:
  explicit Order(const ir::Computation& c) : c_(c), placed_(c.instructions().size(), 0) {}

  std::vector<Instruction*> run() {
    for (const auto& i : c_.instructions()) {
      if (!transfers(*i, false) || i.get() == c_.root()) place(i.get());
    }
    for (const auto& i : c_.instructions()) place(i.get());
    return std::move(order_);
  }

 private:
  void place(Instruction* first) {
    std::vector<Instruction*> work{first};
    while (!work.empty()) {
      Instruction* i = work.back();
      if (placed_[std::size_t(i->index)] != 0) {
        work.pop_back();
        continue;
      }
      // All but transfers from the host are there.
      bool ready = true;
      for (auto o = i->operands().rbegin(); o != i->operands().rend(); ++o) {
        if (placed_[std::size_t((*o)->index)] != 0) continue;
        work.push_back(*o);
        ready = false;
      }
      if (!ready) continue;
      work.pop_back();
      placed_[std::size_t(i->index)] = 1;
      order_.push_back(i);
      for (Instruction* user : i->users()) {
        if (transfers(*user, true)) work.push_back(user);
      }
    }
  }

  const ir::Computation& c_;
  std::vector<char> placed_;
  std::vector<Instruction*> order_;
};

}  // namespace

std::size_t schedule_placements(ir::Module* module) {
  std::size_t changed = 0;
  for (const auto& c : module->computations()) {
    const auto& all = c->instructions();
    const bool any = std::any_of(all.begin(), all.end(),
                                 [](const auto& i) { return i->is(ir::Opcode::device_placement); });
    const bool fixed = std::any_of(
        all.begin(), all.end(), [](const auto& i) { return !i->control_predecessors().empty(); });
    if (!any || fixed) continue;
    const std::vector<Instruction*> order = Order(*c).run();
    const bool same = std::equal(order.begin(), order.end(), all.begin(),
                                 [](const Instruction* a, const auto& b) { return a == b.get(); });
    if (same) continue;
    c->set_order(order);
    ++changed;
  }
  return changed;
}

}  // namespace tessera::passes
