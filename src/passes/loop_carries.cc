// SPDX-License-Identifier: Apache-2.0
// Loop carries that are always equal become one: assumed equal if they are before the loop, parted
// where the body, computing with that assumption, gives them different values, until none is (as
// values are numbered over cycles by Alpern, Wegman and Zadeck, 1988).
#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/passes/alike.h"
#include "src/passes/simplify.h"

// Compiled apart: names below stand in other sources of this folder too.
namespace tessera::passes {
namespace {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

std::int64_t element_index(const Instruction& i) { return i.get<ir::GetTupleElementAttrs>().index; }

std::vector<std::size_t> equal_carries(const Instruction& loop, const std::vector<int>& numbers);

bool carries_tuple(const Instruction& loop) {
  return loop.operand(0)->is(Opcode::tuple) && loop.called[1]->root()->is(Opcode::tuple);
}

/// Numbers by an instruction's index: equal ones have equal values. `classes`, of the elements of
/// the one parameter: equal ones are taken to have equal values.
std::vector<int> value_numbers(const Computation& c, const std::vector<int>* classes) {
  std::vector<int> numbers(c.instructions().size());
  std::map<std::string, std::vector<const Instruction*>> seen;
  std::map<const Instruction*, std::vector<std::size_t>> leaders;  // of loops; looked up only
  int next = classes ? int(classes->size()) : 0;
  const auto same = [&](const Instruction& a, const Instruction& b) {
    return equal_but_for_operands(a, b) &&
           std::equal(a.operands.begin(), a.operands.end(), b.operands.begin(), b.operands.end(),
                      [&](const Instruction* x, const Instruction* y) {
                        return numbers[std::size_t(x->index)] == numbers[std::size_t(y->index)];
                      });
  };
  const auto same_element = [&](const Instruction& a, const Instruction& b) {
    if (!a.is(Opcode::get_tuple_element) || a.operand(0) != b.operand(0)) return false;
    const auto of = leaders.find(a.operand(0));
    return of != leaders.end() &&
           of->second[std::size_t(element_index(a))] == of->second[std::size_t(element_index(b))];
  };
  for (const auto& i : c.instructions()) {
    int& mine = numbers[std::size_t(i->index)];
    if (classes && i->is(Opcode::get_tuple_element) && i->operand(0)->is(Opcode::parameter)) {
      mine = (*classes)[std::size_t(element_index(*i))];
      continue;
    }
    if (i->is(Opcode::get_tuple_element) && i->operand(0)->is(Opcode::tuple)) {
      const Instruction* element = i->operand(0)->operand(std::size_t(element_index(*i)));
      mine = numbers[std::size_t(element->index)];
      continue;
    }
    mine = next++;
    if (i->is(Opcode::while_) && carries_tuple(*i)) leaders[i.get()] = equal_carries(*i, numbers);
    if (!is_pure(*i)) continue;
    std::string key = std::to_string(int(i->opcode));
    for (const Instruction* o : i->operands) {
      key += "," + std::to_string(numbers[std::size_t(o->index)]);
    }
    auto& alike = seen[key];
    const auto it = std::find_if(alike.begin(), alike.end(), [&](const Instruction* other) {
      return same(*other, *i) || same_element(*other, *i);
    });
    if (it != alike.end()) {
      mine = numbers[std::size_t((*it)->index)];
    } else {
      alike.push_back(i.get());
    }
  }
  return numbers;
}

/// In the order in which they first appear; returns how many there are.
std::size_t renumber(std::vector<int>* classes) {
  std::map<int, int> seen;
  for (int& c : *classes) c = seen.try_emplace(c, int(seen.size())).first->second;
  return seen.size();
}

/// For each carry the first one that always equals it. `numbers`: of the values in the loop's
/// computation.
std::vector<std::size_t> equal_carries(const Instruction& loop, const std::vector<int>& numbers) {
  const auto& before = loop.operand(0)->operands;
  const Computation& body = *loop.called[1];
  std::vector<int> classes;
  for (const Instruction* x : before) classes.push_back(numbers[std::size_t(x->index)]);
  for (std::size_t count = 0;;) {
    const std::size_t parts = renumber(&classes);
    if (parts == before.size() || parts == count) break;
    count = parts;
    const std::vector<int> after = value_numbers(body, &classes);
    std::map<std::pair<int, int>, int> split;
    for (std::size_t k = 0; k < classes.size(); ++k) {
      const std::pair both{classes[k], after[std::size_t(body.root()->operand(k)->index)]};
      classes[k] = split.try_emplace(both, int(split.size())).first->second;
    }
  }
  std::vector<std::size_t> out;
  for (const int c : classes) {
    out.push_back(std::size_t(std::find(classes.begin(), classes.end(), c) - classes.begin()));
  }
  return out;
}

bool only_elements(const Instruction& tuple, std::span<Instruction* const> users) {
  return tuple.parent->root() != &tuple &&
         std::all_of(users.begin(), users.end(),
                     [](const Instruction* u) { return u->is(Opcode::get_tuple_element); });
}

class Loop {
 public:
  Loop(Instruction* loop, const ir::Users& users) : loop_(*loop), users_(users) {}

