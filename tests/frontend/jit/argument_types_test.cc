// SPDX-License-Identifier: Apache-2.0
// A traced program serves the C++ types that it was traced for, and no others.
#include <tessera/tessera.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/frontend/frontend_testing.h"
#include "tests/frontend/jit/argument_types.h"

namespace tessera::testing {
namespace {

enum class Colour { none, red };
enum class Fruit { none, apple };

struct Point {
  Array x;
};
struct Weight {
  Array x;
};
struct Tagged {
  Array x;
  int tag;
};
struct Flagged {
  Array x;
  bool tag;
};
struct Outer {
  Tagged inner;
};
struct OuterFlagged {
  Flagged inner;
};

/// A number for each type of a static argument.
template <class T>
constexpr float number_of() {
  if constexpr (std::is_same_v<T, int>) return 1;
  if constexpr (std::is_same_v<T, bool>) return 2;
  if constexpr (std::is_same_v<T, Colour>) return 3;
  if constexpr (std::is_same_v<T, Fruit>) return 4;
  if constexpr (std::is_same_v<T, char>) return 5;
  if constexpr (std::is_same_v<T, long>) return 6;
  if constexpr (std::is_same_v<T, unsigned>) return 7;
  if constexpr (std::is_same_v<T, long long>) return 8;
  if constexpr (std::is_same_v<T, std::string>) return 9;
  if constexpr (std::is_same_v<T, std::string_view>) return 10;
  if constexpr (std::is_same_v<T, const char*>) return 11;
  if constexpr (std::is_same_v<T, float>) return 12;
  if constexpr (std::is_same_v<T, double>) return 13;
  return 0;
}

float first(const Array& a) { return floats(a)[0]; }

TEST(ArgumentTypes, OfStaticArgumentsTellProgramsApart) {
  const Array v = zeros({2});
  auto f = jit([](Array x, auto s) { return x + number_of<decltype(s)>(); }, static_argnums<1>);
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(first(f(v, 1)), 1);
    EXPECT_EQ(first(f(v, true)), 2);
    EXPECT_EQ(first(f(v, Colour::red)), 3);
    EXPECT_EQ(first(f(v, Fruit::apple)), 4);
    EXPECT_EQ(first(f(v, char(1))), 5);
    EXPECT_EQ(first(f(v, 1L)), 6);
    EXPECT_EQ(first(f(v, 1u)), 7);
    EXPECT_EQ(first(f(v, 1LL)), 8);
    EXPECT_EQ(first(f(v, std::string("a"))), 9);
    EXPECT_EQ(first(f(v, std::string_view("a"))), 10);
    const char* text = "a";
    EXPECT_EQ(first(f(v, text)), 11);
    EXPECT_EQ(first(f(v, "a")), 11);
    EXPECT_EQ(first(f(v, 1.f)), 12);
    EXPECT_EQ(first(f(v, 1.)), 13);
    EXPECT_EQ(f.trace_count(), 13);
  }
  // const and references are not types of their own.
  const int one = 1;
  const int& reference = one;
  EXPECT_EQ(first(f(v, one)), 1);
  EXPECT_EQ(first(f(v, reference)), 1);
  EXPECT_EQ(f.trace_count(), 13);
}

TEST(ArgumentTypes, OfStructsTellProgramsApart) {
  auto f = jit([](auto s) {
    if constexpr (std::is_same_v<decltype(s), Point>) {
      return s.x + 1;
    } else if constexpr (std::is_same_v<decltype(s), Weight>) {
      return s.x * 10;
    } else {
      return s.inner.x + float(sizeof s.inner.tag);
    }
  });
  const Array v = ones({2});
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(first(f(Point{v})), 2);
    EXPECT_EQ(first(f(Weight{v})), 10);
    EXPECT_EQ(first(f(Outer{{v, 1}})), 1 + float(sizeof(int)));
    EXPECT_EQ(first(f(OuterFlagged{{v, true}})), 1 + float(sizeof(bool)));
    EXPECT_EQ(f.trace_count(), 4);
  }
}

