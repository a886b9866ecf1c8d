// SPDX-License-Identifier: Apache-2.0
// Operations that HLO doesn't have, as those of chlo and old ones of StableHLO: what they become.
#include <cmath>
#include <complex>
#include <numeric>

#include "src/base/arrays/literal_util.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/text/read/stablehlo.h"
#include "tests/text/read_case.h"

namespace tessera::text {
namespace {

TEST(Lowering, OldAndDynamicOperationsWithKnownSizes) {
  auto m = read_main("(%x: tensor<2x3xf32>) -> tensor<4xf32>", R"(
    %s = stablehlo.constant dense<[3, 2]> : tensor<2xi64>
    %0 = stablehlo.dynamic_reshape %x, %s : (tensor<2x3xf32>, tensor<2xi64>) -> tensor<3x2xf32>
    %b = stablehlo.constant dense<0> : tensor<2xi64>
    %l = stablehlo.constant dense<[2, 2]> : tensor<2xi64>
    %t = stablehlo.constant dense<1> : tensor<2xi64>
    %1 = stablehlo.real_dynamic_slice %0, %b, %l, %t : (tensor<3x2xf32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<2x2xf32>
    %2 = stablehlo.einsum %1, %x, config = "ab,bc->ca" : (tensor<2x2xf32>, tensor<2x3xf32>) -> tensor<3x2xf32>
    %3 = stablehlo.unary_einsum %2, config = "ab->b" : (tensor<3x2xf32>) -> tensor<2xf32>
    %i = stablehlo.constant dense<[1, 0, 1, 1]> : tensor<4xi32>
    %4 = "stablehlo.torch_index_select"(%3, %i) <{dim = 0 : i64, batch_dims = 0 : i64}> : (tensor<2xf32>, tensor<4xi32>) -> tensor<4xf32>
    return %4 : tensor<4xf32>)");
  std::vector<Literal> x{make_literal<int>(f32, {2, 3}, {1, 2, 3, 4, 5, 6})};
  // [[1, 2], [3, 4]] times x, summed over columns of x: 36 and 78.
  EXPECT_EQ(evaluated<int>(*m, x), (std::vector<int>{78, 36, 78, 78}));
}

// What only the running program knows, the types of the results say.
TEST(Lowering, SlicesFromStartsOfTheProgram) {
  const std::string types =
      "(tensor<4x5xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<2x2xf32>";
  const std::string arguments = "(%x: tensor<4x5xf32>, %s: tensor<2xi32>) -> tensor<2x2xf32>";
  const auto slice = [&](const char* strides) {
    return "%l = stablehlo.constant dense<[4, 5]> : tensor<2xi32>\n"
           "%t = stablehlo.constant dense<" +
           std::string(strides) +
           "> : tensor<2xi32>\n%0 = stablehlo.real_dynamic_slice %x, %s, %l, %t : " + types +
           "\nreturn %0 : tensor<2x2xf32>";
  };
  std::vector<int> x(20);
  std::iota(x.begin(), x.end(), 0);
  const std::vector<Literal> values{make_literal<int>(f32, {4, 5}, x),
                                    make_literal<int>(s32, {2}, {1, 2})};
  EXPECT_EQ(evaluated<int>(*read_main(arguments, slice("[1, 1]")), values),
            (std::vector<int>{7, 8, 12, 13}));
  EXPECT_EQ(evaluated<int>(*read_main(arguments, slice("[2, 2]")), values),
            (std::vector<int>{7, 9, 17, 19}));
  for (const auto& [strides, message] :
       {std::pair{"[1, 5]", "takes 6 elements of dim 1 of tensor<4x5xf32>"},
        std::pair{"[0, 1]", "has the stride 0"}}) {
    try {
      read_main(arguments, slice(strides));
      ADD_FAILURE() << strides;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(message), std::string::npos) << e.what();
    }
  }
}

TEST(Lowering, GathersWithSliceSizesOfTheProgram) {
  const auto gather = [](const char* offset) {
    return "%0 = \"stablehlo.dynamic_gather\"(%x, %i, %n) <{dimension_numbers = "
           "#stablehlo.gather<offset_dims = " +
           std::string(offset) +
           ", collapsed_slice_dims = [0], start_index_map = [0, 1], index_vector_dim = 1>}> : "
           "(tensor<3x4xf32>, tensor<2x2xi32>, tensor<2xi64>) -> tensor<2x3xf32>\n"
           "return %0 : tensor<2x3xf32>";
  };
  const std::string arguments =
      "(%x: tensor<3x4xf32>, %i: tensor<2x2xi32>, %n: tensor<2xi64>) -> tensor<2x3xf32>";
  std::vector<int> x(12);
  std::iota(x.begin(), x.end(), 0);
  EXPECT_EQ(evaluated<int>(
                *read_main(arguments, gather("[1]")),
                {make_literal<int>(f32, {3, 4}, x), make_literal<int>(s32, {2, 2}, {2, 0, 0, 1}),
                 make_literal<int>(s64, {2}, {1, 3})}),
            (std::vector<int>{8, 9, 10, 1, 2, 3}));
  try {
    read_main(arguments, gather("[]"));
    ADD_FAILURE() << "no dim of the result for dim 1";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("don't name a dim of the result"), std::string::npos)
        << e.what();
  }
}

// An entry of a batch has groups of its own, as vmap of jax.lax.ragged_dot gives.
TEST(Lowering, RaggedDotsWithGroupsOfEachEntry) {
  const auto text = [](const char* sizes) {
    return std::pair<std::string, std::string>(
        "(%x: tensor<2x3x1xf32>, %w: tensor<2x2x1x1xf32>, %g: " + std::string(sizes) +
            ") -> tensor<2x3x1xf32>",
        "%0 = \"chlo.ragged_dot\"(%x, %w, %g) <{ragged_dot_dimension_numbers = "
        "#chlo.ragged_dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], "
        "lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [2], "
        "lhs_ragged_dimensions = [1], rhs_group_dimensions = [1]>}> : (tensor<2x3x1xf32>, "
        "tensor<2x2x1x1xf32>, " +
            std::string(sizes) + ") -> tensor<2x3x1xf32>\nreturn %0 : tensor<2x3x1xf32>");
  };
  const auto [signature, body] = text("tensor<2x2xi32>");
  EXPECT_EQ(evaluated<int>(*read_main(signature, body),
                           {make_literal<int>(f32, {2, 3, 1}, {1, 2, 3, 4, 5, 6}),
                            make_literal<int>(f32, {2, 2, 1, 1}, {10, 100, 1000, 10000}),
                            make_literal<int>(s32, {2, 2}, {1, 2, 2, 0})}),
            (std::vector<int>{10, 200, 300, 4000, 5000, 0}));
  const auto [wrong, same] = text("tensor<3x2xi32>");
  try {
    read_main(wrong, same);
    ADD_FAILURE() << "sizes of 3 entries for a batch of 2";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("must be a vector or s32[2,2], not s32[3,2]"),
              std::string::npos)
        << e.what();
  }
}

