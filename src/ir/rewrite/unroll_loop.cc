// SPDX-License-Identifier: Apache-2.0
// Several trips of a loop as one.
#include "src/ir/rewrite/unroll_loop.h"

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "src/ir/cloner.h"
#include "src/ir/rewrite/builder.h"
#include "src/ir/rewrite/while_view.h"

namespace tessera::ir {
namespace {

/// Elements of tuples that are put together here are what they were put together from.
void read_elements_directly(Computation* c) {
  for (const auto& i : c->instructions()) {
    if (!i->is(Opcode::get_tuple_element) || !i->operand(0)->is(Opcode::tuple)) continue;
    i->replace_all_uses_with(
        i->operand(0)->operands()[std::size_t(i->get<GetTupleElementAttrs>().index)]);
  }
  c->remove_dead();
}

/// What a trip leads to, `times` times.
Computation* repeated(const Computation& body, std::int64_t times, const Copied& copied) {
  Computation* out = body.module()->add_computation(body.name());
  for (std::int64_t k = 0; k < times; ++k) {
    CloneOptions options;
    options.fresh_channels = k > 0;
    Cloner cloner(body, out, options);
    const std::array<Instruction*, 1> before{out->root()};
    if (k > 0) cloner.map_parameters(before);
    out->set_root(cloner.clone_all());
    if (!copied) continue;
    for (const auto& i : body.instructions()) {
      const bool given = k > 0 && i->is(Opcode::parameter);
      if (!given && cloner.has(i.get())) copied(*i, *cloner[i.get()]);
    }
  }
  read_elements_directly(out);
  return out;
}

}  // namespace

Instruction* unroll_loop(Instruction* loop, std::int64_t trips, std::int64_t times,
                         const Copied& copied) {
  TESSERA_CHECK(WhileView(*loop).has_separate_carries() && times > 1 && trips >= times,
                loop->name + " can't be unrolled");
  Computation* outside = loop->parent;
  const std::size_t carries = WhileView(*loop).size();
  auto copy = std::make_unique<Instruction>(*loop);
  copy->set_called(0, repeated(*loop->called(0), 1, copied));
  copy->set_called(1, repeated(*loop->called(1), times, copied));
  copy->set_operands(std::vector<Instruction*>(loop->operands()));
  Instruction* unrolled = outside->add(std::move(copy));
  WhileAttrs attrs = loop->attrs.get_if<WhileAttrs>() ? loop->get<WhileAttrs>() : WhileAttrs{};
  attrs.known_trip_count = trips / times;
  unrolled->attrs = attrs;

  Builder b(outside);
  b.metadata = loop->metadata;
  Instruction* read = add_carries(unrolled, {b.scalar(DType::s32, 0)}).front();
  const WhileView view(*unrolled);
  Builder inside(&view.body()), test(&view.condition());
  inside.metadata = test.metadata = loop->metadata;
  view.body().root()->set_operand(carries,
                                  inside.binary(Opcode::add, read, inside.scalar(DType::s32, 1)));
  view.body().sort_topologically();
  Instruction* count = test.get_tuple_element(view.condition().parameter(0), std::int64_t(carries));
  view.condition().set_root(
      test.compare(Direction::lt, count, test.scalar(DType::s32, double(trips / times))));
  view.condition().remove_dead();
  view.condition().sort_topologically();

  std::vector<Instruction*> after;
  for (std::size_t k = 0; k < carries; ++k) {
    after.push_back(b.get_tuple_element(unrolled, std::int64_t(k)));
  }
  if (trips % times != 0) {
    if (loop->attrs.get_if<WhileAttrs>())
      loop->attrs.edit_if<WhileAttrs>()->known_trip_count = trips % times;
    set_inits(loop, after);
  } else {
    for (Instruction* user : loop->users()) {
      user->replace_all_uses_with(after[std::size_t(user->get<GetTupleElementAttrs>().index)]);
    }
  }
  outside->remove_dead();
  outside->sort_topologically();
  return unrolled;
}

}  // namespace tessera::ir