TEST(ArgumentTypes, OfContainersRoundTrip) {
  auto f = jit([](auto s) { return s; });
  const Array a = ones({2}), b = zeros({2});
  for (int round = 0; round < 2; ++round) {
    const std::vector<Array> v = f(std::vector<Array>{a, b});
    const std::array<Array, 2> s = f(std::array<Array, 2>{b, a});
    const std::pair<Array, Array> p = f(std::pair{a, b});
    const std::tuple<Array, Array> t = f(std::tuple{b, a});
    const std::map<int, Array> m = f(std::map<int, Array>{{1, a}, {2, b}});
    const std::map<long, Array> l = f(std::map<long, Array>{{1, b}, {2, a}});
    EXPECT_EQ(first(v.at(0)) + first(s[1]) + first(p.first) + first(std::get<1>(t)), 4);
    EXPECT_EQ(first(m.at(1)) + first(l.at(2)), 2);
    // Empty trees of several types have the same signature.
    EXPECT_TRUE(f(std::vector<Array>{}).empty());
    EXPECT_FALSE(f(std::optional<Array>{}).has_value());
    EXPECT_TRUE((f(std::map<int, Array>{}).empty()));
    EXPECT_FALSE(f(std::optional<Point>{}).has_value());
  }
  EXPECT_EQ(f.trace_count(), 10);
}

TEST(ArgumentTypes, DecideTheResultsType) {
  auto f = jit(
      [](Array x, auto s) {
        if constexpr (std::is_same_v<decltype(s), int>) {
          return std::vector<Array>{x, x + 1, x + 2};
        } else if constexpr (std::is_same_v<decltype(s), bool>) {
          return x * 2;
        } else {
          return std::map<std::string, Array>{{"a", x}};
        }
      },
      static_argnums<1>);
  const Array v = ones({2});
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(first(f(v, 1).at(2)), 3);
    EXPECT_EQ(first(f(v, true)), 2);
    EXPECT_EQ(first(f(v, char(1)).at("a")), 1);
  }
}

TEST(ArgumentTypes, TellCallsInsideOfATraceApart) {
  auto inner = jit([](Array x, auto s) { return x + number_of<decltype(s)>(); }, static_argnums<1>);
  auto same = jit([](auto s) { return s; });
  auto outer = jit([&](Array x) {
    const std::vector<Array> v = same(std::vector<Array>{x, x});
    const std::array<Array, 2> a = same(std::array<Array, 2>{x, x});
    return std::tuple{inner(x, 1), inner(x, true), inner(x, Colour::red), inner(x, 1), v[0] + a[1]};
  });
  const auto [i, b, c, again, sum] = outer(zeros({2}));
  EXPECT_EQ(first(i), 1);
  EXPECT_EQ(first(b), 2);
  EXPECT_EQ(first(c), 3);
  EXPECT_EQ(first(again), 1);
  EXPECT_EQ(first(sum), 0);
  EXPECT_EQ(inner.trace_count(), 3);
}

