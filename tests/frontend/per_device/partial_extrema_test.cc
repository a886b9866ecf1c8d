// SPDX-License-Identifier: Apache-2.0
// Values that are left as parts of a maximum or minimum, in types: behaviour 244, and which ops
// take them.
#include "tests/frontend/per_device/partial_extrema_testing.h"

namespace tessera::testing::partial_extrema {
namespace {

class ExplicitExtrema : public ::testing::Test, protected ExtremaOnMesh {
 protected:
  ExplicitExtrema() : ExtremaOnMesh{{kMax}} {}
  template <class F>
  void for_both(F f) {
    for (const UnreducedKind kind : {kMax, kMin}) {
      SCOPED_TRACE(to_string(kind));
      e.kind = kind;
      f();
    }
  }
  void refuse_other_kinds() const;
  void refuse_in_shard_map() const;
};

TEST_F(ExplicitExtrema, Behaviour_244_AreLeftForLater) {
  for_both([&] {
    const Array x = placed(counting({4, 2}), P("x"));
    const P spec = e.spec(P(nullptr), {"x"});
    const auto f = [&](Array v) { return e.along(v, 0, spec); };
    const Array y = jit(f)(x);
    EXPECT_EQ(type_through_jit(f, x), text("f32[2]", "x"));
    EXPECT_EQ(y.sharding(), on(spec));
    // Each device has the largest of its rows: nothing is sent.
    for (const Shard& s : y.addressable_shards()) {
      const bool first = s.device.id < 4;
      EXPECT_EQ(floats(s.data),
                e.is_max() ? (first ? std::vector<float>{2, 3} : std::vector<float>{6, 7})
                           : (first ? std::vector<float>{0, 1} : std::vector<float>{4, 5}));
    }
    const std::string compiled = jit(f).lower(x).compile().as_text();
    EXPECT_EQ(collectives(compiled), 0u) << compiled;
    const std::vector<float> want =
        e.is_max() ? std::vector<float>{6, 7} : std::vector<float>{0, 1};
    EXPECT_EQ(floats(y), want);
    EXPECT_EQ(floats(reshard(y, P())), want);
    EXPECT_EQ(type_text(reshard(y, P("x"))), "f32[2@x]");
    EXPECT_EQ(floats(reshard(y, P("x"))), want);
    // The general form, other dims, and several.
    EXPECT_EQ(type_text(with_out_sharding(spec, [&] { return e.along(x, 0); })),
              text("f32[2]", "x"));
    const Array z = placed(mixed({4, 8, 2}), P("x", "y"));
    const Array both = e.along(z, {0, 1}, e.spec(P(), {"x", "y"}));
    EXPECT_EQ(type_text(both), text("f32[2]", "(x,y)"));
    EXPECT_EQ(floats(both), floats(e.along(mixed({4, 8, 2}), {0, 1})));
    const Array one = e.along(z, {0, 1}, e.spec(P(), {"x"}));
    EXPECT_EQ(type_text(one), text("f32[2]", "x"));
    EXPECT_EQ(floats(one), floats(both));
    const Array split = e.along(z, 0, e.spec(P("y"), {"x"}));
    EXPECT_EQ(type_text(split), text("f32[8@y,2]", "x"));
    EXPECT_EQ(floats(split), floats(e.along(mixed({4, 8, 2}), 0)));
    // Parts are reduced further.
    EXPECT_EQ(type_text(e.along(split, 0, e.spec(P(), {"x", "y"}))), text("f32[2]", "(x,y)"));
    EXPECT_EQ(floats(e.along(split, 0, e.spec(P(), {"x", "y"}))), floats(both));
    EXPECT_EQ(floats(e.along(split, 0, P())), floats(both));
  });
}

TEST_F(ExplicitExtrema, Behaviour_244_SomeAxesAreJoined) {
  for_both([&] {
    const Array x = placed(counting({4, 8}), P("x", "y"));
    const auto f = [&](Array v) {
      return reshard(e.along(v, {0, 1}, e.spec(P(), {"x", "y"})), e.spec(P(), {"x"}));
    };
    const Array y = jit(f)(x);
    EXPECT_EQ(y.sharding(), on(e.spec(P(), {"x"})));
    for (const Shard& s : y.addressable_shards()) {
      const bool first = s.device.id < 4;
      EXPECT_EQ(s.data.item<float>(), e.is_max() ? (first ? 15 : 31) : (first ? 0 : 16));
    }
    EXPECT_EQ(reshard(y, P()).item<float>(), e.is_max() ? 31 : 0);
    const std::string compiled = jit(f).lower(x).compile().as_text();
    EXPECT_EQ(collectives(compiled), 1u) << compiled;
  });
}

void ExplicitExtrema::refuse_other_kinds() const {
  const Array x = placed(mixed({8, 4}), P("x")), y = parts();
  const std::string kind = "unreduced_kind=" + e.name();
  const std::string valid = "valid: UnreducedKind::";
  expect_error<ShardingTypeError>([&] { (void)sum(x, 0, e.spec(P(), {"x"})); },
                                  {kind, "comes of a sum", valid + "sum", kNear});
  expect_error<ShardingTypeError>([&] { (void)e.along(x, 0, P().with_unreduced({"x"})); },
                                  {"unreduced={'x'}", valid + e.name(), kNear});
  expect_error<ShardingTypeError>(
      [&] { (void)e.along(x, 0, P().with_unreduced({"x"}, e.other())); },
      {valid + e.name(), kNear});
  const Array a = placed(mixed({8, 4}), P(nullptr, "x")), b = placed(mixed({4, 8}), P("x"));
  expect_error<ShardingTypeError>([&] { (void)matmul(a, b, e.spec(P(), {"x"})); },
                                  {kind, "a dot", valid + "sum", kNear});
  // Of the axes that split the rows alone.
  expect_error<ShardingTypeError>([&] { (void)e.along(x, 0, e.spec(P(), {"y"})); },
                                  {"the reduced dimensions, {'x'}", kNear});
  expect_error<ShardingTypeError>([&] { (void)e.along(x, 1, e.spec(P(), {"x"})); },
                                  {"the reduced dimensions, {}", kNear});
  // From one kind to another.
  for (const P& to : {P().with_unreduced({"x"}), P().with_unreduced({"x"}, e.other()),
                      P().with_unreduced({"y"})}) {
    expect_error<ShardingTypeError>(
        [&] { (void)reshard(y, to); },
        {"reshard's argument", "U_" + e.name() + ":x", "valid: the same kind", kNear});
  }
  const Array sums = reshard(placed(mixed({8, 8}), P()), P().with_unreduced({"x"}));
  expect_error<ShardingTypeError>([&] { (void)reshard(sums, e.spec(P(), {"x"})); },
                                  {"U:x", "a partial sum", kNear});
  // More unreduced than before.
  for (const Array& from : {placed(mixed({8, 8}), P()), placed(mixed({8, 8}), P("x")), y}) {
    expect_error<ShardingTypeError>(
        [&] {
          (void)reshard(from, e.spec(P(), {"x", "y"}));
        },
        {"unreduced over more axes", e.name() + "(x, axes", kNear});
  }
  const MeshScope scope(mesh);
  expect_error<ShardingTypeError>([&] { (void)reshard(mixed({8}), e.spec(P(), {"x"})); },
                                  {"unreduced over more axes", kNear});
  // By way of the whole.
  EXPECT_EQ(type_text(reshard(reshard(y, P()), P().with_unreduced({"x"}))), "f32[8,8]{U:x}");
  EXPECT_EQ(floats(reshard(reshard(y, P()), P().with_unreduced({"x"}))), floats(whole()));
}
TEST_F(ExplicitExtrema, Behaviour_244_OtherKindsAreRefused) { refuse_other_kinds(); }

void ExplicitExtrema::refuse_in_shard_map() const {
  const Array y = parts();
  for (const auto& body : std::vector<std::function<Array(Array)>>{
           [](Array v) { return psum(v, "x"); }, [](Array v) { return pmax(v, "x"); }}) {
    expect_error<NotImplementedError>(
        [&] { (void)shard_map(body, {.mesh = mesh, .in_specs = P(), .out_specs = P()})(y); },
        {"U_" + e.name() + ":x", "per-device code", "reshard()"});
  }
  expect_error<NotImplementedError>(
      [&] {
        (void)shard_map([](Array v) { return v; },
                        {.mesh = mesh, .in_specs = P(), .out_specs = e.spec(P(), {"x"})})(y);
      },
      {"p" + e.name() + " makes a " + e.name() + " whole"});
}
TEST_F(ExplicitExtrema, Behaviour_244_CollectivesTakeNoParts) { refuse_in_shard_map(); }

TEST_F(ExplicitExtrema, MinimaAreRefusedAlike) {
  e.kind = kMin;
  refuse_other_kinds();
  refuse_in_shard_map();
}

class Extrema : public ::testing::TestWithParam<UnreducedKind>, protected ExtremaOnMesh {
 protected:
  Extrema() : ExtremaOnMesh{{GetParam()}} {}
};

TEST_P(Extrema, GoThroughOpsThatMoveElements) {
  const Array v = parts(), w = parts(5), u = whole(), t = whole(5);
  const Array extra = mixed({8, 8}, 3), mask = iota(s32, {8, 8}, 0) > 3;
  struct Case {
    std::string name;
    std::function<Array(Array, Array)> f;
  };
  const Extremum ex = e;
  for (const Case& c : std::vector<Case>{
           {"itself", [=](Array a, Array b) { return ex.of(a, b); }},
           {"itself twice", [=](Array a, Array) { return ex.of(a, a); }},
           {"a number", [=](Array a, Array) { return ex.of(a, Array(2.5f)); }},
           {"a whole", [=](Array a, Array) { return ex.of(extra, a); }},
           {"reduced", [=](Array a, Array) { return ex.along(a, 1); }},
           {"reduced, kept",
            [=](Array a, Array) {
              return reshape(ex.along(a, 1), {8, 1});
            }},
           {"concatenate",
            [=](Array a, Array b) {
              return concatenate({a, b, a});
            }},
           {"concatenate a whole",
            [=](Array a, Array) {
              return concatenate({a, extra}, 1);
            }},
           {"where", [=](Array a, Array b) { return where(mask, a, b); }},
           {"where a whole", [=](Array a, Array) { return where(mask, a, extra); }},
           {"slice",
            [=](Array a, Array) {
              return slice(a, {0, 1}, {4, 8});
            }},
           {"reshape", [=](Array a, Array) { return reshape(a, {64}); }},
           {"transpose", [=](Array a, Array) { return transpose(a); }},
           {"pad",
            [=](Array a, Array) {
              return pad(a, {{1, 2}, {0, 1}}, {.value = 1.0f});
            }},
           {"broadcast",
            [=](Array a, Array) {
              return broadcast_to(a, {2, 8, 8});
            }},
           {"flip", [=](Array a, Array) { return flip(a, 0); }},
           {"take",
            [=](Array a, Array) {
              return take(a, array({3, 1}, s32), 0, TakeMode::clip);
            }},
           {"update",
            [=](Array a, Array b) {
              return dynamic_update_slice(a, slice(b, {0, 0}, {2, 8}), {3, 0});
            }},
           {"convert", [=](Array a, Array) { return a.astype(f64); }},
           {"round", [=](Array a, Array) { return a.astype(bf16); }},
           {"loop",
            [=](Array a, Array b) {
              return fori_loop(
                  0, 3, [&](Array, Array s) { return ex.of(s, b); }, a);
            }},
           {"branch",
            [=](Array a, Array b) {
              return cond(
                  true, [&](Array s) { return ex.of(s, b); }, [](Array s) { return s; }, a);
            }},
           {"call", [=](Array a, Array) { return jit([](Array s) { return flip(s, 1); })(a); }},
           {"batch",
            [=](Array a, Array b) {
              return vmap([=](Array s, Array r) { return ex.of(s, r); })(a, b);
            }},
       }) {
    const Array y = c.f(v, w), want = c.f(u, t);
    EXPECT_TRUE(has(type_text(y), "{U_" + e.name() + ":x}")) << c.name << ": " << type_text(y);
    expect_same(reshard(y, P()), want);
    expect_same(y, want);
    const Array z = jit(c.f)(v, w);
    EXPECT_EQ(type_text(z), type_text(y)) << c.name;
    expect_same(z, want);
    expect_same(jit([&](Array a, Array b) { return reshard(c.f(a, b), P()); })(v, w), want);
  }
}

TEST_P(Extrema, DontGoThroughOthers) {
  const Array v = parts(), w = whole();
  const std::string what = e.is_max() ? "maximum" : "minimum";
  struct Case {
    std::string name;
    std::function<void()> f;
  };
  const Extremum other{e.other()};
  for (const Case& c : std::vector<Case>{
           {"negate", [&] { (void)-v; }},
           {"scale", [&] { (void)(v * 2.0f); }},
           {"add", [&] { (void)(v + v); }},
           {"add a number", [&] { (void)(v + 1.0f); }},
           {"subtract", [&] { (void)(w - v); }},
           {"divide", [&] { (void)(v / 2.0f); }},
           {"abs", [&] { (void)abs(v); }},
           {"exp", [&] { (void)exp(v); }},
           {"dot", [&] { (void)matmul(v, w); }},
           {"sum", [&] { (void)sum(v, 0); }},
           {"sum with a spec", [&] { (void)sum(v, 0, P()); }},
           {"dot with a spec", [&] { (void)matmul(v, w, P()); }},
           {"the other", [&] { (void)other.of(v, v); }},
           {"the other with a whole", [&] { (void)other.of(v, w); }},
           {"reduced by the other", [&] { (void)other.along(v, 0); }},
           {"compare", [&] { (void)(v > w); }},
           {"chosen by", [&] { (void)where(v > 0.0f, w, w); }},
           {"sort", [&] { (void)sort(v); }},
           {"argmax", [&] { (void)argmax(v, 0); }},
           {"cumsum", [&] { (void)cumsum(v, 0); }},
           {"to integers", [&] { (void)v.astype(s32); }},
           {"to pred", [&] { (void)v.astype(pred); }},
           {"to narrower integers", [&] { (void)parts().astype(f64).astype(u8); }},
       }) {
    const std::string text = expect_error<ShardingTypeError>(
        [&] { c.f(); }, {"a partial " + what + " over {'x'}", "reshard()", "joins the parts"});
    EXPECT_TRUE(has(text, "not the result of the " + what)) << c.name << ": " << text;
  }
  // Other parts.
  const Array sums = reshard(placed(w, P()), P().with_unreduced({"x"}));
  for (const auto& two : {std::pair(v, sums), std::pair(sums, v)}) {
    expect_error<ShardingTypeError>(
        [&] { (void)e.of(two.first, two.second); },
        {"a partial " + what + " over {'x'}", "a partial sum over {'x'}"});
    expect_error<ShardingTypeError>([&] { (void)(two.first + two.second); },
                                    {"a partial " + what, "a partial sum"});
  }
  const Array over_y = e.along(placed(mixed({4, 8, 8}), P("y")), 0, e.spec(P(), {"y"}));
  expect_error<ShardingTypeError>(
      [&] { (void)e.of(v, over_y); },
      {e.is_max() ? "partial maxima over different axes" : "partial minima over different axes",
       "{'x'} and {'y'}"});
  // A dim of the result can't be split by an axis over which there are parts.
  expect_error<ShardingTypeError>([&] { (void)e.of(v, placed(w, P("x"))); },
                                  {"the result would be split by 'x'", "a partial " + what});
  // What is reshaped stays as it is.
  for (const P& spec : {P(), P().with_unreduced({"x"}), e.spec(P(), {"y"}), e.spec(P(), {"x", "y"}),
                        P().with_unreduced({"x"}, e.other())}) {
    expect_error<ShardingTypeError>([&] { (void)reshape(v, {64}, spec); },
                                    {"a partial " + what, "UnreducedKind::" + e.name()});
  }
  EXPECT_EQ(type_text(reshape(v, {64}, e.spec(P(), {"x"}))), text("f32[64]", "x"));
}

TEST_P(Extrema, AreJoinedOnceAfterALoop) {
  const Array batches = placed(mixed({3, 8, 4}), P(nullptr, "x"));
  const auto best = [&](Array xs) {
    const Array first = e.along(take(xs, Array(0), 0), 0, e.spec(P(), {"x"}));
    const auto step = [&](Array so_far, Array x) {
      return std::pair(e.of(so_far, e.along(x, 0, e.spec(P(), {"x"}))), Array(0));
    };
    return reshard(scan(step, first, xs).first, P());
  };
  EXPECT_EQ(floats(jit(best)(batches)), floats(e.along(mixed({3, 8, 4}), {0, 1})));
  const std::string compiled = jit(best).lower(batches).compile().as_text();
  EXPECT_EQ(count(compiled, " all-reduce("), 1u) << compiled;
}

TEST_P(Extrema, AreJoinedByTheirOwnDevices) {
  const Array v = parts(), w = parts(5);
  for (const auto& f : std::vector<std::function<Array(Array, Array)>>{
           [&](Array a, Array b) { return e.of(a, b); }, [&](Array a, Array) { return e.of(a, a); },
           [&](Array a, Array) { return e.of(a, Array(2.0f)); }}) {
    const std::string compiled = jit(f).lower(v, w).compile().as_text();
    EXPECT_EQ(collectives(compiled), 0u) << compiled;
  }
}

TEST_P(Extrema, ConstraintsStateTheKind) {
  const Array v = parts();
  const P same = e.spec(P(), {"x"});
  EXPECT_EQ(type_text(with_sharding_constraint(v, on(same))), text("f32[8,8]", "x"));
  for (const P& spec : {P(), P().with_unreduced({"x"}), P().with_unreduced({"x"}, e.other())}) {
    expect_error<ShardingError>([&] { (void)with_sharding_constraint(v, on(spec)); },
                                {"U_" + e.name() + ":x", spec.to_string(), "reshard()"});
  }
  // Where other axes are Auto, they split the parts.
  const Mesh half = make_mesh({2, 4}, {"x", "y"}, {AxisType::Explicit, AxisType::Auto});
  const Array x = device_put(mixed({4, 8, 8}), NamedSharding(half, P("x")));
  std::string inside;
  const Array cut = jit([&](Array a) {
    const Array b = flip(e.along(a, 0, e.spec(P(), {"x"})), 0);
    const Array c = with_sharding_constraint(b, NamedSharding(half, P("y")));
    inside = type_text(c);
    return reshard(c, P());
  })(x);
  EXPECT_EQ(inside, text("f32[8,8]", "x"));
  EXPECT_EQ(floats(cut), floats(flip(whole(), 0)));
  expect_error<ShardingError>(
      [&] {
        (void)jit([&](Array a) {
          const Array b = e.along(a, 0, e.spec(P(), {"x"}));
          return with_sharding_constraint(b, NamedSharding(half, P().with_unreduced({"y"})));
        })(x);
      },
      {"a partial sum", "unreduced axes of one kind"});
}

TEST_P(Extrema, HaveNoDerivativeOfTheirOwn) {
  const Array x = placed(mixed({8, 4}) * 0.5f, P("x")), v = parts();
  const auto square_of = [&](Array a) { return sum(square(a)); };
  // Within, they are what they are parts of.
  const auto loss = [&](Array a) {
    return square_of(reshard(e.of(e.along(a, 0, e.spec(P(), {"x"})), Array(-1.0f)), P()));
  };
  const auto plain = [&](Array a) { return square_of(e.of(e.along(a, 0), Array(-1.0f))); };
  const Array g = grad(loss)(x);
  EXPECT_EQ(type_text(g), "f32[8@x,4]");
  expect_close(g, grad(plain)(mixed({8, 4}) * 0.5f));
  expect_close(jit(grad(loss))(x), g);
  expect_error<ShardingTypeError>(
      [&] { (void)grad([&](Array a) { return sum(reshard(a, P())); })(v); },
      {"grad: argument", text("f32[8,8]", "x"), "have no derivative", "reshard()", kNear});
  const auto partial_result = [&](Array a) { return e.along(a, 0, e.spec(P(), {"x"})); };
  expect_error<ShardingTypeError>([&] { (void)jvp(partial_result, std::tuple(x), std::tuple(x)); },
                                  {"jvp", "of the results", "have no derivative"});
  expect_error<ShardingTypeError>([&] { (void)vjp(partial_result, x); },
                                  {"vjp", "of the results", "have no derivative"});
  expect_error<ShardingTypeError>([&] { (void)linearize(partial_result, x); },
                                  {"linearize", "of the results", "have no derivative"});
  // What has no derivative anyhow.
  EXPECT_NO_THROW((void)grad([&](Array a, Array) { return square_of(a); })(x, v));
}

TEST_P(Extrema, AreOfNumbersWithAnOrder) {
  const Array z = placed(mixed({8}).astype(c64), P());
  const Sharding to = on(e.spec(P(), {"x"}));
  expect_error<DTypeError>([&] { (void)device_put(z, to); }, {"c64[8]", "no order", "sum", kNear});
  expect_error<DTypeError>([&] { (void)jit([](Array a) { return a; }, {.out_shardings = to})(z); },
                           {"result", "c64[8]", "no order"});
  const Mesh plain = mesh_of({{"x", 2}, {"y", 4}});
  expect_error<DTypeError>(
      [&] {
        (void)with_sharding_constraint(mixed({8}).astype(c64),
                                       NamedSharding(plain, e.spec(P(), {"x"})));
      },
      {"c64[8]", "no order"});
}

INSTANTIATE_TEST_SUITE_P(Kinds, Extrema, ::testing::Values(kMax, kMin),
                         [](const auto& kind) { return std::string(to_string(kind.param)); });

}  // namespace
}  // namespace tessera::testing::partial_extrema
