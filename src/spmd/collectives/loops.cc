// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "src/spmd/collectives/optimize.h"
#include "src/spmd/collectives/rewrite.h"

// Compiled apart: names below stand in other sources of this folder too.
namespace tessera::spmd {
namespace {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

bool is_splat_of(const Instruction& i, const Literal& value) {
  const Instruction* c = &i;
  while (c->is(Opcode::broadcast) || c->is(Opcode::copy) || c->is(Opcode::reshape)) {
    c = c->operand(0);
  }
  return c->is(Opcode::constant) && c->shape.rank() == 0 && !c->get<ir::ConstantAttrs>().elided &&
         c->get<ir::ConstantAttrs>().value == value;
}

class Loop {
 public:
  Loop(Instruction* loop, Computation* around)
      : loop_(loop),
        around_(around),
        outside_(around),
        inside_(loop->called[1]),
        in_(inside_.computation()->parameter(0)),
        out_(inside_.computation()->root()),
        test_(loop->called[0]->parameter(0)),
        users_(ir::users_of(*inside_.computation())),
        fed_(loop->shape.elements.size()),
        reads_(loop->shape.elements.size(), nullptr),
        read_often_(loop->shape.elements.size(), 0) {}

  /// Carried arrays can be told apart.
  bool simple() {
    if (!out_->is(Opcode::tuple) || out_ == in_ || !loop_->shape.is_tuple) return false;
    if (!loop_->control_predecessors.empty()) return false;
    for (const Instruction* user : users_[std::size_t(in_->index)]) {
      if (!user->is(Opcode::get_tuple_element)) return false;
      const auto k = std::size_t(user->get<ir::GetTupleElementAttrs>().index);
      reads_[k] = const_cast<Instruction*>(user);
      ++read_often_[k];
    }
    for (const auto& i : loop_->called[0]->instructions()) {
      for (const Instruction* o : i->operands) {
        if (o != test_) continue;
        if (!i->is(Opcode::get_tuple_element)) return false;
        tested_.insert(i->get<ir::GetTupleElementAttrs>().index);
      }
    }
    return test_ != loop_->called[0]->root();
  }

  std::size_t run() {
    outside_.metadata = loop_->metadata;
    const std::size_t n = hoist() + postpone();
    if (n > 0) finish();
    return n;
  }

 private:
  Computation* body() const { return inside_.computation(); }

  /// What element k is before the loop.
  Instruction* fed(std::size_t k) {
    Instruction* init = loop_->operand(0);
    if (!fed_[k]) {
      fed_[k] = init->is(Opcode::tuple) ? init->operand(k)
                                        : outside_.get_tuple_element(init, std::int64_t(k));
    }
    return fed_[k];
  }

  // ----- what does not change

  std::size_t hoist() {
    std::unordered_set<const Instruction*> steady;
    std::vector<Instruction*> found;
    for (const auto& i : body()->instructions()) {
      if (i->is(Opcode::get_tuple_element) && i->operand(0) == in_) {
        const auto k = std::size_t(i->get<ir::GetTupleElementAttrs>().index);
        const Instruction* next = out_->operand(k);
        const bool kept = next->is(Opcode::get_tuple_element) && next->operand(0) == in_ &&
                          next->get<ir::GetTupleElementAttrs>().index == std::int64_t(k);
        if (kept && i->shape.is_array()) steady.insert(i.get());
        continue;
      }
      if (!may_stand_outside(*i)) continue;
      if (!std::all_of(i->operands.begin(), i->operands.end(),
                       [&](const Instruction* o) { return steady.count(o) > 0; })) {
        continue;
      }
      steady.insert(i.get());
      if (ir::is_collective(i->opcode)) found.push_back(i.get());
    }
    std::size_t count = 0;
    std::unordered_map<const Instruction*, Instruction*> outside;
    for (Instruction* collective : found) {
      // One that only another one of them reads is brought along by that one.
      const auto& users = users_[std::size_t(collective->index)];
      const bool needed = std::any_of(users.begin(), users.end(),
                                      [&](const Instruction* u) { return steady.count(u) == 0; });
      if (!needed && !leads_elsewhere(collective, steady)) continue;
      Instruction* value = copy_out(collective, &outside);
      const auto k = std::int64_t(out_->operands.size());
      fed_.push_back(value);
      auto carried = std::make_unique<Instruction>();
      carried->opcode = Opcode::get_tuple_element;
      carried->shape = collective->shape;
      carried->operands = {in_};
      carried->attrs = ir::GetTupleElementAttrs{k};
      carried->metadata = collective->metadata;
      Instruction* read = body()->add(std::move(carried));
      out_->operands.push_back(read);
      replaced_[collective] = read;
      ++count;
    }
    return count;
  }

