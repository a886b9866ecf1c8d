// SPDX-License-Identifier: Apache-2.0
// Static arguments of every type that has values to compare.
#include <tessera/jit.h>

#include <gtest/gtest.h>

#include <complex>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

#include <tessera/ops/elementwise.h>
#include <tessera/ops/reductions.h>
#include <tessera/shard_map.h>
#include <tessera/sharding/abstract_mesh.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing {
namespace {

/// Without operator==: its fields are compared.
struct PlainStatic {
  int rows;
  std::vector<float> scales;
  std::optional<std::string> label;
};
/// Equal by one field only, as the type itself says; without std::hash.
struct EqualById {
  int id;
  std::string note;
  bool operator==(const EqualById& other) const { return id == other.id; }
};
/// Not a plain struct; with std::hash.
class StaticVersion {
 public:
  explicit StaticVersion(int n) : n_(n) {}
  int number() const { return n_; }
  bool operator==(const StaticVersion&) const = default;

 private:
  int n_;
};
/// A callable with state.
struct StaticScale {
  float by = 1;
  Array operator()(const Array& a) const { return a * by; }
  bool operator==(const StaticScale&) const = default;
};
struct NestedStatic {
  int value;
  std::vector<NestedStatic> inner;
};
enum class StaticMode { add, multiply };

}  // namespace
}  // namespace tessera::testing

template <>
struct std::hash<tessera::testing::StaticVersion> {
  std::size_t operator()(const tessera::testing::StaticVersion& v) const {
    return std::size_t(v.number());
  }
};

