// SPDX-License-Identifier: Apache-2.0
// Simplification, inlining and common subexpressions, on small programs.
#include "src/passes/simplify.h"
#include "src/passes/control/inline_calls.h"
#include "src/passes/control/separate_bodies.h"
#include "src/passes/eliminate_common.h"

#include <gtest/gtest.h>

#include <map>

#include "src/ir/hlo/hlo_text.h"
#include "src/ir/shapes/shape_inference.h"

namespace tessera::passes {
namespace {

/// Opcodes of the entry in order, parameters left out.
std::string ops(const ir::Module& module) {
  std::string out;
  for (const auto& i : module.entry()->instructions()) {
    if (i->is(ir::Opcode::parameter)) continue;
    out += (out.empty() ? "" : " ") + std::string(ir::name(i->opcode));
  }
  return out;
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

TEST(Simplify, PartsWithoutRowsAreDropped) {
  const auto module = ir::parse_hlo(R"(HloModule m
    ENTRY e {
      x = f32[8,4] parameter(0)
      none = f32[0,4] slice(x), slice={[8:8], [0:4]}
      rest = f32[7,4] slice(x), slice={[1:8], [0:4]}
      first = f32[1,4] slice(x), slice={[0:1], [0:4]}
      same = f32[8,4] concatenate(none, x), dimensions={0}
      moved = f32[8,4] concatenate(rest, none, first), dimensions={0}
      empty = f32[0,4] concatenate(none, none), dimensions={0}
      ROOT t = (f32[8,4], f32[8,4], f32[0,4]) tuple(same, moved, empty)
    })");
  EXPECT_GT(simplify(module.get()), 0u);
  EXPECT_EQ(module->entry()->root()->operand(0), module->entry()->parameter(0));
  EXPECT_EQ(module->entry()->root()->operand(1)->operands().size(), 2u);
  EXPECT_TRUE(module->entry()->root()->operand(2)->is(ir::Opcode::slice));
  ir::verify(*module);
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
  // Partial values don't pass through calls.
  EXPECT_EQ(calls_left("  x = f32[16] parameter(0)\n"
                       "  ROOT r = f32[16] add(x, x), sharding={unreduced}\n",
                       call + "\n"),
            0);
}

TEST(InlineCalls, OneDeviceKeepsMarkedCalls) {
  const auto calls_left = [](const std::string& partitions) {
    const auto m = ir::parse_hlo("HloModule m" + partitions + R"(
g { y = f32[2] parameter(0)
 ROOT m = f32[2] multiply(y, y)
}
f { x = f32[2] parameter(0)
 c = f32[2] call(x), to_apply=g, frontend_attributes={inlineable="false"}
 ROOT s = f32[2] add(c, x)
}
ENTRY e {
  a = f32[2] parameter(0)
  c = f32[2] call(a), to_apply=f
  ROOT d = f32[2] call(c), to_apply=g, frontend_attributes={inlineable="false"}
})");
    inline_calls(m.get());
    ir::verify(*m);
    std::string left;
    for (const auto& i : m->entry()->instructions()) {
      if (i->is(ir::Opcode::call)) left += i->called()[0]->name() + " ";
    }
    return left;
  };
  EXPECT_EQ(calls_left(""), "g g ");
  EXPECT_EQ(calls_left(", num_partitions=2"), "");
}

TEST(InlineCalls, EffectsStayInTheirOrder) {
  const auto m = ir::parse_hlo(R"(HloModule m
g { y = f32[2] parameter(0)
 ROOT two = () custom-call(y), custom_call_target="two", custom_call_has_side_effect=true
}
f { x = f32[2] parameter(0)
 one = () custom-call(x), custom_call_target="one", custom_call_has_side_effect=true
 c = () call(x), to_apply=g
 ROOT s = f32[2] add(x, x)
}
ENTRY e {
  a = f32[2] parameter(0)
  zero = () custom-call(a), custom_call_target="zero", custom_call_has_side_effect=true
  d = f32[2] call(a), to_apply=f
  three = () custom-call(a), custom_call_target="three", custom_call_has_side_effect=true
  ROOT n = f32[2] negate(d)
})");
  EXPECT_EQ(inline_calls(m.get()), 2u);
  ir::verify(*m);
  std::string order;
  for (const auto& i : m->entry()->instructions()) {
    if (i->is(ir::Opcode::custom_call)) order += i->get<ir::CustomCallAttrs>().target + " ";
  }
  EXPECT_EQ(order, "zero one two three ");
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

TEST(InlineCalls, DeepChainsTakeLinearTime) {
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

/// The result's op after simplification, with the names of its operands.
std::string root_of(const std::string& lines) {
  auto m = ir::parse_hlo(
      "HloModule m\nENTRY e {\n  u = u32[64] parameter(0)\n  s = s32[64] parameter(1)\n"
      "  p = pred[64] parameter(2)\n  x = f32[64] parameter(3)\n"
      "  nought = u32[] constant(0)\n  none = u32[64] broadcast(nought), dimensions={}\n"
      "  minus = s32[] constant(0)\n  least = s32[64] broadcast(minus), dimensions={}\n"
      "  no = pred[] constant(false)\n  never = pred[64] broadcast(no), dimensions={}\n"
      "  yes = pred[] constant(true)\n  always = pred[64] broadcast(yes), dimensions={}\n" +
      lines + "}\n");
  for (int k = 0; k < 3; ++k) simplify(m.get());
  ir::verify(*m);
  const ir::Instruction& root = *m->entry()->root();
  std::string out(ir::name(root.opcode));
  if (root.operands().empty()) return out + " " + root.name;
  for (const ir::Instruction* o : root.operands()) out += " " + o->name;
  return out;
}

TEST(Simplify, WhatComparisonsAlwaysGive) {
  const auto chosen = [](const std::string& predicate) {
    return root_of("  c = pred[64] " + predicate +
                   "\n  y = f32[64] negate(x)\n  ROOT r = f32[64] select(c, y, x)\n");
  };
  EXPECT_EQ(chosen("compare(u, none), direction=LT"), "parameter x");
  EXPECT_EQ(chosen("compare(u, none), direction=GE"), "negate x");
  EXPECT_EQ(chosen("compare(u, none), direction=GT"), "select c y x");
  EXPECT_EQ(chosen("compare(s, least), direction=LT"), "select c y x");
  EXPECT_EQ(chosen("compare(p, never), direction=NE"), "select p y x");
  EXPECT_EQ(chosen("compare(p, always), direction=EQ"), "select p y x");
  EXPECT_EQ(chosen("compare(p, always), direction=NE"), "select c y x");
  EXPECT_EQ(chosen("and(p, never)"), "parameter x");
  EXPECT_EQ(chosen("and(always, p)"), "select p y x");
  EXPECT_EQ(chosen("or(p, always)"), "negate x");
  EXPECT_EQ(chosen("or(never, p)"), "select p y x");
}

TEST(Simplify, StackedRowsThatAreTurnedStandSideBySide) {
  const std::string rows =
      "  a = f32[1,64] reshape(x)\n  y = f32[64] negate(x)\n  b = f32[1,64] reshape(y)\n"
      "  c = f32[2,64] concatenate(a, b), dimensions={0}\n";
  EXPECT_EQ(root_of(rows + "  ROOT t = f32[64,2] transpose(c), dimensions={1,0}\n").substr(0, 11),
            "concatenate");
  // Of matrices the elements move.
  EXPECT_EQ(
      root_of("  a = f32[2,32] reshape(x)\n  c = f32[4,32] concatenate(a, a), dimensions={0}\n"
              "  ROOT t = f32[32,4] transpose(c), dimensions={1,0}\n"),
      "transpose c");
}

TEST(Simplify, ProductsOfBytesThatWereMadeWiderTakeTheBytes) {
  const auto product = [](const std::string& t, const std::string& other, const std::string& to) {
    const auto m =
        ir::parse_hlo("HloModule m\nENTRY e {\n  x = " + t + "[4,6] parameter(0)\n  y = " + other +
                      "[6,5] parameter(1)\n  a = " + to + "[4,6] convert(x)\n  b = " + to +
                      "[6,5] convert(y)\n  ROOT d = " + to +
                      "[4,5] dot(a, b), lhs_contracting_dims={1}, "
                      "rhs_contracting_dims={0}\n}\n");
    simplify(m.get());
    ir::verify(*m);
    const ir::Instruction& root = *m->entry()->root();
    EXPECT_EQ(root.shape.to_string(), to + "[4,5]");
    return root.operand(0)->name + " " + root.operand(1)->name;
  };
  EXPECT_EQ(product("s8", "s8", "s32"), "x y");
  EXPECT_EQ(product("u8", "s8", "s32"), "x y");
  EXPECT_EQ(product("s16", "s8", "s32"), "a b");
  EXPECT_EQ(product("s8", "s8", "f32"), "a b");
  EXPECT_EQ(product("s8", "s8", "s64"), "a b");
}

TEST(Simplify, DimsThatAreSetToTheSizeThatTheyHave) {
  const auto set = [](const std::string& size) {
    const auto m =
        ir::parse_hlo("HloModule m\nENTRY e {\n  x = f32[4,6] parameter(0)\n  n = s32[] " + size +
                      "\n  y = f32[4,6] set-dimension-size(x, n), dimensions={1}\n"
                      "  ROOT r = f32[4,6] negate(y)\n}\n");
    simplify(m.get());
    return m->entry()->root()->operand(0)->name;
  };
  EXPECT_EQ(set("constant(6)"), "x");
  EXPECT_EQ(set("constant(5)"), "y");
  EXPECT_EQ(set("parameter(1)"), "y");
}

TEST(Simplify, SizesOfDimsAreConstants) {
  const auto m = ir::parse_hlo(
      "HloModule m\nENTRY e {\n  x = f32[4,6] parameter(0)\n"
      "  ROOT n = s32[] get-dimension-size(x), dimensions={1}\n}\n");
  simplify(m.get());
  const ir::Instruction& root = *m->entry()->root();
  ASSERT_TRUE(root.is(ir::Opcode::constant));
  EXPECT_EQ(root.get<ir::ConstantAttrs>().value, Literal::scalar(DType::s32, 6));
}

}  // namespace
}  // namespace tessera::passes