  /// Some steady user of it is no collective's operand in the end: it is needed in the loop.
  bool leads_elsewhere(const Instruction* i, const std::unordered_set<const Instruction*>& steady) {
    std::vector<const Instruction*> work{i};
    std::unordered_set<const Instruction*> seen;
    while (!work.empty()) {
      const Instruction* x = work.back();
      work.pop_back();
      if (!seen.insert(x).second) continue;
      if (x == body()->root()) return true;
      for (const Instruction* u : users_[std::size_t(x->index)]) {
        if (steady.count(u) == 0) return true;
        if (!ir::is_collective(u->opcode)) work.push_back(u);
      }
    }
    return false;
  }

  Instruction* copy_out(Instruction* i, std::unordered_map<const Instruction*, Instruction*>* map) {
    // All that it needs, in the order that stands.
    std::vector<Instruction*> needed, work{i};
    std::unordered_set<const Instruction*> seen;
    while (!work.empty()) {
      Instruction* x = work.back();
      work.pop_back();
      if (map->count(x) > 0 || !seen.insert(x).second) continue;
      needed.push_back(x);
      if (x->is(Opcode::get_tuple_element) && x->operand(0) == in_) continue;
      work.insert(work.end(), x->operands.begin(), x->operands.end());
    }
    std::sort(needed.begin(), needed.end(),
              [](const Instruction* a, const Instruction* b) { return a->index < b->index; });
    for (Instruction* x : needed) {
      if (x->is(Opcode::get_tuple_element) && x->operand(0) == in_) {
        (*map)[x] = fed(std::size_t(x->get<ir::GetTupleElementAttrs>().index));
        continue;
      }
      std::vector<Instruction*> operands;
      for (const Instruction* o : x->operands) operands.push_back(map->at(o));
      outside_.metadata = x->metadata;
      Instruction* copy;
      if (ir::is_collective(x->opcode)) {
        copy = same_collective(outside_, *x, std::move(operands), x->shape);
      } else {
        copy = outside_.emit_shaped(x->opcode, x->shape, std::move(operands), x->attrs, x->called);
        copy->backend_config = x->backend_config;
        copy->frontend_attributes = x->frontend_attributes;
      }
      outside_.metadata = loop_->metadata;
      (*map)[x] = copy;
    }
    return map->at(i);
  }

  // ----- what is added up

  std::size_t postpone() {
    std::size_t count = 0;
    const std::size_t carried = loop_->shape.elements.size();
    for (std::size_t k = 0; k < carried; ++k) count += postpone(k) ? 1 : 0;
    return count;
  }

  bool has_one_use(const Instruction* i) const {
    if (std::size_t(i->index) >= users_.size() ||
        replaced_.count(const_cast<Instruction*>(i)) > 0) {
      return false;
    }
    const auto& users = users_[std::size_t(i->index)];
    return users.size() == 1 && i->control_predecessors.empty() &&
           std::count(users[0]->operands.begin(), users[0]->operands.end(), i) == 1;
  }

  /// carried = op(carried, all-reduce(x)), seen by nobody before the loop is over.
  bool postpone(std::size_t k) {
    Instruction* read = reads_[k];
    Instruction* next = out_->operand(k);
    if (!read || read_often_[k] != 1 || !has_one_use(read) || tested_.count(std::int64_t(k)) > 0) {
      return false;
    }
    if (users_[std::size_t(read->index)][0] != next || !has_one_use(next)) return false;
    if (next->operands.size() != 2 || !ir::is_commutative(next->opcode)) return false;
    const Opcode op = next->opcode;
    const auto neutral = ir::identity_of(op, next->shape.dtype);
    if (!neutral || !next->shape.is_array() || next->shape != read->shape) return false;
    const std::size_t at = next->operand(0) == read ? 1 : 0;
    std::vector<Instruction*> chain;
    Instruction* all = next->operands[at];
    while (only_moves(*all) && has_one_use(all)) {
      chain.push_back(all);
      all = all->operand(0);
    }
    if (!all->is(Opcode::all_reduce) || !is_plain_collective(*all) || !has_one_use(all)) {
      return false;
    }
    if (ir::as_binary_reducer(*all->called.at(0)) != op) return false;
    // Its own part in the loop, the sum of all devices' parts behind it.
    replaced_[all] = all->operand(0);
    Instruction* first = fed(k);
    outside_.metadata = all->metadata;
    fed_[k] = outside_.splat(outside_.constant(*neutral), next->shape.dims);
    Instruction* part = outside_.get_tuple_element(loop_, std::int64_t(k));
    part->shape = next->shape;
    Instruction* total = same_collective(outside_, *all, {part}, next->shape);
    if (!is_splat_of(*first, *neutral)) {
      outside_.metadata = next->metadata;
      total = outside_.binary(op, first, total);
    }
    outside_.metadata = loop_->metadata;
    results_[k] = total;
    made_.insert(part);
    return true;
  }

