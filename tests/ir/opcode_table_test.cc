// SPDX-License-Identifier: Apache-2.0
// For each row of the op table: its columns are consistent, and hold for a program that has all
// ops.
#include <gtest/gtest.h>

#include <bit>
#include <fstream>
#include <map>
#include <sstream>

#include "src/ir/analysis/equivalence.h"
#include "src/ir/analysis/linearity.h"
#include "src/ir/analysis/verifier.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/opcode.h"
#include "src/ir/shapes/shape_inference.h"

namespace tessera::ir {
namespace {

constexpr unsigned kMoves =
    traits::permutes | traits::repeats | traits::selects | traits::assembles | traits::looks_up;

bool is_elementwise_work(Work w) {
  return w == Work::simple || w == Work::moderate || w == Work::division || w == Work::function;
}

/// A program of all ops but scan.
std::unique_ptr<Module> all_ops() {
  std::ifstream in(std::string(TESSERA_SOURCE_DIR) + "/tests/ir/data/all_ops.hlo");
  std::stringstream text;
  text << in.rdbuf();
  return parse_hlo(text.str(), "all_ops.hlo");
}

template <class F>
void each_op(F check) {
  for (int n = 0; n < opcode_count(); ++n) {
    SCOPED_TRACE(name(Opcode(n)));
    check(Opcode(n), info(Opcode(n)));
  }
}

TEST(OpTable, NamesAreParsedToTheirOpcode) {
  each_op([](Opcode op, const OpcodeInfo& i) {
    EXPECT_EQ(opcode_from_name(i.text), op);
    EXPECT_LE(i.operands, 5);
    EXPECT_GE(i.operands, -1);
  });
  EXPECT_EQ(opcode_from_name("no-such-op"), std::nullopt);
}

TEST(OpTable, ElementwiseOpsHaveTypesAndWorkPerElement) {
  each_op([](Opcode op, const OpcodeInfo& i) {
    const bool elementwise = is_elementwise(op);
    EXPECT_EQ(i.types != types::none, elementwise);
    EXPECT_EQ(is_elementwise_work(i.work), elementwise);
    if (elementwise) {
      EXPECT_GE(i.operands, 1);
      EXPECT_LE(i.operands, 3);
      EXPECT_EQ(i.calls, Calls::none);
    } else {
      EXPECT_TRUE(i.dialect == Dialect::own || i.dialect == Dialect::none);
    }
    if (has_trait(op, traits::transcendental | traits::exact)) {
      EXPECT_TRUE(elementwise);
    }
  });
}

TEST(OpTable, TraitsGoTogether) {
  each_op([](Opcode op, const OpcodeInfo& i) {
    if (is_commutative(op)) {
      EXPECT_EQ(i.operands, 2);
    }
    if (has_trait(op, traits::associative)) {
      EXPECT_TRUE(is_commutative(op));
    }
    EXPECT_FALSE(has_side_effect(op) && has_trait(op, traits::pure));
    EXPECT_LE(std::popcount(i.traits & kMoves), 1);
    // A move of elements is linear in what it moves, and does no arithmetic.
    if (has_trait(op, kMoves)) {
      EXPECT_EQ(i.linear.kind, Linearity::Kind::jointly);
      EXPECT_TRUE(i.linear.in(0));
      EXPECT_TRUE(i.work == Work::none || is_elementwise(op));
      EXPECT_TRUE(has_trait(op, traits::pure));
    }
    if (is_collective(op)) {
      EXPECT_FALSE(is_elementwise(op));
    }
    if (i.linear.kind == Linearity::Kind::none) {
      EXPECT_EQ(i.linear.operands, 0u);
    }
    if (i.linear.kind == Linearity::Kind::sums) {
      EXPECT_EQ(i.calls, Calls::applied);
    }
    if (i.operands >= 0 && i.linear.operands != ~0u) {
      EXPECT_EQ(i.linear.operands >> i.operands, 0u) << "linear in operands that it has not";
    }
  });
}

TEST(OpTable, HoldsForEachOpOfAProgram) {
  const auto module = all_ops();
  std::map<Opcode, int> met;
  for (const auto& c : module->computations()) {
    for (const auto& i : c->instructions()) {
      SCOPED_TRACE(i->describe());
      ++met[i->opcode];
      const OpcodeInfo& row = info(i->opcode);
      if (row.operands >= 0) {
        EXPECT_EQ(std::int64_t(i->operands().size()), row.operands);
      }
      // A custom call may have computations, and never runs them by itself.
      if (!i->is(Opcode::custom_call)) {
        EXPECT_EQ(!i->called().empty(), row.calls != Calls::none);
      }
      if (is_pure(*i)) {
        EXPECT_TRUE(has_trait(i->opcode, traits::pure));
      }
    }
  }
  each_op([&](Opcode op, const OpcodeInfo&) {
    if (op != Opcode::scan) {
      EXPECT_GE(met[op], 1) << "all_ops.hlo lacks it";
    }
  });
}

TEST(OpTable, AttributesOfAnotherOpAreRefused) {
  const auto module = all_ops();
  verify(*module);
  for (const auto& c : module->computations()) {
    for (const auto& i : c->instructions()) {
      SCOPED_TRACE(i->describe());
      const Attributes own = i->attrs;
      const bool has_k = own.get_if<TopKAttrs>() != nullptr;
      i->attrs = has_k ? Attributes(IotaAttrs{}) : Attributes(TopKAttrs{});
      try {
        verify_structure(*module);
        ADD_FAILURE() << "takes the attributes of another op";
      } catch (const ValueError& e) {
        EXPECT_NE(e.message().find("attributes of another opcode"), std::string::npos);
      }
      i->attrs = own;
    }
  }
  verify(*module);
}

TEST(OpTable, ReducersAndTypesDecideLinearity) {
  const auto module = parse_hlo(R"(
HloModule m, num_partitions=2
add { a = f64[] parameter(0)
  b = f64[] parameter(1)
  ROOT s = f64[] add(a, b) }
add_s32 { a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT s = s32[] add(a, b) }
max { a = f64[] parameter(0)
  b = f64[] parameter(1)
  ROOT s = f64[] maximum(a, b) }
ENTRY e {
  x = f64[4] parameter(0)
  z = f64[] parameter(1)
  n = s32[4] parameter(2)
  o = s32[] parameter(3)
  sum = f64[] reduce(x, z), dimensions={0}, to_apply=add
  most = f64[] reduce(x, z), dimensions={0}, to_apply=max
  count = s32[] reduce(n, o), dimensions={0}, to_apply=add_s32
  all = f64[4] all-reduce(x), replica_groups={}, to_apply=add
  ints = s32[4] add(n, n)
  rounded = s32[4] convert(x)
  ROOT twice = f64[4] multiply(x, x)
})",
                                "linear.hlo");
  std::map<std::string, Linearity> of;
  for (const auto& i : module->entry()->instructions()) of[i->name] = linearity(*i);
  const Linearity none;
  EXPECT_EQ(of["sum"].kind, Linearity::Kind::jointly);
  EXPECT_TRUE(of["sum"].in(0) && of["sum"].in(1));
  EXPECT_EQ(of["most"], none);
  EXPECT_EQ(of["count"], none);
  EXPECT_EQ(of["all"].kind, Linearity::Kind::jointly);
  EXPECT_EQ(of["ints"], none);
  EXPECT_EQ(of["rounded"], none);
  EXPECT_EQ(of["twice"], (Linearity{Linearity::Kind::each, 3}));
  EXPECT_EQ(of["x"], none);
}

}  // namespace
}  // namespace tessera::ir