namespace tessera::testing {
namespace {

/// Calls with each of the values and then with each again: one trace per value.
template <class T>
void expect_traces(const std::vector<T>& values) {
  auto f = jit([](Array x, T) { return x + 1; }, static_argnums<1>);
  const Array x = ones({2});
  for (int round = 0; round < 2; ++round) {
    for (const T& v : values) expect_close(floats(f(x, v)), {2, 2});
  }
  EXPECT_EQ(f.trace_count(), std::int64_t(values.size())) << __PRETTY_FUNCTION__;
}

TEST(StaticArguments, ContainersOfValues) {
  expect_traces<std::vector<int>>({{}, {1}, {1, 2}, {2, 1}});
  expect_traces<std::vector<bool>>({{true}, {false}, {true, false}});
  expect_traces<std::vector<std::string>>({{"a", "b"}, {"ab"}, {"a,", "b"}, {"a'", "b"}});
  expect_traces<std::array<double, 2>>({{1, 2}, {1, 2.5}, {0.0, -0.0}});
  expect_traces<std::tuple<int, std::string>>({{1, "x"}, {1, "y"}, {2, "x"}});
  expect_traces<std::pair<StaticMode, float>>({{StaticMode::add, 1}, {StaticMode::multiply, 1}});
  expect_traces<std::optional<int>>({std::nullopt, 0, 1});
  expect_traces<std::variant<int, float, std::string>>({1, 1.0f, std::string("1")});
  expect_traces<std::map<std::string, std::vector<int>>>({{}, {{"a", {1}}}, {{"a", {1, 2}}}});
  expect_traces<std::set<int>>({{}, {1}, {1, 2}});
  expect_traces<std::vector<std::vector<int>>>({{{1}, {2}}, {{1, 2}}, {{}, {1, 2}}});
}

TEST(StaticArguments, StructsAndTypesWithEquality) {
  expect_traces<PlainStatic>({{1, {1, 2}, {}}, {1, {1, 3}, {}}, {1, {1, 2}, "a"}, {2, {1, 2}, {}}});
  expect_traces<NestedStatic>({{1, {}}, {1, {{2, {}}}}, {1, {{2, {{3, {}}}}}}});
  expect_traces<StaticVersion>({StaticVersion(1), StaticVersion(2)});
  expect_traces<StaticScale>({{1}, {2}});
  expect_traces<std::complex<float>>({{1, 2}, {2, 1}});
  expect_traces<std::unordered_map<std::string, int>>({{}, {{"a", 1}}, {{"a", 2}}});
  expect_traces<PartitionSpec>({P(), P("x"), P(nullptr)});
  const Mesh mesh = make_mesh({{"x", 2}});
  expect_traces<Mesh>({Mesh(), mesh});
  expect_traces<NamedSharding>({{mesh, P("x")}, {mesh, P()}});

  // The type's own equality decides.
  auto f = jit([](Array x, EqualById) { return x + 1; }, static_argnums<1>);
  f(ones({2}), EqualById{1, "first"});
  f(ones({2}), EqualById{1, "second"});
  EXPECT_EQ(f.trace_count(), 1);
  f(ones({2}), EqualById{2, "first"});
  EXPECT_EQ(f.trace_count(), 2);
}

TEST(StaticArguments, CallablesWithAndWithoutState) {
  auto f = jit([](Array x, StaticScale s) { return s(x); }, static_argnums<1>);
  expect_close(floats(f(ones({2}), StaticScale{2})), {2, 2});
  expect_close(floats(f(ones({2}), StaticScale{3})), {3, 3});
  EXPECT_EQ(f.trace_count(), 2);
  // A lambda without captures is what its type says; so are pointers to functions.
  auto g = jit([](Array x, auto h) { return h(x); }, static_argnums<1>);
  expect_close(floats(g(ones({2}), [](Array a) { return a + 1; })), {2, 2});
  expect_close(floats(g(ones({2}), [](Array a) { return a + 2; })), {3, 3});
  using Function = Array (*)(const Array&);
  const Function once = [](const Array& a) { return a * 1; };
  const Function twice = [](const Array& a) { return a * 2; };
  auto p = jit([](Array x, Function h) { return h(x); }, static_argnums<1>);
  expect_close(floats(p(ones({2}), once)), {1, 1});
  expect_close(floats(p(ones({2}), twice)), {2, 2});
  expect_close(floats(p(ones({2}), once)), {1, 1});
  EXPECT_EQ(p.trace_count(), 2);
}

TEST(StaticArguments, OfTheCallAreTheOnesThatTheFunctionSees) {
  auto f = jit(
      [](Array x, const std::vector<int>& factors) {
        for (const int k : factors) x = x * k;
        return x;
      },
      static_argnums<1>);
  expect_close(floats(f(ones({1}), std::vector<int>{2, 3})), {6});
  expect_close(floats(f(ones({1}), std::vector<int>{2, 3, 4})), {24});
  expect_close(floats(f(ones({1}), std::vector<int>{})), {1});
  // Views of texts that are gone by the next call.
  auto g = jit([](Array x, std::vector<std::string_view> words) { return x * int(words.size()); },
               static_argnums<1>);
  for (int round = 0; round < 2; ++round) {
    const std::string a(40, 'a'), b(40, 'b');
    expect_close(floats(g(ones({1}), std::vector<std::string_view>{a, b})), {2});
  }
  EXPECT_EQ(g.trace_count(), 1);
  const Mesh mesh = make_mesh({{"x", 4}});
  auto s = shard_map([](Array x, std::pair<int, int> n) { return x * (n.first + n.second); },
                     static_argnums<1>, {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x")});
  expect_close(floats(s(ones({4}), std::pair(1, 2))), {3, 3, 3, 3});
}

TEST(StaticArguments, ByName) {
  auto power = jit(
      [](int n, Array x, bool negate) {
        Array out = x;
        for (int i = 1; i < n; ++i) out = out * x;
        return negate ? 0 - out : out;
      },
      static_argnames<"negate", "n">, arg_names<"n", "x", "negate">, {.name = "power"});
  const Array x = counting({3});
  expect_close(power(3, x, true), 0 - x * x * x);
  expect_close(power(3, x, false), x * x * x);
  expect_close(power(3, x, true), 0 - x * x * x);
  EXPECT_EQ(power.trace_count(), 2);
  // The names are those of messages, and of the options that go by name.
  expect_error<ValueError>(
      [] {
        (void)jit([](Array a, int n) { return a * n; }, static_argnames<"n">, arg_names<"a", "n">,
                  {.donate_argnames = {"b"}});
      },
      {"donate_argnames", "'b'", "'a', 'n'", kNear});
  expect_error<ValueError>(
      [] {
        (void)jit([](Array a, int n) { return a * n; }, static_argnames<"n">, arg_names<"a", "n">,
                  {.arg_names = {"x", "n"}});
      },
      {"'a', 'n'", "'x', 'n'", kNear});
  const Mesh mesh = mesh_of({{"x", 8}});
  auto f = pjit([](Array a, Array b, int n) { return a * n + b; }, static_argnames<"n">,
                arg_names<"a", "b", "n">,
                {.in_shardings = dict({{"b", NamedSharding(mesh, P("x"))}}),
                 .out_shardings = NamedSharding(mesh, P("x"))});
  expect_close(f(counting({8}), counting({8}), 2), counting({8}) * 3);
}

}  // namespace
}  // namespace tessera::testing
