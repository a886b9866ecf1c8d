// SPDX-License-Identifier: Apache-2.0
// Rules of custom_jvp and custom_vjp that are told of zeros, and arguments without derivatives.
#include <tessera/tessera.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing::custom_rules_more {
namespace {

using Function = std::function<Array(Array)>;
const Array kX = array({0.5f, 1.0f, 2.0f});

TEST(SymbolicZeros, AreEmptyHandlesInRulesForForwardMode) {
  std::vector<std::pair<bool, bool>> told;
  auto f = custom_jvp([](Array a, Array b) { return a * sin(b); });
  f.def_jvp(
      [&](std::tuple<Array, Array> x, std::tuple<Array, Array> dx) {
        const auto [a, b] = x;
        const auto [da, db] = dx;
        told.emplace_back(is_symbolic_zero(da), is_symbolic_zero(db));
        Array tangent;
        if (!is_symbolic_zero(da)) tangent = 10.0f * da * sin(b);
        if (!is_symbolic_zero(db)) {
          const Array part = 10.0f * db * a * cos(b);
          tangent = tangent.valid() ? tangent + part : part;
        }
        return std::pair(a * sin(b), tangent);
      },
      symbolic_zeros);
  const auto loss = [&](Array a, Array b) { return sum(f(a, b)); };
  expect_close(grad(loss)(kX, kX), 10.0f * sin(kX));
  expect_close(grad<1>(loss)(kX, kX), 10.0f * kX * cos(kX));
  const auto [da, db] = jit(grad<0, 1>(loss))(kX, kX);
  expect_close(da, 10.0f * sin(kX));
  expect_close(db, 10.0f * kX * cos(kX));
  EXPECT_EQ(told,
            (std::vector<std::pair<bool, bool>>{{false, true}, {true, false}, {false, false}}));
  expect_close(vmap(grad(loss))(kX, kX), 10.0f * sin(kX));
}

TEST(SymbolicZeros, AreFlagsOfForwardRules) {
  std::vector<std::vector<bool>> told;
  auto f = custom_vjp([](Array a, std::pair<Array, Array> b) { return a * b.first + b.second; });
  f.def_vjp(
      [&](Array a, std::pair<Array, Array> b, const std::vector<bool>& perturbed) {
        told.push_back(perturbed);
        return std::pair(a * b.first + b.second, std::pair(a, b.first));
      },
      [](std::pair<Array, Array> saved, Array g) {
        // The last cotangent is known to be zero.
        return std::tuple(2.0f * g * saved.second, std::pair(3.0f * g * saved.first, Array()));
      },
      symbolic_zeros);
  const auto by_b = grad([&](Array b) { return sum(f(kX, std::pair(b, kX))); });
  expect_close(by_b(kX), 3.0f * kX);
  expect_close(grad([&](Array b) { return sum(f(kX, std::pair(kX, b))); })(kX), zeros({3}));
  EXPECT_EQ(told, (std::vector<std::vector<bool>>{{false, true, false}, {false, false, true}}));
}

TEST(SymbolicZeros, AreCotangentsInBackwardRules) {
  std::vector<std::vector<bool>> told;
  using Three = std::tuple<Array, Array, Array>;
  const auto body = [](Array x) { return Three(sin(x), 2.0f * x, argmax(x, 0)); };
  auto f = custom_vjp(body, "three");
  f.def_vjp([=](Array x, const std::vector<bool>&) { return std::pair(body(x), x); },
            [&](Array x, Three ct) {
              const auto [a, b, n] = ct;
              told.push_back({is_symbolic_zero(a), is_symbolic_zero(b), is_symbolic_zero(n)});
              Array out = zeros_like(x);
              if (!is_symbolic_zero(a)) out = out + 10.0f * a * cos(x);
              if (!is_symbolic_zero(b)) out = out + 20.0f * b;
              return out;
            },
            symbolic_zeros);
  const auto first = [&](Array x) { return sum(std::get<0>(f(x))); };
  const auto second = [&](Array x) { return sum(std::get<1>(f(x))); };
  const auto both = [&](Array x) { return first(x) + second(x); };
  const auto seen = [&](std::vector<std::vector<bool>> want) {
    // The rule for no zeros but that of the integer comes first, as of its types.
    for (const auto& one : want)
      EXPECT_TRUE(std::find(told.begin(), told.end(), one) != told.end());
    told.clear();
  };
  expect_close(grad(first)(kX), 10.0f * cos(kX));
  seen({{false, true, true}});
  expect_close(grad(second)(kX), 20.0f * ones({3}));
  seen({{true, false, true}});
  expect_close(grad(both)(kX), 10.0f * cos(kX) + 20.0f);
  EXPECT_TRUE(std::find(told.begin(), told.end(), std::vector<bool>{false, true, true}) !=
              told.end());
  told.clear();
  // In a loop, on a batch, in code that is jitted.
  const Array rows = stack({kX, 2.0f * kX});
  expect_close(vmap(grad(second))(rows), 20.0f * ones({2, 3}));
  seen({{true, false, true}});
  expect_close(grad([&](Array x) { return sum(vmap(first)(x)); })(rows), 10.0f * cos(rows));
  seen({{false, true, true}});
  expect_close(jit(grad([&](Array x) {
                 return sum(scan([&](Array c, Array) { return std::pair(std::get<1>(f(c)), c); }, x,
                                 zeros({2}))
                                .first);
               }))(kX),
               400.0f * ones({3}));
  seen({{true, false, true}});
}

TEST(SymbolicZeros, EmptyTangentsAreZerosInAnyRule) {
  auto f = custom_jvp([](Array a) { return std::pair(sin(a), floor(a)); });
  f.def_jvp([](std::tuple<Array> x, std::tuple<Array> dx) {
    const Array a = std::get<0>(x);
    return std::pair(std::pair(sin(a), floor(a)), std::pair(cos(a) * std::get<0>(dx), Array()));
  });
  const auto both =
      jvp([&](Array a) { return f(a); }, std::tuple(kX), std::tuple(ones({3}))).second;
  expect_close(both.first, cos(kX));
  expect_close(both.second, zeros({3}));
}

TEST(NondiffArguments, OfRulesForForwardMode) {
  auto apply = custom_jvp(
      [](Function g, Array x, int times) {
        for (int k = 0; k < times; ++k) x = g(x);
        return x;
      },
      nondiff_argnums<0, 2>);
  apply.def_jvp([](Function g, int times, std::tuple<Array> x, std::tuple<Array> dx) {
    Array y = std::get<0>(x);
    for (int k = 0; k < times; ++k) y = g(y);
    return std::pair(y, float(times) * std::get<0>(dx));
  });
  const Function twice = [](Array v) { return v * 2.0f; };
  expect_close(apply(twice, kX, 3), kX * 8.0f);
  const auto slope = [&](int times) {
    return grad([&, times](Array x) { return sum(apply(twice, x, times)); })(kX);
  };
  expect_close(slope(3), full({3}, 3.0f));
  expect_close(slope(5), full({3}, 5.0f));
  expect_close(jit(vmap(grad([&](Array x) { return apply(twice, x, 2); })))(kX), full({3}, 2.0f));
}

TEST(NondiffArguments, OfRulesForReverseMode) {
  auto clipped = custom_vjp([](float limit, Array x) { return x * limit; }, nondiff_argnums<0>);
  clipped.def_vjp([](float limit, Array x) { return std::pair(x * limit, x); },
                  [](float limit, Array x, Array g) { return clip(g * x, -limit, limit); });
  const auto slope = [&](float limit) {
    return grad([&](Array x) { return sum(clipped(limit, x)); })(kX);
  };
  expect_close(slope(0.75f), array({0.5f, 0.75f, 0.75f}));
  expect_close(slope(1.5f), array({0.5f, 1.0f, 1.5f}));
}

TEST(NondiffArguments, ARuleIsNeeded) {
  const auto f = custom_vjp([](int, Array x) { return x; }, nondiff_argnums<0>);
  expect_error<TypeError>([&] { f(1, kX); }, {"custom_vjp", "def_vjp", kNear});
}

}  // namespace
}  // namespace tessera::testing::custom_rules_more
