// SPDX-License-Identifier: Apache-2.0
#include "src/passes/simplify.h"

#include <gtest/gtest.h>

#include <map>

#include "src/ir/hlo_text.h"
#include "src/ir/shape_inference.h"

namespace tessera::passes {
namespace {

std::unique_ptr<ir::Module> optimized(const std::string& body) {
  auto module = ir::parse_hlo("HloModule m\n" + body);
  inline_calls(module.get());
  join_async(module.get());
  eliminate_dead(module.get());
  while (simplify(module.get()) > 0) {
  }
  eliminate_common(module.get());
  eliminate_dead(module.get());
  ir::verify(*module);
  return module;
}

/// Opcodes of the entry in order, parameters left out.
std::string ops(const ir::Module& module) {
  std::string out;
  for (const auto& i : module.entry()->instructions()) {
    if (i->is(ir::Opcode::parameter)) continue;
    out += (out.empty() ? "" : " ") + std::string(ir::name(i->opcode));
  }
  return out;
}

TEST(ShareReducers, AlikeOnesAreOne) {
  auto m = ir::parse_hlo(R"(HloModule m
add1 { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
add2 { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] add(y, x) }
addi { x = s32[] parameter(0)
  y = s32[] parameter(1)
  ROOT s = s32[] add(x, y) }
less { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = pred[] compare(x, y), direction=LT }
ENTRY e { p = f32[4,8] parameter(0)
  q = s32[4,8] parameter(1)
  z = f32[] constant(0)
  i = s32[] constant(0)
  one = f32[4] reduce(p, z), dimensions={1}, to_apply=add1
  two = f32[4] reduce(p, z), dimensions={1}, to_apply=add2
  three = s32[4] reduce(q, i), dimensions={1}, to_apply=addi
  four = f32[4] sort(one), dimensions={0}, to_apply=less
  ROOT t = (f32[4], f32[4], s32[4]) tuple(four, two, three) }
)");
  EXPECT_EQ(share_reducers(m.get()), 1u);
  ir::verify(*m);
  EXPECT_EQ(m->computations().size(), 4u) << ir::to_string(*m);
  // And so what reduces by them is one.
  EXPECT_EQ(eliminate_common(m.get()), 1u);
  EXPECT_EQ(share_reducers(m.get()), 0u);
}

// As of random bits that are drawn twice with one key. A loop that counts further is another one.
TEST(EliminateCommon, EqualLoopsAndBranchesAreOne) {
  const auto loop = [](const std::string& name, int step) {
    return "body_" + name + R"( {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4] get-tuple-element(s), index=1
  k = s32[] constant()" +
           std::to_string(step) + R"()
  j = s32[] add(i, k)
  y = f32[4] add(x, x)
  ROOT t = (s32[], f32[4]) tuple(j, y)
}
cond_)" + name +
           R"( {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(6)
  ROOT c = pred[] compare(i, n), direction=LT
}
yes_)" + name +
           R"( {
  x = f32[4] parameter(0)
  ROOT r = f32[4] sine(x)
}
no_)" + name +
           R"( {
  x = f32[4] parameter(0)
  ROOT r = f32[4] )" +
           (step == 1 ? "cosine" : "tanh") + R"((x)
}
)";
  };
  const auto uses = [](const std::string& name) {
    return "  w_" + name + " = (s32[], f32[4]) while(s), condition=cond_" + name + ", body=body_" +
           name + "\n  y_" + name + " = f32[4] get-tuple-element(w_" + name + "), index=1\n  c_" +
           name + " = f32[4] conditional(p, x, x), true_computation=yes_" + name +
           ", false_computation=no_" + name + "\n";
  };
  auto m = ir::parse_hlo("HloModule m\n" + loop("a", 1) + loop("b", 1) + loop("other", 2) +
                         R"(ENTRY main {
  p = pred[] parameter(0)
  x = f32[4] parameter(1)
  z = s32[] constant(0)
  s = (s32[], f32[4]) tuple(z, x)
)" + uses("a") + uses("b") +
                         uses("other") +
                         R"(  ROOT t = (f32[4], f32[4], f32[4], f32[4], f32[4], f32[4])
    tuple(y_a, y_b, y_other, c_a, c_b, c_other)
})");
  eliminate_common(m.get());
  eliminate_dead(m.get());
  ir::verify(*m);
  const auto& results = m->entry()->root()->operands();
  EXPECT_EQ(results[0], results[1]);
  EXPECT_NE(results[0], results[2]);
  EXPECT_EQ(results[3], results[4]);
  EXPECT_NE(results[3], results[5]);
  EXPECT_EQ(ops(*m),
            "constant tuple while get-tuple-element conditional while get-tuple-element "
            "conditional tuple");
}