TEST(Lowering, BroadcastsThatGrowDims) {
  auto m = read_main("(%x: tensor<1x3xf32>, %p: tensor<i1>) -> tensor<2x3xf32>", R"(
    %0 = stablehlo.broadcast_in_dim %x, dims = [0, 1] : (tensor<1x3xf32>) -> tensor<2x3xf32>
    %c = stablehlo.constant dense<2.0> : tensor<f32>
    %1 = chlo.broadcast_multiply %x, %c : (tensor<1x3xf32>, tensor<f32>) -> tensor<1x3xf32>
    %2 = chlo.broadcast_add %1, %0 {broadcast_dimensions = array<i64: 0, 1>} : (tensor<1x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %3 = stablehlo.clamp %c, %2, %c : (tensor<f32>, tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
    %4 = stablehlo.select %p, %2, %3 : tensor<i1>, tensor<2x3xf32>
    return %4 : tensor<2x3xf32>)");
  std::vector<Literal> x{make_literal<int>(f32, {1, 3}, {1, 2, 3}), Literal::scalar(pred, true)};
  EXPECT_EQ(evaluated<int>(*m, x), (std::vector<int>{3, 6, 9, 3, 6, 9}));
}

TEST(Lowering, ApproxTopKIsASortAndTheFirst) {
  auto text = [](const char* result, const char* dim) {
    return "func.func @greater(%a: tensor<f32>, %b: tensor<f32>, %i: tensor<i32>, %j: "
           "tensor<i32>) -> tensor<i1> {\n"
           "  %0 = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
           "  stablehlo.return %0 : tensor<i1>\n}\n"
           "func.func public @main(%x: tensor<2x6xf32>, %y: tensor<2x6xi32>, %u: tensor<f32>, %v: "
           "tensor<i32>) -> " +
           std::string(result) +
           " {\n"
           "  %0:2 = stablehlo.custom_call @ApproxTopK(%x, %y, %u, %v) {backend_config = \"\", "
           "called_computations = [@greater], mhlo.backend_config = {aggregate_to_topk = true, "
           "is_fallback = true, recall_target = 0.949999988 : f32, reduction_dim = " +
           dim +
           " : i64, reduction_input_size_override = -1 : i64, top_k = 4 : i64}} : "
           "(tensor<2x6xf32>, tensor<2x6xi32>, tensor<f32>, tensor<i32>) -> (tensor<2x4xf32>, "
           "tensor<2x4xi32>)\n"
           "  return %0#0 : tensor<2x4xf32>\n}\n";
  };
  const std::string hlo = ir::to_string(*read_verified(text("tensor<2x4xf32>", "1")));
  EXPECT_NE(hlo.find("sort(x, y), dimensions={1}"), std::string::npos) << hlo;
  EXPECT_NE(hlo.find("slice={[0:2], [0:4]}"), std::string::npos) << hlo;
  EXPECT_THROW(read_verified(text("tensor<2x4xf32>", "0")), Error);
  EXPECT_THROW(read_verified(text("tensor<2x4xf32>", "7")), Error);
}

// With places as the second operand it is what top_k gives, and is partitioned as that.
TEST(Lowering, ApproxTopKOfPlacesIsTopK) {
  for (const auto& [direction, want] :
       {std::pair("GT", std::vector<std::int64_t>{4, 1, 2, 0, 1, 4}),
        std::pair("LT", std::vector<std::int64_t>{3, 0, 2, 5, 2, 3})}) {
    const std::string compares =
        "func.func @compare(%a: tensor<f32>, %b: tensor<f32>, %i: tensor<i32>, %j: tensor<i32>) "
        "-> tensor<i1> {\n  %0 = stablehlo.compare " +
        std::string(direction) +
        ", %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
        "  stablehlo.return %0 : tensor<i1>\n}\n";
    const std::string main =
        "func.func public @main(%x: tensor<2x6xf32>) -> tensor<2x3xi32> {\n"
        "  %y = stablehlo.iota dim = 1 : tensor<2x6xi32>\n"
        "  %u = stablehlo.constant dense<0.0> : tensor<f32>\n"
        "  %v = stablehlo.constant dense<-1> : tensor<i32>\n"
        "  %0:2 = stablehlo.custom_call @ApproxTopK(%x, %y, %u, %v) {backend_config = \"\", "
        "called_computations = [@compare], mhlo.backend_config = {aggregate_to_topk = true, "
        "is_fallback = true, recall_target = 0.949999988 : f32, reduction_dim = 1 : i64, "
        "reduction_input_size_override = -1 : i64, top_k = 3 : i64}} : (tensor<2x6xf32>, "
        "tensor<2x6xi32>, tensor<f32>, tensor<i32>) -> (tensor<2x3xf32>, tensor<2x3xi32>)\n"
        "  return %0#1 : tensor<2x3xi32>\n}\n";
    // Functions stand in any order.
    const auto m =
        read_verified(direction == std::string("GT") ? compares + main : main + compares);
    only(*m, ir::Opcode::topk);
    EXPECT_EQ(evaluated<std::int64_t>(
                  *m, {make_literal(DType::f32, {2, 6},
                                    std::vector<float>{1, 5, 3, 0, 7, 3, 9, 8, -1, -1, 8, -2})}),
              want)
        << direction;
  }
}

TEST(Lowering, FunctionsOfComplexNumbersAreFormulasOfTheirParts) {
  using C = std::complex<double>;
  const std::vector<std::pair<std::string, C (*)(const C&)>> functions{
      {"sinh", std::sinh},   {"cosh", std::cosh}, {"asin", std::asin},   {"acos", std::acos},
      {"asinh", std::asinh}, {"atan", std::atan}, {"acosh", std::acosh}, {"atanh", std::atanh}};
  // Both sides of each cut among them, and what is small.
  std::vector<C> points;
  for (const double x : {-2.5, -1.0, -0.3, -1e-9, -0.0, 0.0, 1e-5, 0.7, 1.25, 3.0}) {
    for (const double y : {-3.0, -0.5, -1e-9, -0.0, 0.0, 1e-7, 0.25, 1.5})
      points.emplace_back(x, y);
  }
  const std::string type = "tensor<" + std::to_string(points.size()) + "xcomplex<f64>>";
  for (const auto& [name, function] : functions) {
    const auto m =
        read_main("(%x: " + type + ") -> " + type, "    %0 = chlo." + name + " %x : " + type +
                                                       " -> " + type + "\n    return %0 : " + type);
    for (const auto& i : m->entry()->instructions()) {
      if (i->is(ir::Opcode::sqrt) || !is_complex(i->shape.dtype)) continue;
      EXPECT_TRUE(i->is(ir::Opcode::complex) || i->is(ir::Opcode::parameter)) << ir::to_string(*m);
    }
    const std::vector<Literal> arguments{make_literal(points)};
    const auto got = to_vector<C>(evaluator::evaluate(*m, arguments));
    for (std::size_t k = 0; k < points.size(); ++k) {
      const C expected = function(points[k]);
      if (!std::isfinite(expected.real()) || !std::isfinite(expected.imag())) continue;
      EXPECT_NEAR(got[k].real(), expected.real(), 1e-14 * (1 + std::abs(expected)))
          << name << points[k];
      EXPECT_NEAR(got[k].imag(), expected.imag(), 1e-14 * (1 + std::abs(expected)))
          << name << points[k];
    }
  }
}

TEST(Lowering, InverseAndHyperbolicFunctionsAreFormulas) {
  const std::vector<std::pair<std::string, double (*)(double)>> functions{
      {"sinh", std::sinh},   {"cosh", std::cosh},   {"asin", std::asin},  {"acos", std::acos},
      {"asinh", std::asinh}, {"acosh", std::acosh}, {"atanh", std::atanh}};
  const std::vector<double> points{-700, -3.5, -1.5,  -1,    -0.999, -0.3, -1e-9,
                                   -0.0, 0,    1e-12, 0.125, 0.99,   1,    1.0000001,
                                   1.5,  4,    80,    705,   1e9,    1e200};
  const std::string type = "tensor<" + std::to_string(points.size()) + "xf64>";
  for (const auto& [name, function] : functions) {
    const auto m =
        read_main("(%x: " + type + ") -> " + type, "    %0 = chlo." + name + " %x : " + type +
                                                       " -> " + type + "\n    return %0 : " + type);
    EXPECT_EQ(ir::to_string(*m).find(name + "("), std::string::npos) << ir::to_string(*m);
    const std::vector<Literal> arguments{make_literal(points)};
    const auto got = to_vector<double>(evaluator::evaluate(*m, arguments));
    for (std::size_t k = 0; k < points.size(); ++k) {
      const double expected = function(points[k]);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(got[k])) << name << " " << points[k];
      } else if (std::isinf(expected)) {
        EXPECT_EQ(got[k], expected) << name << " " << points[k];
      } else {
        EXPECT_NEAR(got[k], expected, 1e-12 * std::abs(expected) + 1e-300)
            << name << " " << points[k];
      }
    }
  }
}

TEST(Lowering, AnglesOfFloatsOfAByte) {
  auto m = read_main("(%x: tensor<2xf32>) -> tensor<2xf32>", R"(
    %0 = stablehlo.convert %x : (tensor<2xf32>) -> tensor<2xf8E4M3FN>
    %1 = chlo.atan %0 : tensor<2xf8E4M3FN> -> tensor<2xf8E4M3FN>
    %2 = stablehlo.convert %1 : (tensor<2xf8E4M3FN>) -> tensor<2xf32>
    return %2 : tensor<2xf32>)");
  // pi / 4, rounded.
  EXPECT_EQ(evaluated<double>(*m, {make_literal<double>(f32, {2}, {1, 0})}),
            (std::vector<double>{0.8125, 0}));
}

}  // namespace
}  // namespace tessera::text
