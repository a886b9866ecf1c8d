// SPDX-License-Identifier: Apache-2.0
// Rare operations, and pairs of start and done.
#include <gtest/gtest.h>

#include "src/base/arrays/literal_util.h"
#include "src/evaluator/evaluator.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/shapes/shape_inference.h"

namespace tessera {
namespace {

Literal floats(Dims dims, const std::vector<float>& values) {
  return make_literal(DType::f32, std::move(dims), values);
}

Literal run(const std::string& text, const std::vector<Literal>& arguments) {
  auto module = ir::parse_hlo(text);
  ir::verify(*module);
  const std::string printed = ir::to_string(*module);
  EXPECT_EQ(ir::to_string(*ir::parse_hlo(printed)), printed);
  return evaluator::evaluate(*module, arguments);
}

const Literal kRows = floats({5, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});

TEST(RaggedDot, RowsTakeTheMatrixOfTheirGroup) {
  const Literal out = run(R"(HloModule m
ENTRY e {
  l = f32[5,2] parameter(0)
  r = f32[2,2,1] parameter(1)
  g = s32[2] parameter(2)
  ROOT d = f32[5,1] ragged-dot(l, r, g), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}
})",
                          {kRows, floats({2, 2, 1}, {1, 10, 100, 1000}),
                           make_literal(DType::s32, {2}, std::vector<int>{3, 1})});
  // Rows behind the last group stay 0.
  EXPECT_EQ(to_vector<float>(out), (std::vector<float>{10, 32, 54, 7600, 0}));
}

TEST(RaggedDot, AContractedRaggedDimGivesAProductForEachGroup) {
  const Literal out = run(R"(HloModule m
ENTRY e {
  l = f32[5,2] parameter(0)
  r = f32[5,1] parameter(1)
  g = s32[2] parameter(2)
  ROOT d = f32[2,2,1] ragged-dot(l, r, g), lhs_contracting_dims={0}, rhs_contracting_dims={0}, lhs_ragged_dims={0}
})",
                          {kRows, floats({5, 1}, {1, 1, 1, 1, 1}),
                           make_literal(DType::s32, {2}, std::vector<int>{2, 2})});
  EXPECT_EQ(to_vector<float>(out), (std::vector<float>{2, 4, 10, 12}));
}

// Entries of a batch have groups of their own, and so have contracted entries before the ragged
// dim.
TEST(RaggedDot, EntriesHaveGroupsOfTheirOwn) {
  const Literal rows = run(R"(HloModule m
ENTRY e {
  l = f32[2,3,1] parameter(0)
  r = f32[2,1,1] parameter(1)
  g = s32[2,2] parameter(2)
  ROOT d = f32[2,3,1] ragged-dot(l, r, g), lhs_contracting_dims={2}, rhs_contracting_dims={1}, lhs_ragged_dims={1}, rhs_group_dims={0}
})",
                           {floats({2, 3, 1}, {1, 2, 3, 4, 5, 6}), floats({2, 1, 1}, {10, 100}),
                            make_literal(DType::s32, {2, 2}, std::vector<int>{1, 2, 2, 0})});
  EXPECT_EQ(to_vector<float>(rows), (std::vector<float>{10, 200, 300, 40, 50, 0}));
  const Literal sums = run(R"(HloModule m
ENTRY e {
  l = f32[2,3] parameter(0)
  r = f32[2,3] parameter(1)
  g = s32[2,2] parameter(2)
  ROOT d = f32[2] ragged-dot(l, r, g), lhs_contracting_dims={0,1}, rhs_contracting_dims={0,1}, lhs_ragged_dims={1}
})",
                           {floats({2, 3}, {1, 2, 3, 4, 5, 6}), floats({2, 3}, {1, 1, 1, 1, 1, 1}),
                            make_literal(DType::s32, {2, 2}, std::vector<int>{1, 2, 2, 0})});
  EXPECT_EQ(to_vector<float>(sums), (std::vector<float>{10, 5}));
}

TEST(ScaledDot, EachBlockHasItsScale) {
  const Literal out = run(R"(HloModule m
ENTRY e {
  l = f32[1,4] parameter(0)
  r = f32[1,4] parameter(1)
  a = f32[1,2] parameter(2)
  b = f32[1,1] parameter(3)
  ROOT d = f32[1,1] scaled-dot(l, r, a, b), lhs_contracting_dims={1}, rhs_contracting_dims={1}
})",
                          {floats({1, 4}, {1, 2, 3, 4}), floats({1, 4}, {1, 1, 1, 1}),
                           floats({1, 2}, {10, 100}), floats({1, 1}, {2})});
  EXPECT_EQ(to_vector<float>(out), (std::vector<float>{2 * (30 + 700)}));
}