  // -----

  void finish() {
    const std::size_t before = loop_->shape.elements.size();
    body()->replace_all_uses(replaced_);
    std::vector<Instruction*> elements;
    for (std::size_t k = 0; k < fed_.size(); ++k) {
      elements.push_back(k < before ? fed(k) : fed_[k]);
    }
    Instruction* init = outside_.tuple(elements);
    const Shape shape = init->shape;
    // Uses of the whole result see the elements that they know.
    std::vector<Instruction*> users;
    bool whole = around_->root() == loop_;
    for (const auto& i : around_->instructions()) {
      const bool uses =
          std::find(i->operands.begin(), i->operands.end(), loop_) != i->operands.end();
      if (!uses || made_.count(i.get()) > 0) continue;
      users.push_back(i.get());
      whole = whole || !i->is(Opcode::get_tuple_element);
    }
    loop_->operands = {init};
    loop_->shape = in_->shape = test_->shape = out_->shape = shape;
    std::unordered_map<Instruction*, Instruction*> results;
    Instruction* known = nullptr;
    if (whole) {
      std::vector<Instruction*> all;
      for (std::size_t k = 0; k < before; ++k) {
        auto it = results_.find(k);
        all.push_back(it != results_.end() ? it->second
                                           : outside_.get_tuple_element(loop_, std::int64_t(k)));
      }
      known = outside_.tuple(all);
      known->sharding = loop_->sharding;
      if (around_->root() == loop_) around_->set_root(known);
    }
    loop_->sharding.clear();
    for (Instruction* user : users) {
      if (!user->is(Opcode::get_tuple_element)) {
        std::replace(user->operands.begin(), user->operands.end(), loop_, known);
        continue;
      }
      auto it = results_.find(std::size_t(user->get<ir::GetTupleElementAttrs>().index));
      if (it == results_.end()) continue;
      if (around_->root() == user) it->second->sharding = user->sharding;
      results[user] = it->second;
    }
    around_->replace_all_uses(results);
    for (Computation* c : {body(), around_}) {
      c->sort_topologically();
      c->remove_dead();
    }
  }

  Instruction* loop_;
  Computation* around_;
  ir::Builder outside_, inside_;
  Instruction *in_, *out_, *test_;
  ir::Users users_;
  std::vector<Instruction*> fed_;
  std::vector<Instruction*> reads_;  ///< of each carried element, in the body
  std::vector<int> read_often_;
  std::unordered_set<std::int64_t> tested_;
  std::unordered_map<Instruction*, Instruction*> replaced_;  ///< in the body
  std::map<std::size_t, Instruction*> results_;              ///< after the loop
  std::unordered_set<const Instruction*> made_;
};

}  // namespace

std::size_t move_out_of_loops(ir::Module* module) {
  std::unordered_map<const Computation*, int> callers;
  for (const auto& c : module->computations()) {
    for (const auto& i : c->instructions()) {
      for (const Computation* callee : i->called) ++callers[callee];
    }
  }
  std::unordered_set<const Computation*> branches;
  const auto& all = module->computations();
  for (auto c = all.rbegin(); c != all.rend(); ++c) {
    for (const auto& i : (*c)->instructions()) {
      if (!i->is(Opcode::conditional) && branches.count(c->get()) == 0) continue;
      branches.insert(i->called.begin(), i->called.end());
    }
  }
  std::size_t total = 0;
  // Callees first: what leaves an inner loop may leave the one around it.
  for (const auto& c : module->computations()) {
    std::vector<Instruction*> loops;
    for (const auto& i : c->instructions()) {
      if (!i->is(Opcode::while_)) continue;
      const auto trips = i->get<ir::WhileAttrs>().known_trip_count;
      // In a branch, devices may stand still that a loop without trips doesn't ask for.
      if (trips ? *trips < 2 : branches.count(c.get()) > 0) continue;
      if (callers[i->called[0]] == 1 && callers[i->called[1]] == 1) loops.push_back(i.get());
    }
    for (Instruction* i : loops) {
      Loop loop(i, c.get());
      if (loop.simple()) total += loop.run();
    }
  }
  return total;
}

}  // namespace tessera::spmd
