// SPDX-License-Identifier: Apache-2.0
// WhileView: a while loop as the values that it carries, and changes of those.
#include "src/ir/rewrite/while_view.h"

#include <algorithm>
#include <initializer_list>

#include "src/base/arrays/literal_util.h"
#include "src/ir/rewrite/builder.h"

namespace tessera::ir {
namespace {

bool is_element(const Instruction* i) { return i->is(Opcode::get_tuple_element); }

bool has_only_elements(const Instruction& tuple) {
  const UserList users = tuple.users();
  return tuple.parent->root() != &tuple && std::all_of(users.begin(), users.end(), is_element);
}

Direction swapped(Direction d) {
  switch (d) {
    case Direction::lt:
      return Direction::gt;
    case Direction::le:
      return Direction::ge;
    case Direction::gt:
      return Direction::lt;
    case Direction::ge:
      return Direction::le;
    default:
      return d;
  }
}

std::optional<std::int64_t> count_trips(std::int64_t start, std::int64_t limit, std::int64_t step,
                                        Direction direction, DType dtype) {
  using Wide = __int128;
  Wide distance = Wide(limit) - start, by = step;
  if (direction == Direction::gt || direction == Direction::ge) {
    distance = -distance;
    by = -by;
    direction = direction == Direction::gt ? Direction::lt : Direction::le;
  }
  Wide trips = 0;
  if (direction == Direction::ne) {
    if (distance % by != 0 || distance / by < 0) return std::nullopt;
    trips = distance / by;
  } else if (direction == Direction::lt || direction == Direction::le) {
    if (direction == Direction::le) ++distance;
    if (distance <= 0) return 0;
    if (by <= 0) return std::nullopt;
    trips = (distance + by - 1) / by;
  } else {
    return std::nullopt;
  }
  // A counter that wraps around runs on.
  const int bits = int(8 * byte_size(dtype)) - (is_signed_integer(dtype) ? 1 : 0);
  const Wide last = Wide(start) + trips * step;
  const Wide above = Wide(1) << bits, below = is_signed_integer(dtype) ? -above : 0;
  if (last >= above || last < below || trips > INT64_MAX) return std::nullopt;
  return std::int64_t(trips);
}

/// The shape of a loop, of the parameters and of the body's root.
void set_shape(Instruction* loop, const Shape& shape) {
  loop->shape = shape;
  for (Computation* c : loop->called()) c->parameter(0)->shape = shape;
  loop->called(1)->root()->shape = shape;
}

}  // namespace

std::optional<std::int64_t> known_integer(const Instruction& scalar) {
  const Instruction* i = &scalar;
  // Bounds the walk, not the programs that are understood.
  for (int steps = 0; steps < 16; ++steps) {
    if (!i->shape.is_array() || !is_integer(i->shape.dtype) || i->shape.element_count() != 1) {
      return std::nullopt;
    }
    switch (i->opcode) {
      case Opcode::constant: {
        const auto& c = i->get<ConstantAttrs>();
        // Larger unsigned numbers than s64 holds would be misread.
        if (c.elided || i->shape.dtype == DType::u64) return std::nullopt;
        return to_scalar<std::int64_t>(c.value);
      }
      case Opcode::copy:
      case Opcode::reshape:
      case Opcode::bitcast:
      case Opcode::broadcast:
        if (i->operand(0)->shape.dtype != i->shape.dtype) return std::nullopt;
        i = i->operand(0);
        break;
      case Opcode::get_tuple_element: {
        const Instruction* tuple = i->operand(0);
        if (!tuple->is(Opcode::tuple)) return std::nullopt;
        i = tuple->operand(std::size_t(i->get<GetTupleElementAttrs>().index));
        break;
      }
      default:
        return std::nullopt;
    }
  }
  return std::nullopt;
}

bool WhileView::has_tuples() const {
  return loop_.operand(0)->is(Opcode::tuple) && body().root()->is(Opcode::tuple);
}

bool WhileView::has_separate_carries() const {
  return has_tuples() && has_only_elements(loop_) && has_only_elements(*body().parameter(0)) &&
         has_only_elements(*condition().parameter(0));
}

Instruction* WhileView::init(std::size_t k) const {
  Instruction* all = loop_.operand(0);
  if (!loop_.shape.is_tuple) return all;
  return all->is(Opcode::tuple) ? all->operand(k) : nullptr;
}

Instruction* WhileView::next(std::size_t k) const {
  Instruction* all = body().root();
  if (!loop_.shape.is_tuple) return all;
  return all->is(Opcode::tuple) ? all->operand(k) : nullptr;
}

std::vector<Instruction*> WhileView::reads(std::size_t k) const {
  std::vector<Instruction*> out;
  for (Instruction* user : body().parameter(0)->users()) {
    if (carry_of(*user) == k) out.push_back(user);
  }
  return out;
}

std::optional<std::size_t> WhileView::carry_of(const Instruction& i, bool through_copies) {
  const Instruction* x = &i;
  while (through_copies && x->is(Opcode::copy)) x = x->operand(0);
  if (!is_element(x) || x->operand(0) != x->parent->parameter(0)) return std::nullopt;
  return std::size_t(x->get<GetTupleElementAttrs>().index);
}

bool WhileView::is_invariant(std::size_t k, bool through_copies) const {
  const Instruction* after = next(k);
  return after != nullptr && carry_of(*after, through_copies) == k;
}

std::optional<std::size_t> WhileView::counted(const Instruction& i) const {
  const auto k = carry_of(i, true);
  return k && !is_invariant(*k, true) ? k : std::nullopt;
}

std::optional<std::int64_t> WhileView::limit_of(const Instruction& i) const {
  const auto k = carry_of(i, true);
  if (!k) return known_integer(i);
  if (!is_invariant(*k, true)) return std::nullopt;
  return known_integer(*init(*k));
}

std::optional<std::int64_t> WhileView::step_of(std::size_t k) const {
  const Instruction* after = next(k);
  while (after->is(Opcode::copy)) after = after->operand(0);
  if (after->is(Opcode::subtract)) {
    const auto step = known_integer(*after->operand(1));
    if (carry_of(*after->operand(0), true) != k || !step || *step == INT64_MIN) {
      return std::nullopt;
    }
    return -*step;
  }
  if (!after->is(Opcode::add)) return std::nullopt;
  if (carry_of(*after->operand(0), true) == k) return known_integer(*after->operand(1));
  if (carry_of(*after->operand(1), true) == k) return known_integer(*after->operand(0));
  return std::nullopt;
}

std::optional<LoopCounter> WhileView::counter() const {
  const Instruction* test = condition().root();
  if (!has_tuples() || !test->is(Opcode::compare)) return std::nullopt;
  Direction direction = test->get<CompareAttrs>().direction;
  auto carry = counted(*test->operand(0));
  auto limit = limit_of(*test->operand(1));
  if (!carry || !limit) {
    carry = counted(*test->operand(1));
    limit = limit_of(*test->operand(0));
    direction = swapped(direction);
  }
  if (!carry || !limit) return std::nullopt;
  const auto start = known_integer(*init(*carry));
  const auto step = step_of(*carry);
  if (!start || !step || *step == 0) return std::nullopt;
  const auto trips = count_trips(*start, *limit, *step, direction, shape(*carry).dtype);
  if (!trips) return std::nullopt;
  return LoopCounter{*carry, *start, *step, *trips};
}

std::optional<std::int64_t> WhileView::trips() const {
  if (const auto* attrs = loop_.attrs.get_if<WhileAttrs>(); attrs && attrs->known_trip_count) {
    return attrs->known_trip_count;
  }
  const auto counts = counter();
  return counts ? std::optional(counts->trips) : std::nullopt;
}

void set_inits(Instruction* loop, const std::vector<Instruction*>& inits) {
  Builder b(loop->parent);
  b.metadata = loop->operand(0)->metadata;
  loop->set_operand(0, b.tuple(inits));
}

std::vector<Instruction*> add_carries(Instruction* loop, const std::vector<Instruction*>& inits) {
  const WhileView view(*loop);
  Instruction* root = view.body().root();
  TESSERA_CHECK(loop->shape.is_tuple && root->is(Opcode::tuple) && root->use_count() == 0,
                "carries for " + loop->name + ", which carries no tuple of known elements");
  Builder outside(loop->parent), inside(&view.body());
  outside.metadata = loop->metadata;
  const std::size_t before = view.size();
  std::vector<Instruction*> all;
  for (std::size_t k = 0; k < before; ++k) {
    Instruction* init = view.init(k);
    all.push_back(init ? init : outside.get_tuple_element(loop->operand(0), std::int64_t(k)));
  }
  all.insert(all.end(), inits.begin(), inits.end());
  const UserList users = loop->users();
  loop->set_operand(0, outside.tuple(std::move(all)));
  set_shape(loop, loop->operand(0)->shape);
  std::vector<Instruction*> reads;
  for (std::size_t n = 0; n < inits.size(); ++n) {
    inside.metadata = inits[n]->metadata;
    reads.push_back(inside.get_tuple_element(view.body().parameter(0), std::int64_t(before + n)));
    root->add_operand(reads.back());
  }
  const bool returned = loop->parent->root() == loop;
  if (!returned && std::all_of(users.begin(), users.end(), is_element)) {
    loop->sharding.clear();
    return reads;
  }
  std::vector<Instruction*> known;
  for (std::size_t k = 0; k < before; ++k) {
    known.push_back(outside.get_tuple_element(loop, std::int64_t(k)));
  }
  Instruction* tuple = outside.tuple(std::move(known));
  tuple->sharding = std::move(loop->sharding);
  loop->sharding.clear();
  for (Instruction* user : users) {
    for (std::size_t k = 0; !is_element(user) && k < user->operands().size(); ++k) {
      if (user->operand(k) == loop) user->set_operand(k, tuple);
    }
  }
  if (returned) loop->parent->set_root(tuple);
  return reads;
}

void keep_carries(Instruction* loop, const std::vector<bool>& kept) {
  const WhileView view(*loop);
  TESSERA_CHECK(view.has_separate_carries() && kept.size() == view.size() && loop->sharding.empty(),
                "carries of " + loop->name + " can't be told apart");
  std::vector<std::int64_t> place(kept.size(), -1);
  std::vector<Instruction*> inits, nexts;
  for (std::size_t k = 0; k < kept.size(); ++k) {
    if (!kept[k]) continue;
    place[k] = std::int64_t(inits.size());
    inits.push_back(view.init(k));
    nexts.push_back(view.next(k));
  }
  for (const Instruction* tuple : std::initializer_list<const Instruction*>{
           &view.loop(), view.body().parameter(0), view.condition().parameter(0)}) {
    for (Instruction* user : tuple->users()) {
      const auto k = std::size_t(user->get<GetTupleElementAttrs>().index);
      // One that nobody uses may ask for anything: it goes with the dead.
      if (place[k] >= 0) user->attrs = GetTupleElementAttrs{place[k]};
    }
  }
  set_inits(loop, inits);
  view.body().root()->set_operands(std::move(nexts));
  set_shape(loop, loop->operand(0)->shape);
}

}  // namespace tessera::ir
