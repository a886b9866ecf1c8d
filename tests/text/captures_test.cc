// SPDX-License-Identifier: Apache-2.0
// Functions on scalars that use values from outside, and features of StableHLO that HLO lacks.
#include <limits>
#include <map>
#include <numbers>

#include "src/ir/shapes/shape_inference.h"
#include "src/text/read/stablehlo.h"
#include "tests/text/programs.h"

namespace tessera::text {
namespace {

template <class T>
std::vector<T> run(const std::string& text, std::vector<Literal> arguments) {
  auto module = parse_stablehlo("func.func @main" + text + "\n}\n", "t.mlir");
  ir::verify(*module);
  return to_vector<T>(evaluator::evaluate(*module, arguments));
}

Literal floats(std::vector<float> v) {
  auto n = std::int64_t(v.size());
  return make_literal(DType::f32, {n}, v);
}

// %s is no constant: it is the sine of the argument %t.
constexpr const char* kScaled = "%s = stablehlo.add %t, %t : tensor<f32>\n";

TEST(Locations, FunctionsWithoutLocationsHaveThatOfTheirCall) {
  const std::string text = R"(module @m {
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @once(%a) : (tensor<4xf32>) -> tensor<4xf32> loc("user.py":7:1)
  %1 = call @twice(%0) : (tensor<4xf32>) -> tensor<4xf32> loc("user.py":8:1)
  %2 = call @twice(%1) : (tensor<4xf32>) -> tensor<4xf32> loc("user.py":9:1)
  return %2 : tensor<4xf32>
}
func.func private @once(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = stablehlo.sine %x : tensor<4xf32> loc("sin")
  %c = stablehlo.cosine %s : tensor<4xf32> loc("library.py":3:1)
  %i = call @within(%c) : (tensor<4xf32>) -> tensor<4xf32> loc("jit")
  return %i : tensor<4xf32>
}
func.func private @within(%x: tensor<4xf32>) -> tensor<4xf32> {
  %n = stablehlo.negate %x : tensor<4xf32> loc("neg")
  return %n : tensor<4xf32>
}
func.func private @twice(%x: tensor<4xf32>) -> tensor<4xf32> {
  %t = stablehlo.tanh %x : tensor<4xf32> loc("tanh")
  return %t : tensor<4xf32>
}
})";
  auto module = parse_stablehlo(text, "t.mlir");
  std::map<ir::Opcode, std::string> at;
  for (const auto& c : module->computations()) {
    for (const auto& i : c->instructions()) at[i->opcode] = i->location().to_string();
  }
  EXPECT_EQ(at[ir::Opcode::sine], "user.py:7");
  EXPECT_EQ(at[ir::Opcode::cosine], "library.py:3");
  EXPECT_EQ(at[ir::Opcode::negate], "user.py:7");
  EXPECT_EQ(at[ir::Opcode::tanh], "t.mlir:19");  // of two callers neither
}

TEST(Captures, Reduce) {
  // max(|x - s|) with s from outside, in both forms.
  const std::string body =
      "%d = stablehlo.subtract %y, %s : tensor<f32>\n%e = stablehlo.abs %d : tensor<f32>\n"
      "%m = stablehlo.maximum %x, %e : tensor<f32>\nstablehlo.return %m : tensor<f32>\n";
  const std::string head = "(%a: tensor<4xf32>, %t: tensor<f32>) -> tensor<f32> {\n" +
                           std::string(kScaled) +
                           "%c = stablehlo.constant dense<0.0> : tensor<f32>\n";
  const std::vector<Literal> in = {floats({1, 5, -2, 3}), Literal::scalar(DType::f32, 1.0f)};
  EXPECT_EQ(run<float>(head +
                           "%0 = stablehlo.reduce(%a init: %c) across dimensions = [0] : "
                           "(tensor<4xf32>, tensor<f32>) -> tensor<f32> reducer(%x: tensor<f32>, "
                           "%y: tensor<f32>) {\n" +
                           body + "}\nreturn %0 : tensor<f32>",
                       in),
            (std::vector<float>{4}));
  EXPECT_EQ(run<float>(head +
                           "%0 = \"stablehlo.reduce\"(%a, %c) <{dimensions = array<i64: 0>}> ({\n"
                           "^bb0(%x: tensor<f32>, %y: tensor<f32>):\n" +
                           body +
                           "}) : (tensor<4xf32>, tensor<f32>) -> tensor<f32>\n"
                           "return %0 : tensor<f32>",
                       in),
            (std::vector<float>{4}));
}

