// SPDX-License-Identifier: Apache-2.0
// Descriptions on streams, arrays of nested lists and single numbers, private fields in trees.
#include <tessera/print.h>
#include <tessera/tessera.h>

#include <sstream>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing {

class Hidden {
 public:
  Hidden() = default;
  explicit Hidden(Array w) : w_(std::move(w)) {}
  const Array& w() const { return w_; }

 private:
  TESSERA_TREE_FRIEND(Hidden);
  Array w_;
};
TESSERA_TREE(Hidden, w_)

namespace {

template <class T>
std::string printed(const T& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

TEST(Print, DescriptionsAreTheirTexts) {
  const Mesh mesh = make_mesh({{"x", 8}});
  const NamedSharding sharding(mesh, P("x"));
  EXPECT_EQ(printed(DType::bf16), "bf16");
  EXPECT_EQ(printed(devices()[3]), "cpu:3");
  EXPECT_EQ(printed(devices()[3].memory("pinned_host")), "pinned_host of cpu:3");
  EXPECT_EQ(printed(mesh), mesh.to_string());
  EXPECT_EQ(printed(AbstractMesh({{"x", 8}})), AbstractMesh({{"x", 8}}).to_string());
  EXPECT_EQ(printed(P("x", nullptr)), "PartitionSpec('x', None)");
  EXPECT_EQ(printed(P("x")[0]), "'x'");
  EXPECT_EQ(printed(sharding), sharding.to_string());
  EXPECT_EQ(printed(Sharding(sharding)), sharding.to_string());
  EXPECT_EQ(printed(AxisType::Explicit), "Explicit");
  EXPECT_EQ(printed(Layouts::solved), "solved");
  EXPECT_EQ(printed(type_of(ones({2}))), "f32[2]");
  EXPECT_EQ(printed(Layout({1, 0})), "Layout(major_to_minor=(1, 0))");
  EXPECT_EQ(printed(Location::current()).find("print_test.cc:") == std::string::npos, false);
  const auto compiled = jit([](Array v) { return v * 2; }).lower(ones({2})).compile();
  EXPECT_EQ(printed(compiled.hlo_modules()[0]), compiled.as_text());
  EXPECT_EQ(printed(compiled.explain()), compiled.explain().to_text());
  EXPECT_EQ(printed(compiled.cost_analysis()), compiled.cost_analysis().to_text());
}

TEST(Print, DescriptionsOfArraysHaveTheirShardings) {
  EXPECT_EQ(to_string(shape_dtype_struct({8}, s32, NamedSharding(make_mesh({{"x", 8}}), P("x")))),
            "ShapeDtypeStruct(s32[8], sharding=NamedSharding(mesh=Mesh('x': 8, "
            "axis_types=(Auto,)), spec=PartitionSpec('x'), memory_kind=device))");
}

TEST(Creation, ArraysOfNumbersAndOfNestedLists) {
  EXPECT_EQ(array(1).type_string(), "s32[]");
  EXPECT_FALSE(array(1).weak_type());
  EXPECT_EQ(array(2.5).type_string(), "f64[]");
  EXPECT_EQ(array(true).type_string(), "pred[]");
  EXPECT_EQ(array(2.5f, bf16).type_string(), "bf16[]");
  EXPECT_EQ(array(2.5f).item<float>(), 2.5f);
  const Array m = array({{1, 2, 3}, {4, 5, 6}});
  EXPECT_EQ(m.type_string(), "s32[2,3]");
  EXPECT_EQ(m.to_vector<int>(), (std::vector<int>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(array({{1.0f}, {2.0f}}, f64).type_string(), "f64[2,1]");
  expect_error<ValueError>([] { (void)array({{1, 2}, {3}}); }, {"different lengths", kNear});
}

TEST(Trees, PrivateFieldsAreNamed) {
  const auto f = jit([](Hidden h) { return Hidden(h.w() + 1); });
  EXPECT_EQ(floats(f(Hidden(ones({2}))).w()), (std::vector<float>{2, 2}));
}

TEST(ControlFlow, SwitchTakesATupleOfBranches) {
  const auto f = [](Array i, Array x) {
    return switch_case(i,
                       std::tuple([](Array v) { return std::pair(v, sum(v)); },
                                  [](Array v) { return std::pair(-v, sum(v * 2)); }),
                       x);
  };
  const Array x = array({1.0f, 2.0f});
  EXPECT_EQ(floats(f(array(0), x).first), (std::vector<float>{1, 2}));
  EXPECT_EQ(floats(jit(f)(array(1), x).first), (std::vector<float>{-1, -2}));
  EXPECT_EQ(jit(f)(array(7), x).second.item<float>(), 6);  // clamped
}

TEST(Derivatives, MessagesOfVjpAndOthersNameTheLineOfTheCall) {
  const Array x = array({1.0f, 2.0f});
  expect_error<ValueError>([&] { (void)linear_transpose([](Array a) { return a * a; }, x); },
                           {"not linear", kNear});
  const auto integers = array({1, 2});
  expect_error<TypeError>(
      [&] {
        const auto [y, pull] = vjp([](Array a) { return a * 2; }, x);
        (void)pull(ones({3}));
      },
      {"cotangent", "f32[3]", kNear});
  const auto [y, pull, other] =
      vjp([](Array a, Array b) { return std::pair(a * b, b); }, has_aux, x, x);
  EXPECT_EQ(floats(std::get<0>(pull(ones({2})))), floats(x));
  const auto [z, push] = linearize([](Array a, Array b, Array c) { return a * b * c; }, x, x, x);
  EXPECT_EQ(floats(push(x, zeros({2}), zeros({2}))), (std::vector<float>{1, 8}));
  const auto five = [](Array a, Array b, Array c, Array d, Array e) { return a * b * c * d * e; };
  EXPECT_EQ(floats(std::get<4>(vjp(five, x, x, x, x, x).second(ones({2})))),
            (std::vector<float>{1, 16}));
}

TEST(Derivatives, MismatchesOfAxesShowTheAxes) {
  expect_error<ValueError>(
      [] { (void)vmap([](Array a) { return a; }, {.in_axes = axes_tree(0, nullptr)})(ones({2})); },
      {"has 1 element, and vmap: in_axes has 2 there: (0, nullptr)", kNear});
  expect_error<ValueError>(
      [] { (void)vmap([](Array a) { return a; }, {.out_axes = axes_tree(0, -1)})(ones({2})); },
      {"tree prefix of the result", "(0, -1)", kNear});
}

}  // namespace
}  // namespace tessera::testing
