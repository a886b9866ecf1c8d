// SPDX-License-Identifier: Apache-2.0
// Patterns: which are tried, in which order, what is visited again, and what is refused.
#include "src/ir/rewrite/patterns.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "src/ir/hlo/hlo_text.h"
#include "src/ir/shapes/shape_inference.h"

namespace tessera::ir::testing {
namespace {

Instruction* negation_of_negation(const Instruction& i, Builder&) {
  Instruction* x = i.operand(0);
  return x->is(Opcode::negate) ? x->operand(0) : nullptr;
}

/// abs(x) is max(x, -x).
Instruction* abs_as_maximum(const Instruction& i, Builder& b) {
  return b.binary(Opcode::maximum, i.operand(0), b.unary(Opcode::negate, i.operand(0)));
}

std::vector<Opcode> opcodes(const Computation& c) {
  std::vector<Opcode> out;
  for (const auto& i : c.instructions()) out.push_back(i->opcode);
  return out;
}

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const InternalError& e) {
    return e.what();
  }
  return "no error";
}

constexpr const char* kNegations = R"(HloModule m
ENTRY main {
  x = f32[4] parameter(0)
  a = f32[4] negate(x)
  b = f32[4] negate(a)
  c = f32[4] negate(b)
  d = f32[4] negate(c)
  ROOT e = f32[4] abs(d)
})";

TEST(Patterns, AWalkSeesWhatWasReplacedBefore) {
  const auto m = parse_hlo(kNegations);
  const auto set = PatternSet("negations").add(Opcode::negate, negation_of_negation);
  // b is x, so that c is -x, and d is x.
  EXPECT_EQ(walk_and_apply_patterns(m.get(), set), 2u);
  EXPECT_EQ(opcodes(*m->entry()), (std::vector<Opcode>{Opcode::parameter, Opcode::abs}));
  EXPECT_EQ(walk_and_apply_patterns(m.get(), set), 0u);
  verify(*m);
}

TEST(Patterns, WhatIsMadeIsVisitedByTheGreedyDriverAlone) {
  auto set = PatternSet("abs").add(Opcode::abs, abs_as_maximum);
  set.add(Opcode::negate, negation_of_negation);
  const char* text = R"(HloModule m
ENTRY main {
  x = f32[4] parameter(0)
  a = f32[4] negate(x)
  ROOT e = f32[4] abs(a)
})";
  auto walked = parse_hlo(text), greedy = parse_hlo(text);
  EXPECT_EQ(walk_and_apply_patterns(walked.get(), set), 1u);
  EXPECT_EQ(opcodes(*walked->entry()), (std::vector<Opcode>{Opcode::parameter, Opcode::negate,
                                                            Opcode::negate, Opcode::maximum}));
  EXPECT_EQ(apply_patterns_greedily(greedy.get(), set), 2u);
  EXPECT_EQ(opcodes(*greedy->entry()),
            (std::vector<Opcode>{Opcode::parameter, Opcode::negate, Opcode::maximum}));
  verify(*walked);
  verify(*greedy);
}

TEST(Patterns, GreaterBenefitComesFirstThenTheOrderOfAddition) {
  const auto m = parse_hlo(kNegations);
  std::string tried;
  const auto note = [&tried](char name) {
    return [&tried, name](Instruction&, PatternRewriter&) {
      tried += name;
      return false;
    };
  };
  PatternSet set("order");
  set.add(Opcode::abs, note('b'));
  set.add(Opcode::abs, note('c'));
  set.add(Opcode::abs, note('a'), 2);
  set.add(Opcode::abs, note('d'), 0);
  set.add_if(is_elementwise, note('e'), 0);
  EXPECT_EQ(walk_and_apply_patterns(m.get(), set), 0u);
  EXPECT_EQ(tried, "eeeeabcde");
}

TEST(Patterns, TheFirstThatRewritesEndsTheVisit) {
  const auto m = parse_hlo(kNegations);
  int others = 0;
  PatternSet set("first");
  set.add(Opcode::abs, abs_as_maximum, 2);
  set.add(Opcode::abs, [&](Instruction&, PatternRewriter&) {
    ++others;
    return false;
  });
  EXPECT_EQ(walk_and_apply_patterns(m.get(), set), 1u);
  EXPECT_EQ(others, 0);
}