TEST(RandomState, EachOperationCountsOn) {
  const Literal out = run(R"(HloModule m
body {
  s = (s32[], u64[2]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(n, one)
  r = u64[2] rng-get-and-update-state(), delta=5
  ROOT t = (s32[], u64[2]) tuple(next, r)
}
condition {
  s = (s32[], u64[2]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  three = s32[] constant(3)
  ROOT c = pred[] compare(n, three), direction=LT
}
ENTRY e {
  zero = s32[] constant(0)
  none = u64[2] constant({0, 0})
  t = (s32[], u64[2]) tuple(zero, none)
  w = (s32[], u64[2]) while(t), condition=condition, body=body
  ROOT r = u64[2] get-tuple-element(w), index=1
})",
                          {});
  EXPECT_EQ(to_vector<std::uint64_t>(out), (std::vector<std::uint64_t>{0x7012395 + 10, 0}));
}

TEST(Rng, NumbersAreInTheirRange) {
  const std::vector<float> x = to_vector<float>(run(R"(HloModule m
ENTRY e {
  a = f32[] constant(2)
  b = f32[] constant(3)
  ROOT r = f32[1000] rng(a, b), distribution=rng_uniform
})",
                                                    {}));
  double sum = 0;
  for (float v : x) {
    EXPECT_GE(v, 2);
    EXPECT_LT(v, 3);
    sum += v;
  }
  EXPECT_NEAR(sum / 1000, 2.5, 0.05);
  const std::vector<float> n = to_vector<float>(run(R"(HloModule m
ENTRY e {
  a = f32[] constant(10)
  b = f32[] constant(2)
  ROOT r = f32[2000] rng(a, b), distribution=rng_normal
})",
                                                    {}));
  double mean = 0, square = 0;
  for (float v : n) mean += v / 2000;
  for (float v : n) square += (v - mean) * (v - mean) / 2000;
  EXPECT_NEAR(mean, 10, 0.2);
  EXPECT_NEAR(square, 4, 0.5);
}

TEST(DimensionSize, ASizeThatADimHasIsFine) {
  const char* text = R"(HloModule m
ENTRY e {
  p = f32[3] parameter(0)
  n = s32[] parameter(1)
  s = f32[3] set-dimension-size(p, n), dimensions={0}
  ROOT g = s32[] get-dimension-size(s), dimensions={0}
})";
  const Literal x = floats({3}, {1, 2, 3});
  EXPECT_EQ(to_scalar<int>(run(text, {x, Literal::scalar(DType::s32, 3)})), 3);
  try {
    run(text, {x, Literal::scalar(DType::s32, 2)});
    FAIL() << "a size known only at run time was accepted";
  } catch (const RuntimeError& e) {
    EXPECT_NE(std::string(e.what()).find("can't be set to size 2"), std::string::npos) << e.what();
  }
}

TEST(HostTransfers, VerifyButDoNotRun) {
  const char* text = R"(HloModule m
ENTRY e {
  t = token[] after-all()
  i = ((f32[3]), token[]) infeed(t), infeed_config="x"
  a = (f32[3]) get-tuple-element(i), index=0
  b = f32[3] get-tuple-element(a), index=0
  o = token[] outfeed(b, t), outfeed_shape=f32[3]
  ROOT r = f32[3] copy(b)
})";
  auto module = ir::parse_hlo(text);
  ir::verify(*module);
  EXPECT_THROW(evaluator::evaluate(*module, {}), NotImplementedError);
}

TEST(Asynchronous, StartUpdateDoneGiveWhatTheWrappedOperationGives) {
  const Literal out = run(R"(HloModule m
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
wrapped {
  q = f32[3] parameter(0)
  ROOT n = f32[3] negate(q)
}
ENTRY e {
  p = f32[3] parameter(0)
  s = ((f32[3]), f32[3], u32[]) async-start(p), calls=wrapped
  u = ((f32[3]), f32[3], u32[]) async-update(s)
  d = f32[3] async-done(u)
  cs = (f32[3], f32[3], u32[]) copy-start(d)
  cd = f32[3] copy-done(cs)
  rs = f32[3] all-reduce-start(cd), replica_groups={}, to_apply=add
  ROOT rd = f32[3] all-reduce-done(rs)
})",
                          {floats({3}, {1, 2, 3})});
  EXPECT_EQ(to_vector<float>(out), (std::vector<float>{-1, -2, -3}));
}

TEST(RaggedAllToAll, EachDeviceReceivesTheRowsSentToIt) {
  auto module = ir::parse_hlo(R"(HloModule m, num_partitions=2
ENTRY e {
  in = f32[4] parameter(0)
  out = f32[4] parameter(1)
  from = s32[2] parameter(2)
  rows = s32[2] parameter(3)
  to = s32[2] parameter(4)
  arrive = s32[2] parameter(5)
  ROOT r = f32[4] ragged-all-to-all(in, out, from, rows, to, arrive), replica_groups={{0,1}}
})");
  const auto ints = [](int a, int b) {
    return make_literal(DType::s32, {2}, std::vector<int>{a, b});
  };
  const Literal zeros = floats({4}, {9, 9, 9, 9});
  // Device 0 keeps one row and sends two; device 1 sends one and keeps two.
  const std::vector<std::vector<Literal>> arguments = {
      {floats({4}, {1, 2, 3, 4}), zeros, ints(0, 1), ints(1, 2), ints(0, 0), ints(1, 1)},
      {floats({4}, {5, 6, 7, 8}), zeros, ints(0, 1), ints(1, 2), ints(1, 2), ints(2, 2)}};
  const auto out = evaluator::evaluate_spmd(*module, arguments);
  EXPECT_EQ(to_vector<float>(out[0]), (std::vector<float>{1, 5, 9, 9}));
  EXPECT_EQ(to_vector<float>(out[1]), (std::vector<float>{2, 3, 6, 7}));
}

}  // namespace
}  // namespace tessera
