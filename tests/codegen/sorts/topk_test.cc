// SPDX-License-Identifier: Apache-2.0
// The first k of rows against the evaluator: short and long rows, few and all elements, ties.
#include <gtest/gtest.h>

#include <span>

#include "tests/codegen/random_case.h"

namespace tessera::testing {
namespace {

TEST(TopKTest, GivesTheElementsThatComeFirstAndTheirPlaces) {
  const std::vector<std::int64_t> sizes = {1, 7, 63, 64, 65, 200, 3000, 20000};
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Random r(seed);
    const DType type = r.pick(kTypes);
    if (is_complex(type)) continue;
    const std::int64_t n = r.pick(sizes);
    const std::int64_t k = r.chance(0.2) ? n : std::min(n, r.below(r.chance(0.5) ? 8 : n + 1));
    Program p;
    Literal x = r.literal(type, {n > 1000 ? 2 : 5, n}, /*special=*/true);
    Instruction* values = p.argument(std::move(x));
    // Ties: the earlier of equal elements comes first.
    if (r.chance(0.3) && is_signed_integer(type)) {
      values =
          p.b.binary(Opcode::and_, values, p.b.splat(p.b.scalar(type, 3), {n > 1000 ? 2 : 5, n}));
    }
    p.check(p.b.emit(Opcode::topk, {values}, ir::TopKAttrs{k, r.chance(0.5)}), seed);
  }
}

// Candidates are cut down most often where each element comes before all earlier ones.
TEST(TopKTest, TakesRowsThatAreInOrderEitherWay) {
  for (const bool up : {true, false}) {
    for (const bool largest : {true, false}) {
      Program p;
      Literal x(Shape(DType::f32, {10000}));
      const std::span<float> at = x.mutable_data<float>();
      for (int i = 0; i < 10000; ++i) at[std::size_t(i)] = float(up ? i : -i) / 3;
      Instruction* values = p.argument(std::move(x));
      p.check(p.b.emit(Opcode::topk, {values}, ir::TopKAttrs{5, largest}), std::uint64_t(up));
    }
  }
}

}  // namespace
}  // namespace tessera::testing