  /// A tuple goes in, a tuple comes out, and all else asks for their elements.
  bool is_plain() const {
    return carries_tuple(loop_) && loop_.control_predecessors.empty() &&
           users_[std::size_t(loop_.index)].size() > 0 &&
           only_elements(loop_, users_[std::size_t(loop_.index)]) && is_plain(body()) &&
           is_plain(condition()) && loop_.sharding.empty();
  }

  /// Whether something other than a carry's own next value, or that of another such, needs it.
  std::vector<char> needed() const {
    std::vector<char> out(loop_.operand(0)->operands.size());
    for (const Instruction* u : users_[std::size_t(loop_.index)]) {
      if (users_[std::size_t(u->index)].empty() && u->parent->root() != u) continue;
      out[std::size_t(element_index(*u))] = 1;
    }
    std::vector<char> asked(condition().instructions().size());
    mark(*condition().root(), &asked, &out);
    // What the body does besides.
    std::vector<char> live(body().instructions().size());
    for (const auto& i : body().instructions()) {
      if (ir::has_side_effect(i->opcode) || !i->control_predecessors.empty()) mark(*i, &live, &out);
    }
    std::vector<char> followed(out.size());
    for (bool more = true; more;) {
      more = false;
      for (std::size_t k = 0; k < out.size(); ++k) {
        if (!out[k] || followed[k]) continue;
        followed[k] = more = true;
        mark(*body().root()->operand(k), &live, &out);
      }
    }
    return out;
  }

  /// Has everyone ask the leader, and the loop carry only what is kept.
  void rewrite(const std::vector<std::size_t>& leaders, const std::vector<char>& kept) {
    std::vector<std::int64_t> place(kept.size(), -1);
    std::int64_t count = 0;
    for (std::size_t k = 0; k < kept.size(); ++k) {
      if (kept[k]) place[k] = count++;
    }
    const auto redirect = [&](Instruction* element) {
      const std::int64_t to = place[leaders[std::size_t(element_index(*element))]];
      // A dead one may ask for anything that has its shape; it goes with the rest.
      if (to >= 0) element->attrs = ir::GetTupleElementAttrs{to};
    };
    for (Computation* c : {&body(), &condition()}) {
      Instruction* p = c->parameter(0);
      for (const auto& i : c->instructions()) {
        if (is_element(*i)) redirect(i.get());
      }
      p->shape = thinned(p->shape, kept);
    }
    for (Instruction* u : users_[std::size_t(loop_.index)]) redirect(u);
    thin(body().root(), kept);
    auto before = std::make_unique<Instruction>();
    before->opcode = Opcode::tuple;
    before->operands = loop_.operand(0)->operands;
    before->shape = loop_.operand(0)->shape;
    before->metadata = loop_.operand(0)->metadata;
    before->name = loop_.operand(0)->name;
    Instruction* added = loop_.parent->add(std::move(before));
    thin(added, kept);
    loop_.operands[0] = added;
    loop_.shape = added->shape;
  }

