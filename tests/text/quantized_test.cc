// SPDX-License-Identifier: Apache-2.0
// Quantized tensors: integers that stand for real numbers.
#include <random>

#include "src/ir/shapes/shape_inference.h"
#include "src/text/read/stablehlo.h"
#include "tests/text/programs.h"

namespace tessera::text {
namespace {

std::unique_ptr<ir::Module> quantized_body(const std::string& signature,
                                           const std::string& operations) {
  auto module =
      parse_stablehlo("func.func @main" + signature + " {\n" + operations + "\n}\n", "t.mlir");
  ir::verify(*module);
  return module;
}

template <class T>
std::vector<T> run(const std::string& signature, const std::string& operations,
                   std::vector<Literal> arguments = {}) {
  return to_vector<T>(evaluator::evaluate(*quantized_body(signature, operations), arguments));
}

std::string error_of(const std::string& signature, const std::string& operations) {
  try {
    quantized_body(signature, operations);
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

void expect_quantized_error(const std::string& signature, const std::string& operations,
                            const std::string& part) {
  std::string error = error_of(signature, operations);
  EXPECT_NE(error.find(part), std::string::npos) << error << "\nlacks " << part;
  EXPECT_NE(error.find("t.mlir:"), std::string::npos) << error;
}

// As the specification writes it: x / scale + zero, clamped, rounded half to even.
std::int64_t stored(float x, float scale, std::int64_t zero, std::int64_t least,
                    std::int64_t most) {
  float v = x / scale + float(zero);
  v = std::min(std::max(v, float(least)), float(most));
  return std::int64_t(std::nearbyint(v));
}
float stands_for(std::int64_t q, float scale, std::int64_t zero) { return float(q - zero) * scale; }

constexpr const char* kQ = "!quant.uniform<i8:f32, 0.5:3>";

TEST(Quantized, QuantizeAndDequantize) {
  const std::vector<float> x = {0, 0.24f, 0.25f, 0.75f, -1.5f, 62, 63, 1e9f, -1e9f};
  Literal in = make_literal(DType::f32, {9}, x);
  std::vector<std::int64_t> want;
  for (float v : x) want.push_back(stored(v, 0.5f, 3, -128, 127));
  const std::string q = std::string("tensor<9x") + kQ + ">";
  EXPECT_EQ((run<std::int64_t>("(%a: tensor<9xf32>) -> " + q,
                               "%0 = stablehlo.uniform_quantize %a : (tensor<9xf32>) -> " + q +
                                   "\nreturn %0 : " + q,
                               {in})),
            want);
  std::vector<float> back;
  for (std::int64_t s : want) back.push_back(stands_for(s, 0.5f, 3));
  EXPECT_EQ((run<float>("(%a: " + q + ") -> tensor<9xf32>",
                        "%0 = stablehlo.uniform_dequantize %a : (" + q +
                            ") -> tensor<9xf32>\nreturn %0 : tensor<9xf32>",
                        {make_literal(DType::s8, {9}, want)})),
            back);
}

TEST(Quantized, RangesDtypesAndAliases) {
  // A narrower range, unsigned and 4-bit storage, bf16, an alias, no zero point.
  auto one = [](const std::string& element, float x) {
    return run<std::int64_t>(
        "() -> tensor<1x" + element + ">",
        "%c = stablehlo.constant dense<" + std::to_string(x) + "> : tensor<1xf32>\n" +
            "%0 = stablehlo.uniform_quantize %c : (tensor<1xf32>) -> tensor<1x" + element +
            ">\nreturn %0 : tensor<1x" + element + ">")[0];
  };
  EXPECT_EQ(one("!quant.uniform<i8<-127:127>:f32, 1.0>", -1000), -127);
  EXPECT_EQ(one("!quant.uniform<u8:f32, 0.1:128>", -1.0f), 118);
  EXPECT_EQ(one("!quant.uniform<u8:f32, 0.1:128>", 1000), 255);
  EXPECT_EQ(one("!quant.uniform<i4:f32, 2.000000e+00:-1>", 100), 7);
  EXPECT_EQ(one("!quant.uniform<i16:f32, 1.0e-2>", 3.0f), 300);
  EXPECT_EQ(one("!quant.uniform<i32:f32, 1.0e-6:5>", 3.0f), 3000005);
  auto module = parse_stablehlo(
      "!q = !quant.uniform<i8:f32, 0.5>\n"
      "func.func @main(%a: tensor<2x!q>) -> tensor<2xf32> {\n"
      "%0 = stablehlo.uniform_dequantize %a : (tensor<2x!q>) -> tensor<2xf32>\n"
      "return %0 : tensor<2xf32>\n}",
      "t.mlir");
  std::vector<Literal> in = {make_literal(DType::s8, {2}, std::vector<int>{4, -3})};
  EXPECT_EQ(to_vector<float>(evaluator::evaluate(*module, in)), (std::vector<float>{2, -1.5f}));
}

TEST(Quantized, ScalesAlongADim) {
  const std::string q = "tensor<2x2x!quant.uniform<i8:f32:1, {0.5:1, 0.25:-2}>>";
  const std::string t = "tensor<2x2x!quant.uniform<i8:f32:0, {0.5:1, 0.25:-2}>>";
  Literal in = make_literal(DType::f32, {2, 2}, std::vector<float>{1, 1, -2, -2});
  EXPECT_EQ((run<std::int64_t>("(%a: tensor<2x2xf32>) -> " + t,
                               "%0 = stablehlo.uniform_quantize %a : (tensor<2x2xf32>) -> " + q +
                                   "\n%1 = stablehlo.transpose %0, dims = [1, 0] : (" + q +
                                   ") -> " + t + "\nreturn %1 : " + t,
                               {in})),
            (std::vector<std::int64_t>{3, -3, 2, -10}));
  expect_quantized_error("(%a: tensor<2x3x!quant.uniform<i8:f32:1, {0.5, 0.25}>>) -> tensor<i32>",
                         "", "2 scales along dim 1");
}

TEST(Quantized, ArithmeticIsThatOfTheNumbers) {
  const std::string a = "tensor<4x!quant.uniform<i8:f32, 0.1:-30>>",
                    b = "tensor<4x!quant.uniform<i8:f32, 0.5:-20>>";
  const std::vector<int> x = {-30, 10, 127, -128}, y = {-20, -10, 127, 0};
  for (const char* op : {"add", "multiply", "maximum", "divide"}) {
    std::vector<std::int64_t> want;
    for (std::size_t n = 0; n < 4; ++n) {
      float l = stands_for(x[n], 0.1f, -30), r = stands_for(y[n], 0.5f, -20);
      float v = op[0] == 'a' ? l + r : op[1] == 'u' ? l * r : op[0] == 'm' ? std::max(l, r) : l / r;
      if (std::isnan(v)) v = 0;
      want.push_back(stored(v, 0.5f, -20, -128, 127));
    }
    if (op[0] == 'd') want[0] = 0;  // 0 / 0: a NaN is stored as 0
    EXPECT_EQ(
        (run<std::int64_t>("(%a: " + a + ", %b: " + b + ") -> " + b,
                           std::string("%0 = \"stablehlo.") + op + "\"(%a, %b) : (" + a + ", " + b +
                               ") -> " + b + "\nreturn %0 : " + b,
                           {make_literal(DType::s8, {4}, x), make_literal(DType::s8, {4}, y)})),
        want)
        << op;
  }
  // A truth value has no scale.
  EXPECT_EQ((run<bool>("(%a: " + a + ", %b: " + b + ") -> tensor<4xi1>",
                       "%0 = stablehlo.compare LT, %a, %b, FLOAT : (" + a + ", " + b +
                           ") -> tensor<4xi1>\nreturn %0 : tensor<4xi1>",
                       {make_literal(DType::s8, {4}, x), make_literal(DType::s8, {4}, y)})),
            (std::vector<bool>{false, true, true, true}));
}

TEST(Quantized, DotsOfRandomNumbers) {
  std::mt19937 random(7);
  std::uniform_int_distribution<int> byte(-128, 127);
  std::vector<int> x(12), w(20);
  for (int& v : x) v = byte(random);
  for (int& v : w) v = byte(random);
  const std::string a = "tensor<3x4x!quant.uniform<i8:f32, 0.25:7>>",
                    b = "tensor<4x5x!quant.uniform<i8:f32:1, {0.5, 0.25, 1.0, 2.0, 0.125}>>",
                    c = "tensor<3x5x!quant.uniform<i32:f32, 0.0625>>";
  const float scales[] = {0.5f, 0.25f, 1, 2, 0.125f};
  std::vector<std::int64_t> want;
  std::vector<float> hybrid;
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 5; ++j) {
      float sum = 0, plain = 0;
      for (std::size_t k = 0; k < 4; ++k) {
        float r = stands_for(w[k * 5 + j], scales[j], 0);
        sum += stands_for(x[i * 4 + k], 0.25f, 7) * r;
        plain += float(x[i * 4 + k]) * r;
      }
      want.push_back(stored(sum, 0.0625f, 0, INT32_MIN, INT32_MAX));
      hybrid.push_back(plain);
    }
  }
  auto dot = [](const std::string& l, const std::string& r, const std::string& out) {
    return "%0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (" + l + ", " + r +
           ") -> " + out + "\nreturn %0 : " + out;
  };
  Literal lhs = make_literal(DType::s8, {3, 4}, x), rhs = make_literal(DType::s8, {4, 5}, w);
  EXPECT_EQ((run<std::int64_t>("(%a: " + a + ", %b: " + b + ") -> " + c, dot(a, b, c), {lhs, rhs})),
            want);
  // Weights only.
  EXPECT_EQ((run<float>("(%a: tensor<3x4xf32>, %b: " + b + ") -> tensor<3x5xf32>",
                        dot("tensor<3x4xf32>", b, "tensor<3x5xf32>"),
                        {make_literal(DType::f32, {3, 4}, x), rhs})),
            hybrid);
}

TEST(Quantized, ReducersInBothForms) {
  const std::string q = "tensor<4x!quant.uniform<i8:f32, 0.5:3>>",
                    s = "tensor<!quant.uniform<i8:f32, 0.5:3>>";
  Literal x = make_literal(DType::s8, {4}, std::vector<int>{5, 7, 3, 1}),
          zero = make_literal(DType::s8, {}, std::vector<int>{3});
  // Real numbers 1, 2, 0, -1: 2 is stored as 7. A sum of what is stored would be 19.
  EXPECT_EQ((run<int>("(%a: " + q + ", %z: " + s + ") -> " + s,
                      "%0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions "
                      "= [0] : (" +
                          q + ", " + s + ") -> " + s + "\nreturn %0 : " + s,
                      {x, zero})),
            (std::vector<int>{7}));
  const std::string region = "({\n^bb0(%x: " + s + ", %y: " + s +
                             "):\n%m = stablehlo.add %x, %y : " + s +
                             "\nstablehlo.return %m : " + s + "\n})";
  EXPECT_EQ((run<int>("(%a: " + q + ", %z: " + s + ") -> " + s,
                      "%0 = \"stablehlo.reduce\"(%a, %z) <{dimensions = array<i64: 0>}> " + region +
                          " : (" + q + ", " + s + ") -> " + s + "\nreturn %0 : " + s,
                      {x, zero})),
            (std::vector<int>{7}));
  expect_quantized_error(
      "(%a: " + q + ", %z: " + s + ") -> " + s,
      "%0 = \"stablehlo.reduce\"(%a, %z) <{dimensions = array<i64: 0>}> ({\n"
      "^bb0(%x: tensor<i8>, %y: tensor<i8>):\n%m = stablehlo.add %x, %y : tensor<i8>\n"
      "stablehlo.return %m : tensor<i8>\n}) : (" +
          q + ", " + s + ") -> " + s + "\nreturn %0 : " + s,
      "region");
}

TEST(Quantized, ReducersOfWiderStorage) {
  const std::string q = "tensor<4x!quant.uniform<i8:f32, 0.5>>",
                    s = "tensor<!quant.uniform<i8:f32, 0.5>>";
  const auto sum = [&](const std::string& wide) {
    return "%0 = \"stablehlo.reduce\"(%a, %z) <{dimensions = array<i64: 0>}> ({\n^bb0(%x: " + wide +
           ", %y: " + wide + "):\n%m = stablehlo.add %x, %y : " + wide +
           "\nstablehlo.return %m : " + wide + "\n}) : (" + q + ", " + s + ") -> " + wide +
           "\nreturn %0 : " + wide;
  };
  const std::string wide = "tensor<!quant.uniform<i16:f32, 0.5>>";
  EXPECT_EQ((run<int>("(%a: " + q + ", %z: " + s + ") -> " + wide, sum(wide),
                      {make_literal(DType::s8, {4}, std::vector<int>{127, 127, 127, 1}),
                       make_literal(DType::s8, {}, std::vector<int>{0})})),
            (std::vector<int>{382}));
  // What they stand for stays.
  const std::string other = "tensor<!quant.uniform<i16:f32, 0.25>>";
  expect_quantized_error("(%a: " + q + ", %z: " + s + ") -> " + other, sum(other),
                         "what the elements stand for can't change here");
}

TEST(Quantized, OpsThatPassThemOn) {
  // Loops, branches, functions, captured values, padding, constants.
  const std::string q = std::string("tensor<2x") + kQ + ">", s = std::string("tensor<") + kQ + ">";
  auto module = parse_stablehlo(
      "func.func @main(%a: " + q + ", %n: tensor<i32>) -> tensor<3xf32> {\n" +
          "%c = stablehlo.constant dense<1> : tensor<i32>\n%z = stablehlo.constant dense<0> : "
          "tensor<i32>\n"
          "%w:2 = stablehlo.while(%i = %z, %x = %a) : tensor<i32>, " +
          q +
          "\ncond {\n%p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> "
          "tensor<i1>\nstablehlo.return %p : tensor<i1>\n} do {\n%j = stablehlo.add %i, %c : "
          "tensor<i32>\n%y = stablehlo.add %x, %a : " +
          q + "\n%t = func.call @twice(%y) : (" + q + ") -> " + q +
          "\nstablehlo.return %j, %t : tensor<i32>, " + q +
          "\n}\n%zero = \"stablehlo.constant\"() <{value = dense<5> : tensor<i8>}> : () -> " + s +
          "\n%2 = stablehlo.pad %w#1, %zero, low = [0], high = [1], interior = [0] : (" + q + ", " +
          s + ") -> tensor<3x" + kQ + ">\n%3 = stablehlo.uniform_dequantize %2 : (tensor<3x" + kQ +
          ">) -> tensor<3xf32>\nreturn %3 : tensor<3xf32>\n}\n" + "func.func private @twice(%a: " +
          q + ") -> " + q + " {\n%0 = stablehlo.add %a, %a : " + q + "\nreturn %0 : " + q + "\n}\n",
      "t.mlir");
  std::vector<Literal> in = {make_literal(DType::s8, {2}, std::vector<int>{5, 2}),
                             Literal::scalar(DType::s32, 2)};
  // 1 -> (1 + 1) * 2 -> (4 + 1) * 2; -0.5 -> -2 -> -5
  EXPECT_EQ(to_vector<float>(evaluator::evaluate(*module, in)), (std::vector<float>{10, -5, 1}));
}

TEST(Quantized, ALoopOfOneValue) {
  const std::string q = std::string("tensor<2x") + kQ + ">";
  EXPECT_EQ((run<int>("(%a: " + q + ") -> " + q,
                      "%0 = stablehlo.while(%x = %a) : " + q +
                          "\ncond {\n%f = stablehlo.constant dense<false> : tensor<i1>\n"
                          "stablehlo.return %f : tensor<i1>\n} do {\n%y = stablehlo.add %x, %a : " +
                          q + "\nstablehlo.return %y : " + q + "\n}\nreturn %0 : " + q,
                      {make_literal(DType::s8, {2}, std::vector<int>{5, 2})})),
            (std::vector<int>{5, 2}));
}

TEST(Quantized, Scan) {
  const std::string q = std::string("tensor<3x") + kQ + ">", s = std::string("tensor<") + kQ + ">";
  EXPECT_EQ((run<int>("(%a: " + q + ", %c: " + s + ") -> " + q,
                      "%0:2 = chlo.scan(%a) inits(%c) dimension=0 {\n^bb0(%x: " + s + ", %y: " + s +
                          "):\n%1 = stablehlo.add %x, %y : " + s +
                          "\nstablehlo.return %1, %1 : " + s + ", " + s + "\n} : (" + q + ", " + s +
                          ") -> (" + q + ", " + s + ")\nreturn %0#0 : " + q,
                      {make_literal(DType::s8, {3}, std::vector<int>{5, 5, 4}),
                       make_literal(DType::s8, {}, std::vector<int>{3})})),
            (std::vector<int>{5, 7, 8}));
}

TEST(Quantized, TypesThatDontFit) {
  const std::string q = std::string("tensor<2x") + kQ + ">",
                    other = "tensor<2x!quant.uniform<i8:f32, 0.5:4>>";
  expect_quantized_error(
      "(%a: " + q + ") -> " + other, "return %a : " + other,
      "operand 0 of return is tensor<2x!quant.uniform<i8<-128:127>:f32, 0.5:3>> and is "
      "used as tensor<2x!quant.uniform<i8<-128:127>:f32, 0.5:4>>");
  expect_quantized_error("(%a: " + q + ") -> tensor<2xi8>", "return %a : " + q,
                         "declared as tensor<2xi8>");
  expect_quantized_error("(%a: " + q + ") -> " + other,
                         "%0 = stablehlo.optimization_barrier %a : " + q + "\nreturn %0 : " + other,
                         "used as");
  expect_quantized_error(
      "(%a: tensor<2xf64>) -> " + q,
      "%0 = stablehlo.uniform_quantize %a : (tensor<2xf64>) -> " + q + "\nreturn %0 : " + q,
      "stands for tensor<2xf64>");
  expect_quantized_error(
      "(%a: tensor<2xf32>) -> tensor<2xf32>",
      "%0 = stablehlo.uniform_dequantize %a : tensor<2xf32>\nreturn %0 : tensor<2xf32>",
      "needs a quantized operand");
  const std::string wide = "tensor<2x!quant.uniform<i8:f32, 0.25:3>>";
  expect_quantized_error(
      "(%a: " + q + ", %b: tensor<2xf32>) -> " + q,
      "%0 = \"stablehlo.add\"(%a, %b) : (" + q + ", tensor<2xf32>) -> " + q + "\nreturn %0 : " + q,
      "valid: all quantized, or none");
  expect_quantized_error(
      "(%a: " + q + ") -> " + wide,
      "%0 = stablehlo.reshape %a : (" + q + ") -> " + wide + "\nreturn %0 : " + wide,
      "valid here: stablehlo.uniform_quantize");
  expect_quantized_error(
      "(%a: " + q + ") -> " + wide,
      "%0 = stablehlo.custom_call @Sharding(%a) {mhlo.sharding = \"{replicated}\"} : (" + q +
          ") -> " + wide + "\nreturn %0 : " + wide,
      "can't change here");
  expect_quantized_error(
      "() -> tensor<2x!quant.uniform<i8<-10:10>:f32, 0.5>>",
      "%0 = stablehlo.constant dense<[3, 20]> : tensor<2x!quant.uniform<i8<-10:10>:f32, "
      "0.5>>\nreturn %0 : tensor<2x!quant.uniform<i8<-10:10>:f32, 0.5>>",
      "stores 20");
  for (auto [type, part] : {
           std::pair("!quant.uniform<i64:f32, 0.5>", "stored as i64"),
           std::pair("!quant.uniform<f8:f32, 0.5>", "stored as f8"),
           std::pair("!quant.uniform<i8:i32, 0.5>", "stand for i32"),
           std::pair("!quant.uniform<i8:f32, 0.0>", "a positive number"),
           std::pair("!quant.uniform<i8:f32, -1.0>", "a positive number"),
           std::pair("!quant.uniform<i8:f16, 1.0e9>", "a positive number that f16 can hold"),
           std::pair("!quant.uniform<i8:f32, 0.5:128>", "must lie in -128 to 127"),
           std::pair("!quant.uniform<i8<-129:127>:f32, 0.5>", "no range of i8"),
           std::pair("!quant.uniform<i8<5:5>:f32, 0.5>", "no range of i8"),
           std::pair("!quant.uniform<i8:f32:{0:1}, {0.5}>", "scales of blocks"),
           std::pair("!quant.uniform<i8:f32:3, {0.5}>", "along dim 3"),
           std::pair("!quant.any<i8:f32>", "element type !quant.any is not supported"),
           std::pair("!quant.uniform<i8:f32", "expected"),
       }) {
    expect_quantized_error(std::string("(%a: tensor<2x") + type + ">) -> tensor<2xf32>", "", part);
  }
  expect_quantized_error("(%a: tuple<tensor<2x!quant.uniform<i8:f32, 0.5>>>) -> tensor<2xf32>", "",
                         "quantized tensors in a tuple");
}

}  // namespace
}  // namespace tessera::text
