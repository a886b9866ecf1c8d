// SPDX-License-Identifier: Apache-2.0
// Loop carries that are always equal become one: assumed equal if they are before the loop, parted
// where the body, computing with that assumption, gives them different values, until none is (as
// values are numbered over cycles by Alpern, Wegman and Zadeck, 1988).
#include "src/passes/control/merge_loop_carries.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "src/ir/analysis/equivalence.h"
#include "src/ir/rewrite/while_view.h"

namespace tessera::passes {
namespace {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

std::int64_t element_index(const Instruction& i) { return i.get<ir::GetTupleElementAttrs>().index; }

std::vector<std::size_t> equal_carries(const Instruction& loop, const std::vector<int>& numbers);

/// Numbers by an instruction's index: equal ones have equal values. `classes`, of the elements of
/// the one parameter: equal ones are taken to have equal values.
std::vector<int> value_numbers(const Computation& c, const std::vector<int>* classes) {
  std::vector<int> numbers(c.instructions().size());
  std::unordered_map<std::uint64_t, std::vector<const Instruction*>> seen;
  std::map<const Instruction*, std::vector<std::size_t>> leaders;  // of loops; looked up only
  int next = classes ? int(classes->size()) : 0;
  const auto same = [&](const Instruction& a, const Instruction& b) {
    return ir::same_operation(a, b) &&
           std::equal(a.operands().begin(), a.operands().end(), b.operands().begin(),
                      b.operands().end(), [&](const Instruction* x, const Instruction* y) {
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
    if (i->is(Opcode::while_) && ir::WhileView(*i).has_tuples())
      leaders[i.get()] = equal_carries(*i, numbers);
    if (!ir::is_pure(*i)) continue;
    auto hash = std::uint64_t(i->opcode);
    for (const Instruction* o : i->operands()) {
      hash = ir::mix_hash(hash, std::uint64_t(numbers[std::size_t(o->index)]));
    }
    auto& equal = seen[hash];
    const auto it = std::find_if(equal.begin(), equal.end(), [&](const Instruction* other) {
      return same(*other, *i) || same_element(*other, *i);
    });
    if (it != equal.end()) {
      mine = numbers[std::size_t((*it)->index)];
    } else {
      equal.push_back(i.get());
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
  const auto& before = loop.operand(0)->operands();
  const Computation& body = *loop.called()[1];
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

bool states_nothing(const Instruction& i) { return i.sharding.empty(); }

/// A tuple goes in, a tuple comes out, all else asks for their elements, and nothing says how they
/// are sharded.
bool is_plain(const ir::WhileView& loop) {
  const Instruction& i = loop.loop();
  if (!loop.has_separate_carries() || !i.control_predecessors().empty() || i.use_count() == 0) {
    return false;
  }
  bool plain = states_nothing(i);
  for (const Computation* c : i.called()) {
    plain = plain && states_nothing(*c->parameter(0)) && states_nothing(*c->root());
  }
  return plain;
}

/// Marks what an instruction is computed from, and the carries among it.
void mark(const Instruction& from, std::vector<char>* live, std::vector<bool>* carries) {
  std::vector<const Instruction*> todo{&from};
  while (!todo.empty()) {
    const Instruction& i = *todo.back();
    todo.pop_back();
    char& seen = (*live)[std::size_t(i.index)];
    if (seen) continue;
    seen = 1;
    if (const auto k = ir::WhileView::carry_of(i)) (*carries)[*k] = true;
    todo.insert(todo.end(), i.operands().begin(), i.operands().end());
    todo.insert(todo.end(), i.control_predecessors().begin(), i.control_predecessors().end());
  }
}

/// Carries that something other than their own next value, or that of another such, needs.
std::vector<bool> needed_carries(const ir::WhileView& loop) {
  std::vector<bool> out(loop.size());
  for (const Instruction* u : loop.loop().users()) {
    if (u->use_count() == 0 && u->parent->root() != u) continue;
    out[std::size_t(element_index(*u))] = true;
  }
  std::vector<char> tested(loop.condition().instructions().size());
  mark(*loop.condition().root(), &tested, &out);
  // What the body does besides.
  std::vector<char> live(loop.body().instructions().size());
  for (const auto& i : loop.body().instructions()) {
    if (ir::has_side_effect(i->opcode) || !i->control_predecessors().empty()) {
      mark(*i, &live, &out);
    }
  }
  std::vector<bool> followed(out.size());
  for (bool more = true; more;) {
    more = false;
    for (std::size_t k = 0; k < out.size(); ++k) {
      if (!out[k] || followed[k]) continue;
      followed[k] = more = true;
      mark(*loop.next(k), &live, &out);
    }
  }
  return out;
}

/// All elements of a class are read from its leader.
void read_leaders(const ir::WhileView& loop, const std::vector<std::size_t>& leaders) {
  for (const Instruction* tuple : std::initializer_list<const Instruction*>{
           &loop.loop(), loop.body().parameter(0), loop.condition().parameter(0)}) {
    for (Instruction* user : tuple->users()) {
      const std::size_t leader = leaders[std::size_t(element_index(*user))];
      user->attrs = ir::GetTupleElementAttrs{std::int64_t(leader)};
    }
  }
}

/// How many loops run a computation, as condition or body.
std::map<const Computation*, int> runs_of(const ir::Module& module) {
  std::map<const Computation*, int> out;  // looked up, never walked
  for (const auto& c : module.computations()) {
    for (const auto& i : c->instructions()) {
      for (const Computation* callee : i->called()) ++out[callee];
    }
  }
  return out;
}

std::size_t merge(Computation* c, const std::map<const Computation*, int>& runs) {
  std::vector<Instruction*> loops;
  for (const auto& i : c->instructions()) {
    if (!i->is(Opcode::while_)) continue;
    const bool own = std::all_of(i->called().begin(), i->called().end(),
                                 [&](const Computation* b) { return runs.at(b) == 1; });
    if (own) loops.push_back(i.get());
  }
  if (loops.empty()) return 0;
  std::size_t count = 0;
  const std::vector<int> numbers = value_numbers(*c, nullptr);
  for (Instruction* at : loops) {
    const ir::WhileView loop(*at);
    if (!is_plain(loop)) continue;
    const std::vector<std::size_t> leaders = equal_carries(*at, numbers);
    std::vector<bool> kept(leaders.size());
    const std::vector<bool> needed = needed_carries(loop);
    for (std::size_t k = 0; k < kept.size(); ++k) {
      if (needed[k]) kept[leaders[k]] = true;
    }
    const auto fewer = std::size_t(std::count(kept.begin(), kept.end(), false));
    if (fewer == 0) continue;
    count += fewer;
    read_leaders(loop, leaders);
    ir::keep_carries(at, kept);
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
