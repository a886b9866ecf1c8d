// SPDX-License-Identifier: Apache-2.0
// Bodies of loops and branches that change trees, types or shapes.
#include <tessera/tessera.h>

#include <functional>
#include <map>
#include <optional>
#include <variant>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing {

struct MovingState {
  Array position;
  std::vector<Array> velocity;
};
TESSERA_TREE(MovingState, position, velocity)

namespace {

using List = std::vector<Array>;
using Named = std::map<std::string, Array>;

const std::function<List(List)> kGrows = [](List v) {
  v.push_back(ones({2}));
  return v;
};

TEST(TreeChanges, FoundInEveryLoop) {
  const List one{ones({3})};
  const std::string grown =
      ": the body must keep the tree of the carry: carry is [f32[3]] before and [f32[3], f32[2]] "
      "after the body (carry[1] only after the body)";
  expect_error<TypeError>(
      [&] {
        fori_loop(
            0, 3, [](Array, List v) { return kGrows(v); }, one);
      },
      {"fori_loop" + grown, kNear});
  // With a number of trips that isn't known it is another loop.
  expect_error<TypeError>(
      [&] {
        fori_loop(
            0, Array(3) + 1, [](Array, List v) { return kGrows(v); }, one);
      },
      {"fori_loop" + grown, kNear});
  expect_error<TypeError>([&] { while_loop([](List) { return Array(false); }, kGrows, one); },
                          {"while_loop" + grown, kNear});
  expect_error<TypeError>(
      [&] {
        scan([](List v, Array x) { return std::pair{kGrows(v), x}; }, one, zeros({4}));
      },
      {"scan" + grown, kNear});
}

TEST(TreeChanges, NameThePlace) {
  const MovingState start{zeros({3}), {ones({3}), ones({3})}};
  const auto loop = [&](auto change) {
    return [=] {
      fori_loop(
          0, 3,
          [=](Array, MovingState s) {
            change(s);
            return s;
          },
          start);
    };
  };
  expect_error<TypeError>(loop([](MovingState& s) { s.velocity.push_back(zeros({})); }),
                          {"carry.velocity is [f32[3], f32[3]] before and [f32[3], f32[3], f32[]] "
                           "after the body (carry.velocity[2] only after the body)"});
  expect_error<TypeError>(loop([](MovingState& s) { s.velocity.pop_back(); }),
                          {"carry.velocity is [f32[3], f32[3]] before and [f32[3]] after the body "
                           "(carry.velocity[1] only before)"});
  expect_error<TypeError>(loop([](MovingState& s) { s.position = Array(); }),
                          {"carry.position is f32[3] before and nothing after the body"});
  expect_error<TypeError>(loop([](MovingState& s) { s.velocity[1] = zeros({4}); }),
                          {"carry.velocity[1] is f32[3] before and f32[4] after the body"});
  expect_error<TypeError>(loop([](MovingState& s) { s.velocity[0] = s.velocity[0].astype(bf16); }),
                          {"carry.velocity[0] is f32[3] before and bf16[3] after the body"});
}

TEST(TreeChanges, OfKeysOptionalsAndAlternatives) {
  const auto step = [](auto change) {
    return [=](Array, auto v) {
      change(v);
      return v;
    };
  };
  expect_error<TypeError>(
      [&] {
        fori_loop(0, 2, step([](Named& m) { m = {{"b", m.at("a")}}; }), Named{{"a", ones({2})}});
      },
      {"carry is {'a': f32[2]} before and {'b': f32[2]} after the body (carry['a'] only before, "
       "and carry['b'] only after the body)",
       kNear});
  using Optional = std::map<std::string, std::optional<Array>>;
  expect_error<TypeError>(
      [&] {
        fori_loop(0, 2, step([](Optional& m) { m["m"] = ones({2}); }),
                  Optional{{"m", std::nullopt}});
      },
      {"carry['m'] is nothing before and f32[2] after the body", kNear});
  using Either = std::vector<std::variant<Array, List>>;
  expect_error<TypeError>(
      [&] { fori_loop(0, 2, step([](Either& v) { v[0] = List{ones({2})}; }), Either{ones({2})}); },
      {"carry[0] is alternative 0, f32[2] before and alternative 1, [f32[2]] after the body",
       kNear});
}

TEST(TreeChanges, OfManyPlacesAreCutShort) {
  std::vector<List> many(20, List{ones({2})});
  const std::string text = expect_error<TypeError>(
      [&] {
        fori_loop(
            0, 2,
            [](Array, std::vector<List> v) {
              for (List& l : v) l = kGrows(l);
              return v;
            },
            many);
      },
      {"carry[7] is [f32[2]] before", "; and 12 more"});
  EXPECT_FALSE(has(text, "carry[8]"));
  const List long_list(500, ones({2}));
  const std::string cut = expect_error<TypeError>(
      [&] {
        fori_loop(
            0, 2, [](Array, List v) { return kGrows(v); }, long_list);
      },
      {"... of 500] before", "... of 501] after the body (carry[500] only after the body)"});
  EXPECT_LT(cut.size(), 700u);
}

TEST(TreeChanges, FoundInBranches) {
  const List one{ones({3})};
  expect_error<TypeError>(
      [&] {
        cond(
            true, kGrows, [](List v) { return v; }, one);
      },
      {"cond: the branches must return the same tree: result is [f32[3]] in "
       "the false branch and [f32[3], f32[2]] in the true branch (result[1] "
       "only in the true branch)",
       kNear});
  const std::vector<std::function<List(List)>> branches{[](List v) { return v; },
                                                        [](List v) { return v; }, kGrows};
  expect_error<TypeError>([&] { switch_case(1, branches, one); },
                          {"switch_case: the branches must return the same tree: result is "
                           "[f32[3]] in branch 0 and [f32[3], f32[2]] in branch 2",
                           kNear});
  const Named a{{"a", ones({3})}};
  expect_error<TypeError>(
      [&] {
        cond(
            true,
            [](Named m) {
              return Named{{"a", sum(m.at("a"))}};
            },
            [](Named m) { return m; }, a);
      },
      {"cond: branches must return the same types: result['a'] is f32[3] in the false branch and "
       "f32[] in the true branch",
       kNear});
  // A plain number adopts what it can be promoted to: 1.5 is no s32.
  expect_error<TypeError>(
      [&] {
        cond(
            true, [] { return Array(1.5f); }, [] { return full({}, 2).astype(s32); });
      },
      {"result is s32[] in the false branch and weakly typed f32[] in the true branch", kNear});
  const Array number = cond(
      true, [] { return Array(1); }, [] { return full({}, 2.f); });
  EXPECT_EQ(number.dtype(), f32);
  EXPECT_FALSE(number.weak_type());
  EXPECT_TRUE(cond(
                  true, [] { return Array(1); }, [] { return Array(2); })
                  .weak_type());
}

TEST(TreeChanges, FoundInsideTransformations) {
  const List one{ones({3})};
  const std::vector<std::string> want{"fori_loop: the body must keep the tree of the carry",
                                      "carry[1] only after the body", kNear};
  const auto total = [](List v) {
    return sum(fori_loop(
        0, 3, [](Array, List u) { return kGrows(u); }, v)[0]);
  };
  expect_error<TypeError>([&] { jit(total)(one); }, {want[0], want[1]});
  expect_error<TypeError>([&] { grad(total)(one); }, {want[0], want[1]});
  expect_error<TypeError>([&] { vmap(total)(List{ones({2, 3})}); }, {want[0], want[1]});
  const Mesh mesh = mesh_of({{"x", 4}});
  expect_error<TypeError>(
      [&] {
        shard_map(total, {.mesh = mesh, .in_specs = P("x"), .out_specs = P()})(List{ones({8})});
      },
      {want[0], want[1]});
  const auto nested = [](List v) {
    return scan(
        [](List u, Array x) {
          return std::pair{fori_loop(
                               0, 3, [](Array, List w) { return kGrows(w); }, u),
                           x};
        },
        v, zeros({4}));
  };
  expect_error<TypeError>([&] { jit(nested)(one); }, {want[0], want[1]});
}

TEST(TreeChanges, AreNoneOfWhatIsStacked) {
  // The second trace of the step, in which the carry is an f32, stacks other arrays than the first.
  int traces = 0;
  const auto [last, ys] = scan(
      [&](Array c, Array x) {
        return std::pair{c + x, List(std::size_t(++traces), c)};
      },
      Array(0), ones({3}));
  EXPECT_EQ(traces, 2);
  ASSERT_EQ(ys.size(), 2u);
  EXPECT_EQ(floats(ys[1]), (std::vector<float>{0, 1, 2}));
  EXPECT_EQ(last.item<float>(), 3);
}

TEST(TreeChanges, FoundInAssociativeScans) {
  expect_error<TypeError>(
      [] { associative_scan([](List a, List) { return kGrows(a); }, List{ones({8})}); },
      {"associative_scan: the function must return a tree like those it takes: elements is "
       "[f32[4]] as the function is given them and [f32[4], f32[2]] as it returns them "
       "(elements[1] only as it returns them)",
       kNear});
  expect_error<TypeError>(
      [] {
        associative_scan(
            [](Named a, Named b) {
              return Named{{"a", (a["a"] + b["a"]).astype(bf16)}};
            },
            Named{{"a", ones({8})}});
      },
      {"elements['a'] is f32[4] as the function is given it and bf16[4] as it returns it", kNear});
}

TEST(TreeChanges, PlainNumbersAdoptWhatTheyCanBePromotedTo) {
  // A sum of numbers and floats settles leaf by leaf.
  const auto [a, b] = while_loop([](std::pair<Array, Array> v) { return v.first < 10; },
                                 [](std::pair<Array, Array> v) {
                                   return std::pair{v.first + v.second + 1, v.second + 1.5f};
                                 },
                                 std::pair{Array(0), Array(0)});
  EXPECT_EQ(a.dtype(), f32);
  EXPECT_EQ(b.dtype(), f32);
  expect_close(floats(a), {13});
  // 1.5 would be cut off, and a condition is no number.
  expect_error<TypeError>(
      [] {
        while_loop([](Array v) { return v < 10; }, [](Array) { return full({}, 20).astype(s32); },
                   1.5f);
      },
      {"carry is weakly typed f32[] before and s32[] after the body", kNear});
  expect_error<TypeError>(
      [] { while_loop([](Array v) { return v < 10; }, [](Array v) { return v < 3; }, 1); },
      {"carry is weakly typed s32[] before and pred[] after the body", kNear});
}

TEST(TreeChanges, ResultsAreWeaklyTypedIfAllTripsAre) {
  const auto doubled = [](Array, Array v) { return v * 2; };
  EXPECT_TRUE(fori_loop(0, 3, doubled, 1.f).weak_type());
  EXPECT_FALSE(fori_loop(0, 3, doubled, full({}, 1.f)).weak_type());
  // As the body adds an f32, the sum is one: a bf16 that is added to it is promoted.
  const auto added = [](Array c, Array x) { return std::pair{c + x, c}; };
  const auto [sum, before] = scan(added, 0.f, ones({3}));
  EXPECT_FALSE(sum.weak_type());
  EXPECT_TRUE(before.weak_type());
  EXPECT_EQ((sum + ones({}).astype(bf16)).dtype(), f32);
}

}  // namespace
}  // namespace tessera::testing
