// SPDX-License-Identifier: Apache-2.0
// Explicit mode: meshes that may not meet, tangents' types, the types that the user's rules see,
// out_sharding of indexed reads and changes, memories of hosts.
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/frontend/per_device/explicit_testing.h"

namespace tessera::testing {
namespace {

TEST(ExplicitMeshes, ArraysOnMeshesOfOtherAxisTypesDontMeet) {
  const Mesh typed = explicit_mesh({8}, {"x"}), plain = mesh_of({{"x", 8}});
  const Array a = put(counting({8}), typed, P("x")), b = put(counting({8}), plain, P("x"));
  const std::vector<std::string> parts{"Mesh('x': 8, axis_types=(Auto,))",
                                       "Mesh('x': 8, axis_types=(Explicit,))", "device_put", kNear};
  expect_error<ShardingTypeError>([&] { (void)(a + b); }, parts);
  const auto sum_of = jit([](Array p, Array q) { return p + q; });
  expect_error<ShardingTypeError>([&] { (void)sum_of(a, b); },
                                  {parts[0], parts[1], "explicit_rules_test.cc"});
  // What is computed of one is on its mesh, too, and so is what a program captures.
  expect_error<ShardingTypeError>(
      [&] { (void)jit([](Array p, Array q) { return p * (sin(q) + 1); })(a, b); }, parts);
  expect_error<ShardingTypeError>([&] { (void)jit([&](Array p) { return p + b; })(a); }, parts);
  expect_error<ShardingTypeError>([&] { (void)grad([&](Array p) { return sum(p * b); })(a); },
                                  parts);
  expect_error<ShardingTypeError>([&] { (void)concatenate({a, b}); }, {parts[0], parts[1]});
  // Both may be in one program, and arrays on no mesh go with either.
  const auto [twice, thrice] = jit([](Array p, Array q) { return std::pair(p * 2, q * 3); })(a, b);
  expect_close(twice, counting({8}) * 2);
  expect_close(thrice, counting({8}) * 3);
  expect_close(a + counting({8}), counting({8}) * 2);
  expect_close(b + counting({8}), counting({8}) * 2);
  expect_close(a + put(b, typed, P("x")), counting({8}) * 2);
}

TEST(ExplicitDerivatives, TangentsHaveTheTypesOfWhatTheyBelongTo) {
  const Mesh mesh = explicit_mesh({8}, {"x"});
  const Array a = put(counting({8}), mesh, P("x")), whole = put(counting({8}), mesh, P());
  const Array untyped = put(counting({8}), mesh_of({{"x", 8}}), P("x"));
  const auto f = [](Array v) { return sin(v); };
  const auto linear = linearize(f, a).second;
  EXPECT_EQ(type_text(linear(a)), "f32[8@x]");
  expect_close(linear(counting({8})), linear(a));
  expect_error<ShardingTypeError>([&] { (void)linear(whole); },
                                  {"tangent 0", "f32[8]", "f32[8@x]", "reshard()", kNear});
  expect_error<ShardingTypeError>([&] { (void)linear(untyped); },
                                  {"without Explicit axes", "f32[8@x]", "device_put"});
  const auto back = vjp(f, a).second;
  EXPECT_EQ(type_text(back(a)), "f32[8@x]");
  expect_close(back(counting({8})), back(a));
  expect_error<ShardingTypeError>([&] { (void)back(whole); },
                                  {"cotangent 0", "f32[8]", "f32[8@x]", "reshard()", kNear});
  expect_error<ShardingTypeError>(
      [&] { (void)jit([&](Array p, Array t) { return vjp(f, p).second(t); })(a, whole); },
      {"cotangent 0", "f32[8@x]"});
}

TEST(ExplicitDerivatives, RulesOfTheUserSeeTypes) {
  const Mesh mesh = explicit_mesh({4, 2}, {"x", "y"});
  const Array a = put(counting({8, 4}, 0.125f), mesh, P("x", "y"));
  std::vector<std::string> seen;
  const auto make = [&](bool other) {
    auto f = custom_vjp([](Array v) { return sin(v); });
    f.def_vjp(
        [&](Array v) {
          seen.push_back("forward " + type_text(v));
          return std::pair(sin(v), std::pair(cos(v), sum(v, 1)));
        },
        [&, other](std::pair<Array, Array> kept, Array g) {
          seen.push_back("backward " + type_text(kept.first) + " " + type_text(kept.second) + " " +
                         type_text(g));
          const Array out = g * kept.first;
          return other ? reshard(out, P("x", nullptr)) : out;
        });
    return f;
  };
  const auto f = make(false);
  const Array slope = jit(grad([&](Array v) { return sum(f(v)); }))(a);
  EXPECT_EQ(type_text(slope), "f32[8@x,4@y]");
  expect_close(slope, cos(counting({8, 4}, 0.125f)));
  EXPECT_EQ(seen, (std::vector<std::string>{"forward f32[8@x,4@y]",
                                            "backward f32[8@x,4@y] f32[8@x] f32[8@x,4@y]"}));
  const auto wrong = make(true);
  expect_error<ShardingTypeError>([&] { (void)grad([&](Array v) { return sum(wrong(v)); })(a); },
                                  {"backward rule", "f32[8@x,4]", "f32[8@x,4@y]", "reshard()"});
  // A rule sees an entry of a batch.
  seen.clear();
  expect_close(jit(vmap(grad([&](Array v) {
                 return sum(make(false)(reshape(v, {1, 4})));
               })))(put(counting({8, 4}, 0.125f), mesh, P("x", nullptr))),
               cos(counting({8, 4}, 0.125f)));
  EXPECT_EQ(seen,
            (std::vector<std::string>{"forward f32[1,4]", "backward f32[1,4] f32[1] f32[1,4]"}));
}

TEST(ExplicitDerivatives, ForwardRulesSeeTypes) {
  const Mesh mesh = explicit_mesh({4, 2}, {"x", "y"});
  const Array a = put(counting({8, 4}, 0.125f), mesh, P("x", "y"));
  std::string seen;
  const auto make = [&](bool other) {
    auto f = custom_jvp([](Array v) { return sin(v); });
    f.def_jvp([&, other](std::tuple<Array> primals, std::tuple<Array> tangents) {
      const Array v = std::get<0>(primals), t = std::get<0>(tangents);
      seen = type_text(v) + " " + type_text(t);
      const Array out = cos(v) * t;
      return std::pair(sin(v), other ? reshard(out, P("x", nullptr)) : out);
    });
    return f;
  };
  const auto f = make(false), wrong = make(true);
  const Array slope = jit(grad([&](Array v) { return sum(f(v)); }))(a);
  EXPECT_EQ(seen, "f32[8@x,4@y] f32[8@x,4@y]");
  EXPECT_EQ(type_text(slope), "f32[8@x,4@y]");
  expect_close(slope, cos(counting({8, 4}, 0.125f)));
  expect_error<ShardingTypeError>([&] { (void)grad([&](Array v) { return sum(wrong(v)); })(a); },
                                  {"tangent", "f32[8@x,4]", "f32[8@x,4@y]", "reshard()"});
}

TEST(ExplicitIndexing, OutShardingOfReadsAndChanges) {
  const Mesh mesh = explicit_mesh({4, 2}, {"x", "y"});
  const Array plain = counting({8, 8}), x = put(plain, mesh, P("x", "y"));
  const Array ids = array<int>({0, 2, 4, 6});
  expect_error<ShardingTypeError>([&] { (void)at(x, {ids}).get(); },
                                  {"dim 0", "at(x, {ids}).get({.out_sharding = P(...)})", kNear});
  const auto read = [&](Array v) { return at(v, {ids}).get({.out_sharding = P("x", nullptr)}); };
  EXPECT_EQ(type_through_jit(read, x), "f32[4@x,8]");
  expect_close(read(x), at(plain, {ids}).get());
  const auto changed = [&](Array v) {
    return at(v, {ids}).set(-1, {.out_sharding = P("x", nullptr)});
  };
  EXPECT_EQ(type_through_jit(changed, x), "f32[8@x,8]");
  expect_close(changed(x), at(plain, {ids}).set(-1));
  const NamedSharding rows(mesh, P("x", "y"));
  for (const bool by_mesh : {false, true}) {
    IndexOptions options;
    options.out_sharding = by_mesh ? OutSharding(rows) : OutSharding(P("x", "y"));
    EXPECT_EQ(type_text(at(x, {ids}).add(2, options)), "f32[8@x,8@y]");
    expect_close(at(x, {ids}).add(2, options), at(plain, {ids}).add(2));
    expect_close(at(x, {ids}).power(2, options), at(plain, {ids}).power(2));
    expect_close(at(x, {ids}).divide(2, options), at(plain, {ids}).divide(2));
    const auto half = [](Array v) { return v * 0.5f; };
    expect_close(at(x, {ids}).apply(half, options), at(plain, {ids}).apply(half));
  }
}

TEST(ExplicitBatches, SpecsOfAnEntryCantNameTheAxesOfTheBatch) {
  const Mesh mesh = explicit_mesh({4, 2}, {"x", "y"});
  const Array x = put(counting({8, 4}), mesh, P("x", nullptr));
  const auto f = [](Array v) { return with_out_sharding(P("x"), [&] { return v * 2; }); };
  try {
    (void)vmap(f)(x);
    FAIL() << "nothing was thrown";
  } catch (const ValueError& e) {
    const std::string text = e.what();
    EXPECT_EQ(text.find("spmd_axis_name"), std::string::npos) << text;
    EXPECT_NE(text.find("'x', which splits the batch of the vmap's arguments"), std::string::npos)
        << text;
    EXPECT_NE(text.find("valid: within the vmap a spec without 'x'"), std::string::npos) << text;
  }
  const auto g = [](Array v) { return with_out_sharding(P("y"), [&] { return v * 2; }); };
  EXPECT_EQ(type_text(vmap(g)(x)), "f32[8@x,4@y]");
}

TEST(ExplicitMemories, RulesAndTypesWithArraysInHostMemory) {
  const Mesh mesh = explicit_mesh({8}, {"x"});
  const NamedSharding on_device(mesh, P("x")), on_host(mesh, P("x"), "pinned_host");
  const Array plain = counting({8}, 0.25f);
  const Array a = device_put(plain, on_device), h = device_put(plain, on_host);
  EXPECT_EQ(h.sharding(), on_host);
  // A program that moves its argument keeps its type.
  std::string inside;
  const Array moved = jit([&](Array v) {
    const Array here = device_put(v, on_device);
    inside = type_text(here);
    return here * 2;
  })(h);
  EXPECT_EQ(inside, "f32[8@x]");
  EXPECT_EQ(moved.sharding(), on_device);
  expect_close(moved, plain * 2);
  // What a program leaves in host memory stays there, whether types state its sharding or not.
  for (const AxisType axis : {AxisType::Auto, AxisType::Explicit}) {
    const Mesh m = make_mesh({8}, {"x"}, {axis});
    const NamedSharding device(m, P("x")), host(m, P("x"), "pinned_host");
    const Array v = device_put(plain, device), w = device_put(plain, host);
    EXPECT_EQ(jit([](Array k) { return k; })(w).sharding(), host);
    EXPECT_EQ(jit([&](Array k) { return device_put(k * 2, host); })(v).sharding(), host);
    const auto product = [&](Array k, Array o) { return sum(k * device_put(o, device)); };
    EXPECT_EQ(jit(grad<1>(product))(v, w).sharding(), host);
    EXPECT_EQ(grad<1>(product)(v, w).sharding(), host);
    EXPECT_EQ(jit([](Array k) { return k + 1; })(v).sharding(), device);
  }
  // A rule that takes what is in host memory, and saves it there.
  auto f = custom_vjp([&](Array v, Array w) { return v * device_put(w, on_device); });
  f.def_vjp(
      [&](Array v, Array w) { return std::pair(v * device_put(w, on_device), std::pair(v, w)); },
      [&](std::pair<Array, Array> kept, Array g) {
        return std::pair(g * device_put(kept.second, on_device),
                         device_put(g * kept.first, on_host));
      });
  const auto loss = [&](Array v, Array w) { return sum(f(v, w)); };
  const auto [da, dh] = jit(grad<0, 1>(loss))(a, h);
  expect_close(da, plain);
  expect_close(dh, plain);
  EXPECT_EQ(da.sharding(), on_device);
  EXPECT_EQ(dh.sharding(), on_host);
}

TEST(ExplicitMemories, RulesSeeInWhichMemoryTheirArgumentsAre) {
  for (const bool typed : {false, true}) {
    const Mesh mesh = typed ? explicit_mesh({8}, {"x"}) : mesh_of({{"x", 8}});
    const NamedSharding on_device(mesh, P("x")), on_host(mesh, P("x"), "pinned_host");
    const Array a = device_put(counting({8}), on_device), h = device_put(counting({8}), on_host);
    // The function moves what it needs, and its rule forgets to.
    const auto plain = [&](Array v, Array w) { return v * device_put(w, on_device); };
    auto forward = custom_vjp(plain);
    forward.def_vjp([](Array v, Array w) { return std::pair(v * w, std::pair(v, w)); },
                    [](std::pair<Array, Array>, Array g) { return std::pair(g, g); });
    auto backward = custom_vjp(plain);
    backward.def_vjp([&](Array v, Array w) { return std::pair(plain(v, w), std::pair(v, w)); },
                     [](std::pair<Array, Array> kept, Array g) {
                       return std::pair(g * kept.second, g * kept.first);
                     });
    auto jvp_rule = custom_jvp(plain);
    jvp_rule.def_jvp([](std::tuple<Array, Array> x, std::tuple<Array, Array> t) {
      const Array y = std::get<0>(x) * std::get<1>(x);
      return std::pair(y, std::get<0>(t));
    });
    const auto refuse = [&](auto& f) {
      expect_error<ValueError>(
          [&] { (void)jit(grad([&](Array v, Array w) { return sum(f(v, w)); }))(a, h); },
          {"pinned_host", "device", "explicit_rules_test.cc"});
    };
    refuse(forward);
    refuse(backward);
    refuse(jvp_rule);
  }
}

TEST(ExplicitRules, ResultsOfProgramsStayOnTheMeshOfTheirOperands) {
  const Mesh plain = mesh_of({{"x", 2}, {"y", 4}});
  const Mesh typed = make_mesh({2, 4}, {"x", "y"}, {AxisType::Explicit, AxisType::Explicit});
  const Array a = put(counting({8, 8}), plain, P("x")), e = put(counting({8, 8}), typed, P("x"));
  const auto twice = jit([](Array v) { return v * 2; });
  const std::vector<std::function<Array(Array)>> programs = {
      [&](Array v) { return twice(v); },
      [&](Array v) { return twice(twice(v)) + 1; },
      [](Array v) {
        return fori_loop(
            0, 3, [](Array, Array c) { return c * 2; }, v);
      },
      [](Array v) {
        return scan([](Array c, Array row) { return std::pair(c + row, c); }, zeros({8}), v).second;
      },
      [](Array v) {
        const auto same = [](Array c) { return c; };
        return cond(sum(v) > 0, same, same, v);
      },
      [&](Array v) { return with_sharding_constraint(v, NamedSharding(plain, P("y"))); }};
  for (const auto& program : programs) {
    const auto meet = jit([&](Array l, Array r) { return program(l) + r; });
    expect_error<ShardingTypeError>([&] { (void)meet(a, e); },
                                    {"add", plain.to_string(), typed.to_string()});
    // Neither on one mesh, nor with arrays that are on none.
    EXPECT_EQ(floats(meet(a, a)), floats(program(a) + a));
  }
  const auto unplaced = jit([&](Array r) { return twice(ones({8, 8})) + twice(r); });
  EXPECT_EQ(floats(unplaced(e)), floats(2 + e * 2));
}

}  // namespace
}  // namespace tessera::testing
