// SPDX-License-Identifier: Apache-2.0
// Use lists under random changes, the rewriter, the cloner and structural equality.
#include "src/ir/rewrite/rewriter.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "src/ir/analysis/equivalence.h"
#include "src/ir/analysis/verifier.h"
#include "src/ir/cloner.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/shapes/shape_inference.h"

namespace tessera::ir::testing {
namespace {

struct Program {
  Module module{"m"};
  Computation* entry = module.add_computation("main");
  Builder b{entry};
  Instruction* x = b.parameter(0, Shape(DType::f32, {4}), "x");

  Program() { module.set_entry(entry); }
  Instruction* negate(Instruction* i) { return b.unary(Opcode::negate, i); }
  Instruction* add(Instruction* i, Instruction* j) { return b.binary(Opcode::add, i, j); }
  void finish(Instruction* root) {
    entry->set_root(root);
    verify(module);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& i : entry->instructions()) out.push_back(i->name);
    return out;
  }
};

void check_uses(const Computation& c) {
  for (const auto& i : c.instructions()) {
    std::set<std::int64_t> expected;
    std::size_t uses = 0;
    for (const auto& user : c.instructions()) {
      for (const Instruction* o : user->operands()) {
        if (o != i.get()) continue;
        expected.insert(user->index);
        ++uses;
      }
    }
    std::vector<std::int64_t> met;
    for (const Instruction* user : i->users()) met.push_back(user->index);
    EXPECT_EQ(met, std::vector<std::int64_t>(expected.begin(), expected.end())) << i->name;
    EXPECT_EQ(i->use_count(), uses) << i->name;
    EXPECT_EQ(i->only_use().has_value(), uses == 1) << i->name;
  }
}

TEST(UseLists, FollowRandomChanges) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    Program p;
    std::vector<Instruction*> all{p.x};
    const auto pick = [&](std::size_t below) {
      return all[random() % std::max<std::size_t>(below, 1)];
    };
    for (int n = 0; n < 20; ++n) {
      all.push_back(p.b.tuple({pick(all.size()), pick(all.size()), pick(all.size())}));
    }
    for (int change = 0; change < 60; ++change) {
      const std::size_t at = 1 + random() % (all.size() - 1);
      switch (random() % 4) {
        case 0:
          all[at]->set_operand(random() % all[at]->operands().size(), pick(at));
          break;
        case 1:
          all[at]->set_operands({pick(at), pick(at)});
          break;
        case 2:
          all[at]->add_operand(pick(at));
          break;
        case 3:
          all[at]->replace_all_uses_with(pick(at));
          break;
      }
      check_uses(*p.entry);
    }
    p.entry->set_root(all.back());
    p.entry->remove_dead();
    check_uses(*p.entry);
    verify_structure(p.module);
  }
}

TEST(UseLists, ACopyIsNoUserBeforeItIsInAComputation) {
  Program p;
  Instruction* n = p.negate(p.x);
  auto copy = std::make_unique<Instruction>(*n);
  EXPECT_EQ(copy->operands(), n->operands());
  EXPECT_EQ(copy->parent, nullptr);
  EXPECT_EQ(p.x->use_count(), 1u);
  Instruction* added = p.entry->add(std::move(copy));
  EXPECT_EQ(p.x->users(), (UserList{n, added}));
}

TEST(UseLists, ReplacingMovesControlEdgesAndTheRoot) {
  Program p;
  Instruction *a = p.negate(p.x), *b = p.negate(a), *c = p.negate(p.x);
  c->set_control_predecessors({a});
  p.finish(a);
  Instruction* other = p.b.unary(Opcode::abs, p.x);
  a->replace_all_uses_with(other);
  EXPECT_EQ(b->operand(0), other);
  EXPECT_EQ(c->control_predecessors(), std::vector<Instruction*>{other});
  EXPECT_EQ(other->control_successors(), std::vector<Instruction*>{c});
  EXPECT_TRUE(a->control_successors().empty());
  EXPECT_EQ(p.entry->root(), other);
}

TEST(UseLists, ReplacingAnInstructionWithManyUsersIsFast) {
  Program p;
  std::vector<Instruction*> users;
  Instruction* other = p.negate(p.x);
  constexpr int kMany = 200000;
  for (int n = 0; n < kMany; ++n) users.push_back(p.negate(p.x));
  // The square of the users would take minutes.
  for (Instruction* user : users) user->set_operand(0, other);
  EXPECT_EQ(p.x->use_count(), 1u);
  EXPECT_EQ(other->use_count(), std::size_t(kMany));
}

TEST(RewriterTest, NothingChangesBeforeTheEndOfTheRound) {
  Program p;
  Instruction *a = p.negate(p.x), *b = p.negate(a), *sum = p.add(b, a);
  p.finish(sum);
  Rewriter r(p.entry);
  EXPECT_EQ(r.size(), 4u);
  Instruction* made = r.builder(b).unary(Opcode::abs, p.x);
  r.replace(b, made);
  EXPECT_EQ(sum->operand(0), b);
  EXPECT_FALSE(r.untouched(b));
  EXPECT_FALSE(r.untouched(made));
  EXPECT_TRUE(r.untouched(sum));
  EXPECT_EQ(r.users(p.x), UserList{a});
  EXPECT_FALSE(r.has_one_use(a));
  EXPECT_EQ(r.finish(), 1u);
  EXPECT_EQ(p.names(), (std::vector<std::string>{"x", "negate", "abs", "add"}));
  EXPECT_EQ(sum->operand(0), made);
  verify(p.module);
}

