// SPDX-License-Identifier: Apache-2.0
// Behaviours 232 to 252 of docs/reference/behaviours.md: parts of programs with other axis types,
// reshard, partial sums in types, and the text of types.
#include "tests/frontend/per_device/explicit_testing.h"

namespace tessera::testing::behaviours_explicit_more {
namespace {

class ExplicitRegions : public ::testing::Test {
 protected:
  Mesh mesh = explicit_mesh({2, 4}, {"x", "y"});
  NamedSharding on(const P& spec) const { return NamedSharding(mesh, spec); }
  Array placed(std::vector<std::int64_t> shape, const P& spec) const {
    return device_put(counting(std::move(shape), 0.125f), on(spec));
  }
};
using ExplicitSums = ExplicitRegions;
using ExplicitTypes = ExplicitRegions;

std::size_t collectives(const std::string& text) {
  std::size_t n = 0;
  for (const char* kind : {" all-reduce(", " all-gather(", " reduce-scatter(", " all-to-all(",
                           " collective-permute("}) {
    n += count(text, kind);
  }
  return n;
}

TEST_F(ExplicitRegions, Behaviour_232_AutoAxes) {
  const Array a = placed({8, 8}, P("x"));
  std::string inside;
  const auto rolled = [&](Array v) {
    inside = type_text(v);
    return roll(v, 1, 0);
  };
  EXPECT_EQ(type_through_jit(auto_axes(rolled, {.out_sharding = P("x")}), a), "f32[8@x,8]");
  EXPECT_EQ(inside, "f32[8,8]");
  expect_close(auto_axes(rolled, {.out_sharding = P("y")})(a),
               roll(counting({8, 8}, 0.125f), 1, 0));
  expect_error<TypeError>([&] { (void)auto_axes(rolled)(a); },
                          {"auto_axes", "out_sharding must be given", kNear});
  // Without a mesh, and on one device, it is a call.
  const Array plain = counting({4, 4});
  expect_close(auto_axes(rolled)(plain), roll(plain, 1, 0));
  // Some axes alone.
  const auto half = auto_axes(
      [&](Array v) {
        inside = type_text(v);
        return v * 2.0f;
      },
      {.out_sharding = P("x", "y"), .axes = {"y"}});
  EXPECT_EQ(type_text(jit(half)(placed({8, 8}, P("x", "y")))), "f32[8@x,8@y]");
  EXPECT_EQ(inside, "f32[8@x,8]");
  const auto g = grad([&](Array v) { return sum(auto_axes(rolled, {.out_sharding = P("x")})(v)); });
  EXPECT_EQ(type_text(g(a)), "f32[8@x,8]");
}

TEST_F(ExplicitRegions, Behaviour_233_ExplicitAxes) {
  const Mesh plain = mesh_of({{"x", 2}, {"y", 4}});
  const MeshScope scope(plain);
  std::string inside;
  const auto f = explicit_axes(
      [&](Array v) {
        const Array y = v * 2.0f;
        inside = type_text(y);
        return y;
      },
      {.in_sharding = P("x")});
  const Array out = jit(f)(counting({8, 8}));
  EXPECT_EQ(inside, "f32[8@x,8]");
  EXPECT_EQ(type_text(out), "f32[8,8]");
  expect_close(out, counting({8, 8}) * 2.0f);
  const MeshScope none{Mesh()};
  expect_error<ValueError>([&] { (void)f(counting({8, 8})); }, {"explicit_axes", "MeshScope"});
}

TEST_F(ExplicitRegions, Behaviour_234_ManualAxesStayManual) {
  const Array a = placed({8, 8}, P("x"));
  const auto body = [](Array v) {
    return explicit_axes([](Array w) { return w; }, {.in_sharding = P("x")})(v);
  };
  expect_error<ShardingTypeError>(
      [&] { (void)shard_map(body, {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x")})(a); },
      {"'x'", "Manual"});
}

TEST_F(ExplicitRegions, Behaviour_235_ConstraintsAssert) {
  const Array a = placed({8, 8}, P("x"));
  EXPECT_EQ(type_text(with_sharding_constraint(a, on(P("x", nullptr)))), "f32[8@x,8]");
  const auto f = [&](Array v) { return with_sharding_constraint(v, on(P(nullptr, "x"))); };
  expect_error<ShardingError>([&] { (void)jit(f)(a); }, {"PartitionSpec('x', None)",
                                                         "PartitionSpec(None, 'x')", "reshard()"});
}

TEST(ExplicitMixed, Behaviour_052_TypesHoldExplicitAxesOnly) {
  const Mesh mixed = make_mesh({2, 2, 2}, {"a", "b", "c"},
                               {AxisType::Explicit, AxisType::Explicit, AxisType::Auto});
  const auto of = [&](const P& spec) {
    return type_text(device_put(counting({8, 8}), NamedSharding(mixed, spec)));
  };
  EXPECT_EQ(of(P(axes("a", "b", "c"))), "f32[8@(a,b),8]");
  EXPECT_EQ(of(P(axes("a", "c"), "b")), "f32[8@a,8@b]");
  EXPECT_EQ(of(P("c", "a")), "f32[8,8@a]");
}

TEST(ExplicitMixed, Behaviour_236_ConstraintsOnMixedMeshes) {
  const Mesh mixed = make_mesh({2, 4}, {"x", "y"}, {AxisType::Explicit, AxisType::Auto});
  const Array a = device_put(counting({8, 8}), NamedSharding(mixed, P("x")));
  EXPECT_EQ(type_text(a), "f32[8@x,8]");
  const auto f = [&](const P& spec) {
    return jit(
        [&](Array v) { return with_sharding_constraint(sin(v), NamedSharding(mixed, spec)); })(a);
  };
  expect_error<ShardingError>([&] { (void)f(P("x")); }, {"'x'", "Explicit", "reshard()"});
  const Array out = f(P(nullptr, "y"));
  EXPECT_EQ(type_text(out), "f32[8@x,8]");
  EXPECT_TRUE(out.sharding().is_equivalent_to(NamedSharding(mixed, P("x", "y")), 2))
      << out.sharding().to_string();
}

TEST_F(ExplicitRegions, Behaviour_237_Reshard) {
  const Array a = placed({8, 8}, P("x"));
  const Array moved = reshard(a, P(nullptr, "y"));
  EXPECT_EQ(type_text(moved), "f32[8,8@y]");
  expect_close(moved, counting({8, 8}, 0.125f));
  EXPECT_EQ(type_through_jit([](Array v) { return reshard(v, P("y", "x")); }, a), "f32[8@y,8@x]");
  // Nothing moves where nothing changes.
  EXPECT_EQ(
      collectives(jit([](Array v) { return reshard(v, P("x")); }).lower(a).compile().as_text()),
      0u);
  {
    const MeshScope scope(mesh);
    EXPECT_EQ(type_text(reshard(counting({8}), P("y"))), "f32[8@y]");
    EXPECT_EQ(type_text(reshard(ones({}), P())), "f32[]");
  }
  const auto [first, second] = reshard(std::pair(a, a), tree(P("y"), P()));
  EXPECT_EQ(type_text(first) + type_text(second), "f32[8@y,8]f32[8,8]");
  EXPECT_EQ(type_text(grad([](Array v) { return sum(square(reshard(v, P(nullptr, "y")))); })(a)),
            "f32[8@x,8]");
  expect_error<ShardingError>([&] { (void)reshard(a, P("x", nullptr, "y")); },
                              {"reshard's argument", "rank 2", "rank 3", kNear});
  expect_error<ValueError>([&] { (void)reshard(a, ShardingTree(nullptr)); },
                           {"reshard's argument", "None", kNear});
  expect_error<IndivisibleError>(
      [&] {
        (void)reshard(placed({6, 8}, P()), P("y"));
      },
      {"reshard's argument", "6", kNear});
}

TEST_F(ExplicitSums, Behaviour_238_UnreducedEinsums) {
  const Array a = placed({8, 4}, P(nullptr, "x")), b = placed({4, 8}, P("x"));
  const Array parts = einsum("ij,jk->ik", a, b, P().with_unreduced({"x"}));
  EXPECT_EQ(type_text(parts), "f32[8,8]{U:x}");
  expect_close(floats(parts.addressable_shards()[0].data),
               floats(matmul(slice(counting({8, 4}, 0.125f), {0, 0}, {8, 2}),
                             slice(counting({4, 8}, 0.125f), {0, 0}, {2, 8}))));
  const Array whole = reshard(parts, P());
  EXPECT_EQ(type_text(whole), "f32[8,8]");
  expect_close(whole, matmul(counting({8, 4}, 0.125f), counting({4, 8}, 0.125f)));
  // Nothing is sent before the sum.
  const auto text = jit([](Array v, Array w) { return matmul(v, w, P().with_unreduced({"x"})); })
                        .lower(a, b)
                        .compile()
                        .as_text();
  EXPECT_EQ(collectives(text), 0u) << text;
}

TEST_F(ExplicitSums, Behaviour_239_UnreducedAxesAreThoseOfTheSum) {
  const Array a = placed({8, 4}, P(nullptr, "x")), b = placed({4, 8}, P("x"));
  expect_error<ShardingTypeError>([&] { (void)matmul(a, b, P().with_unreduced({"y"})); },
                                  {"unreduced={'y'}", "both operands", "{'x'}", kNear});
  expect_error<ShardingTypeError>(
      [&] {
        (void)matmul(a, placed({4, 8}, P()), P().with_unreduced({"x"}));
      },
      {"both operands", "{}", kNear});
  const Array parts = matmul(a, b, P().with_unreduced({"x"}));
  for (const auto& f : std::vector<std::function<Array()>>{[&] { return matmul(parts, parts); },
                                                           [&] { return sin(parts); },
                                                           [&] { return parts * 2.0f; }}) {
    expect_error<ShardingTypeError>([&] { (void)f(); }, {"partial sum over {'x'}", "reshard()"});
  }
}

TEST_F(ExplicitSums, Behaviour_240_SumsOfPartialSums) {
  const Array a = placed({8, 4}, P(nullptr, "x")), b = placed({4, 8}, P("x"));
  const Array parts = matmul(a, b, P().with_unreduced({"x"}));
  EXPECT_EQ(type_text(parts + parts), "f32[8,8]{U:x}");
  expect_close(reshard(parts + parts, P()), reshard(parts, P()) * 2.0f);
  expect_error<ShardingTypeError>(
      [&] {
        (void)(parts + placed({8, 8}, P()));
      },
      {"operand 1 is not", "reshard()", kNear});
  const Array c = placed({8, 4}, P(nullptr, "y")), d = placed({4, 8}, P("y"));
  expect_error<ShardingTypeError>([&] { (void)(parts + matmul(c, d, P().with_unreduced({"y"}))); },
                                  {"different axes", "{'x'}", "{'y'}", kNear});
}

TEST_F(ExplicitSums, Behaviour_241_CotangentsOfPartialSums) {
  const Array a = placed({8, 4}, P(nullptr, "x")), b = placed({4, 8}, P("x"));
  const auto loss = [](Array v, Array w) {
    return sum(square(reshard(matmul(v, w, P().with_unreduced({"x"})), P())));
  };
  const auto plain = [](Array v, Array w) { return sum(square(matmul(v, w))); };
  const auto [ga, gb] = grad<0, 1>(loss)(a, b);
  EXPECT_EQ(type_text(ga) + type_text(gb), "f32[8,4@x]f32[4@x,8]");
  const auto [wa, wb] = grad<0, 1>(plain)(counting({8, 4}, 0.125f), counting({4, 8}, 0.125f));
  expect_close(ga, wa, 1e-4f);
  expect_close(gb, wb, 1e-4f);
  // A reduced argument has a gradient that is a partial sum.
  const Array x = placed({8, 4}, P("x"));
  const Array w = device_put(counting({4, 2}, 0.25f), on(P().with_reduced({"x"})));
  EXPECT_EQ(type_text(w), "f32[4,2]{R:x}");
  const auto of_w = [&](Array v) { return sum(square(matmul(x, v))); };
  const Array parts = grad(of_w)(w);
  EXPECT_EQ(type_text(parts), "f32[4,2]{U:x}");
  expect_close(reshard(parts, P()), grad([](Array v) {
                 return sum(square(matmul(counting({8, 4}, 0.125f), v)));
               })(counting({4, 2}, 0.25f)),
               1e-4f);
  const std::string text = jit([&](Array v) { return grad(of_w)(v); }).lower(w).compile().as_text();
  EXPECT_EQ(count(text, "f32[4,2]{1,0} all-reduce("), 0u) << text;
  for (const auto& f : std::vector<std::function<Array(Array)>>{
           [](Array v) { return reshape(v, {64}); }, [](Array v) { return transpose(v); },
           [](Array v) {
             return slice(v, {0, 0}, {4, 8});
           },
           [](Array v) {
             return concatenate({v, v});
           },
           [](Array v) { return v / 2.0f; }, [](Array v) { return astype(v, DType::f64); },
           [](Array v) { return -v; }}) {
    const Array u = matmul(a, b, P().with_unreduced({"x"}));
    const Array y = f(u);
    EXPECT_NE(type_text(y).find("{U:x}"), std::string::npos) << type_text(y);
    expect_close(astype(reshard(y, P()), DType::f32), astype(f(reshard(u, P())), DType::f32));
  }
}

TEST_F(ExplicitSums, PartialSumsTimesReducedFactors) {
  const Array a = placed({8, 4}, P(nullptr, "x")), b = placed({4, 8}, P("x"));
  const Array factor = device_put(counting({8, 8}, 0.25f), on(P().with_reduced({"x"})));
  const Array parts = matmul(a, b, P().with_unreduced({"x"}));
  const Array whole = reshard(parts, P()) * counting({8, 8}, 0.25f);
  EXPECT_EQ(type_text(parts * factor), "f32[8,8]{U:x}");
  EXPECT_EQ(type_text(factor * parts), "f32[8,8]{U:x}");
  expect_close(reshard(parts * factor, P()), whole);
  EXPECT_EQ(type_text(parts / factor), "f32[8,8]{U:x}");
  const auto times = [](Array v, Array w, Array f) {
    return matmul(v, w, P().with_unreduced({"x"})) * f;
  };
  // Each device multiplies its part.
  const std::string text = jit(times).lower(a, b, factor).compile().as_text();
  EXPECT_EQ(collectives(text), 0u) << text;
  // The factor's gradient is a partial sum, that of the product is reduced once.
  const auto loss = [&](Array v, Array w, Array f) {
    return sum(square(reshard(times(v, w, f), P())));
  };
  const auto [ga, gf] = grad<0, 2>(loss)(a, b, factor);
  EXPECT_EQ(type_text(ga) + type_text(gf), "f32[8,4@x]f32[8,8]{U:x}");
  const auto plain = [](Array v, Array w, Array f) { return sum(square(matmul(v, w) * f)); };
  const auto [wa, wf] = grad<0, 2>(plain)(counting({8, 4}, 0.125f), counting({4, 8}, 0.125f),
                                          counting({8, 8}, 0.25f));
  expect_close(ga, wa, 1e-4f);
  expect_close(reshard(gf, P()), wf, 1e-4f);
  // Reduced over other axes, or not at all.
  for (const PartitionSpec& spec : {P().with_reduced({"y"}), P().with_reduced({"x", "y"}), P()}) {
    const Array other = device_put(counting({8, 8}), on(spec));
    expect_error<ShardingTypeError>(
        [&] { (void)(parts * other); },
        {"partial sum over {'x'}", "a factor with reduced={'x'}", kNear});
  }
  expect_error<ShardingTypeError>([&] { (void)(parts * parts); },
                                  {"partial sum over {'x'}", kNear});
}

TEST_F(ExplicitSums, PartialSumsThatAreConvertedOrReshaped) {
  const Array a = placed({8, 4}, P(nullptr, "x")), b = placed({4, 8}, P("x"));
  const Array parts = matmul(a, b, P().with_unreduced({"x"}));
  // A sum of whole numbers is another one than the sum, rounded.
  for (const DType type : {s32, u8, pred}) {
    expect_error<ShardingTypeError>([&] { (void)parts.astype(type); },
                                    {"partial sum over {'x'}", "reshard()", kNear});
  }
  for (const DType type : {bf16, f64, c64}) {
    EXPECT_TRUE(has(type_text(parts.astype(type)), "{U:x}"));
  }
  const PartitionSpec kept = P().with_unreduced({"x"});
  EXPECT_EQ(type_text(reshape(parts, {64}, kept)), "f32[64]{U:x}");
  expect_close(reshard(reshape(parts, {64}, kept), P()), reshape(reshard(parts, P()), {64}));
  for (const PartitionSpec& spec :
       {P(), P().with_unreduced({"y"}), P().with_unreduced({"x", "y"})}) {
    expect_error<ShardingTypeError>([&] { (void)reshape(parts, {64}, spec); },
                                    {"out_sharding", "unreduced={'x'}", "reshard()", kNear});
  }
  // A maximum has no terms that add up.
  const Array split = placed({8, 8}, P("x"));
  expect_error<ShardingTypeError>(
      [&] { (void)with_out_sharding(P().with_unreduced({"x"}), [&] { return max(split, 0); }); },
      {"comes of a maximum", "UnreducedKind::max", kNear});
  expect_error<ShardingTypeError>(
      [&] { (void)with_out_sharding(P().with_unreduced({"x"}), [&] { return prod(split, 0); }); },
      {"unreduced axes are those of a dot, a sum, a maximum or a minimum", kNear});
}

TEST_F(ExplicitSums, PartialSumsThroughOtherOps) {
  const Array a = placed({8, 4}, P(nullptr, "x")), b = placed({4, 8}, P("x"));
  const Array parts = matmul(a, b, P().with_unreduced({"x"})), whole = reshard(parts, P());
  for (const auto& f : std::vector<std::function<Array(Array)>>{
           [](Array v) {
             return pad(v, {{1, 2}, {0, 1}});
           },
           [](Array v) {
             return dynamic_update_slice(v, slice(v, {0, 0}, {2, 8}), {3, 0});
           },
           [](Array v) {
             return where(iota(s32, {8, 8}, 0) > 3, v, -v);
           },
           [](Array v) { return squeeze(expand_dims(v, 0), 0); },
           [](Array v) {
             return broadcast_to(v, {2, 8, 8});
           },
           [](Array v) { return sum(v, 0); }, [](Array v) { return flip(v, 0); },
           [](Array v) {
             return fori_loop(
                 0, 3, [](Array, Array c) { return c + c; }, v);
           },
           [](Array v) {
             return cond(
                 true, [](Array c) { return c + c; }, [](Array c) { return c; }, v);
           },
           [](Array v) { return jit([](Array c) { return c + c; })(v); },
           [](Array v) { return vmap([](Array c) { return c + c; })(v); }}) {
    const Array y = f(parts);
    EXPECT_TRUE(has(type_text(y), "{U:x}")) << type_text(y);
    expect_close(reshard(y, P()), f(whole));
    expect_close(reshard(jit(f)(parts), P()), f(whole));
  }
  // Padding that isn't zero would be added once for each part.
  expect_error<ShardingTypeError>(
      [&] {
        (void)pad(parts, {{1, 1}, {0, 0}}, {.value = 1.0f});
      },
      {"partial sum over {'x'}", "operand 1 is not", kNear});
  // The gradient of what is sliced is a partial sum, padded with zeros.
  const Array w = device_put(counting({6, 2}, 0.25f), on(P().with_reduced({"x"})));
  const Array x = placed({8, 4}, P("x"));
  const auto of_w = [](Array v, Array u) {
    return sum(square(matmul(u, slice(v, {1, 0}, {5, 2}))));
  };
  const Array g = grad([&](Array v) { return of_w(v, x); })(w);
  EXPECT_EQ(type_text(g), "f32[6,2]{U:x}");
  expect_close(reshard(g, P()), grad([&](Array v) {
                 return of_w(v, counting({8, 4}, 0.125f));
               })(counting({6, 2}, 0.25f)),
               1e-4f);
}

TEST_F(ExplicitSums, PartialSumsAtTheBoundariesOfPrograms) {
  // As arguments and results that are placed so.
  const NamedSharding parts(on(P().with_unreduced({"x"})));
  const Array x = counting({8, 8});
  const auto twice =
      jit([](Array v) { return v + v; }, {.in_shardings = parts, .out_shardings = parts});
  const Array y = twice(x);
  EXPECT_EQ(type_text(y), "f32[8,8]{U:x}");
  EXPECT_EQ(floats(y), floats(x * 2.0f));
  EXPECT_EQ(floats(reshard(y, P("x"))), floats(x * 2.0f));
}

TEST_F(ExplicitSums, Behaviour_242_ReducedWithOthers) {
  const Array r = device_put(counting({8, 8}), on(P().with_reduced({"x"})));
  expect_error<ShardingTypeError>(
      [&] {
        (void)(r + placed({8, 8}, P("x")));
      },
      {"reduced over 'x'", "split by it", kNear});
  expect_error<ShardingTypeError>(
      [&] {
        (void)(r + placed({8, 8}, P()));
      },
      {"reduced over 'x'", "replicated", "reduced={'x'}", kNear});
  EXPECT_EQ(type_text(r + r), "f32[8,8]{R:x}");
}

TEST_F(ExplicitSums, Behaviour_243_ToPartialSumsAndBack) {
  const Array whole = placed({8, 8}, P());
  const Array parts = reshard(whole, P().with_unreduced({"x"}));
  EXPECT_EQ(type_text(parts), "f32[8,8]{U:x}");
  float total = 0;
  for (const Shard& s : parts.addressable_shards()) total += sum(abs(s.data)).item<float>();
  EXPECT_NEAR(total, 4 * sum(whole).item<float>(), 1e-2f);  // one copy along x, four along y
  expect_close(reshard(parts, P()), whole);
  const Array split = placed({8, 8}, P("x"));
  expect_close(reshard(reshard(split, P().with_unreduced({"x"})), P("x")), split);
}

TEST_F(ExplicitSums, Behaviour_243_FromSomePartialSumsToOthers) {
  const Array parts = sum(placed({4, 8, 8}, P("y", "x")), 0, P("x").with_unreduced({"y"}));
  const Array both = reshard(parts, P().with_unreduced({"x", "y"}));
  EXPECT_EQ(type_text(both), "f32[8,8]{U:(x,y)}");
  const Array want = sum(counting({4, 8, 8}, 0.125f), 0);
  expect_close(reshard(both, P()), want);
  expect_close(reshard(reshard(parts, P().with_unreduced({"x"})), P()), want);
}

TEST_F(ExplicitSums, Behaviour_245_Denominators) {
  const Array a = placed({8, 4}, P(nullptr, "x")), b = placed({4, 8}, P("x"));
  const Array parts = matmul(a, b, P().with_unreduced({"x"}));
  EXPECT_EQ(type_text(parts / placed({8, 8}, P())), "f32[8,8]{U:x}");
  expect_error<ShardingTypeError>(
      [&] {
        (void)(placed({8, 8}, P()) / parts);
      },
      {"partial sum over {'x'}", kNear});
}

TEST_F(ExplicitSums, Behaviour_246_MinibatchesAreReducedOnce) {
  const Array xs = placed({3, 8, 4}, P(nullptr, "x"));
  const auto total = [](Array w, Array batches) {
    const Array shared = reshard(w, P().with_reduced({"x"}));
    const auto step = [&](Array sum_so_far, Array x) {
      const Array g = grad([&](Array v) { return sum(square(matmul(x, v))); })(shared);
      return std::pair(sum_so_far + g, Array(0));
    };
    const Array zero = reshard(zeros_like(w), P().with_unreduced({"x"}));
    return reshard(scan(step, zero, batches).first, P());
  };
  const Array w = placed({4, 2}, P());
  const Array want = [&] {
    Array out = zeros({4, 2});
    for (int i = 0; i < 3; ++i) {
      const Array x = take(counting({3, 8, 4}, 0.125f), Array(i), 0);
      out =
          out + grad([&](Array v) { return sum(square(matmul(x, v))); })(counting({4, 2}, 0.125f));
    }
    return out;
  }();
  expect_close(jit(total)(w, xs), want, 1e-4f);
  const std::string text = jit(total).lower(w, xs).compile().as_text();
  EXPECT_EQ(count(text, "f32[4,2]{1,0} all-reduce("), 1u) << text;
}

TEST_F(ExplicitSums, Behaviour_247_UnreducedSumsOfSplitDims) {
  const Array a = placed({8, 8}, P("x", "y"));
  const Array parts = sum(a, 0, P("y").with_unreduced({"x"}));
  EXPECT_EQ(type_text(parts), "f32[8@y]{U:x}");
  expect_close(reshard(parts, P()), sum(counting({8, 8}, 0.125f), 0));
  expect_error<ShardingTypeError>([&] { (void)sum(a, 1, P().with_unreduced({"x"})); },
                                  {"summed dimensions", "{'y'}", kNear});
}

TEST_F(ExplicitTypes, Behaviour_249_TypesDivideEvenly) {
  const Array a = placed({8, 2}, P("x"));
  expect_error<IndivisibleError>(
      [&] { (void)jit([&](Array v) { return reshard(v, P("x", "y")); })(a); },
      {"dimension 1", "2", "4"});
}

TEST_F(ExplicitTypes, Behaviour_250_TypesAgreeWithWhatRuns) {
  const Array a = placed({8, 4}, P("x", "y"));
  std::string inside;
  const Array out = jit([&](Array v) {
    const Array y = transpose(exp(v));
    inside = type_text(y);
    return y;
  })(a);
  EXPECT_EQ(inside, type_text(out));
  EXPECT_EQ(out.sharding(), Sharding(on(P("y", "x"))));
  const MeshScope scope(mesh);
  EXPECT_EQ(type_text(a), "f32[8@x,4@y]");
}

TEST_F(ExplicitTypes, Behaviour_251_RandomNumbers) {
  const auto key = random::key(0);
  expect_error<ShardingError>(
      [&] {
        (void)random::uniform(key, {8, 4}, DType::f32, P("x"));
      },
      {"out_sharding", "MeshScope", kNear});
  const MeshScope scope(mesh);
  const Array u = random::uniform(key, {8, 4}, DType::f32, P("x", "y"));
  EXPECT_EQ(type_text(u), "f32[8@x,4@y]");
  EXPECT_EQ(floats(u), floats(random::uniform(key, {8, 4})));
  EXPECT_EQ(type_text(random::normal(key, {8}, DType::f32, P("y"))), "f32[8@y]");
  EXPECT_EQ(type_text(random::bits(key, {8}, DType::u32, P("x"))), "u32[8@x]");
}

TEST_F(ExplicitTypes, Behaviour_252_TextOfTypes) {
  EXPECT_EQ(type_text(placed({8, 4}, P("x"))), "f32[8@x,4]");
  EXPECT_EQ(type_text(placed({8, 4}, P(axes("x", "y")))), "f32[8@(x,y),4]");
  EXPECT_EQ(type_text(counting({8, 4})), "f32[8,4]");
  std::string inside;
  (void)shard_map(
      [&](Array v) {
        inside = type_text(v);
        return v;
      },
      {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x")})(placed({8, 4}, P("x")));
  EXPECT_EQ(inside, "f32[4,4]{V:x}");
}

TEST_F(ExplicitRegions, Behaviour_321_InSpecsOfTypes) {
  const Array a = placed({8, 4}, P("x", "y"));
  const auto doubled = [](Array v) { return v * 2.0f; };
  const Array out = shard_map(doubled, {.mesh = mesh, .out_specs = P("x", "y")})(a);
  EXPECT_EQ(type_text(out), "f32[8@x,4@y]");
  expect_close(out, counting({8, 4}, 0.25f));
  expect_error<ShardingTypeError>(
      [&] { (void)shard_map(doubled, {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x")})(a); },
      {"in_specs say PartitionSpec('x')", "f32[8@x,4@y]", "reshard()", kNear});
}

}  // namespace
}  // namespace tessera::testing::behaviours_explicit_more