TEST(InlineCalls, CalleesAreCopiedOncePerPlaceOfUse) {
  // Calls in calls, one shared, one below a loop.
  const auto m = optimized(R"(
leaf {
  p = f32[4] parameter(0)
  q = f32[4] parameter(1)
  ROOT r = f32[4] multiply(p, q)
}
middle {
  p = f32[4] parameter(0)
  one = f32[4] call(p, p), to_apply=leaf
  two = f32[4] call(one, p), to_apply=leaf
  ROOT t = (f32[4], f32[4]) tuple(one, two)
}
outer {
  p = f32[4] parameter(0)
  both = (f32[4], f32[4]) call(p), to_apply=middle
  a = f32[4] get-tuple-element(both), index=0
  ROOT b = f32[4] add(a, a)
}
body {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4] get-tuple-element(s), index=1
  k = s32[] constant(1)
  j = s32[] add(i, k)
  y = f32[4] call(x), to_apply=outer
  ROOT t = (s32[], f32[4]) tuple(j, y)
}
cond {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}
ENTRY main {
  x = f32[4] parameter(0)
  z = s32[] constant(0)
  y = f32[4] call(x), to_apply=outer
  s = (s32[], f32[4]) tuple(z, y)
  w = (s32[], f32[4]) while(s), condition=cond, body=body
  ROOT r = f32[4] get-tuple-element(w), index=1
})");
  EXPECT_EQ(ops(*m), "constant multiply add tuple while get-tuple-element");
  std::size_t calls = 0;
  for (const auto& c : m->computations()) {
    for (const auto& i : c->instructions()) calls += i->is(ir::Opcode::call);
  }
  EXPECT_EQ(calls, 0u);
  EXPECT_EQ(m->computations().size(), 3u);
}

TEST(SeparateCalls, CallsThatStateSomethingStay) {
  const auto calls_left = [](const std::string& callee, const std::string& call) {
    const auto m = ir::parse_hlo(
        "HloModule m, num_partitions=8\nf {\n" + callee +
        "}\nENTRY e {\n  a = f32[16] parameter(0)\n  n = f32[16] negate(a)\n" + call + "}\n");
    separate_calls(m.get(), 100);
    ir::verify(*m);
    int calls = 0;
    for (const auto& i : m->entry()->instructions()) calls += i->is(ir::Opcode::call) ? 1 : 0;
    return calls;
  };
  const std::string plain = "  x = f32[16] parameter(0)\n  ROOT r = f32[16] add(x, x)\n";
  const std::string call = "  ROOT c = f32[16] call(a), to_apply=f";
  EXPECT_EQ(calls_left(plain, call + "\n"), 0);
  EXPECT_EQ(calls_left(plain, call + ", sharding={devices=[8]<=[8]}\n"), 1);
  EXPECT_EQ(calls_left(plain, call + ", control-predecessors={n}\n"), 1);
  EXPECT_EQ(calls_left(plain, call + ", frontend_attributes={inlineable=\"false\"}\n"), 1);
  EXPECT_EQ(calls_left("  x = f32[16] parameter(0), sharding={devices=[8]<=[8]}\n"
                       "  ROOT r = f32[16] add(x, x)\n",
                       call + "\n"),
            1);
  EXPECT_EQ(calls_left("  x = f32[16] parameter(0)\n"
                       "  ROOT r = f32[16] add(x, x), sharding={replicated}\n",
                       call + "\n"),
            1);
}

