// SPDX-License-Identifier: Apache-2.0
// Behaviours 211 to 231 of docs/reference/behaviours.md: shardings in types, and the rules of
// operations.
#include "tests/frontend/per_device/explicit_testing.h"

namespace tessera::testing::behaviours_explicit {
namespace {

class Explicit : public ::testing::Test {
 protected:
  Mesh mesh = explicit_mesh({2, 4}, {"x", "y"});
  NamedSharding on(const P& spec) const { return NamedSharding(mesh, spec); }
  Array placed(std::vector<std::int64_t> shape, const P& spec) const {
    return device_put(counting(std::move(shape), 0.125f), on(spec));
  }
};

TEST_F(Explicit, Behaviour_211_ElementwiseOpsKeepTheSpec) {
  const Array a = placed({8, 8}, P("x", "y"));
  EXPECT_EQ(type_text(sin(a)), "f32[8@x,8@y]");
  EXPECT_EQ(type_through_jit([](Array v) { return sin(v) * 2.0f + 1.0f; }, a), "f32[8@x,8@y]");
  const std::string text = jit([](Array v) { return cos(sin(v)); }).lower(a).as_text();
  EXPECT_EQ(count(text, R"(@mesh, [{\"x\"}, {\"y\"}])"), 4u) << text;  // a constraint for each op
  const Array g = grad([](Array v) { return sum(sin(v)); })(a);
  EXPECT_EQ(type_text(g), "f32[8@x,8@y]");
  expect_close(g, cos(counting({8, 8}, 0.125f)));
}

TEST_F(Explicit, Behaviour_212_OperandsOfBinaryOps) {
  const Array a = placed({8, 8}, P("x"));
  EXPECT_EQ(type_text(a + placed({8, 8}, P(nullptr, "y"))), "f32[8@x,8@y]");
  EXPECT_EQ(type_text(a + placed({8, 8}, P())), "f32[8@x,8]");
  expect_error<ShardingTypeError>(
      [&] {
        (void)(a + placed({8, 8}, P("y")));
      },
      {"add", "f32[8@x,8]", "f32[8@y,8]", "dim 0", "reshard()", kNear});
  expect_error<ShardingTypeError>(
      [&] {
        (void)(a * placed({8, 8}, P(nullptr, "x")));
      },
      {"f32[8@x,8@x]", "'x' splits twice", "reshard()", kNear});
}

TEST_F(Explicit, Behaviour_213_FreeDimsOfDots) {
  EXPECT_EQ(type_text(matmul(placed({8, 4}, P("x")), placed({4, 8}, P(nullptr, "y")))),
            "f32[8@x,8@y]");
  EXPECT_EQ(type_text(matmul(placed({8, 4}, P("x", "y")), placed({4, 8}, P()))), "f32[8@x,8]");
}

TEST_F(Explicit, Behaviour_214_OneSidedContractions) {
  const Array a = placed({8, 4}, P("x")), b = placed({4, 8}, P("x"));
  EXPECT_EQ(type_text(matmul(a, b)), "f32[8@x,8]");
  const std::string text =
      jit([](Array v, Array w) { return matmul(v, w); }).lower(a, b).compile().as_text();
  EXPECT_GE(count(text, " all-gather("), 1u) << text;
  EXPECT_EQ(type_text(matmul(placed({8, 4}, P(nullptr, "y")), placed({4, 8}, P(nullptr, "y")))),
            "f32[8,8@y]");
  expect_close(matmul(a, b), matmul(counting({8, 4}, 0.125f), counting({4, 8}, 0.125f)));
}

TEST_F(Explicit, Behaviour_215_AmbiguousContractions) {
  for (const P& right : {P("y"), P("x", "y")}) {
    const Array a = placed({8, 4}, P("x", "y"));
    expect_error<ShardingTypeError>(
        [&] {
          (void)matmul(a, placed({4, 8}, right));
        },
        {"matmul", "contracting dims 1 and 0", kNear});
  }
  expect_error<ShardingTypeError>(
      [&] {
        (void)matmul(placed({8, 4}, P(nullptr, "y")), placed({4, 8}, P("y")));
      },
      {"both split as 'y'", "ambiguous", "out_sharding", "unreduced={'y'}", kNear});
  expect_error<ShardingTypeError>(
      [&] {
        (void)matmul(placed({8, 4}, P("x")), placed({4, 8}, P(nullptr, "x")));
      },
      {"f32[8@x,8@x]", "'x' splits twice", kNear});
}

TEST_F(Explicit, Behaviour_216_OutShardingOfDots) {
  const Array a = placed({8, 4}, P("x", "y")), b = placed({4, 8}, P("y"));
  const auto f = [](Array v, Array w) { return matmul(v, w, P("x")); };
  EXPECT_EQ(type_through_jit(f, a, b), "f32[8@x,8]");
  expect_close(f(a, b), matmul(counting({8, 4}, 0.125f), counting({4, 8}, 0.125f)));
  const auto [ga, gb] = grad<0, 1>([&](Array v, Array w) { return sum(square(f(v, w))); })(a, b);
  EXPECT_EQ(type_text(ga), "f32[8@x,4@y]");
  EXPECT_EQ(type_text(gb), "f32[4@y,8]");
  const Mesh mixed = make_mesh({2, 4}, {"x", "y"}, {AxisType::Explicit, AxisType::Auto});
  const Array c = device_put(counting({8, 4}), NamedSharding(mixed, P("x")));
  expect_error<ShardingTypeError>([&] { (void)matmul(c, transpose(c), P("x", "y")); },
                                  {"out_sharding", "'y'", "Auto", "'x'", kNear});
}

TEST_F(Explicit, Behaviour_217_BatchDimsSplitDifferently) {
  const Array a = placed({4, 2, 2}, P("x"));
  expect_error<ShardingTypeError>(
      [&] {
        (void)matmul(a, placed({4, 2, 2}, P("y")));
      },
      {"batch dims 0 and 0", "'x'", "'y'", kNear});
  EXPECT_EQ(type_text(matmul(a, placed({4, 2, 2}, P()))), "f32[4@x,2,2]");
}

TEST_F(Explicit, Behaviour_218_Einsums) {
  const Array a = placed({8, 4}, P("x")), b = placed({4, 8}, P(nullptr, "y"));
  EXPECT_EQ(type_text(einsum("ij,jk->ki", a, b)), "f32[8@y,8@x]");
  const Array c = placed({8, 2}, P());
  EXPECT_EQ(type_text(einsum("ij,jk,kl->il", {a, b, c}, P("x"))), "f32[8@x,2]");
  expect_close(einsum("ij,jk,kl->il", {a, b, c}, P("x")),
               einsum("ij,jk,kl->il", {counting({8, 4}, 0.125f), counting({4, 8}, 0.125f),
                                       counting({8, 2}, 0.125f)}),
               1e-4f);
  EXPECT_EQ(type_text(einsum("ij,jk->ik", placed({8, 4}, P("x", "y")), placed({4, 8}, P("y")),
                             P(nullptr, "y"))),
            "f32[8,8@y]");
}

TEST_F(Explicit, Behaviour_219_Reductions) {
  const Array a = placed({8, 8}, P("x", "y"));
  EXPECT_EQ(type_text(sum(a, 0)), "f32[8@y]");
  EXPECT_EQ(type_text(max(a, 1)), "f32[8@x]");
  EXPECT_EQ(type_text(argmax(a, 1)), "s32[8@x]");
  EXPECT_EQ(type_text(sum(a)), "f32[]");
  const std::string text = jit([](Array v) { return sum(v, 0); }).lower(a).compile().as_text();
  EXPECT_EQ(count(text, " all-reduce("), 1u) << text;
  expect_close(sum(a, 0), sum(counting({8, 8}, 0.125f), 0));
}

TEST(ExplicitReshapes, Behaviour_220_SplitsAndMerges) {
  const Mesh mesh = explicit_mesh({2, 2, 2}, {"x", "y", "z"});
  const auto of = [&](std::vector<std::int64_t> shape, const P& spec) {
    return device_put(counting(std::move(shape)), NamedSharding(mesh, spec));
  };
  const SpecEntry xy = axes("x", "y");
  EXPECT_EQ(type_text(reshape(of({8}, P("x")), {8, 1})), "f32[8@x,1]");
  EXPECT_EQ(type_text(reshape(of({8}, P(xy)), {2, 4})), "f32[2@x,4@y]");
  EXPECT_EQ(type_text(reshape(of({8}, P(xy)), {4, 2})), "f32[4@(x,y),2]");
  EXPECT_EQ(type_text(reshape(of({2, 4}, P("x", "y")), {8})), "f32[8@(x,y)]");
  EXPECT_EQ(type_text(reshape(of({2, 2, 2}, P("x", "y", "z")), {4, 2})), "f32[4@(x,y),2@z]");
  EXPECT_EQ(type_text(reshape(of({4, 6}, P("x")), {2, 2, 6})), "f32[2@x,2,6]");
  for (const auto& [array, shape] : std::vector<std::pair<Array, std::vector<std::int64_t>>>{
           {of({2, 2, 2}, P("x", nullptr, "y")), {8}},
           {of({12}, P(xy)), {3, 4}},
           {of({4, 4}, P("x", "y")), {2, 2, 2, 2}}}) {
    const std::string text = expect_error<ShardingTypeError>(
        [&, &array = array, &shape = shape] { (void)reshape(array, shape); },
        {"reshape of f32", "out_sharding", kNear});
  }
  const Array moved = reshape(of({12}, P(xy)), {3, 4}, P(nullptr, "x"));
  EXPECT_EQ(type_text(moved), "f32[3,4@x]");
  expect_close(moved, counting({3, 4}));
}

TEST(ExplicitReshapes, Behaviour_221_DimsOfOneKeepTheirEntries) {
  const Mesh mesh = explicit_mesh({1, 4}, {"x", "y"});
  const Array a = device_put(counting({1, 8}), NamedSharding(mesh, P("x", "y")));
  EXPECT_EQ(type_text(reshape(a, {1, 4, 2})), "f32[1,4@y,2]");
  EXPECT_EQ(type_text(reshape(a, {1, 8})), "f32[1@x,8@y]");
}

TEST_F(Explicit, Behaviour_222_SlicesKeepSpecsThatStillDivide) {
  const Array a = placed({8, 8}, P("x"));
  EXPECT_EQ(type_text(slice(a, {0, 0}, {2, 8})), "f32[2@x,8]");
  EXPECT_EQ(type_text(dynamic_slice(a, {Array(1), Array(0)}, {4, 8})), "f32[4@x,8]");
  EXPECT_EQ(type_text(pad(a, {{1, 1}, {1, 1}})), "f32[10@x,10]");
  expect_close(slice(a, {3, 0}, {5, 8}), slice(counting({8, 8}, 0.125f), {3, 0}, {5, 8}));
  expect_error<ShardingTypeError>(
      [&] {
        (void)slice(a, {0, 0}, {3, 8});
      },
      {"slice", "dim 0", "'x'", "3", "multiple of 2", kNear});
  EXPECT_EQ(type_text(dynamic_update_slice(a, placed({4, 8}, P("x")), {Array(0), Array(0)})),
            "f32[8@x,8]");
  expect_error<ShardingTypeError>(
      [&] {
        (void)dynamic_update_slice(a, placed({4, 8}, P()), {Array(0), Array(0)});
      },
      {"dynamic_update_slice", "PartitionSpec('x', None)", kNear});
  expect_error<ShardingTypeError>(
      [&] {
        (void)dynamic_slice(a, {Array(1), Array(0)}, {3, 8});
      },
      {"dynamic_slice", "dim 0", "'x'", "3", "multiple of 2", kNear});
  expect_error<ShardingTypeError>(
      [&] {
        (void)pad(a, {{1, 0}, {0, 0}});
      },
      {"pad", "dim 0", "'x'", "9", "multiple of 2", kNear});
  expect_error<ShardingTypeError>([&] { (void)split(a, 8, 0); },
                                  {"split", "dim 0", "'x'", "1", "multiple of 2", kNear});
}

TEST_F(Explicit, Behaviour_223_OpsThatNeedAllOfADim) {
  const Array a = placed({8, 8}, P("x"));
  expect_error<ShardingTypeError>([&] { (void)roll(a, 1, 0); }, {"roll", "dim 0", kNear});
  expect_error<ShardingTypeError>([&] { (void)cumsum(a, 0); }, {"cumsum", "dim 0", kNear});
  expect_error<ShardingTypeError>([&] { (void)sort(a, 0); }, {"sort", "dim 0", kNear});
  expect_error<ShardingTypeError>([&] { (void)argsort(a, 0); }, {"argsort", "dim 0", kNear});
  expect_error<ShardingTypeError>([&] { (void)unstack(a, 0); }, {"dim 0", kNear});
  expect_error<ShardingTypeError>([&] { (void)cumsum(reshape(a, {64}), 0); },
                                  {"cumsum", "dim 0", kNear});
  EXPECT_EQ(type_text(tile(a, {1, 2})), "f32[8@x,16]");
  EXPECT_EQ(type_text(roll(a, 1, 1)), "f32[8@x,8]");
  EXPECT_EQ(type_text(cumsum(a, 1)), "f32[8@x,8]");
  EXPECT_EQ(type_text(sort(a, 1)), "f32[8@x,8]");
  EXPECT_EQ(type_text(argsort(a, 1)), "s32[8@x,8]");
  EXPECT_EQ(type_text(unstack(a, 1)[0]), "f32[8@x]");
}

TEST_F(Explicit, Behaviour_224_EqualSpecsWhereArraysAreJoined) {
  const Array a = placed({8, 8}, P("x")), b = placed({8, 8}, P());
  for (const std::int64_t axis : {0, 1}) {
    expect_error<ShardingTypeError>(
        [&] {
          (void)concatenate({a, b}, axis);
        },
        {"concatenate", "sharded alike", "reshard()", kNear});
  }
  expect_error<ShardingTypeError>([&] { (void)stack({a, b}); }, {"sharded alike", kNear});
  expect_error<ShardingTypeError>([&] { (void)where(a > a, a, b); }, {"sharded alike", kNear});
  EXPECT_EQ(type_text(concatenate({a, a})), "f32[16@x,8]");
  EXPECT_EQ(type_text(stack({a, a})), "f32[2,8@x,8]");
  EXPECT_EQ(type_text(where(a > 1.0f, a, 0.0f)), "f32[8@x,8]");
  expect_close(concatenate({a, a}),
               concatenate({counting({8, 8}, 0.125f), counting({8, 8}, 0.125f)}));
}

TEST_F(Explicit, Behaviour_225_OutShardingOfNewArrays) {
  const MeshScope scope(mesh);
  EXPECT_EQ(type_text(zeros({8, 4}, DType::f32, P("x"))), "f32[8@x,4]");
  EXPECT_EQ(type_text(ones({8, 4}, DType::bf16, P("x", "y"))), "bf16[8@x,4@y]");
  EXPECT_EQ(type_text(full({8}, 3.0f, {}, P("y"))), "f32[8@y]");
  EXPECT_EQ(type_text(arange(8, DType::s32, P("y"))), "s32[8@y]");
  EXPECT_EQ(type_text(iota(DType::s32, {8, 4}, 0, P("x"))), "s32[8@x,4]");
  EXPECT_EQ(type_text(broadcast_to(ones({4}), {8, 4}, P("x"))), "f32[8@x,4]");
  EXPECT_EQ(type_text(one_hot(array({0, 1, 2, 3}), 8, DType::f32, P("y"))), "f32[4@y,8]");
  EXPECT_EQ(floats(arange(8, DType::f32, P("y"))), floats(arange(8, DType::f32)));
  // The dims of typed indices stay as they are.
  const Array ids = reshard(array({0, 1, 2, 3, 4, 5, 6, 7}), NamedSharding(mesh, P("x")));
  EXPECT_EQ(type_text(one_hot(ids, 8, DType::f32, P("x", "y"))), "f32[8@x,8@y]");
  expect_error<ShardingTypeError>([&] { (void)one_hot(ids, 8, DType::f32, P("y")); },
                                  {"one_hot", "s32[8@x]", "PartitionSpec('y')", "reshard", kNear});
  expect_error<ShardingTypeError>([&] { (void)one_hot(ids, 8, DType::f32, P()); },
                                  {"one_hot", "s32[8@x]", kNear});
  expect_error<ShardingError>([&] { (void)zeros({8}, DType::f32, P("x", "y")); },
                              {"out_sharding", "rank", kNear});
  expect_error<IndivisibleError>([&] { (void)zeros({7}, DType::f32, P("x")); },
                                 {"out_sharding", "7", kNear});
}

TEST_F(Explicit, Behaviour_226_IndexingOfSplitDims) {
  const Array a = placed({8, 8}, P(nullptr, "y"));
  const Array at_rows = array({1, 3});
  EXPECT_EQ(type_text(take(a, at_rows, 0)), "f32[2,8@y]");
  const Array b = placed({8, 8}, P("x"));
  expect_error<ShardingTypeError>([&] { (void)take(b, at_rows, 0); },
                                  {"dim 0 of what is indexed is split", "out_sharding", kNear});
  EXPECT_EQ(type_text(take(b, at_rows, 0, P("x"))), "f32[2@x,8]");
  expect_close(take(b, at_rows, 0, P("x")), take(counting({8, 8}, 0.125f), at_rows, 0));
  // Also where the indices are placed.
  EXPECT_EQ(type_text(take(a, device_put(at_rows, on(P())), 0)), "f32[2,8@y]");
  EXPECT_EQ(type_text(at(a, {at_rows}).add(1.0f)), "f32[8,8@y]");
  expect_error<ShardingTypeError>([&] { (void)at(b, {at_rows}).set(1.0f); },
                                  {"indexed, and split", kNear});
}

TEST_F(Explicit, Behaviour_227_OtherOps) {
  const Array a = placed({8, 4}, P("x", "y"));
  EXPECT_EQ(type_text(transpose(a)), "f32[4@y,8@x]");
  EXPECT_EQ(type_text(squeeze(placed({8, 1}, P("x")), 1)), "f32[8@x]");
  EXPECT_EQ(type_text(astype(a, DType::bf16)), "bf16[8@x,4@y]");
  EXPECT_EQ(type_text(bitcast_convert(a, DType::s32)), "s32[8@x,4@y]");
  EXPECT_EQ(type_text(bitcast_convert(a, DType::u8)), "u8[8@x,4@y,4]");
  EXPECT_EQ(type_text(complex(a, a)), "c64[8@x,4@y]");
  EXPECT_EQ(type_text(top_k(placed({8, 8}, P("x")), 2).first), "f32[8@x,2]");
  EXPECT_EQ(type_text(softmax(placed({8, 8}, P("x")))), "f32[8@x,8]");
  EXPECT_EQ(type_text(repeat(placed({8, 8}, P("x")), 2, 1)), "f32[8@x,16]");
  EXPECT_EQ(type_text(fft(placed({8, 8}, P("x")))), "c64[8@x,8]");
  const Array eyes = device_put(broadcast_to(eye(2), {4, 2, 2}), on(P("y")));
  EXPECT_EQ(type_text(linalg::cholesky(eyes)), "f32[4@y,2,2]");
  EXPECT_EQ(type_text(linalg::solve(eyes, eyes)), "f32[4@y,2,2]");
  EXPECT_EQ(type_text(linalg::svdvals(eyes)), "f32[4@y,2]");
  EXPECT_EQ(type_text(linalg::eigvalsh(eyes)), "f32[4@y,2]");
  EXPECT_EQ(type_through_jit([](Array v) { return gammaln(v); }, a), "f32[8@x,4@y]");
  EXPECT_EQ(type_through_jit([](Array v) { return gcd(v, 6); }, astype(a, DType::s32)),
            "s32[8@x,4@y]");
  expect_error<ShardingTypeError>(
      [&] {
        (void)linalg::cholesky(placed({4, 2, 2}, P(nullptr, "x")), {.symmetrize_input = false});
      },
      {"cholesky", "needs all of that dim", kNear});
  const Array image = placed({8, 4, 4, 2}, P("x")), kernel = placed({3, 3, 2, 4}, P());
  EXPECT_EQ(type_text(conv2d(image, kernel)), "f32[8@x,4,4,4]");
  expect_error<ShardingTypeError>(
      [&] {
        (void)conv2d(image, placed({3, 3, 2, 4}, P(nullptr, nullptr, nullptr, "y")));
      },
      {"the kernel is split", "out_sharding", kNear});
  expect_error<ShardingTypeError>([&] { (void)histogram(placed({8}, P("x")), 4); },
                                  {"bincount", "split", "out_sharding", kNear});
}

TEST_F(Explicit, Behaviour_228_Scans) {
  const Array c = placed({8}, P("x")), xs = placed({4, 8}, P(nullptr, "x"));
  const auto step = [](Array carry, Array x) { return std::pair(carry + x, carry); };
  const auto [last, ys] = jit([&](Array v, Array w) { return scan(step, v, w); })(c, xs);
  EXPECT_EQ(type_text(last), "f32[8@x]");
  EXPECT_EQ(type_text(ys), "f32[4,8@x]");
  expect_close(last, c + sum(counting({4, 8}, 0.125f), 0));
  EXPECT_EQ(type_text(scan(step, c, xs, {.reverse = true, .unroll = 2}).first), "f32[8@x]");
  expect_error<ShardingTypeError>(
      [&] {
        (void)scan(step, placed({8}, P("y")), placed({4, 8}, P("x")));
      },
      {"scan over f32[4@x,8]", "first dim", kNear});
  expect_error<ShardingTypeError>(
      [&] { (void)scan([](Array v, Array) { return std::pair(reshard(v, P()), v); }, c, xs); },
      {"scan", "f32[8@x] before", "f32[8] after", kNear});
}

TEST_F(Explicit, Behaviour_229_Branches) {
  const Array a = placed({8}, P("x"));
  EXPECT_EQ(type_text(cond(
                Array(1) > 0, [](Array v) { return sin(v); }, [](Array v) { return cos(v); }, a)),
            "f32[8@x]");
  expect_error<ShardingTypeError>(
      [&] {
        (void)cond(
            Array(1) > 0, [](Array v) { return sin(v); }, [](Array v) { return reshard(v, P()); },
            a);
      },
      {"cond", "f32[8@x]", "f32[8]", kNear});
}

TEST_F(Explicit, Behaviour_230_Batches) {
  const Array a = placed({8, 4}, P("x", "y")), b = placed({8, 4}, P("x"));
  std::string inside;
  const auto f = [&](Array v, Array w) {
    inside = type_text(v);
    return v * w;
  };
  const Array both = vmap(f)(a, b);
  EXPECT_EQ(inside, "f32[4@y]");
  EXPECT_EQ(type_text(both), "f32[8@x,4@y]");
  expect_close(both, square(counting({8, 4}, 0.125f)));
  expect_error<ShardingTypeError>(
      [&] {
        (void)vmap(f)(a, placed({8, 4}, P("y")));
      },
      {"batch dims are split differently", "'x'", "'y'", kNear});
  expect_error<ShardingTypeError>(
      [&] { (void)vmap(f, {.in_axes = axes_tree(0, nullptr)})(a, placed({4}, P("x"))); },
      {"'x'", "splits the batch", kNear});
  expect_error<ValueError>([&] { (void)vmap(f, {.spmd_axis_name = "x"})(a, b); },
                           {"spmd_axis_name", "one of both", kNear});
}

TEST_F(Explicit, Behaviour_231_MeshesOfTypesAndTheMeshInScope) {
  const Array a = placed({8}, P("x"));
  const MeshScope scope(explicit_mesh({8}, {"z"}));
  expect_error<ShardingTypeError>([&] { (void)sin(a); },
                                  {"sin", "'x': 2", "'z': 8", "in scope", kNear});
}

}  // namespace
}  // namespace tessera::testing::behaviours_explicit