TEST(ArgumentTypes, TellCallsUnderShardMapAndPjitApart) {
  const Mesh mesh = mesh_of({{"x", 2}});
  auto per_device =
      shard_map([](Array x, auto s) { return x + number_of<decltype(s)>(); }, static_argnums<1>,
                {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x")});
  EXPECT_EQ(first(per_device(zeros({4}), 1)), 1);
  EXPECT_EQ(first(per_device(zeros({4}), true)), 2);
  auto f = pjit([&](Array x, auto s) { return per_device(x, s); }, static_argnums<1>);
  EXPECT_EQ(first(f(zeros({4}), 1)), 1);
  EXPECT_EQ(first(f(zeros({4}), true)), 2);
  EXPECT_EQ(first(f(zeros({4}), Fruit::apple)), 4);
}

TEST(ArgumentTypes, OfOneNameInTwoFilesAreTwo) {
  auto f = jit([](auto s) { return s.x + s.add(); });
  EXPECT_EQ(first(f(Local{zeros({2})})), 1);
  EXPECT_EQ(first(call_with_other_local(zeros({2}))), 2);
  EXPECT_EQ(first(shared_function()(Local{zeros({2})})), 1);
  EXPECT_EQ(first(call_with_other_local(zeros({2}))), 2);
}

TEST(ArgumentTypes, ValuesOfFloatsAreTakenExactly) {
  auto f =
      jit([](Array x, auto v) { return x + (std::signbit(v) ? 1.f : 2.f); }, static_argnums<1>);
  const Array x = zeros({2});
  EXPECT_EQ(first(f(x, 0.0)), 2);
  EXPECT_EQ(first(f(x, -0.0)), 1);
  EXPECT_EQ(first(f(x, std::numeric_limits<double>::quiet_NaN())), 2);
  EXPECT_EQ(first(f(x, -std::numeric_limits<double>::quiet_NaN())), 1);
  auto g =
      jit([](Array a, long double v) { return a + float((v - 1) * 0x1p62L); }, static_argnums<1>);
  EXPECT_EQ(first(g(x, 1.0L + 0x1p-62L)), 1);
  EXPECT_EQ(first(g(x, 1.0L + 0x1p-61L)), 2);
  auto bits = jit([](Array a, double v) { return a + float(std::bit_cast<std::uint64_t>(v) & 3); },
                  static_argnums<1>);
  EXPECT_EQ(first(bits(x, std::bit_cast<double>(0x7ff8000000000001u))), 1);
  EXPECT_EQ(first(bits(x, std::bit_cast<double>(0x7ff8000000000002u))), 2);
}

TEST(ArgumentTypes, ValuesInTreesDontRunTogether) {
  auto f = jit([](std::pair<Array, std::map<int, int>> p) {
    return p.first + float(p.second.begin()->second);
  });
  const Array x = zeros({2});
  EXPECT_EQ(first(f({x, {{1, 5}, {66, 7}}})), 5);
  EXPECT_EQ(first(f({x, {{1, 56}, {6, 7}}})), 56);
  auto texts = jit([](std::tuple<Array, std::string, std::string> t) {
    return std::get<0>(t) + float(std::get<1>(t).size());
  });
  EXPECT_EQ(first(texts({x, "a", "b'=c"})), 1);
  EXPECT_EQ(first(texts({x, "a'=b", "c"})), 4);
  EXPECT_EQ(first(texts({x, "", "\\'"})), 0);
  auto statics =
      jit([](Array a, std::string s, std::string t) { return a + float(s.size() * 10 + t.size()); },
          static_argnums<1, 2>);
  EXPECT_EQ(first(statics(x, "a';2='b", "c")), 71);
  EXPECT_EQ(first(statics(x, "a", "b';2='c")), 17);
}

struct Named {
  Array x;
  std::string_view view;
  const char* text = nullptr;
};

TEST(ArgumentTypes, TextsOfResultsOutliveTheCall) {
  auto f = jit(
      [](Array x, std::string_view view, const char* text) {
        return Named{x, view, text};
      },
      static_argnums<1, 2>);
  const Array x = zeros({2});
  const std::string wanted = "a text that is too long to be held in place";
  {
    std::string one = wanted, two = wanted;
    f(x, one, two.c_str());
    one.assign(one.size(), '#');
    two.assign(two.size(), '#');
  }
  const Named again = f(x, std::string_view(wanted), wanted.c_str());
  EXPECT_EQ(f.trace_count(), 1);
  EXPECT_EQ(again.view, wanted);
  EXPECT_EQ(std::string(again.text), wanted);
  EXPECT_EQ(f(x, "", nullptr).text, nullptr);
}

TEST(ArgumentTypes, OfACompiledFunctionAreChecked) {
  auto f = jit([](std::vector<Array> v) { return v[0] + v[1]; });
  const std::vector<Array> v{ones({2}), ones({2})};
  const auto lowered = f.lower(v);
  EXPECT_EQ(first(lowered.compile()(v)), 2);
  const CompiledFunction<Array, std::tuple<std::array<Array, 2>>> other(
      static_cast<const Lowered&>(lowered).compile());
  expect_error<TypeError>(
      [&] {
        other({v[0], v[1]});
      },
      {"was compiled as", "vector", "array", kNear});
  const CompiledFunction<std::vector<Array>, std::tuple<std::vector<Array>>> wrong_result(
      static_cast<const Lowered&>(lowered).compile());
  expect_error<TypeError>([&] { wrong_result(v); }, {"was compiled as", kNear});
  auto generic = jit(
      [](Array x, auto s) {
        if constexpr (std::is_same_v<decltype(s), int>) {
          return x;
        } else {
          return std::vector<Array>{x};
        }
      },
      static_argnums<1>);
  EXPECT_EQ(first(generic.lower(v[0], 1).compile()(v[0])), 1);
  EXPECT_EQ(generic.lower(v[0], true).compile()(v[0]).size(), 1u);
}

TEST(ArgumentTypes, AreCheckedWhereAResultIsMade) {
  const internal::Prototype kept(std::make_shared<std::vector<Array>>());
  EXPECT_TRUE(kept.as<std::vector<Array>>().empty());
  expect_error<InternalError>([&] { (void)kept.as<Array>(); }, {"vector", "Array"});
  expect_error<InternalError>([&] { (void)internal::Prototype().as<Array>(); }, {"no type"});
}

TEST(ArgumentTypes, HaveReadableNames) {
  const std::string name = internal::TypeKey::of<Array(Array, int)>().name();
  EXPECT_TRUE(has(name, "tessera::Array(tessera::Array, int)") ||
              has(name, "tessera::Array (tessera::Array, int)"))
      << name;
}

TEST(ArgumentTypes, CustomPartitioningKeepsItsTexts) {
  const Mesh mesh = mesh_of({{"x", 2}});
  auto f = custom_partitioning([](Array x, std::string_view s) { return x * float(s.size()); },
                               static_argnums<1>);
  std::string seen;
  f.def_partition(
      {.partition =
           [&](std::string_view s, const Mesh& m, const ShapeInfos& args, const ShapeInfos&) {
             seen = s;
             return Partition{
                 m, [](Array x) { return x * 3; }, {args[0].sharding}, {args[0].sharding}};
           },
       .infer_sharding_from_operands =
           [](std::string_view, const Mesh&, const ShapeInfos& args, const ShapeInfos&) {
             return std::vector<Sharding>{args[0].sharding};
           }});
  const Array x = put(ones({4}), mesh, P("x"));
  const std::string wanted = "a text that is too long to be held in place";
  auto text = std::make_unique<std::string>(wanted);
  auto lowered = jit([&](Array a) { return f(a, *text); }).lower(x);
  text->assign(text->size(), '#');
  text.reset();
  EXPECT_EQ(first(lowered.compile()(x)), 3);
  EXPECT_EQ(seen, wanted);
}

TEST(Loops, KeepTheTreeOfWhatTheyCarry) {
  const Tagged start{zeros({2}), 1};
  const auto next = [](Tagged t) { return Tagged{t.x + 1, t.tag + 1}; };
  expect_error<TypeError>([&] { while_loop([](Tagged t) { return sum(t.x) < 4; }, next, start); },
                          {"while_loop", "tree", "carry[1] is 1 before and 2 after the body"});
  expect_error<TypeError>(
      [&] {
        fori_loop(
            0, 3, [&](Array, Tagged t) { return next(t); }, start);
      },
      {"fori_loop", "tree"});
  expect_error<TypeError>(
      [&] {
        scan([&](Tagged t, Array x) { return std::pair{next(t), x}; }, start, zeros({3}));
      },
      {"scan", "tree"});
  const std::vector<std::function<Tagged(Array)>> branches{[](Array x) {
                                                             return Tagged{x, 1};
                                                           },
                                                           [](Array x) {
                                                             return Tagged{x, 2};
                                                           }};
  expect_error<TypeError>(
      [&] { switch_case<Tagged, Array>(0, branches, zeros({2})); },
      {"switch_case", "the same tree", "result[1] is 1 in branch 0 and 2 in branch 1"});
}

}  // namespace
}  // namespace tessera::testing
