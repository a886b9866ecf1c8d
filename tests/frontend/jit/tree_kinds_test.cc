// SPDX-License-Identifier: Apache-2.0
// Trees of every kind: base classes, C arrays, many fields, recursion, unordered maps, variants.
#include <tessera/tree.h>

#include <gtest/gtest.h>

#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include <tessera/functions/eval_shape.h>
#include <tessera/jit.h>
#include <tessera/ops/elementwise.h>
#include <tessera/ops/products.h>
#include <tessera/ops/reductions.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing {
namespace {

struct TreeBase {
  Array a;
};
struct DerivedTree : TreeBase {
  Array b;
};
TESSERA_TREE(DerivedTree, a, b)

struct WithArrays {
  Array first[2];
  Array plain;
  float scale[3];
  std::vector<Array> rest;
  Array grid[2][2];
};

struct BranchTree {
  Array value;
  std::vector<BranchTree> children;
};

struct ManyFields {
  Array f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20,
      f21, f22, f23, f24, f25, f26, f27, f28, f29, f30;
};
TESSERA_TREE(ManyFields, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17,
             f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30)

using EitherTree = std::variant<Array, std::vector<Array>, std::monostate>;

TEST(Trees, FieldsOfBaseClassesByName) {
  DerivedTree d;
  d.a = ones({2});
  d.b = ones({3});
  EXPECT_EQ(tree_paths(d), (std::vector<std::string>{".a", ".b"}));
  const DerivedTree r =
      jit([](DerivedTree x) { return tree_map([](Array v) { return v * 2; }, x); })(d);
  expect_close(floats(r.a), {2, 2});
  expect_close(floats(r.b), {2, 2, 2});
}

TEST(Trees, CArraysAreSequences) {
  const WithArrays t{{ones({1}), ones({2})},
                     ones({3}),
                     {1, 2, 3},
                     {ones({4})},
                     {{ones({5}), ones({6})}, {ones({7}), ones({8})}}};
  EXPECT_EQ(tree_paths(t),
            (std::vector<std::string>{"[0][0]", "[0][1]", "[1]", "[3][0]", "[4][0][0]", "[4][0][1]",
                                      "[4][1][0]", "[4][1][1]"}));
  auto f = jit([](WithArrays x) {
    x.first[1] = x.first[1] * x.scale[2];
    return x;
  });
  const WithArrays r = f(t);
  expect_close(floats(r.first[1]), {3, 3});
  EXPECT_EQ(r.grid[1][0].shape(), (std::vector<std::int64_t>{7}));
  // The numbers are part of the type of the tree.
  WithArrays other = t;
  other.scale[2] = 4;
  expect_close(floats(f(other).first[1]), {4, 4});
  EXPECT_EQ(f.trace_count(), 2);
}

TEST(Trees, StructsOfThemselves) {
  const auto leaf = [](float v) { return BranchTree{full({1}, v), {}}; };
  const BranchTree tree{full({1}, 1), {leaf(2), BranchTree{full({1}, 3), {leaf(4)}}}};
  EXPECT_EQ(tree_paths(tree),
            (std::vector<std::string>{"[0]", "[1][0][0]", "[1][1][0]", "[1][1][1][0][0]"}));
  auto f = jit([](BranchTree t) { return tree_map([](Array v) { return v * 10; }, t); });
  const BranchTree r = f(tree);
  EXPECT_EQ(r.children[1].children[0].value.item<float>(), 40);
  (void)f(tree);
  EXPECT_EQ(f.trace_count(), 1);
  (void)f(leaf(1));
  EXPECT_EQ(f.trace_count(), 2);
}

TEST(Trees, ManyFields) {
  ManyFields m;
  std::vector<Array> all;
  for (int i = 0; i < 30; ++i) all.push_back(full({1}, float(i)));
  m.f1 = all[0];
  std::vector<Array> slots = tree_leaves(m);
  ASSERT_EQ(slots.size(), 30u);
  m = tree_unflatten(m, all);
  EXPECT_EQ(tree_paths(m).back(), ".f30");
  const ManyFields r =
      jit([](ManyFields x) { return tree_map([](Array v) { return v + 1; }, x); })(m);
  EXPECT_EQ(r.f30.item<float>(), 30);
}

TEST(Trees, UnorderedMapsInTheOrderOfTheirKeys) {
  std::unordered_map<std::string, Array> m;
  for (const char* key : {"q", "b", "z", "a", "m"}) m[key] = full({1}, float(key[0]));
  EXPECT_EQ(tree_paths(m), (std::vector<std::string>{"['a']", "['b']", "['m']", "['q']", "['z']"}));
  // Another history, and so another order within the map.
  std::unordered_map<std::string, Array> same;
  same.reserve(1000);
  for (const char* key : {"m", "a", "z", "b", "q"}) same[key] = full({1}, float(key[0]));
  auto f = jit([](std::unordered_map<std::string, Array> t) {
    for (auto& [key, v] : t) v = v + float(key[0]);
    return t;
  });
  for (const auto& t : {m, same}) {
    const auto r = f(t);
    for (const auto& [key, v] : r) EXPECT_EQ(v.item<float>(), 2 * float(key[0]));
  }
  EXPECT_EQ(f.trace_count(), 1);
  const std::unordered_map<int, Array> numbers{{10, ones({1})}, {9, ones({1})}, {-1, ones({1})}};
  EXPECT_EQ(tree_paths(numbers), (std::vector<std::string>{"[-1]", "[9]", "[10]"}));
  const Mesh mesh = make_mesh({{"x", 2}});
  const NamedSharding rows(mesh, P("x"));
  using Pair = std::unordered_map<std::string, Array>;
  const Pair pair{{"w", ones({2})}, {"b", ones({2})}};
  const auto placed =
      jit([](Pair p) { return p; },
          {.out_shardings = dict({{"b", rows}, {"w", NamedSharding(mesh, P())}})})(pair);
  EXPECT_EQ(placed.at("b").sharding(), rows);
}

TEST(Trees, VariantsByTheirAlternative) {
  auto f = jit([](EitherTree e) {
    if (auto* one = std::get_if<Array>(&e)) *one = *one * 2;
    if (auto* list = std::get_if<1>(&e)) list->push_back(ones({1}));
    return e;
  });
  EXPECT_EQ(std::get<0>(f(EitherTree(ones({1})))).item<float>(), 2);
  EXPECT_EQ(std::get<1>(f(EitherTree(std::vector<Array>{ones({1})}))).size(), 2u);
  EXPECT_EQ(f(EitherTree(std::monostate{})).index(), 2u);
  (void)f(EitherTree(ones({1})));
  EXPECT_EQ(f.trace_count(), 3);
  // Alternatives of one type are different trees.
  using Twice = std::variant<Array, std::array<Array, 1>>;
  auto g = jit([](Twice t) { return Array(int(t.index())); });
  EXPECT_EQ(g(Twice(ones({1}))).item<int>(), 0);
  EXPECT_EQ(g(Twice(std::array<Array, 1>{ones({1})})).item<int>(), 1);
}

TEST(EvalShape, DescribesResultsWithoutRunning) {
  using Tree = std::map<std::string, Array>;
  const auto f = [](Array x, Array w) {
    return Tree{{"loss", sum(matmul(x, w))}, {"y", matmul(x, w)}};
  };
  // No device could hold these.
  const Array x = shape_dtype_struct({1 << 20, 1 << 20}, DType::bf16);
  const Array w = shape_dtype_struct({1 << 20, 1 << 19}, DType::bf16);
  const Tree shapes = eval_shape(f, x, w);
  EXPECT_EQ(shapes.at("loss").type_string(), "bf16[]");
  EXPECT_EQ(shapes.at("y").type_string(), "bf16[1048576,524288]");
  expect_error<TypeError>([&] { (void)shapes.at("loss").item<float>(); }, {"shape_dtype_struct"});
  expect_error<ShapeError>([&] { (void)eval_shape(f, w, w); }, {"1048576,524288"});

  EXPECT_EQ(eval_shape(
                [](Array a, int n) {
                  return broadcast_to(a, {n, 2});
                },
                static_argnums<1>, ones({2}), 3)
                .shape(),
            (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(eval_shape(jit([](Array a) { return a + a; }), ones({2})).shape(),
            (std::vector<std::int64_t>{2}));
  EXPECT_TRUE(eval_shape([](Array a) { return a * 2; }, Array(1)).weak_type());
  // Within a traced function, with what it captures.
  const Array r = jit([](Array a) {
    const Array shape = eval_shape([&](Array b) { return matmul(a, b); }, a);
    return a * float(shape.shape(0));
  })(ones({2, 2}));
  expect_close(floats(r), {2, 2, 2, 2});
}

TEST(EvalShape, Behaviour_354_OfShardedResults) {
  const Mesh mesh = make_mesh({{"x", 4}});
  auto f = jit([] { return ones({8}); }, {.out_shardings = NamedSharding(mesh, P("x"))});
  EXPECT_EQ(eval_shape(f).type_string(), "f32[8]");
  EXPECT_EQ(f.trace_count(), 1);
  EXPECT_EQ(f.cache_size(), 0);  // nothing was compiled
}

TEST(StagesOfTrees, DonationsTreesAndAvals) {
  struct State {
    Array w, m;
  };
  const Mesh mesh = make_mesh({{"x", 4}});
  const NamedSharding rows(mesh, P("x"));
  const auto put = [&](std::vector<std::int64_t> shape) { return device_put(ones(shape), rows); };
  auto f = jit(
      [](State s, Array x, Array unused) {
        (void)unused;
        return std::pair(sum(s.m * x), State{s.w + x, reshape(s.m, {4, 2})});
      },
      {.donate_argnums = {0, 2}, .arg_names = {"state", "x", "unused"}});
  const State s{put({8}), put({8})};
  const auto lowered = f.lower(s, put({8}), put({8}));
  EXPECT_EQ(lowered.donate_argnums(), (std::vector<int>{0, 2}));
  EXPECT_EQ(lowered.in_tree(), "(3:<2:**]**]");
  EXPECT_EQ(lowered.out_tree(), "(2:*<2:**]]");
  ASSERT_EQ(lowered.in_avals().size(), 4u);
  EXPECT_EQ(lowered.out_avals()[2].type_string(), "f32[4,2]");

  const auto compiled = lowered.compile();
  EXPECT_EQ(compiled.in_tree(), lowered.in_tree());
  EXPECT_EQ(compiled.out_tree(), lowered.out_tree());
  EXPECT_EQ(compiled.in_avals()[0].sharding(), rows);
  EXPECT_EQ(compiled.out_avals()[1].type_string(), "f32[8]");
  // The module says which result takes which argument: {1} is the second array of the result.
  EXPECT_NE(compiled.as_text().find("input_output_alias={ {1}: (0, {}, may-alias) }"),
            std::string::npos)
      << compiled.as_text().substr(0, 300);
  EXPECT_NE(compiled.as_text().find("buffer_donor={ (1, {}) }"), std::string::npos);
  const auto donations = compiled.donations();
  ASSERT_EQ(donations.size(), 3u);
  EXPECT_EQ(donations[0].argument, "state[0]");
  EXPECT_EQ(donations[0].use, DonationInfo::Use::aliased);
  EXPECT_EQ(donations[0].result, "[1][0]");
  EXPECT_EQ(donations[0].bytes, 8);
  EXPECT_EQ(donations[1].argument, "state[1]");
  EXPECT_EQ(donations[1].use, DonationInfo::Use::donor);
  EXPECT_EQ(donations[2].argument, "unused");
  EXPECT_EQ(donations[2].use, DonationInfo::Use::none);
}

}  // namespace
}  // namespace tessera::testing
