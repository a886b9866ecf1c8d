// SPDX-License-Identifier: Apache-2.0
// Reducers that may combine elements in any order, and argmax and the like by such.
#include "src/codegen/kernels/reductions/reducer_order.h"

#include <fmt/format.h>

#include "src/codegen/kernels/expressions/loop_expr.h"
#include "src/ir/hlo/hlo_text.h"
#include "tests/codegen/random_case.h"

namespace tessera::testing {
namespace {

/// "r": of two numbers and their indices.
std::string reducer(DType t, const char* wins, const char* of_equal, bool nan_wins) {
  const std::string type(name(t));
  return fmt::format(
      "r {{\n  v = {0}[] parameter(0)\n  i = s32[] parameter(1)\n  w = {0}[] parameter(2)\n"
      "  j = s32[] parameter(3)\n  gt = pred[] compare(v, w), direction={1}\n"
      "  nan = pred[] compare(v, v), direction=NE\n  first = pred[] {3}\n"
      "  eq = pred[] compare(v, w), direction=EQ\n"
      "  lt = pred[] compare(i, j), direction={2}\n  tie = pred[] and(eq, lt)\n"
      "  mine = pred[] or(first, tie)\n  value = {0}[] select(first, v, w)\n"
      "  index = s32[] select(mine, i, j)\n"
      "  ROOT t = ({0}[], s32[]) tuple(value, index)\n}}\n",
      type, wins, of_equal, nan_wins ? "or(gt, nan)" : "and(gt, gt)");
}

bool any_order(const std::string& function, const std::vector<DType>& types) {
  const std::string text =
      "HloModule m\n" + function + "ENTRY e {\n  ROOT x = f32[] parameter(0)\n}\n";
  const std::unique_ptr<ir::Module> module = ir::parse_hlo(text);
  for (const auto& c : module->computations()) {
    if (c->name() == "r") return codegen::combines_in_any_order(*codegen::program_of(*c), types);
  }
  ADD_FAILURE() << text;
  return false;
}

TEST(ReducerOrder, OfArgmaxMakesNoDifference) {
  for (const DType t : {DType::f32, DType::f64, DType::bf16, DType::s32, DType::u8}) {
    EXPECT_TRUE(any_order(reducer(t, "GT", "LT", true), {t, DType::s32})) << name(t);
    EXPECT_TRUE(any_order(reducer(t, "LT", "GT", false), {t, DType::s32})) << name(t);
  }
}

TEST(ReducerOrder, MakesADifference) {
  // Of equal numbers the last one that is met; sums; what is compared with a constant.
  EXPECT_FALSE(any_order(reducer(DType::f32, "GT", "EQ", true), {DType::f32, DType::s32}));
  EXPECT_FALSE(any_order(reducer(DType::f32, "GE", "NE", true), {DType::f32, DType::s32}));
  EXPECT_FALSE(
      any_order("r {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
                "  ROOT c = f32[] add(a, b)\n}\n",
                {DType::f32}));
  EXPECT_FALSE(
      any_order("r {\n  a = s32[] parameter(0)\n  b = s32[] parameter(1)\n"
                "  n = s32[] constant(7)\n  p = pred[] compare(a, n), direction=GT\n"
                "  q = pred[] compare(b, n), direction=GT\n  o = pred[] or(p, q)\n"
                "  m = s32[] maximum(a, b)\n  ROOT c = s32[] select(o, n, m)\n}\n",
                {DType::s32}));
}

// Rows with ties, NaNs and infinities of any length, against the evaluator.
TEST(ReducerOrder, ArgmaxOfRows) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Random r(seed);
    const DType t = r.pick(std::vector<DType>{DType::f32, DType::f32, DType::f64, DType::bf16,
                                              DType::f16, DType::s32, DType::s8});
    const std::int64_t rows = 1 + r.below(40), length = 33 + r.below(r.chance(0.2) ? 9000 : 700);
    const bool nan_wins = r.chance(0.7);  // otherwise one with NaNs isn't associative
    const std::string function =
        reducer(t, r.pick(std::vector<const char*>{"GT", "LT"}),
                r.pick(std::vector<const char*>{"LT", "LT", "GT", "EQ"}), nan_wins);
    const std::string text = fmt::format(
        "HloModule m\n{0}ENTRY e {{\n  x = {1}[{2},{3}] parameter(0)\n"
        "  i = s32[{2},{3}] iota(), iota_dimension=1\n  least = {1}[] constant({4})\n"
        "  none = s32[] constant(0)\n"
        "  ROOT out = ({1}[{2}], s32[{2}]) reduce(x, i, least, none), dimensions={{1}}, "
        "to_apply=r\n}}\n",
        function, name(t), rows, length, is_floating(t) ? "-inf" : "-100");
    const std::unique_ptr<ir::Module> module = ir::parse_hlo(text);
    Literal x = r.literal(t, {rows, length});
    if (is_floating(t) && nan_wins) {
      // Some rows only: others take the way without NaNs.
      const Literal odd = r.literal(t, {rows, length}, true);
      const std::size_t row = std::size_t(length) * byte_size(t);
      for (std::int64_t n = 0; n < rows; n += 3) {
        std::memcpy(x.mutable_bytes() + std::size_t(n) * row, odd.bytes() + std::size_t(n) * row,
                    row);
      }
    }
    const std::vector<Literal> arguments = {x};
    const Literal want = evaluator::evaluate(*module, arguments);
    const std::vector<Literal> leaves = leaves_of(want);
    const std::vector<Literal> got = run_module(*module, arguments);
    ASSERT_EQ(got.size(), 2u);
    Tolerance exact;
    exact.kind = Tolerance::Kind::exact;
    for (std::size_t k = 0; k < 2; ++k) {
      EXPECT_EQ(difference(got[k], leaves[k], exact), "") << "seed " << seed << "\n" << text;
    }
  }
}

}  // namespace
}  // namespace tessera::testing