TEST(RewriterTest, Erases) {
  Program p;
  Builder in_order(p.entry);
  Instruction* first = in_order.unary(Opcode::abs, p.x);
  Instruction* token = in_order.emit(Opcode::after_all, {});
  Instruction *a = p.negate(p.x), *b = p.negate(a);
  a->add_control_predecessor(first);
  p.finish(b);
  Rewriter r(p.entry);
  EXPECT_EQ(r.finish(), 0u);
  EXPECT_EQ(p.names(), (std::vector<std::string>{"x", "abs", "after-all", "negate", "negate.1"}));
  r.erase(token);
  EXPECT_EQ(r.finish(), 1u);
  EXPECT_EQ(p.names(), (std::vector<std::string>{"x", "abs", "negate", "negate.1"}));
  EXPECT_THROW(p.entry->erase({a}), InternalError);
  EXPECT_THROW(p.entry->erase({p.x}), InternalError);
}

TEST(RewriterTest, ClonesWithOtherOperands) {
  Program p;
  p.module.num_partitions = 4;
  p.b.metadata.edit().op_name = "where";
  Instruction* gather = p.b.all_gather(p.x, 0, {});
  p.finish(gather);
  Rewriter r(p.entry);
  Instruction* y = r.builder(p.x).unary(Opcode::abs, p.x);
  Instruction* copy = r.clone_with_operands(*gather, {y});
  EXPECT_EQ(copy->shape, gather->shape);
  EXPECT_EQ(copy->metadata->op_name, "where");
  EXPECT_NE(copy->get<CollectiveAttrs>().channel_id, gather->get<CollectiveAttrs>().channel_id);
  EXPECT_TRUE(same_attributes(copy->attrs, gather->attrs));
  r.replace(gather, copy);
  EXPECT_EQ(r.finish(), 1u);
  verify(p.module);
}

TEST(ClonerTest, InlinesWithArguments) {
  Program p;
  Computation* f = p.module.add_computation("f");
  Builder fb(f);
  Instruction *u = fb.parameter(0, p.x->shape), *v = fb.parameter(1, p.x->shape);
  Instruction* product = fb.binary(Opcode::multiply, u, v);
  f->set_root(fb.binary(Opcode::add, product, u));
  Instruction* y = p.negate(p.x);
  const std::vector<Instruction*> arguments{y, p.x};
  p.finish(inline_computation(p.entry, *f, arguments));
  ASSERT_EQ(p.entry->root()->opcode, Opcode::add);
  EXPECT_EQ(p.entry->root()->operand(0)->operands(), arguments);
  EXPECT_EQ(p.entry->root()->operand(1), y);
  EXPECT_EQ(f->instructions().size(), 4u);
}

TEST(ClonerTest, CopiesOnlyTheOperandsOfTheClonedInstruction) {
  Program p;
  Instruction *a = p.negate(p.x), *b = p.b.unary(Opcode::abs, p.x), *sum = p.add(a, a);
  p.finish(p.add(sum, b));
  Computation* other = p.module.add_computation("other");
  Builder ob(other);
  Cloner cloner(*p.entry, other);
  EXPECT_THROW(cloner.clone(*sum), InternalError);
  cloner.map(p.x, ob.parameter(0, p.x->shape));
  other->set_root(cloner.clone_with_operands(*sum));
  EXPECT_EQ(other->instructions().size(), 3u);
  EXPECT_TRUE(cloner.has(a));
  EXPECT_FALSE(cloner.has(b));
  verify(p.module);
}

TEST(Equivalence, IgnoresNamesMetadataAndChannels) {
  auto m = parse_hlo(R"(HloModule m, num_partitions=2
f { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
g { c = f32[] parameter(0) d = f32[] parameter(1) ROOT s = f32[] add(c, d), metadata={op_name="s"} }
h { c = f32[] parameter(0) d = f32[] parameter(1) ROOT s = f32[] add(d, c) }
ENTRY e {
  p = f32[4] parameter(0)
  a1 = f32[4] all-reduce(p), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=f
  a2 = f32[4] all-reduce(p), channel_id=2, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=g
  a3 = f32[4] all-reduce(p), channel_id=3, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=h
  a4 = f32[4] all-reduce(p), channel_id=4, replica_groups={{0},{1}}, use_global_device_ids=true, to_apply=f
  ROOT t = (f32[4], f32[4], f32[4], f32[4]) tuple(a1, a2, a3, a4)
})");
  const auto at = [&](int k) -> const Instruction& { return *m->entry()->root()->operand(k); };
  EXPECT_TRUE(same_operation(at(0), at(1)));
  EXPECT_EQ(operation_hash(at(0)), operation_hash(at(1)));
  EXPECT_FALSE(same_operation(at(0), at(2)));
  EXPECT_FALSE(same_operation(at(0), at(3)));
}

}  // namespace
}  // namespace tessera::ir::testing