TEST(Patterns, UsersOfWhatWasReplacedMatchAfterwards) {
  // The walk is past the negation when what it reads turns into one.
  const auto m = parse_hlo(R"(HloModule m
ENTRY main {
  x = f32[4] parameter(0)
  zero = f32[] constant(0)
  z = f32[4] broadcast(zero), dimensions={}
  s = f32[4] subtract(z, x)
  n = f32[4] negate(s)
  ROOT r = f32[4] sine(n)
})");
  PatternSet set("late");
  set.add(Opcode::negate, negation_of_negation);
  // Only once the sine was visited.
  set.add(Opcode::sine, [](Instruction& i, PatternRewriter& r) {
    Instruction* s = i.operand(0)->is(Opcode::negate) ? i.operand(0)->operand(0) : nullptr;
    if (s == nullptr || !s->is(Opcode::subtract)) return false;
    r.replace(s, r.builder(s).unary(Opcode::negate, s->operand(1)));
    return true;
  });
  EXPECT_EQ(apply_patterns_greedily(m.get(), set), 2u);
  EXPECT_EQ(opcodes(*m->entry()), (std::vector<Opcode>{Opcode::parameter, Opcode::sine}));
  verify(*m);
}

TEST(Patterns, WhatLosesItsLastOtherUserMatchesAfterwards) {
  // a is read twice at first, and once when b is gone.
  const auto m = parse_hlo(R"(HloModule m
ENTRY main {
  x = f32[4] parameter(0)
  a = f32[4] abs(x)
  b = f32[4] sine(a)
  p = pred[] constant(true)
  c = f32[4] select(p, a, b)
  ROOT t = (f32[4]) tuple(c)
})");
  PatternSet set("last");
  set.add(Opcode::select, [](const Instruction& i, Builder&) { return i.operand(1); });
  set.add(Opcode::abs, [](const Instruction& i, Builder& b) -> Instruction* {
    return i.use_count() == 1 ? b.unary(Opcode::cosine, i.operand(0)) : nullptr;
  });
  EXPECT_EQ(apply_patterns_greedily(m.get(), set), 2u);
  EXPECT_EQ(opcodes(*m->entry()),
            (std::vector<Opcode>{Opcode::parameter, Opcode::cosine, Opcode::tuple}));
  verify(*m);
}

TEST(Patterns, WhatIsGoneOrDeadIsNotVisitedAgain) {
  const auto m = parse_hlo(kNegations);
  int visits = 0;
  PatternSet set("gone");
  // The root takes all away; its new operand is all that is left to visit.
  set.add(Opcode::abs, [](Instruction& i, PatternRewriter& r) {
    Instruction* x = i.operand(0);
    if (!x->is(Opcode::negate)) return false;
    while (x->is(Opcode::negate)) x = x->operand(0);
    r.replace(&i, r.builder().unary(Opcode::abs, r.builder().unary(Opcode::sine, x)));
    return true;
  });
  set.add(Opcode::negate, [&](Instruction&, PatternRewriter&) {
    ++visits;
    return false;
  });
  EXPECT_EQ(apply_patterns_greedily(m.get(), set), 1u);
  EXPECT_EQ(visits, 4);
  EXPECT_EQ(opcodes(*m->entry()),
            (std::vector<Opcode>{Opcode::parameter, Opcode::sine, Opcode::abs}));
}

TEST(Patterns, KeepMetadataAndShardings) {
  const auto m = parse_hlo(R"(HloModule m, num_partitions=2
ENTRY main {
  x = f32[4] parameter(0)
  ROOT e = f32[4] abs(x), sharding={devices=[2]<=[2]}, metadata={op_name="size" source_file="a.cc" source_line=7}
})");
  EXPECT_EQ(apply_patterns_greedily(m.get(), PatternSet("abs").add(Opcode::abs, abs_as_maximum)),
            1u);
  const Instruction& root = *m->entry()->root();
  EXPECT_EQ(root.opcode, Opcode::maximum);
  EXPECT_EQ(root.sharding.size(), 1u);
  EXPECT_EQ(root.operand(1)->sharding.size(), 0u);
  for (const Instruction* i : {&root, static_cast<const Instruction*>(root.operand(1))}) {
    EXPECT_EQ(i->metadata->op_name, "size");
    EXPECT_EQ(i->metadata->source_line, 7);
  }
}

TEST(Patterns, BodiesOfLoopsAreComputationsToo) {
  const auto m = parse_hlo(R"(HloModule m
body {
  p = f32[4] parameter(0)
  a = f32[4] negate(p)
  ROOT b = f32[4] negate(a)
}
condition {
  p = f32[4] parameter(0)
  ROOT t = pred[] constant(false)
}
ENTRY main {
  x = f32[4] parameter(0)
  ROOT w = f32[4] while(x), condition=condition, body=body
})");
  const auto set = PatternSet("negations").add(Opcode::negate, negation_of_negation);
  EXPECT_EQ(apply_patterns_greedily(m.get(), set), 1u);
  for (const auto& c : m->computations()) {
    if (c->name() == "body") {
      EXPECT_EQ(c->root(), c->parameter(0));
    }
  }
  verify(*m);
}

