// SPDX-License-Identifier: Apache-2.0
// Custom calls: registering, running and sharding them; their attributes.
#include <tessera/custom/custom_call.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include <tessera/derivatives.h>
#include <tessera/jit.h>
#include <tessera/ops.h>
#include <tessera/vmap.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing {
namespace {

using In = std::span<const BufferView>;
using Out = std::span<const MutableBufferView>;

std::atomic<int> calls{0};

/// y = by * x + plus, element by element.
void axpb(In in, Out out, const CallAttributes& attributes) {
  ++calls;
  const auto by = attributes.get<float>("by");
  const auto plus = attributes.get_or<std::int32_t>("plus", 0);
  const auto x = in[0].data<float>();
  const auto y = out[0].data<float>();
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = by * x[i] + float(plus);
}

void sum_rows(In in, Out out, const CallAttributes&) {
  const auto x = in[0].data<float>();
  const auto sums = out[0].data<float>();
  const auto sizes = out[1].data<std::int32_t>();
  const auto n = std::size_t(in[0].shape(-1));
  for (std::size_t i = 0; i < sums.size(); ++i) {
    sums[i] = 0;
    for (std::size_t j = 0; j < n; ++j) sums[i] += x[i * n + j];
    sizes[i] = std::int32_t(n);
  }
}

void check_rows(In in, Out out, const CallAttributes&) {
  if (in.size() != 1 || out.size() != 2) throw TypeError("sum_rows takes one array, gives two");
  if (in[0].dtype() != f32) throw DTypeError("sum_rows takes f32");
}

/// Once per test binary.
bool registered() {
  static const bool done = [] {
    register_custom_call("test.axpb", {.compute = axpb, .sharding_rule = "... -> ..."});
    register_custom_call("test.impure", {.compute = axpb, .pure = false});
    register_custom_call("test.sum_rows",
                         {.compute = sum_rows,
                          .sharding_rule = "i j -> i, i",
                          .sharding_rule_options = {.need_replication_factors = {"j"}},
                          .check = check_rows});
    register_custom_call("test.like",
                         {.like = [](const std::vector<Array>& in, const CallAttributes& a) {
                           Array scaled = in[0] * a.get<float>("by");
                           return std::vector<Array>{scaled, sum(scaled)};
                         }});
    register_custom_call("test.wrong",
                         {.like = [](const std::vector<Array>& in, const CallAttributes&) {
                           return std::vector<Array>{in[0]};
                         }});
    return true;
  }();
  return done;
}

Array call_axpb(Array x) {
  return custom_call("test.axpb", {x}, {x.shape(), f32}, {{"by", 2.0f}, {"plus", 3}});
}

TEST(CustomCall, RunsEagerlyUnderJitAndSharded) {
  ASSERT_TRUE(registered());
  const Array x = counting({8, 6});
  std::vector<float> want;
  for (float v : floats(x)) want.push_back(2 * v + 3);
  EXPECT_EQ(floats(call_axpb(x)), want);
  EXPECT_EQ(floats(jit([](Array a) { return call_axpb(a); })(x)), want);
  const Mesh mesh = mesh_of({{"x", 4}, {"y", 2}});
  auto f = jit([](Array a) { return call_axpb(a); });
  const Array split = put(x, mesh, P("x", "y"));
  const Array y = f(split);
  EXPECT_EQ(floats(y), want);
  EXPECT_EQ(y.sharding().shard_shape({8, 6}), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(floats(call_axpb(split)), want);
  EXPECT_FALSE(has(f.lower(split).compile().as_text(), "all-gather"));
}

TEST(CustomCall, SeveralResultsAndDimsThatMustBeWhole) {
  ASSERT_TRUE(registered());
  auto f = [](Array a) {
    return custom_call("test.sum_rows", {a}, {{{a.shape(0)}, f32}, {{a.shape(0)}, s32}});
  };
  const Array x = counting({8, 4});
  const std::vector<Array> eager = f(x);
  ASSERT_EQ(eager.size(), 2u);
  EXPECT_EQ(floats(eager[0])[1], 22.0f);
  EXPECT_EQ(eager[1].to_vector<std::int32_t>(), (std::vector<std::int32_t>(8, 4)));
  const Mesh mesh = mesh_of({{"x", 4}, {"y", 2}});
  auto jitted = jit(f);
  const Array split = put(x, mesh, P("x", "y"));
  const std::vector<Array> sharded = jitted(split);
  EXPECT_EQ(floats(sharded[0]), floats(eager[0]));
  EXPECT_EQ(sharded[1].to_vector<std::int32_t>(), (std::vector<std::int32_t>(8, 4)));
  EXPECT_EQ(sharded[0].sharding().shard_shape({8})[0], 2);
  const std::string text = jitted.lower(split).compile().as_text();
  EXPECT_TRUE(has(text, "all-gather")) << text;
  EXPECT_TRUE(has(text, "f32[2,4]")) << text;
}

TEST(CustomCall, LikeIsThatProgram) {
  ASSERT_TRUE(registered());
  auto f = [](Array a) {
    return custom_call("test.like", {a}, {{a.shape(), f32}, {{}, f32}}, {{"by", 0.5f}});
  };
  const Array x = counting({16});
  for (const std::vector<Array>& r :
       {f(x), jit(f)(x), jit(f)(put(x, mesh_of({{"x", 8}}), P("x")))}) {
    EXPECT_EQ(floats(r[0])[3], 1.5f);
    EXPECT_EQ(r[1].item<float>(), 60.0f);
  }
  const std::string text = jit(f).lower(put(x, mesh_of({{"x", 8}}), P("x"))).compile().as_text();
  EXPECT_FALSE(has(text, "custom_call_target")) << text;
  EXPECT_TRUE(has(text, "all-reduce")) << text;
}

TEST(CustomCall, PureCallsAreSharedAndDropped) {
  ASSERT_TRUE(registered());
  const Array x = put(counting({8}), mesh_of({{"x", 8}}), P());
  auto count_of = [&](const std::string& target) {
    auto f = jit([target](Array a) {
      return custom_call(target, {a}, {a.shape(), f32}, {{"by", 2.0f}}) + 0.0f * a;
    });
    f(x);
    const int before = calls;
    EXPECT_EQ(floats(f(x))[3], 6.0f);
    return calls - before;
  };
  // Eight devices hold the same operand.
  EXPECT_EQ(count_of("test.axpb"), 1);
  EXPECT_EQ(count_of("test.impure"), 8);
}

TEST(CustomCall, LapackByItsName) {
  ASSERT_TRUE(registered());
  const Array a = array(std::vector<float>{4, 2, 2, 5}, {2, 2});
  const std::vector<Array> r = custom_call("lapack_spotrf_ffi", {a}, {{{2, 2}, f32}, {{}, s32}},
                                           {{"uplo", std::uint8_t('L')}});
  EXPECT_EQ(r[1].item<std::int32_t>(), 0);
  expect_close(floats(r[0]), {2, 2, 1, 2});  // the other triangle stays
}

TEST(CustomCall, TextKeepsTheCall) {
  ASSERT_TRUE(registered());
  const std::string text = jit([](Array a) { return call_axpb(a); }).lower(counting({4})).as_text();
  EXPECT_TRUE(has(text, "custom_call_target=\"test.axpb\"")) << text;
  EXPECT_TRUE(has(text, "backend_config={by = 2.0 : f32, plus = 3 : i32}")) << text;
}

TEST(CustomCall, WrongUseIsAnErrorAtTheUsersLine) {
  ASSERT_TRUE(registered());
  const Array x = counting({4});
  expect_error<NotImplementedError>(
      [&] {
        custom_call("test.unknown", {x}, {{4}, f32});
      },
      {"test.unknown", "register_custom_call", kNear});
  expect_error<NotImplementedError>(
      [&] { jit([](Array a) {
              return custom_call("test.unknown", {a}, {{4}, f32});
            })(x); },
      {"test.unknown", kNear});
  expect_error<ValueError>(
      [&] {
        call_axpb(x), custom_call("test.axpb", {x}, {{4}, f32});
      },
      {"no attribute 'by'"});
  expect_error<TypeError>(
      [&] {
        custom_call("test.sum_rows", {x}, {{4}, f32});
      },
      {"takes one array"});
  expect_error<ShapeError>(
      [&] {
        custom_call("test.axpb", {x}, {{5}, f32}, {{"by", 1.0f}});
      },
      {"dim 0", "sizes 4 and 5", "f32[4]", kNear});
  expect_error<ShapeError>(
      [&] {
        custom_call("test.wrong", {x}, {{5}, f32});
      },
      {"returns (f32[4])", kNear});
  expect_error<ValueError>(
      [&] {
        custom_call("test.axpb", {x}, {{-1}, f32});
      },
      {"negative", kNear});
  expect_error<ShapeError>(
      [&] {
        custom_call("lapack_spotrf_ffi", {x}, {{4}, f32}, {{"uplo", 76}});
      },
      {"lapack_spotrf_ffi", "f32[..., n, n]", kNear});
  expect_error<ValueError>([&] { register_custom_call("test.axpb", {.compute = axpb}); },
                           {"test.axpb", "registered already", here(-60).substr(0, 20), kNear});
  expect_error<ValueError>([&] { register_custom_call("lapack_sgetrf_ffi", {.compute = axpb}); },
                           {"by Tessera", kNear});
  expect_error<ValueError>([&] { register_custom_call("test.empty", {}); },
                           {"compute or like", kNear});
  expect_error<ValueError>(
      [&] { register_custom_call("test.rule", {.compute = axpb, .sharding_rule = "i - j"}); },
      {"'->'", kNear});
}

TEST(CustomCall, TargetsAreListed) {
  ASSERT_TRUE(registered());
  const std::vector<std::string> names = custom_call_targets();
  for (const char* name : {"lapack_zheevd_ffi", "lapack_spotrf", "TopK", "test.axpb"}) {
    EXPECT_TRUE(std::find(names.begin(), names.end(), name) != names.end()) << name;
  }
}

TEST(CallAttributes, TextIsReadAndWritten) {
  const CallAttributes a = CallAttributes::parse(
      "{uplo = 76 : ui8, left = true, low = -1 : i32, scale = 1.000000e+00 : f32, n = 5 : i64, "
      "name = \"a\\22b\", list = array<i64: 1, 2>, reals = array<f64: 0.5>, "
      "inner = {x = 1 : i8}, empty = array<i32>, unit}");
  EXPECT_EQ(a.get<std::uint8_t>("uplo"), 76);
  EXPECT_EQ(a.get<char>("uplo"), 'L');
  EXPECT_TRUE(a.get<bool>("left"));
  EXPECT_EQ(a.get<int>("low"), -1);
  EXPECT_EQ(a.get<float>("scale"), 1.0f);
  EXPECT_EQ(a.get<std::string>("name"), "a\"b");
  EXPECT_EQ(a.get<std::vector<std::int64_t>>("list"), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(a.get<std::vector<double>>("reals"), std::vector<double>{0.5});
  EXPECT_TRUE(a.get<bool>("unit"));
  EXPECT_EQ(CallAttributes::parse(a.to_string()), a) << a.to_string();
  EXPECT_EQ(CallAttributes::parse("\"opaque text\"").opaque(), "opaque text");
  EXPECT_EQ(CallAttributes::parse("{\"known\":{\"n\":\"3\"}}").opaque(),
            "{\"known\":{\"n\":\"3\"}}");
  EXPECT_EQ(CallAttributes().to_string(), "{}");
  expect_error<ValueError>([&] { a.get<int>("absent"); }, {"no attribute 'absent'", "uplo"});
  expect_error<ValueError>([&] { a.get<bool>("uplo"); }, {"'uplo'", "76 : ui8"});
  expect_error<ValueError>([&] { a.get<std::uint8_t>("low"); }, {"'low'"});
  for (const char* bad : {"{a = }", "{a = 1 : i32", "{a = 1 : q32}", "{a = 1, a = 2}", "{a = zz}",
                          "{a = array<i64: x>}", "{a = \"", "{a = 1} more", "{= 1}",
                          "{a = 99999999999999999999 : i64}"}) {
    EXPECT_THROW(CallAttributes::parse(bad), ParseError) << bad;
  }
  std::string deep;
  for (int i = 0; i < 5000; ++i) deep += "{a = ";
  EXPECT_THROW(CallAttributes::parse(deep), ParseError);
}

TEST(BufferViews, KnowTheirTypes) {
  const std::vector<std::int64_t> dims{2, 3};
  std::vector<float> values(6, 1.0f);
  const BufferView view(f32, dims, values.data());
  EXPECT_EQ(view.size(), 6);
  EXPECT_EQ(view.shape(-1), 3);
  EXPECT_EQ(view.data<float>()[5], 1.0f);
  expect_error<TypeError>([&] { view.data<double>(); }, {"f32", kNear});
  expect_error<TypeError>([&] { view.data<std::int32_t>(); }, {"f32", kNear});
  expect_error<ValueError>([&] { view.shape(2); }, {"dim 2", "[2,3]", kNear});
}

TEST(CustomCalls, WhatIsLikeAProgramHasItsDerivativeAndBatch) {
  register_custom_call("test_like_cubes",
                       {.like = [](const std::vector<Array>& in, const CallAttributes&) {
                         return std::vector<Array>{in[0] * in[0] * in[0]};
                       }});
  const auto cubes = [](Array x) { return custom_call("test_like_cubes", {x}, {x.shape(), f32}); };
  const Array x = array({1.0f, 2.0f});
  EXPECT_EQ(floats(grad([&](Array v) { return sum(cubes(v)); })(x)), (std::vector<float>{3, 12}));
  EXPECT_EQ(floats(jvp(cubes, std::tuple(x), std::tuple(ones({2}))).second),
            (std::vector<float>{3, 12}));
  EXPECT_EQ(floats(vmap(cubes)(array({{1.0f, 2.0f}, {3.0f, 4.0f}}))),
            (std::vector<float>{1, 8, 27, 64}));
  EXPECT_EQ(floats(hessian([&](Array v) { return sum(cubes(v)); })(x)),
            (std::vector<float>{6, 0, 0, 12}));
}

}  // namespace
}  // namespace tessera::testing
