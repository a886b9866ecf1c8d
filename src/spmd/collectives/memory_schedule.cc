// SPDX-License-Identifier: Apache-2.0
// Another order of a computation's instructions, in which less is live at a time: each is computed
// when its user is, of the operands first the one that needs the most besides what it leaves
// (Sethi and Ullman, 1970, for trees; values with several users are computed for the first).
#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "src/base/contains.h"
#include "src/spmd/collectives/collective_ops.h"
#include "src/spmd/collectives/optimize.h"

namespace tessera::spmd {
namespace {

using ir::Instruction;
using ir::Opcode;

/// What an order can change: arguments are there in any, and what is the host's takes nothing.
double bytes_of(const Instruction& i) {
  if (i.is(Opcode::parameter) || ir::needs_no_storage(i.opcode)) return 0;
  const auto* placement = i.attrs.get_if<ir::DevicePlacementAttrs>();
  if (placement != nullptr && is_host(placement->memory)) return 0;
  return double(i.shape.byte_count());
}

bool may_move(const Instruction& i) {
  if (!i.control_predecessors().empty()) return false;
  return !i.has_side_effect() || ir::is_collective(i.opcode) || i.is(Opcode::parameter);
}

/// Of elementwise ops in one loop.
constexpr std::size_t kLongestChain = 8;

class Order {
 public:
  Order(const ir::Computation& c, bool shrink_early)
      : c_(c),
        need_(c.instructions().size(), 0),
        done_(c.instructions().size(), 0),
        shrink_early_(shrink_early) {}

  std::vector<Instruction*> run() {
    for (const auto& i : c_.instructions()) {
      std::vector<std::size_t> inputs = sorted_operands(*i);
      double live = 0, most = 0;
      for (const std::size_t o : inputs) {
        most = std::max(most, live + need_[o]);
        live += bytes_of(*c_.instructions()[o]);
      }
      need_[std::size_t(i->index)] = std::max(most, live + bytes_of(*i));
    }
    std::vector<Instruction*> order;
    for (Instruction* p : c_.parameters()) {
      order.push_back(p);
      done_[std::size_t(p->index)] = 1;
    }
    // No recursion: programs are deep.
    std::vector<std::size_t> work{std::size_t(c_.root()->index)};
    while (!work.empty()) {
      const std::size_t n = work.back();
      Instruction* i = c_.instructions()[n].get();
      if (done_[n] != 0) {
        work.pop_back();
        continue;
      }
      std::vector<std::size_t> inputs = sorted_operands(*i);
      bool ready = true;
      for (auto o = inputs.rbegin(); o != inputs.rend(); ++o) {
        if (done_[*o] != 0) continue;
        work.push_back(*o);
        ready = false;
      }
      if (!ready) continue;
      work.pop_back();
      place(i, &order);
    }
    return order;
  }

 private:
  /// And behind it what it makes ready that leaves less than it takes away.
  void place(Instruction* i, std::vector<Instruction*>* order) {
    std::vector<Instruction*> next{i};
    while (!next.empty()) {
      Instruction* x = next.back();
      next.pop_back();
      if (done_[std::size_t(x->index)] != 0) continue;
      for (Instruction* o : x->operands()) {
        if (!is_done(o)) put(o, order);  // a constant
      }
      put(x, order);
      if (!shrink_early_) continue;
      for (const Instruction* o : x->operands()) consider(o->users(), &next);
      consider(x->users(), &next);
    }
  }

  void put(Instruction* i, std::vector<Instruction*>* order) {
    done_[std::size_t(i->index)] = 1;
    order->push_back(i);
  }

  void consider(std::span<Instruction* const> users, std::vector<Instruction*>* next) const {
    for (Instruction* user : users) {
      if (done_[std::size_t(user->index)] != 0) continue;
      const std::vector<Instruction*> chain = shrinking(user);
      next->insert(next->end(), chain.rbegin(), chain.rend());
    }
  }

  bool is_done(const Instruction* i) const { return done_[std::size_t(i->index)] != 0; }

  /// What leaves less than it takes away if it is computed next: the instruction, or it and what is
  /// made of it in the same loop. Empty if that is nothing.
  std::vector<Instruction*> shrinking(Instruction* i) const {
    std::vector<Instruction*> chain;
    double less = 0;
    for (;;) {
      if (i == c_.root() || ir::is_collective(i->opcode) || !i->shape.is_array()) return {};
      chain.push_back(i);
      const auto in_chain = [&](const Instruction* x) { return contains(chain, x); };
      for (const Instruction* o :
           std::set<const Instruction*>(i->operands().begin(), i->operands().end())) {
        if (in_chain(o)) continue;
        if (!is_done(o) && !o->operands().empty()) return {};
        const ir::UserList users = o->users();
        if (std::all_of(users.begin(), users.end(),
                        [&](const Instruction* u) { return in_chain(u) || is_done(u); })) {
          less += bytes_of(*o);
        }
      }
      if (less > bytes_of(*i)) return chain;
      const ir::UserList users = i->users();
      if (!ir::is_elementwise(i->opcode) || users.empty() || chain.size() == kLongestChain ||
          !std::all_of(users.begin(), users.end(),
                       [&](const Instruction* u) { return u == users.front(); })) {
        return {};
      }
      i = users.front();
    }
  }

  std::vector<std::size_t> sorted_operands(const Instruction& i) const {
    std::vector<std::size_t> inputs;
    for (const Instruction* o : i.operands()) inputs.push_back(std::size_t(o->index));
    std::stable_sort(inputs.begin(), inputs.end(),
                     [&](std::size_t a, std::size_t b) { return rest(a) > rest(b); });
    return inputs;
  }
  double rest(std::size_t n) const { return need_[n] - bytes_of(*c_.instructions()[n]); }

  const ir::Computation& c_;
  std::vector<double> need_;  ///< by index: what is live at most while it is computed
  std::vector<char> done_;
  bool shrink_early_;
};

}  // namespace

std::size_t schedule_for_memory(ir::Module* module, bool shrink_early) {
  std::size_t changed = 0;
  for (const auto& c : module->computations()) {
    const auto& all = c->instructions();
    if (all.size() < 4 ||
        !std::all_of(all.begin(), all.end(), [](const auto& i) { return may_move(*i); })) {
      continue;
    }
    const std::vector<Instruction*> order = Order(*c, shrink_early).run();
    if (order.size() != all.size()) continue;  // what nobody needs stays where it is
    bool same = true;
    for (std::size_t n = 0; n < all.size(); ++n) same = same && all[n].get() == order[n];
    if (same) continue;
    c->set_order(order);
    ++changed;
  }
  return changed;
}

}  // namespace tessera::spmd