TEST(Captures, ReduceOfTwo) {
  const std::string text =
      "(%a: tensor<3xf32>, %b: tensor<3xf32>, %t: tensor<f32>) -> tensor<f32> {\n" +
      std::string(kScaled) +
      "%c = stablehlo.constant dense<0.0> : tensor<f32>\n"
      "%0:2 = stablehlo.reduce(%a init: %c), (%b init: %c) across dimensions = [0] : "
      "(tensor<3xf32>, tensor<3xf32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)\n"
      "reducer(%x: tensor<f32>, %y: tensor<f32>) (%u: tensor<f32>, %v: tensor<f32>) {\n"
      "%p = stablehlo.add %x, %y : tensor<f32>\n%q = stablehlo.multiply %v, %s : tensor<f32>\n"
      "%r = stablehlo.add %u, %q : tensor<f32>\n"
      "stablehlo.return %p, %r : tensor<f32>, tensor<f32>\n}\n"
      "%1 = stablehlo.subtract %0#1, %0#0 : tensor<f32>\nreturn %1 : tensor<f32>";
  // 2 s (b) - a with s = 2 t
  EXPECT_EQ(run<float>(
                text, {floats({1, 2, 3}), floats({1, 10, 100}), Literal::scalar(DType::f32, 1.5f)}),
            (std::vector<float>{333 - 6}));
}

TEST(Captures, ReduceWindowScatterSortMap) {
  const std::string s(kScaled);
  EXPECT_EQ(run<float>("(%a: tensor<4xf32>, %t: tensor<f32>) -> tensor<3xf32> {\n" + s +
                           "%c = stablehlo.constant dense<0.0> : tensor<f32>\n"
                           "%0 = \"stablehlo.reduce_window\"(%a, %c) <{window_dimensions = "
                           "array<i64: 2>}> ({\n^bb0(%x: tensor<f32>, %y: tensor<f32>):\n"
                           "%q = stablehlo.multiply %y, %s : tensor<f32>\n"
                           "%m = stablehlo.add %x, %q : tensor<f32>\n"
                           "stablehlo.return %m : tensor<f32>\n}) : (tensor<4xf32>, tensor<f32>) "
                           "-> tensor<3xf32>\nreturn %0 : tensor<3xf32>",
                       {floats({1, 2, 3, 4}), Literal::scalar(DType::f32, 0.5f)}),
            (std::vector<float>{3, 5, 7}));
  EXPECT_EQ(run<float>("(%a: tensor<4xf32>, %t: tensor<f32>, %i: tensor<2x1xi32>, %u: "
                       "tensor<2xf32>) -> tensor<4xf32> {\n" +
                           s +
                           "%0 = \"stablehlo.scatter\"(%a, %i, %u) <{scatter_dimension_numbers = "
                           "#stablehlo.scatter<inserted_window_dims = [0], "
                           "scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({\n"
                           "^bb0(%x: tensor<f32>, %y: tensor<f32>):\n"
                           "%q = stablehlo.multiply %y, %s : tensor<f32>\n"
                           "%m = stablehlo.add %x, %q : tensor<f32>\n"
                           "stablehlo.return %m : tensor<f32>\n}) : (tensor<4xf32>, "
                           "tensor<2x1xi32>, tensor<2xf32>) -> tensor<4xf32>\n"
                           "return %0 : tensor<4xf32>",
                       {floats({1, 2, 3, 4}), Literal::scalar(DType::f32, 5.0f),
                        make_literal(DType::s32, {2, 1}, std::vector<int>{3, 3}), floats({1, 2})}),
            (std::vector<float>{1, 2, 3, 34}));
  // By the distance to s.
  EXPECT_EQ(run<float>("(%a: tensor<4xf32>, %t: tensor<f32>) -> tensor<4xf32> {\n" + s +
                           "%0 = \"stablehlo.sort\"(%a) <{dimension = 0 : i64}> ({\n"
                           "^bb0(%x: tensor<f32>, %y: tensor<f32>):\n"
                           "%d = stablehlo.subtract %x, %s : tensor<f32>\n"
                           "%e = stablehlo.subtract %y, %s : tensor<f32>\n"
                           "%f = stablehlo.abs %d : tensor<f32>\n%g = stablehlo.abs %e : "
                           "tensor<f32>\n%p = stablehlo.compare LT, %f, %g : (tensor<f32>, "
                           "tensor<f32>) -> tensor<i1>\nstablehlo.return %p : tensor<i1>\n}) : "
                           "(tensor<4xf32>) -> tensor<4xf32>\nreturn %0 : tensor<4xf32>",
                       {floats({1, 9, 4, 7}), Literal::scalar(DType::f32, 3.0f)}),
            (std::vector<float>{7, 4, 9, 1}));
  EXPECT_EQ(run<float>("(%a: tensor<2xf32>, %t: tensor<f32>) -> tensor<2xf32> {\n" + s +
                           "%0 = \"stablehlo.map\"(%a) <{dimensions = array<i64: 0>}> ({\n"
                           "^bb0(%x: tensor<f32>):\n%m = stablehlo.multiply %x, %s : tensor<f32>\n"
                           "stablehlo.return %m : tensor<f32>\n}) : (tensor<2xf32>) -> "
                           "tensor<2xf32>\nreturn %0 : tensor<2xf32>",
                       {floats({1, 9}), Literal::scalar(DType::f32, 3.0f)}),
            (std::vector<float>{6, 54}));
}