TEST(SeparateBodies, LoopsAndBranchesShareNone) {
  const std::string text = R"(HloModule m, num_partitions=8
sum { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT s = f32[] add(a, b) }
inner_body { x = f32[8] parameter(0)
 ROOT n = f32[8] negate(x) }
inner_cond { x = f32[8] parameter(0)
 z = f32[] constant(0)
 s = f32[] reduce(x, z), dimensions={0}, to_apply=sum
 ROOT c = pred[] compare(s, z), direction=GT }
body { x = f32[8] parameter(0)
 ROOT w = f32[8] while(x), condition=inner_cond, body=inner_body }
ENTRY e {
  a = f32[8] parameter(0)
  p = pred[] parameter(1)
  v = f32[8] while(a), condition=inner_cond, body=body
  w = f32[8] while(v), condition=inner_cond, body=body
  ROOT r = f32[8] conditional(p, w, v), true_computation=inner_body, false_computation=inner_body
})";
  auto m = ir::parse_hlo(text);
  // Two loops with an inner loop each: 4 conditions, 2 bodies, 2 inner bodies, 2 branches.
  EXPECT_EQ(separate_bodies(m.get(), 100), 7u);
  ir::verify(*m);
  std::map<std::string, int> users;
  for (const auto& c : m->computations()) {
    for (const auto& i : c->instructions()) {
      for (const ir::Computation* called : i->called()) ++users[called->name()];
    }
  }
  EXPECT_EQ(users.size(), 11u);
  for (const auto& [name, n] : users) EXPECT_EQ(n, name == "sum" ? 4 : 1) << name;
  EXPECT_EQ(separate_bodies(m.get(), 100), 0u);

  m = ir::parse_hlo(text);
  EXPECT_EQ(separate_bodies(m.get(), 30), 0u);
  EXPECT_EQ(m->computations().size(), 5u);
}

TEST(InlineCalls, DeepChainsCostNoSquare) {
  // Each level adds one instruction.
  std::string text = "f0 { p = f32[4] parameter(0)\n ROOT r = f32[4] negate(p) }\n";
  const int depth = 200;
  for (int k = 1; k < depth; ++k) {
    const std::string n = std::to_string(k), below = std::to_string(k - 1);
    text += "f" + n + " { p = f32[4] parameter(0)\n c = f32[4] call(p), to_apply=f" + below +
            "\n ROOT r = f32[4] sine(c) }\n";
  }
  text += "ENTRY main { x = f32[4] parameter(0)\n ROOT y = f32[4] call(x), to_apply=f" +
          std::to_string(depth - 1) + " }";
  auto module = ir::parse_hlo(text);
  EXPECT_EQ(inline_calls(module.get()), std::size_t(depth));
  ir::verify(*module);
  EXPECT_EQ(module->computations().size(), 1u);
  EXPECT_EQ(module->entry()->instructions().size(), std::size_t(depth) + 1);
}

TEST(InlineCalls, SideEffectsHappenOnce) {
  auto module = ir::parse_hlo(R"(
effect {
  p = f32[4] parameter(0)
  ROOT r = f32[4] custom-call(p), custom_call_target="log", custom_call_has_side_effect=true
}
ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] call(x), to_apply=effect
  ROOT z = f32[4] negate(x)
})");
  inline_calls(module.get());
  ir::verify(*module);
  std::size_t effects = 0, calls = 0;
  for (const auto& c : module->computations()) {
    for (const auto& i : c->instructions()) {
      effects += i->is(ir::Opcode::custom_call);
      calls += i->is(ir::Opcode::call);
    }
  }
  EXPECT_EQ(effects, 1u);
  EXPECT_EQ(calls, 0u);
}

TEST(Simplify, OpsThatDoNothingGo) {
  const auto m = optimized(R"(
ENTRY main {
  x = f32[4,8] parameter(0)
  a = f32[4,8] copy(x)
  b = f32[4,8] reshape(a)
  c = f32[4,8] transpose(b), dimensions={0,1}
  d = f32[4,8] convert(c)
  e = f32[4,8] slice(d), slice={[0:4], [0:8]}
  zero = f32[] constant(0)
  f = f32[4,8] pad(e, zero), padding=0_0x0_0
  g = f32[4,8] concatenate(f), dimensions={1}
  s = f32[4,8] custom-call(g), custom_call_target="Sharding", sharding={replicated}
  ROOT n = f32[4,8] negate(s)
}
)");
  EXPECT_EQ(ops(*m), "negate");
}

