// SPDX-License-Identifier: Apache-2.0
// Arrays whose devices hold parts of a maximum or minimum: made, placed, read, given to programs.
#include "tests/frontend/per_device/partial_extrema_testing.h"

namespace tessera::testing::partial_extrema {
namespace {

class ExtremaArrays : public ::testing::TestWithParam<UnreducedKind>, protected ExtremaOnMesh {
 protected:
  ExtremaArrays() : ExtremaOnMesh{{GetParam()}} {}
};

TEST_P(ExtremaArrays, PlacedFromAnySharding) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Array value = mixed({8, 2});
  std::vector<float> special = floats(value);
  special[0] = -kInf;
  special[3] = kInf;
  special[5] = nan;
  special[6] = -0.0f;
  special[15] = nan;
  const Array odd = array(special, {8, 2});
  for (const AxisType type : {AxisType::Auto, AxisType::Explicit}) {
    const Mesh m = make_mesh({2, 4}, {"x", "y"}, {type, type});
    for (const Array& x : {value, odd}) {
      for (const P& spec : {e.spec(P("x"), {"y"}), e.spec(P(), {"x", "y"}),
                            e.spec(P(nullptr, "x"), {"y"}), e.spec(P(), {"x"})}) {
        for (const Array& from :
             {x, put(x, m, P("x")), put(x, m, P("y", "x")), device_put(x, devices()[3]),
              put(x, m, P().with_unreduced({"x"})), put(x, m, e.spec(P(), {"y"})),
              put(x, m, P().with_unreduced({"x", "y"}, e.other()))}) {
          const Array s = put(from, m, spec);
          EXPECT_EQ(s.sharding(), NamedSharding(m, spec));
          expect_same(s, x);
          // The parts of its devices, joined, are the value.
          Array joined = full({8, 2}, e.worst());
          for (const Shard& shard : s.addressable_shards()) {
            Array there = full({8, 2}, e.worst());
            const auto start = [&](std::size_t d) {
              return Array(std::int32_t(shard.index[d].start.value_or(0)));
            };
            there = dynamic_update_slice(there, device_put(shard.data, devices()[0]),
                                         {start(0), start(1)});
            joined = e.of(joined, device_put(there, devices()[0]));
          }
          expect_same(joined, x);
          EXPECT_EQ(put(s, m, spec).sharding(), s.sharding());
          // And on from there.
          for (const P& to : {P(), P("y"), P("x", nullptr), P().with_unreduced({"y"}),
                              P().with_unreduced({"x"}, e.other()), e.spec(P("y"), {"x"})}) {
            const Array back = put(s, m, to);
            EXPECT_EQ(back.sharding(), NamedSharding(m, to));
            expect_same(back, x);
          }
          expect_same(device_put(s, devices()[5]), x);
        }
      }
    }
  }
}

TEST_P(ExtremaArrays, AreMadeFromTheirTerms) {
  const Mesh m = mesh_of({{"x", 4}});
  const NamedSharding to(m, e.spec(P(), {"x"}));
  const float terms[4][3] = {{1, -kInf, 3}, {8, -5, -kInf}, {2, -kInf, NAN}, {4, kInf, 0}};
  std::vector<Array> parts;
  for (int i = 0; i < 4; ++i) {
    parts.push_back(device_put(array(std::vector<float>(terms[i], terms[i] + 3), {3}),
                               m.devices()[std::size_t(i)]));
  }
  const Array s = make_array_from_single_device_arrays({3}, to, parts);
  const std::vector<float> have = floats(s);
  EXPECT_EQ(have[0], e.is_max() ? 8 : 1);
  EXPECT_EQ(have[1], e.is_max() ? kInf : -kInf);
  EXPECT_TRUE(std::isnan(have[2]));
  EXPECT_EQ(floats(s.addressable_data(3))[0], 4);
  EXPECT_EQ(to_string(s), to_string(array(have, {3})));
  expect_same(copy(s), s);
  expect_same(s * 2.0f, array(have, {3}) * 2.0f);
  EXPECT_EQ(s.addressable_shards()[1].replica_id, 0);
}

TEST_P(ExtremaArrays, OfManyTypes) {
  const Mesh m = mesh_of({{"x", 4}});
  const NamedSharding to(m, e.spec(P(), {"x"}));
  for (const DType type : {s8, s32, s64, u8, u32, f64, bf16, f16, pred}) {
    std::vector<Array> terms;
    for (int i = 0; i < 4; ++i) {
      const Array term = array({i, 3 - i, i % 2}, s32).astype(type);
      terms.push_back(device_put(term, m.devices()[std::size_t(i)]));
    }
    const Array s = make_array_from_single_device_arrays({3}, to, terms);
    const Array want = (e.is_max() ? array({3, 3, 1}, s32) : array({0, 0, 0}, s32)).astype(type);
    EXPECT_EQ(to_string(s), to_string(want)) << s.type_string();
    EXPECT_EQ(to_string(put(want, m, e.spec(P(), {"x"}))), to_string(want)) << s.type_string();
  }
}

TEST_P(ExtremaArrays, AtTheBoundariesOfPrograms) {
  for (const AxisType type : {AxisType::Auto, AxisType::Explicit}) {
    const Mesh m = make_mesh({2, 4}, {"x", "y"}, {type, type});
    const NamedSharding to(m, e.spec(P(), {"x"}));
    const Array x = mixed({8, 8});
    const auto f =
        jit([&](Array v) { return flip(v, 0); }, {.in_shardings = to, .out_shardings = to});
    const Array y = f(x);
    EXPECT_EQ(y.sharding(), to);
    EXPECT_EQ(floats(y), floats(flip(x, 0)));
    EXPECT_EQ(floats(f(y)), floats(x));
    const std::string text = f.lower(y).as_text();
    EXPECT_TRUE(has(text, "unreduced=" + e.name() + "{\\\"x\\\"}")) << text;
    // Compiled for one kind, called with another.
    const auto compiled = f.lower(y).compile();
    EXPECT_EQ(floats(compiled(y)), floats(x));
    expect_error<ValueError>(
        [&] { (void)compiled(put(x, m, P().with_unreduced({"x"}, e.other()))); },
        {"shardings differ"});
    expect_error<ValueError>([&] { (void)compiled(put(x, m, P().with_unreduced({"x"}))); },
                             {"shardings differ"});
  }
  // Where axes are Auto, results are left so, and read as what they are.
  const Mesh m = mesh_of({{"x", 2}, {"y", 4}});
  const Array x = put(mixed({8, 4}), m, P("y"));
  const auto f = jit([&](Array v) { return e.along(v, 0); },
                     {.out_shardings = NamedSharding(m, e.spec(P(), {"y"}))});
  EXPECT_EQ(collectives(f.lower(x).compile().as_text()), 0u);
  const Array y = f(x);
  EXPECT_EQ(floats(y), floats(e.along(mixed({8, 4}), 0)));
  for (const Shard& s : y.addressable_shards()) {
    const std::int64_t part = s.device.id % 4;
    EXPECT_EQ(floats(s.data),
              floats(e.along(slice(mixed({8, 4}), {2 * part, 0}, {2 * part + 2, 4}), 0)));
  }
  EXPECT_EQ(floats(jit([](Array v) { return v * 2.0f; })(y)),
            floats(e.along(mixed({8, 4}), 0) * 2.0f));
  EXPECT_EQ(floats(with_sharding_constraint(x, NamedSharding(m, e.spec(P(), {"x"})))),
            floats(mixed({8, 4})));
}

TEST_P(ExtremaArrays, OnOtherOrdersOfDevices) {
  std::vector<Device> turned(mesh.devices().begin(), mesh.devices().end());
  std::rotate(turned.begin(), turned.begin() + 3, turned.end());
  const Mesh other(turned, {2, 4}, {"x", "y"});
  const Mesh plain = mesh_of({{"x", 2}, {"y", 4}});
  const Array x = mixed({8, 4});
  const Array s = put(x, other, e.spec(P("y"), {"x"}));
  EXPECT_EQ(floats(s), floats(x));
  EXPECT_EQ(floats(put(s, plain, e.spec(P(), {"x", "y"}))), floats(x));
  EXPECT_EQ(floats(put(s, plain, P("x"))), floats(x));
  // Other names for the same places.
  const Mesh named = mesh_of({{"a", 2}, {"b", 4}});
  const Array t = put(put(x, plain, e.spec(P("y"), {"x"})), named, e.spec(P("b"), {"a"}));
  EXPECT_EQ(t.sharding(), NamedSharding(named, e.spec(P("b"), {"a"})));
  EXPECT_EQ(floats(t), floats(x));
  EXPECT_EQ(floats(jit([](Array v) { return v + 1.0f; },
                       {.out_shardings = NamedSharding(plain, P("x"))})(t)),
            floats(x + 1.0f));
}

TEST_P(ExtremaArrays, InHostMemory) {
  const Array x = mixed({8, 4});
  const NamedSharding host(mesh, e.spec(P(), {"x"}), "pinned_host");
  const Array s = device_put(x, host);
  EXPECT_EQ(s.sharding(), host);
  EXPECT_EQ(floats(s), floats(x));
  const Array back = device_put(s, TransferToMemoryKind{"device"});
  EXPECT_EQ(type_text(back), text("f32[8,4]", "x"));
  EXPECT_EQ(floats(back), floats(x));
}

INSTANTIATE_TEST_SUITE_P(Kinds, ExtremaArrays, ::testing::Values(kMax, kMin),
                         [](const auto& kind) { return std::string(to_string(kind.param)); });

}  // namespace
}  // namespace tessera::testing::partial_extrema