TEST(Captures, FromOuterRegions) {
  // A reducer in a loop uses what stands before the loop.
  EXPECT_EQ(
      run<float>(
          "(%a: tensor<3xf32>, %t: tensor<f32>) -> tensor<f32> {\n" + std::string(kScaled) +
              "%z = stablehlo.constant dense<0.0> : tensor<f32>\n"
              "%one = stablehlo.constant dense<1> : tensor<i32>\n"
              "%two = stablehlo.constant dense<2> : tensor<i32>\n"
              "%none = stablehlo.constant dense<0> : tensor<i32>\n"
              "%w:2 = stablehlo.while(%i = %none, %f = %z) : tensor<i32>, tensor<f32>\ncond {\n"
              "%p = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
              "stablehlo.return %p : tensor<i1>\n} do {\n"
              "%r = stablehlo.reduce(%a init: %f) across dimensions = [0] : (tensor<3xf32>, "
              "tensor<f32>) -> tensor<f32> reducer(%x: tensor<f32>, %y: tensor<f32>) {\n"
              "%q = stablehlo.multiply %y, %s : tensor<f32>\n%m = stablehlo.add %x, %q : "
              "tensor<f32>\nstablehlo.return %m : tensor<f32>\n}\n"
              "%j = stablehlo.add %i, %one : tensor<i32>\n"
              "stablehlo.return %j, %r : tensor<i32>, tensor<f32>\n}\nreturn %w#1 : tensor<f32>",
          {floats({1, 2, 3}), Literal::scalar(DType::f32, 1.0f)}),
      (std::vector<float>{24}));
}

TEST(Scan, SumsAndLoops) {
  const std::string types =
      "(tensor<2x3xf32>, tensor<2xf32>) -> (tensor<2x3xf32>, tensor<2xf32>)\n";
  const Literal x = make_literal(DType::f32, {2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6});
  const Literal c = floats({10, 20});
  for (bool loop : {false, true}) {
    for (bool reverse : {false, true}) {
      // The loop carries the same sum, written so that it is no single op.
      const std::string text =
          "(%a: tensor<2x3xf32>, %c: tensor<2xf32>) -> tensor<2x3xf32> {\n"
          "%0:2 = chlo.scan(%a) inits(%c) dimension=1 attributes {is_associative = true" +
          std::string(reverse ? ", is_reverse = true" : "") +
          "} {\n^bb0(%x: tensor<2xf32>, %y: tensor<2xf32>):\n%1 = stablehlo.add %x, %y : "
          "tensor<2xf32>\n%2 = stablehlo.optimization_barrier %1 : tensor<2xf32>\n"
          "stablehlo.return " +
          (loop ? "%2, %1" : "%1, %1") + " : tensor<2xf32>, tensor<2xf32>\n} : " + types +
          "return %0#0 : tensor<2x3xf32>";
      EXPECT_EQ(run<float>(text, {x, c}), reverse ? (std::vector<float>{16, 15, 13, 35, 31, 26})
                                                  : (std::vector<float>{11, 13, 16, 24, 29, 35}));
    }
  }
  EXPECT_EQ(run<float>("(%a: tensor<2x3xf32>, %c: tensor<2xf32>) -> tensor<2xf32> {\n"
                       "%0:2 = \"chlo.scan\"(%a, %c) <{dimension = 1 : i64, operandSegmentSizes = "
                       "array<i32: 1, 1>, resultSegmentSizes = array<i32: 1, 1>}> ({\n"
                       "^bb0(%x: tensor<2xf32>, %y: tensor<2xf32>):\n%1 = stablehlo.subtract %y, "
                       "%x : tensor<2xf32>\nstablehlo.return %x, %1 : tensor<2xf32>, "
                       "tensor<2xf32>\n}) : " +
                           types + "return %0#1 : tensor<2xf32>",
                       {x, c}),
            (std::vector<float>{4, 5}));
}

