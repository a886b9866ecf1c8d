// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "src/base/literal_util.h"
#include "src/evaluator/evaluator.h"
#include "src/ir/hlo_text.h"
#include "src/ir/shape_inference.h"
#include "src/passes/simplify.h"

namespace tessera::passes {
namespace {

std::size_t counted(const std::string& body, std::size_t (*pass)(ir::Module*)) {
  const std::string text = "HloModule m\nENTRY e {\n" + body + "}\n";
  const std::unique_ptr<ir::Module> module = ir::parse_hlo(text);
  std::vector<Literal> arguments;
  for (const ir::Instruction* p : module->entry()->parameters()) {
    Literal x(p->shape);
    double v = 1;
    for (float& f : x.mutable_data<float>()) f = float(v = 7 - 0.75 * v);
    arguments.push_back(std::move(x));
  }
  const Literal before = evaluator::evaluate(*module, arguments);
  const std::size_t count = pass(module.get());
  ir::verify(*module);
  EXPECT_TRUE(evaluator::evaluate(*module, arguments) == before) << ir::to_string(*module);
  return count;
}
std::size_t swapped(const std::string& body) { return counted(body, swap_transposed_dots); }
std::size_t seen_through(const std::string& body) { return counted(body, see_through_transposes); }

TEST(TransposedDots, AreTheDotsOfTheOperandsTheOtherWayRound) {
  EXPECT_EQ(swapped(R"(
    g = f32[16,48] parameter(0)
    x = f32[16,64] parameter(1)
    d = f32[48,64] dot(g, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}
    ROOT t = f32[64,48] transpose(d), dimensions={1,0}
)"),
            1u);
  // Batch dims stay in front; each operand may have several of its own.
  EXPECT_EQ(swapped(R"(
    a = f32[3,2,4,5] parameter(0)
    b = f32[2,3,5,6] parameter(1)
    d = f32[3,2,4,6] dot(a, b), lhs_batch_dims={0,1}, rhs_batch_dims={1,0}, lhs_contracting_dims={3}, rhs_contracting_dims={2}
    t = f32[3,2,6,4] transpose(d), dimensions={0,1,3,2}
    u = f32[3,2,6,4] transpose(d), dimensions={0,1,3,2}
    ROOT r = (f32[3,2,6,4], f32[3,2,6,4]) tuple(t, u)
)"),
            1u);
}

TEST(TransposedDots, StayWhereSomethingIsComputedFromThem) {
  EXPECT_EQ(swapped(R"(
    g = f32[16,48] parameter(0)
    x = f32[16,64] parameter(1)
    d = f32[48,64] dot(g, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}
    t = f32[64,48] transpose(d), dimensions={1,0}
    ROOT n = f32[64,48] negate(t)
)"),
            0u);
}

TEST(TransposedDots, StayWhereTheOrderIsAnotherOrTheDotIsUsed) {
  EXPECT_EQ(swapped(R"(
    a = f32[3,4,5] parameter(0)
    b = f32[5,6] parameter(1)
    d = f32[3,4,6] dot(a, b), lhs_contracting_dims={2}, rhs_contracting_dims={0}
    ROOT t = f32[4,6,3] transpose(d), dimensions={1,2,0}
)"),
            0u);
  EXPECT_EQ(swapped(R"(
    a = f32[4,5] parameter(0)
    b = f32[5,4] parameter(1)
    d = f32[4,4] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    t = f32[4,4] transpose(d), dimensions={1,0}
    ROOT r = (f32[4,4], f32[4,4]) tuple(d, t)
)"),
            0u);
}

TEST(TransposedOperands, AreReadAsTheyStand) {
  EXPECT_EQ(seen_through(R"(
    a = f32[16,48] parameter(0)
    b = f32[16,8] parameter(1)
    t = f32[48,16] transpose(a), dimensions={1,0}
    u = f32[8,16] transpose(b), dimensions={1,0}
    ROOT d = f32[48,8] dot(t, u), lhs_contracting_dims={1}, rhs_contracting_dims={1}
)"),
            2u);
  EXPECT_EQ(seen_through(R"(
    q = f32[2,6,4] parameter(0)
    t = f32[2,4,6] transpose(q), dimensions={0,2,1}
    ROOT d = f32[2,6,6] dot(q, t), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}
)"),
            1u);
}

TEST(TransposedOperands, StayWhereTheyWouldBeMovedAnyway) {
  // The free dims change places.
  EXPECT_EQ(seen_through(R"(
    a = f32[3,4,5] parameter(0)
    b = f32[5,6] parameter(1)
    t = f32[4,3,5] transpose(a), dimensions={1,0,2}
    ROOT d = f32[4,3,6] dot(t, b), lhs_contracting_dims={2}, rhs_contracting_dims={0}
)"),
            0u);
  // Batch dims have to be in front.
  EXPECT_EQ(seen_through(R"(
    a = f32[4,3,5] parameter(0)
    b = f32[3,5,6] parameter(1)
    t = f32[3,4,5] transpose(a), dimensions={1,0,2}
    ROOT d = f32[3,4,6] dot(t, b), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}
)"),
            0u);
}

}  // namespace
}  // namespace tessera::passes