TEST(Patterns, InPlaceAllStandsWhereTheInstructionStood) {
  const char* text = R"(HloModule m
ENTRY main {
  x = f32[4] parameter(0)
  a = f32[4] abs(x)
  s = f32[4] sine(x)
  ROOT r = f32[4] add(s, a)
})";
  auto at_users = parse_hlo(text), in_place = parse_hlo(text);
  const auto set = PatternSet("abs").add(Opcode::abs, abs_as_maximum);
  walk_and_apply_patterns(at_users->entry(), set);
  walk_and_apply_patterns(in_place->entry(), set, InsertionPoint::in_place);
  EXPECT_EQ(opcodes(*at_users->entry()),
            (std::vector<Opcode>{Opcode::parameter, Opcode::sine, Opcode::negate, Opcode::maximum,
                                 Opcode::add}));
  EXPECT_EQ(opcodes(*in_place->entry()),
            (std::vector<Opcode>{Opcode::parameter, Opcode::negate, Opcode::maximum, Opcode::sine,
                                 Opcode::add}));
}

TEST(Patterns, ChangesInPlaceAreVisitedAgain) {
  const auto m = parse_hlo(kNegations);
  PatternSet set("see-through");
  set.add(Opcode::abs, [](Instruction& i, PatternRewriter& r) {
    Instruction* x = i.operand(0);
    if (!x->is(Opcode::negate)) return false;
    i.set_operand(0, x->operand(0));
    r.modified(&i);
    return true;
  });
  EXPECT_EQ(apply_patterns_greedily(m.get(), set), 4u);
  EXPECT_EQ(opcodes(*m->entry()), (std::vector<Opcode>{Opcode::parameter, Opcode::abs}));
}

TEST(Patterns, WhatHasASideEffectGoesIfItIsReplaced) {
  const auto m = parse_hlo(R"(HloModule m
ENTRY main {
  x = f32[4] parameter(0)
  c = f32[4] custom-call(x), custom_call_target="f", custom_call_has_side_effect=true
  ROOT r = f32[4] abs(c)
})");
  const auto set = PatternSet("calls").add(
      Opcode::custom_call, [](const Instruction& i, Builder&) { return i.operand(0); });
  EXPECT_EQ(apply_patterns_greedily(m.get(), set), 1u);
  EXPECT_EQ(opcodes(*m->entry()), (std::vector<Opcode>{Opcode::parameter, Opcode::abs}));
}

TEST(Patterns, WithoutAFixedPointAreAnError) {
  const auto m = parse_hlo(kNegations);
  PatternSet set("sine-and-cosine");
  set.add(Opcode::abs,
          [](const Instruction& i, Builder& b) { return b.unary(Opcode::sine, i.operand(0)); });
  set.add(Opcode::sine,
          [](const Instruction& i, Builder& b) { return b.unary(Opcode::cosine, i.operand(0)); });
  set.add(Opcode::cosine,
          [](const Instruction& i, Builder& b) { return b.unary(Opcode::sine, i.operand(0)); });
  GreedyRewriteConfig few;
  few.max_rewrites = 10;
  const std::string message = message_of([&] { apply_patterns_greedily(m.get(), set, few); });
  EXPECT_NE(message.find("sine-and-cosine"), std::string::npos) << message;
  EXPECT_NE(message.find("no fixed point in main"), std::string::npos) << message;
  const auto again = parse_hlo(kNegations);
  EXPECT_THROW(apply_patterns_greedily(again.get(), set), InternalError);
  // Each instruction is visited once.
  const auto walked = parse_hlo(kNegations);
  EXPECT_EQ(walk_and_apply_patterns(walked.get(), set), 1u);
}

TEST(Patterns, ReplacementsOfAnotherTypeAndErasedOnesWithUsersAreErrors) {
  const auto m = parse_hlo(kNegations);
  const auto narrower = PatternSet("narrow").add(Opcode::abs, [](const Instruction& i, Builder& b) {
    return b.slice(i.operand(0), {0}, {2});
  });
  const std::string message = message_of([&] { walk_and_apply_patterns(m.get(), narrower); });
  EXPECT_NE(message.find("f32[4]"), std::string::npos) << message;
  EXPECT_NE(message.find("f32[2]"), std::string::npos) << message;
  const auto other = parse_hlo(kNegations);
  PatternSet set("erase");
  set.add(Opcode::negate, [](Instruction& i, PatternRewriter& r) {
    r.erase(&i);
    return true;
  });
  EXPECT_THROW(walk_and_apply_patterns(other->entry(), set), InternalError);
}

}  // namespace
}  // namespace tessera::ir::testing