TEST(Scan, WithoutStepsReturnsTheInitialCarry) {
  EXPECT_EQ(run<float>("(%a: tensor<0xf32>, %c: tensor<f32>) -> tensor<f32> {\n"
                       "%0:2 = chlo.scan(%a) inits(%c) dimension=0 {\n^bb0(%x: tensor<f32>, %y: "
                       "tensor<f32>):\n%1 = stablehlo.add %x, %y : tensor<f32>\n"
                       "stablehlo.return %1, %1 : tensor<f32>, tensor<f32>\n} : (tensor<0xf32>, "
                       "tensor<f32>) -> (tensor<0xf32>, tensor<f32>)\nreturn %0#1 : tensor<f32>",
                       {floats({}), Literal::scalar(DType::f32, 3.0f)}),
            (std::vector<float>{3}));
}

TEST(Complex, OperationsThatHloLacksOnComplexNumbers) {
  using C = std::complex<float>;
  auto c64 = [](std::vector<C> v) {
    auto n = std::int64_t(v.size());
    return make_literal(DType::c64, {n}, v);
  };
  const Literal a = c64({{1, 5}, {2, 3}, {2, -1}}), b = c64({{2, 1}, {2, 4}, {2, -1}});
  auto two = [&](const std::string& op) {
    return run<C>(
        "(%a: tensor<3xcomplex<f32>>, %b: tensor<3xcomplex<f32>>) -> "
        "tensor<3xcomplex<f32>> {\n%0 = stablehlo." +
            op + " %a, %b : tensor<3xcomplex<f32>>\nreturn %0 : tensor<3xcomplex<f32>>",
        {a, b});
  };
  EXPECT_EQ(two("maximum"), (std::vector<C>{{2, 1}, {2, 4}, {2, -1}}));
  EXPECT_EQ(two("minimum"), (std::vector<C>{{1, 5}, {2, 3}, {2, -1}}));
  const std::vector<C> angles = two("atan2");
  for (std::size_t n = 0; n < 3; ++n) {
    // tan of it is the ratio.
    const C x = to_vector<C>(a)[n], y = to_vector<C>(b)[n];
    EXPECT_LT(std::abs(std::tan(angles[n]) - x / y), 1e-4f) << n;
  }
  const std::vector<C> roots = run<C>(
      "(%a: tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>> {\n%0 = stablehlo.cbrt %a : "
      "tensor<3xcomplex<f32>>\nreturn %0 : tensor<3xcomplex<f32>>",
      {a});
  for (std::size_t n = 0; n < 3; ++n) {
    EXPECT_LT(std::abs(roots[n] * roots[n] * roots[n] - to_vector<C>(a)[n]), 1e-4f) << n;
  }
  EXPECT_EQ(run<int>("(%a: tensor<3xcomplex<f32>>) -> tensor<3xi32> {\n%0 = stablehlo.convert %a : "
                     "(tensor<3xcomplex<f32>>) -> tensor<3xi32>\nreturn %0 : tensor<3xi32>",
                     {a}),
            (std::vector<int>{1, 2, 2}));
}