 private:
  Computation& condition() const { return *loop_.called[0]; }
  Computation& body() const { return *loop_.called[1]; }

  static bool is_element(const Instruction& i) {
    return i.is(Opcode::get_tuple_element) && i.operand(0)->is(Opcode::parameter);
  }
  static bool is_plain(const Computation& c) {
    const ir::Users users = ir::users_of(c);
    const Instruction& p = *c.parameter(0);
    return p.sharding.empty() && c.root()->sharding.empty() &&
           only_elements(p, users[std::size_t(p.index)]);
  }
  static void mark(const Instruction& from, std::vector<char>* live, std::vector<char>* asked) {
    std::vector<const Instruction*> todo{&from};
    while (!todo.empty()) {
      const Instruction& i = *todo.back();
      todo.pop_back();
      char& seen = (*live)[std::size_t(i.index)];
      if (seen) continue;
      seen = 1;
      if (is_element(i)) (*asked)[std::size_t(element_index(i))] = 1;
      todo.insert(todo.end(), i.operands.begin(), i.operands.end());
      todo.insert(todo.end(), i.control_predecessors.begin(), i.control_predecessors.end());
    }
  }
  static Shape thinned(const Shape& tuple, const std::vector<char>& kept) {
    std::vector<Shape> elements;
    for (std::size_t k = 0; k < kept.size(); ++k) {
      if (kept[k]) elements.push_back(tuple.elements[k]);
    }
    return Shape::tuple(std::move(elements));
  }
  static void thin(Instruction* tuple, const std::vector<char>& kept) {
    std::vector<Instruction*> operands;
    for (std::size_t k = 0; k < kept.size(); ++k) {
      if (kept[k]) operands.push_back(tuple->operands[k]);
    }
    tuple->operands = std::move(operands);
    tuple->shape = thinned(tuple->shape, kept);
  }

  Instruction& loop_;
  const ir::Users& users_;
};

/// How many loops run a computation, as condition or body.
std::map<const Computation*, int> runs_of(const ir::Module& module) {
  std::map<const Computation*, int> out;  // looked up, never walked
  for (const auto& c : module.computations()) {
    for (const auto& i : c->instructions()) {
      for (const Computation* callee : i->called) ++out[callee];
    }
  }
  return out;
}

std::size_t merge(Computation* c, const std::map<const Computation*, int>& runs) {
  std::vector<Instruction*> loops;
  for (const auto& i : c->instructions()) {
    if (!i->is(Opcode::while_)) continue;
    const bool own = std::all_of(i->called.begin(), i->called.end(),
                                 [&](const Computation* b) { return runs.at(b) == 1; });
    if (own) loops.push_back(i.get());
  }
  if (loops.empty()) return 0;
  std::size_t count = 0;
  const ir::Users users = ir::users_of(*c);
  const std::vector<int> numbers = value_numbers(*c, nullptr);
  for (Instruction* at : loops) {
    Loop loop(at, users);
    if (!loop.is_plain()) continue;
    const std::vector<std::size_t> leaders = equal_carries(*at, numbers);
    std::vector<char> kept(leaders.size());
    const std::vector<char> needed = loop.needed();
    for (std::size_t k = 0; k < kept.size(); ++k) kept[leaders[k]] |= needed[k];
    const auto fewer = std::size_t(std::count(kept.begin(), kept.end(), 0));
    if (fewer == 0) continue;
    count += fewer;
    loop.rewrite(leaders, kept);
  }
  if (count > 0) c->sort_topologically();
  return count;
}

}  // namespace

std::size_t merge_loop_carries(ir::Module* module) {
  std::size_t count = 0;
  const auto runs = runs_of(*module);
  // Callers first: what an outer loop carries once may be what an inner one carries twice.
  const auto& all = module->computations();
  for (auto c = all.rbegin(); c != all.rend(); ++c) count += merge(c->get(), runs);
  if (count > 0) {
    for (const auto& c : all) c->remove_dead();
  }
  return count;
}

}  // namespace tessera::passes