TEST(Simplify, ReshapesAndTransposesCompose) {
  EXPECT_EQ(ops(*optimized(R"(
ENTRY main {
  x = f32[4,8] parameter(0)
  a = f32[2,2,8] reshape(x)
  b = f32[32] reshape(a)
  ROOT c = f32[4,8] reshape(b)
}
)")),
            "");
  EXPECT_EQ(ops(*optimized(R"(
ENTRY main {
  x = f32[4,8,2] parameter(0)
  a = f32[8,2,4] transpose(x), dimensions={1,2,0}
  ROOT c = f32[4,8,2] transpose(a), dimensions={2,0,1}
}
)")),
            "");
  // Only dims of size one move: the bytes stay.
  EXPECT_EQ(ops(*optimized(R"(
ENTRY main {
  x = f32[4,1,8] parameter(0)
  ROOT a = f32[1,4,8] transpose(x), dimensions={1,0,2}
}
)")),
            "reshape");
}

TEST(Simplify, TuplesAreSeenThrough) {
  const auto m = optimized(R"(
ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  t = (f32[4], f32[4]) tuple(x, y)
  a = f32[4] get-tuple-element(t), index=0
  b = f32[4] get-tuple-element(t), index=1
  ROOT s = f32[4] subtract(b, a)
}
)");
  EXPECT_EQ(ops(*m), "subtract");
  EXPECT_EQ(m->entry()->root()->operand(0)->name, "y");
}

TEST(Simplify, CallsAreInlinedWithTheirCallees) {
  const auto m = optimized(R"(
inner {
  p = f32[4] parameter(0)
  ROOT n = f32[4] negate(p)
}
outer {
  p = f32[4] parameter(0)
  q = f32[4] call(p), to_apply=inner
  ROOT r = f32[4] add(p, q)
}
ENTRY main {
  x = f32[4] parameter(0)
  a = f32[4] call(x), to_apply=outer
  ROOT b = f32[4] call(a), to_apply=outer
}
)");
  EXPECT_EQ(ops(*m), "negate add negate add");
  EXPECT_EQ(m->computations().size(), 1u);
}

TEST(Simplify, EqualInstructionsBecomeOne) {
  const auto m = optimized(R"(
ENTRY main {
  x = f32[4] parameter(0)
  c = f32[] constant(2)
  d = f32[] constant(2)
  e = f32[] constant(3)
  cb = f32[4] broadcast(c), dimensions={}
  db = f32[4] broadcast(d), dimensions={}
  eb = f32[4] broadcast(e), dimensions={}
  a = f32[4] multiply(x, cb)
  b = f32[4] multiply(x, db)
  f = f32[4] multiply(x, eb)
  s = f32[4] add(a, b)
  ROOT r = f32[4] add(s, f)
}
)");
  EXPECT_EQ(ops(*m), "constant constant broadcast broadcast multiply multiply add add");
}

TEST(Simplify, BarriersKeepCopiesApart) {
  const auto m = optimized(R"(
ENTRY main {
  x = f32[4] parameter(0)
  b = f32[4] opt-barrier(x)
  c = f32[4] opt-barrier(x)
  d = f32[4] negate(b)
  e = f32[4] negate(c)
  ROOT r = f32[4] add(d, e)
}
)");
  EXPECT_EQ(ops(*m), "opt-barrier opt-barrier negate negate add");
}

TEST(Simplify, StartAndDoneBecomeThePlainCollective) {
  const auto m = optimized(R"(
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY main {
  x = f32[4] parameter(0)
  s = f32[4] all-reduce-start(x), replica_groups={{0}}, to_apply=sum
  d = f32[4] all-reduce-done(s)
  g = (f32[4], f32[4]) all-gather-start(d), replica_groups={{0}}, dimensions={0}
  ROOT h = f32[4] all-gather-done(g)
}
)");
  EXPECT_EQ(ops(*m), "all-reduce all-gather");
}

TEST(Simplify, OneElementIsComputedForAll) {
  const auto m = optimized(R"(
ENTRY main {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  x = f32[64] parameter(2)
  as = f32[64] broadcast(a), dimensions={}
  bs = f32[64] broadcast(b), dimensions={}
  sum = f32[64] add(as, bs)
  wide = f64[64] convert(sum)
  back = f32[64] convert(wide)
  ROOT r = f32[64] multiply(x, back)
}
)");
  EXPECT_EQ(ops(*m), "add convert convert broadcast multiply");
  for (const auto& i : m->entry()->instructions()) {
    if (i->is(ir::Opcode::add) || i->is(ir::Opcode::convert)) {
      EXPECT_TRUE(i->shape.is_scalar()) << i->name;
    }
  }
}

}  // namespace
}  // namespace tessera::passes