TEST(Bits, BooleansAreSingleBitsInBitcasts) {
  EXPECT_EQ(run<int>("(%a: tensor<2xi8>) -> tensor<2x8xi1> {\n%0 = stablehlo.bitcast_convert %a : "
                     "(tensor<2xi8>) -> tensor<2x8xi1>\nreturn %0 : tensor<2x8xi1>",
                     {make_literal(DType::s8, {2}, std::vector<int>{-127, 6})}),
            (std::vector<int>{1, 0, 0, 0, 0, 0, 0, 1, 0, 1, 1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(
      run<int>("(%a: tensor<2x8xi1>) -> tensor<2xi8> {\n%0 = stablehlo.bitcast_convert %a : "
               "(tensor<2x8xi1>) -> tensor<2xi8>\nreturn %0 : tensor<2xi8>",
               {make_literal(DType::pred, {2, 8},
                             std::vector<int>{1, 0, 0, 0, 0, 0, 0, 1, 0, 1, 1, 0, 0, 0, 0, 0})}),
      (std::vector<int>{-127, 6}));
}

TEST(Asynchronous, StartedOperationsRunImmediately) {
  EXPECT_EQ(run<float>("(%a: tensor<4xf32>) -> tensor<2xf32> {\n"
                       "%0 = \"stablehlo.async_start\"(%a) ({\n^bb0(%x: tensor<4xf32>):\n"
                       "%1 = stablehlo.slice %x [1:3] : (tensor<4xf32>) -> tensor<2xf32>\n"
                       "stablehlo.return %1 : tensor<2xf32>\n}) : (tensor<4xf32>) -> "
                       "!stablehlo.future<tensor<2xf32>>\n"
                       "%2 = \"stablehlo.async_done\"(%0) : (!stablehlo.future<tensor<2xf32>>) -> "
                       "tensor<2xf32>\nreturn %2 : tensor<2xf32>",
                       {floats({1, 2, 3, 4})}),
            (std::vector<float>{2, 3}));
}

TEST(Collectives, OnlyAtTheRoot) {
  auto on_four = [](const std::string& operations) {
    auto module = parse_stablehlo(
        "module attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {\n"
        "func.func @main(%a: tensor<2xf32>, %r: tensor<1xi32>) -> tensor<2xf32> {\n" +
            operations + " : (tensor<2xf32>, tensor<1xi32>) -> tensor<2xf32>\n" +
            "return %0 : tensor<2xf32>\n}\n}\n",
        "t.mlir");
    ir::verify(*module);
    std::vector<std::vector<Literal>> in;
    for (int d = 0; d < 4; ++d) {
      in.push_back(
          {floats({float(d), float(10 * d)}), make_literal(DType::s32, {1}, std::vector<int>{1})});
    }
    std::vector<std::vector<float>> out;
    for (const Literal& l : evaluator::evaluate_spmd(*module, in)) {
      out.push_back(to_vector<float>(l));
    }
    return out;
  };
  const std::string groups =
      "replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, has_dynamic_root = true, "
      "channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>";
  EXPECT_EQ(on_four("%0 = \"stablehlo.collective_reduce\"(%a, %r) <{" + groups +
                    "}> ({\n^bb0(%x: tensor<f32>, %y: tensor<f32>):\n%s = stablehlo.add %x, %y : "
                    "tensor<f32>\nstablehlo.return %s : tensor<f32>\n})"),
            (std::vector<std::vector<float>>{{0, 0}, {0, 0}, {2, 20}, {4, 40}}));
  // No groups are one of all devices; a device in none is refused.
  const std::string reduce =
      "}> ({\n^bb0(%x: tensor<f32>, %y: tensor<f32>):\n%s = stablehlo.add %x, %y : tensor<f32>\n"
      "stablehlo.return %s : tensor<f32>\n})";
  const std::string rest =
      ", has_dynamic_root = true, channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>";
  EXPECT_THROW(on_four("%0 = \"stablehlo.collective_reduce\"(%a, %r) <{replica_groups = "
                       "dense<[[3, 1]]> : tensor<1x2xi64>" +
                       rest + reduce),
               NotImplementedError);
  EXPECT_EQ(on_four("%0 = \"stablehlo.collective_reduce\"(%a, %r) <{replica_groups = dense<> : "
                    "tensor<0x0xi64>" +
                    rest + reduce),
            (std::vector<std::vector<float>>{{0, 0}, {6, 60}, {0, 0}, {0, 0}}));
  EXPECT_EQ(on_four("%0 = \"stablehlo.collective_broadcast\"(%a, %r) <{" + groups + "}>"),
            (std::vector<std::vector<float>>{{2, 20}, {3, 30}, {2, 20}, {3, 30}}));
}

TEST(Functions, OfComplexNumbersWithoutEnd) {
  using C = std::complex<float>;
  constexpr float inf = std::numeric_limits<float>::infinity(), most = 3e38F;
  const auto value = [](const std::string& name, C x) {
    const std::string type = "tensor<1xcomplex<f32>>";
    return run<C>("(%x: " + type + ") -> " + type + " {\n%0 = " + name + " %x : " +
                      (name[0] == 'c' ? type + " -> " + type : type) + "\nreturn %0 : " + type,
                  {make_literal<C>({x})})[0];
  };
  // The real part of a square isn't a difference of infinities.
  EXPECT_EQ(value("chlo.square", {most, inf}), C(-inf, inf));
  EXPECT_EQ(value("chlo.square", {most, most}), C(0, inf));
  EXPECT_EQ(value("chlo.square", {-most, most / 2}), C(inf, -inf));
  EXPECT_EQ(value("chlo.square", {3, -2}), C(5, -12));
  EXPECT_TRUE(std::isnan(value("chlo.square", {inf, inf}).real()));
  for (const float x : {-inf, inf, 1.0F}) {
    const C e = value("stablehlo.exponential", {x, inf});
    EXPECT_TRUE(std::isnan(e.real()) && std::isnan(e.imag())) << x;
  }
  EXPECT_EQ(value("stablehlo.exponential", {-inf, 1}), C(0, 0));
  // 1 / z, and in the end nothing.
  EXPECT_FLOAT_EQ(value("chlo.atanh", {1e30F, 2}).real(), 1e-30F);
  EXPECT_FLOAT_EQ(value("chlo.atanh", {1e25F, -1e25F}).real(), 0.5e-25F);
  EXPECT_FLOAT_EQ(value("chlo.atan", {1, 1e37F}).imag(), 1e-37F);
  for (const float x : {-inf, inf}) {
    EXPECT_EQ(value("chlo.atanh", {x, 1}).real(), 0);
    EXPECT_EQ(value("chlo.atan", {x, 1}), C(std::copysign(float(std::numbers::pi / 2), x), 0));
  }
}

// What is summed up in f64 may be f32, as the specification allows.
TEST(Promotion, FunctionsTakeWiderElementsThanTheOperands) {
  const auto region = [](const std::string& t) {
    return "({\n^bb0(%x: tensor<" + t + ">, %y: tensor<" + t +
           ">):\n%s = stablehlo.add %x, %y : " + "tensor<" + t +
           ">\nstablehlo.return %s : tensor<" + t + ">\n})";
  };
  const Literal x = floats({1e8F, 1, -1e8F, 2});
  const Literal zero = make_literal(DType::f32, {}, std::vector<float>{0.5F});
  EXPECT_EQ((run<double>("(%a: tensor<4xf32>, %z: tensor<f32>) -> tensor<f64> {\n"
                         "%0 = \"stablehlo.reduce\"(%a, %z) <{dimensions = array<i64: 0>}> " +
                             region("f64") +
                             " : (tensor<4xf32>, tensor<f32>) -> tensor<f64>\n"
                             "return %0 : tensor<f64>",
                         {x, zero})),
            (std::vector<double>{3.5}));
  EXPECT_EQ((run<double>("(%a: tensor<4xf32>, %z: tensor<f32>) -> tensor<2xf64> {\n"
                         "%0 = \"stablehlo.reduce_window\"(%a, %z) <{window_dimensions = "
                         "array<i64: 2>, window_strides = array<i64: 2>}> " +
                             region("f64") +
                             " : (tensor<4xf32>, tensor<f32>) -> tensor<2xf64>\n"
                             "return %0 : tensor<2xf64>",
                         {x, zero})),
            (std::vector<double>{100000001.5, -99999997.5}));
  const std::string scatter =
      "#stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], "
      "index_vector_dim = 1,>";
  EXPECT_EQ((run<double>("(%a: tensor<4xf32>, %u: tensor<2xf32>) -> tensor<4xf64> {\n"
                         "%i = stablehlo.constant dense<[[0], [0]]> : tensor<2x1xi32>\n"
                         "%0 = \"stablehlo.scatter\"(%a, %i, %u) <{scatter_dimension_numbers = " +
                             scatter + "}> " + region("f64") +
                             " : (tensor<4xf32>, tensor<2x1xi32>, tensor<2xf32>) -> tensor<4xf64>\n"
                             "return %0 : tensor<4xf64>",
                         {x, floats({1, 2})})),
            (std::vector<double>{100000003, 1, -1e8, 2}));
  // The select takes elements as they are.
  EXPECT_EQ((run<double>("(%a: tensor<4xf32>, %u: tensor<2xf32>, %z: tensor<f32>) -> "
                         "tensor<4xf64> {\n"
                         "%0 = \"stablehlo.select_and_scatter\"(%a, %u, %z) <{window_dimensions = "
                         "array<i64: 2>, window_strides = array<i64: 2>}> ({\n^bb0(%x: "
                         "tensor<f32>, %y: tensor<f32>):\n%s = stablehlo.compare GE, %x, %y : "
                         "(tensor<f32>, tensor<f32>) -> tensor<i1>\nstablehlo.return %s : "
                         "tensor<i1>\n}, " +
                             region("f64").substr(1, region("f64").size() - 2) +
                             ") : (tensor<4xf32>, tensor<2xf32>, tensor<f32>) -> tensor<4xf64>\n"
                             "return %0 : tensor<4xf64>",
                         {x, floats({7, 9}), zero})),
            (std::vector<double>{7.5, 0.5, 0.5, 9.5}));
  EXPECT_EQ((run<int>("(%a: tensor<3xi8>, %z: tensor<i8>) -> tensor<i32> {\n"
                      "%0 = \"stablehlo.reduce\"(%a, %z) <{dimensions = array<i64: 0>}> " +
                          region("i32") + " : (tensor<3xi8>, tensor<i8>) -> tensor<i32>\n" +
                          "return %0 : tensor<i32>",
                      {make_literal(DType::s8, {3}, std::vector<int>{100, 100, 100}),
                       make_literal(DType::s8, {}, std::vector<int>{0})})),
            (std::vector<int>{300}));
  const auto error = [&](const std::string& from, const std::string& to) {
    return error_of("func.func @main(%a: tensor<4x" + from + ">, %z: tensor<" + from +
                    ">) -> tensor<" + to +
                    "> {\n%0 = \"stablehlo.reduce\"(%a, %z) <{dimensions = "
                    "array<i64: 0>}> " +
                    region(to) + " : (tensor<4x" + from + ">, tensor<" + from + ">) -> tensor<" +
                    to + ">\nreturn %0 : tensor<" + to + ">\n}\n");
  };
  EXPECT_EQ(error("bf16", "f32"), "");
  EXPECT_EQ(error("complex<f32>", "complex<f64>"), "");
  for (const auto& [from, to] : {std::pair("f64", "f32"), std::pair("i32", "f32"),
                                 std::pair("i8", "ui32"), std::pair("i32", "i8")}) {
    EXPECT_NE(error(from, to).find("must be"), std::string::npos) << error(from, to);
  }
}

TEST(Promotion, OperationsBetweenDevices) {
  const std::string region =
      "({\n^bb0(%x: tensor<f64>, %y: tensor<f64>):\n%s = stablehlo.add %x, %y : tensor<f64>\n"
      "stablehlo.return %s : tensor<f64>\n})";
  for (const std::string& op : {std::string("all_reduce\"(%a) <{"),
                                std::string("reduce_scatter\"(%a) <{scatter_dimension = 0 : i64, "),
                                std::string("collective_reduce\"(%a) <{")}) {
    const std::string to = op[0] == 'r' ? "tensor<2xf64>" : "tensor<4xf64>";
    const auto module =
        parse_stablehlo("func.func @main(%a: tensor<4xf32>) -> " + to + " {\n%0 = \"stablehlo." +
                            op + "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> " + region +
                            " : (tensor<4xf32>) -> " + to + "\nreturn %0 : " + to + "\n}\n",
                        "t.mlir");
    ir::verify(*module);
    EXPECT_EQ(module->entry()->root()->shape.dtype, DType::f64) << op;
  }
}

}  // namespace
}  // namespace tessera::text
