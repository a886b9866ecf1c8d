// SPDX-License-Identifier: Apache-2.0
// The forms in which StableHLO is written.
#include "src/base/arrays/literal_util.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/hooks.h"
#include "src/ir/shapes/shape_inference.h"
#include "src/text/read/stablehlo.h"
#include "tests/text/programs.h"

namespace tessera::text {
namespace {

std::unique_ptr<ir::Module> read(const std::string& text) {
  auto module = parse_stablehlo(text, "t.mlir");
  ir::verify(*module);
  return module;
}

std::unique_ptr<ir::Module> body(const std::string& signature, const std::string& operations) {
  return read("func.func @main" + signature + " {\n" + operations + "\n}\n");
}

// The only instruction of an opcode in the entry.
const ir::Instruction* find(const ir::Module& m, ir::Opcode op) {
  const ir::Instruction* found = nullptr;
  for (const auto& i : m.entry()->instructions()) {
    if (!i->is(op)) continue;
    EXPECT_EQ(found, nullptr) << ir::name(op) << " stands twice";
    found = i.get();
  }
  EXPECT_NE(found, nullptr) << "no " << ir::name(op);
  return found;
}

template <class T>
std::vector<T> run(const ir::Module& m, std::vector<Literal> arguments = {}) {
  return to_vector<T>(evaluator::evaluate(m, arguments));
}

// Both forms give the same program.
void expect_same(const std::string& signature, const std::string& one, const std::string& other) {
  ir::PrintOptions options;
  options.metadata = false;
  EXPECT_EQ(ir::to_string(*body(signature, one), options),
            ir::to_string(*body(signature, other), options));
}

// An algorithm's operands are rounded to what it takes; three products are as good as f32.
TEST(Forms, GenericAndShortAreTheSame) {
  expect_same("(%a: tensor<2x3xf32>) -> tensor<2x3xf32>",
              "%0 = stablehlo.add %a, %a : tensor<2x3xf32>\nreturn %0 : tensor<2x3xf32>",
              "%0 = \"stablehlo.add\"(%a, %a) : (tensor<2x3xf32>, tensor<2x3xf32>) -> "
              "tensor<2x3xf32>\n\"func.return\"(%0) : (tensor<2x3xf32>) -> ()");
  expect_same("(%a: tensor<2x3xf32>) -> tensor<2x3xi1>",
              "%0 = stablehlo.compare  LT, %a, %a,  TOTALORDER : (tensor<2x3xf32>, "
              "tensor<2x3xf32>) -> tensor<2x3xi1> return %0 : tensor<2x3xi1>",
              "%0 = \"stablehlo.compare\"(%a, %a) <{comparison_direction = "
              "#stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type "
              "TOTALORDER>}> : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1> "
              "func.return %0 : tensor<2x3xi1>");
  expect_same("(%a: tensor<2x3xf32>) -> tensor<1x2xf32>",
              "%0 = stablehlo.slice %a [1:2, 0:3:2] : (tensor<2x3xf32>) -> tensor<1x2xf32> "
              "return %0 : tensor<1x2xf32>",
              "%0 = \"stablehlo.slice\"(%a) {start_indices = array<i64: 1, 0>, limit_indices = "
              "dense<[2, 3]> : tensor<2xi64>, strides = array<i64: 1, 2>} : (tensor<2x3xf32>) -> "
              "tensor<1x2xf32> return %0 : tensor<1x2xf32>");
  expect_same("(%a: tensor<2x3x4xf32>, %b: tensor<2x4x5xf32>) -> tensor<2x3x5xf32>",
              "%0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = "
              "[2] x [1], precision = [HIGH, HIGHEST] : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> "
              "tensor<2x3x5xf32> return %0 : tensor<2x3x5xf32>",
              "%0 = \"stablehlo.dot_general\"(%a, %b) <{dot_dimension_numbers = "
              "#stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], "
              "lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1]>, "
              "precision_config = [#stablehlo<precision HIGH>, #stablehlo<precision HIGHEST>]}> : "
              "(tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32> "
              "return %0 : tensor<2x3x5xf32>");
  expect_same(
      "(%x: tensor<1x6x6x2xf32>, %k: tensor<3x3x2x4xf32>) -> tensor<1x4x6x4xf32>",
      "%0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], "
      "window = {stride = [1, 1], pad = [[0, 0], [1, 1]], rhs_dilate = [1, 1]} "
      "{batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x6x6x2xf32>, "
      "tensor<3x3x2x4xf32>) -> tensor<1x4x6x4xf32> return %0 : tensor<1x4x6x4xf32>",
      "%0 = \"stablehlo.convolution\"(%x, %k) {dimension_numbers = #stablehlo.conv<[b, 0, 1, "
      "f]x[0, 1, i, o]->[b, 0, 1, f]>, padding = dense<[[0, 0], [1, 1]]> : tensor<2x2xi64>, "
      "batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x6x6x2xf32>, "
      "tensor<3x3x2x4xf32>) -> tensor<1x4x6x4xf32> return %0 : tensor<1x4x6x4xf32>");
}

TEST(Forms, ReductionsOfEachForm) {
  const std::string signature = "(%a: tensor<2x3xf32>, %c: tensor<f32>) -> tensor<2xf32>";
  const std::string types = "(tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>";
  const std::string body_text =
      "%m = stablehlo.maximum %x, %y : tensor<f32> stablehlo.return %m : tensor<f32> }";
  for (const std::string& form :
       {"stablehlo.reduce(%a init: %c) applies stablehlo.maximum across dimensions = [1] : " +
            types,
        "stablehlo.reduce(%a init: %c) across dimensions = [1] : " + types +
            " reducer(%x: tensor<f32>, %y: tensor<f32>) {" + body_text,
        "\"stablehlo.reduce\"(%a, %c) <{dimensions = array<i64: 1>}> ({\n^bb0(%x: tensor<f32>, "
        "%y: tensor<f32>):\n" +
            body_text + ") : " + types}) {
    auto m = body(signature, "%0 = " + form + "\nreturn %0 : tensor<2xf32>");
    std::vector<Literal> arguments{make_literal<int>(f32, {2, 3}, {1, 9, 2, -3, -1, -2}),
                                   Literal::scalar(f32, -2)};
    EXPECT_EQ(run<int>(*m, arguments), (std::vector<int>{9, -1}));
    EXPECT_EQ(find(*m, ir::Opcode::reduce)->called()[0]->instructions().size(), 3u);
  }
}

TEST(Forms, WholeModuleInTheGenericForm) {
  auto m = read(R"("builtin.module"() <{sym_name = "jit_f"}> ({
    "sdy.mesh"() <{mesh = #sdy.mesh<["x"=2]>, sym_name = "mesh"}> : () -> ()
    "func.func"() <{arg_attrs = [{sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, {}],
        function_type = (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>, sym_name = "main",
        sym_visibility = "public"}> ({
    ^bb0(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>):
      %0 = "stablehlo.subtract"(%arg0, %arg1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      "func.return"(%0) : (tensor<4xf32>) -> ()
    }) : () -> ()
  }) {mhlo.num_partitions = 2 : i32} : () -> ()
)");
  EXPECT_EQ(m->name, "jit_f");
  EXPECT_EQ(m->num_partitions, 2);
  EXPECT_EQ(m->entry()->parameter(0)->sharding.at(0).to_spec_string(), "P(\"x\")");
  EXPECT_TRUE(m->entry()->parameter(1)->sharding.empty());
  EXPECT_EQ(m->entry()->root()->opcode, ir::Opcode::subtract);
}

TEST(Forms, ConstantsOfEachKind) {
  auto check = [](const std::string& value, const std::string& type) {
    auto m = body("() -> " + type,
                  "%0 = stablehlo.constant " + value + " : " + type + "\nreturn %0 : " + type);
    return evaluator::evaluate(*m, {});
  };
  EXPECT_EQ(to_vector<double>(
                check("dense<[[1.0, -2.5e-1], [0x7F800000, 3.000000e+00]]>", "tensor<2x2xf32>")),
            (std::vector<double>{1, -.25, INFINITY, 3}));
  EXPECT_EQ(to_vector<int>(check("dense<7>", "tensor<2x2xi32>")), (std::vector<int>(4, 7)));
  EXPECT_EQ(to_vector<int>(check("dense<\"0x01000000FFFFFFFF\">", "tensor<2xi32>")),
            (std::vector<int>{1, -1}));
  EXPECT_EQ(to_vector<int>(check("dense<\"0x05000000\">", "tensor<3xi32>")),
            (std::vector<int>(3, 5)));
  // Truth values are packed, or a byte each.
  EXPECT_EQ(to_vector<int>(check("dense<\"0x0502\">", "tensor<10xi1>")),
            (std::vector<int>{1, 0, 1, 0, 0, 0, 0, 0, 0, 1}));
  EXPECT_EQ(to_vector<int>(check("dense<[true, false]>", "tensor<2xi1>")),
            (std::vector<int>{1, 0}));
  EXPECT_EQ(to_vector<std::complex<double>>(
                check("dense<[(1.0, -2.0), (0x7FC00000, 4.0)]>", "tensor<2xcomplex<f32>>"))[0],
            std::complex<double>(1, -2));
  EXPECT_EQ(
      to_vector<std::complex<double>>(check("dense<(1.5, 2.0)>", "tensor<2xcomplex<f64>>"))[1],
      std::complex<double>(1.5, 2));
  EXPECT_EQ(to_vector<int>(check("dense<[-8, 7, 15]>", "tensor<3xi4>")),
            (std::vector<int>{-8, 7, -1}));
  EXPECT_EQ(to_vector<int>(check("dense<[3, 0]>", "tensor<2xui2>")), (std::vector<int>{3, 0}));
  EXPECT_EQ(to_vector<std::uint64_t>(check("dense<18446744073709551615>", "tensor<ui64>"))[0],
            ~std::uint64_t(0));
  EXPECT_EQ(to_vector<std::int64_t>(check("dense<-9223372036854775808>", "tensor<i64>"))[0],
            std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(to_vector<double>(check("dense<1.000000e+00>", "tensor<bf16>"))[0], 1.0);
  EXPECT_EQ(to_vector<double>(check("dense<1.0e+308>", "tensor<f64>"))[0], 1e308);
  EXPECT_EQ(check("dense<>", "tensor<0x4xf32>").element_count(), 0);
}

TEST(Forms, SmallFloatsRoundToNearest) {
  auto bits = [](const std::string& value, const std::string& type) {
    auto m = body("() -> tensor<" + type + ">", "%0 = stablehlo.constant dense<" + value +
                                                    "> : tensor<" + type +
                                                    ">\nreturn %0 : tensor<" + type + ">");
    const auto& c = find(*m, ir::Opcode::constant)->get<ir::ConstantAttrs>();
    return int(std::to_integer<int>(c.value.bytes()[0]));
  };
  EXPECT_EQ(bits("1.0", "f8E4M3FN"), 0x38);
  EXPECT_EQ(bits("448.0", "f8E4M3FN"), 0x7e);
  EXPECT_EQ(bits("-448.0", "f8E4M3FN"), 0xfe);
  EXPECT_EQ(bits("1.0", "f8E5M2"), 0x3c);
  EXPECT_EQ(bits("57344.0", "f8E5M2"), 0x7b);
  EXPECT_EQ(bits("0x7C", "f8E5M2"), 0x7c);
  EXPECT_EQ(bits("1.0", "f8E4M3B11FNUZ"), 0x58);
  EXPECT_EQ(bits("1.0", "f8E4M3FNUZ"), 0x40);
  EXPECT_EQ(bits("-1.0", "f8E5M2FNUZ"), 0xc0);
  EXPECT_EQ(bits("1.0", "f8E3M4"), 0x30);
  EXPECT_EQ(bits("1.0", "f4E2M1FN"), 0x2);
  EXPECT_EQ(bits("6.0", "f4E2M1FN"), 0x7);
  EXPECT_EQ(bits("0xF", "f4E2M1FN"), 0xf);
  EXPECT_EQ(bits("1.0", "f6E2M3FN"), 0x08);
  EXPECT_EQ(bits("-7.5", "f6E2M3FN"), 0x3f);
  EXPECT_EQ(bits("0.0625", "f6E2M3FN"), 0x00);  // halfway to the least
  EXPECT_EQ(bits("9.0e+09", "f6E2M3FN"), 0x1f);
  EXPECT_EQ(bits("1.0", "f6E3M2FN"), 0x0c);
  EXPECT_EQ(bits("-28.0", "f6E3M2FN"), 0x3f);
  EXPECT_EQ(bits("0x3F", "f6E3M2FN"), 0x3f);
  EXPECT_EQ(bits("\"0x3F\"", "f6E3M2FN"), 0x3f);
  EXPECT_EQ(bits("2.0", "f8E8M0FNU"), 0x80);
  EXPECT_EQ(bits("0.0019531250", "f8E4M3FN"), 0x01);  // the least
  // Beyond the greatest power of two, 2^127, there is only NaN.
  EXPECT_EQ(bits("1.7014118346046923e+38", "f8E8M0FNU"), 0xfe);
  EXPECT_EQ(bits("2.5e+38", "f8E8M0FNU"), 0xfe);
  EXPECT_EQ(bits("2.6e+38", "f8E8M0FNU"), 0xff);
  EXPECT_EQ(bits("4.0e+38", "f8E8M0FNU"), 0xff);
  EXPECT_EQ(bits("1.0e+400", "f8E8M0FNU"), 0xff);  // read as infinity
  EXPECT_EQ(bits("0.0", "f8E8M0FNU"), 0xff);
  EXPECT_EQ(bits("1.0e-60", "f8E8M0FNU"), 0x00);
  const auto refused = [&](const std::string& value, const std::string& type,
                           const std::string& why) {
    try {
      bits(value, type);
      ADD_FAILURE() << value << " was read as " << type;
    } catch (const ParseError& e) {
      EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what();
    }
  };
  refused("0x10", "f4E2M1FN", "the bits of a f4e2m1fn, of which there are 4");
  refused("0x40", "f6E2M3FN", "the bits of a f6e2m3fn, of which there are 6");
  refused("0x40", "f6E3M2FN", "the bits of a f6e3m2fn, of which there are 6");
  refused("\"0x40\"", "f6E2M3FN", "elements of 6 bits, one a byte");
  refused("\"0x1F\"", "f4E2M1FN", "elements of 4 bits, one a byte");
  refused("0x100", "f8E5M2", "the bits of a f8e5m2");
  refused("0x10", "i4", "the bits of a s4, of which there are 4");
  EXPECT_EQ(bits("0xF", "i4"), 0xff);  // -1
  EXPECT_EQ(bits("0xF", "ui4"), 0x0f);
}

TEST(Forms, ResourcesStandBehindTheModule) {
  auto m = read(R"(module {
  func.func @main() -> tensor<2xi32> {
    %0 = stablehlo.constant dense_resource<blob> : tensor<2xi32>
    return %0 : tensor<2xi32>
  }
}
{-#
  dialect_resources: {
    builtin: {
      blob: "0x040000000300000009000000"
    }
  }
#-}
)");
  EXPECT_EQ(run<int>(*m), (std::vector<int>{3, 9}));
}

TEST(Forms, SeveralResultsAndAliases) {
  auto m = read(R"(#map = array<i64: 1, 0>
!wide = tensor<2x3xf32>
// A comment with "quotes" and { braces.
module @m {
  func.func @main(%arg0: !wide {jax.arg = "}"}) -> (tensor<3x2xf32>, !wide) {
    %0:2 = call @pair(%arg0) : (!wide) -> (!wide, !wide)
    %a, %b = call @pair(%0#1) : (!wide) -> (!wide, !wide) // two names
    %1 = "stablehlo.transpose"(%b) <{permutation = #map}> : (!wide) -> tensor<3x2xf32>
    return %1, %a : tensor<3x2xf32>, !wide
  }
  func.func private @pair(%arg0: !wide) -> (!wide, !wide) {
    %0 = stablehlo.negate %arg0 : !wide
    return %arg0, %0 : !wide, !wide
  }
}
)");
  EXPECT_EQ(m->entry()->root()->shape.to_string(), "(f32[3,2], f32[2,3])");
  std::vector<Literal> x{make_literal<int>(f32, {2, 3}, {1, 2, 3, 4, 5, 6})};
  Literal out = evaluator::evaluate(*m, x);
  EXPECT_EQ(to_vector<int>(out.elements()[0]), (std::vector<int>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(to_vector<int>(out.elements()[1]), (std::vector<int>{-1, -2, -3, -4, -5, -6}));
}

TEST(Forms, RegionsTakeValuesFromOutside) {
  auto m = body("(%n: tensor<i32>, %x: tensor<f32>) -> (tensor<i32>, tensor<f32>)", R"(
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %step = stablehlo.multiply %x, %x : tensor<f32>
    %0:2 = stablehlo.while(%i = %zero, %s = %x) : tensor<i32>, tensor<f32>
    cond {
      %c = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %even = stablehlo.and %i, %one : tensor<i32>
      %p = stablehlo.compare EQ, %even, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %t = "stablehlo.if"(%p) ({
        %u = stablehlo.add %s, %step : tensor<f32>
        stablehlo.return %u : tensor<f32>
      }, {
        %u = stablehlo.subtract %s, %x : tensor<f32>
        stablehlo.return %u : tensor<f32>
      }) : (tensor<i1>) -> tensor<f32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %t : tensor<i32>, tensor<f32>
    }
    return %0#0, %0#1 : tensor<i32>, tensor<f32>)");
  const ir::Instruction* loop = find(*m, ir::Opcode::while_);
  // Two own values, and n, step, x; the constants are written again inside.
  EXPECT_EQ(loop->shape.elements.size(), 5u);
  std::vector<Literal> arguments{Literal::scalar(s32, 3), Literal::scalar(f32, 3)};
  Literal out = evaluator::evaluate(*m, arguments);
  EXPECT_EQ(to_scalar<int>(out.elements()[0]), 3);
  EXPECT_EQ(to_scalar<float>(out.elements()[1]), 3 + 9 - 3 + 9);
}

TEST(Forms, BranchesOfCases) {
  auto m = body("(%i: tensor<i32>) -> (tensor<i32>, tensor<i32>)", R"(
    %0:2 = "stablehlo.case"(%i) ({
      %a = stablehlo.constant dense<10> : tensor<i32>
      stablehlo.return %a, %i : tensor<i32>, tensor<i32>
    }, {
      %a = stablehlo.constant dense<20> : tensor<i32>
      stablehlo.return %i, %a : tensor<i32>, tensor<i32>
    }) : (tensor<i32>) -> (tensor<i32>, tensor<i32>)
    return %0#0, %0#1 : tensor<i32>, tensor<i32>)");
  for (int i : {0, 1, 7}) {
    std::vector<Literal> arguments{Literal::scalar(s32, i)};
    Literal out = evaluator::evaluate(*m, arguments);
    EXPECT_EQ(to_scalar<int>(out.elements()[0]), i == 0 ? 10 : i);
    EXPECT_EQ(to_scalar<int>(out.elements()[1]), i == 0 ? 0 : 20);
  }
  // A single captured value needs no tuple.
  EXPECT_EQ(find(*m, ir::Opcode::conditional)->operand(1), m->entry()->parameter(0));
}

TEST(Forms, OldAndDynamicOperationsWithKnownSizes) {
  auto m = body("(%x: tensor<2x3xf32>) -> tensor<4xf32>", R"(
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
  EXPECT_EQ(run<int>(*m, x), (std::vector<int>{78, 36, 78, 78}));
}

TEST(Forms, BroadcastsThatGrowDims) {
  auto m = body("(%x: tensor<1x3xf32>, %p: tensor<i1>) -> tensor<2x3xf32>", R"(
    %0 = stablehlo.broadcast_in_dim %x, dims = [0, 1] : (tensor<1x3xf32>) -> tensor<2x3xf32>
    %c = stablehlo.constant dense<2.0> : tensor<f32>
    %1 = chlo.broadcast_multiply %x, %c : (tensor<1x3xf32>, tensor<f32>) -> tensor<1x3xf32>
    %2 = chlo.broadcast_add %1, %0 {broadcast_dimensions = array<i64: 0, 1>} : (tensor<1x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %3 = stablehlo.clamp %c, %2, %c : (tensor<f32>, tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
    %4 = stablehlo.select %p, %2, %3 : tensor<i1>, tensor<2x3xf32>
    return %4 : tensor<2x3xf32>)");
  std::vector<Literal> x{make_literal<int>(f32, {1, 3}, {1, 2, 3}), Literal::scalar(pred, true)};
  EXPECT_EQ(run<int>(*m, x), (std::vector<int>{3, 6, 9, 3, 6, 9}));
}

TEST(Forms, CustomCallsAsInHlo) {
  auto m = body("(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<i32>)", R"(
    %0:2 = stablehlo.custom_call @"my.target"(%x) {backend_config = "", mhlo.backend_config = {uplo = 76 : ui8}, mhlo.frontend_attributes = {n = "0"}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>], output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [0], operand_index = 0, operand_tuple_indices = []>], result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>]} : (tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<i32>)
    %1 = stablehlo.custom_call @plain(%0#1) {api_version = 2 : i32, backend_config = "a\22b", has_side_effect = true} : (tensor<i32>) -> tensor<i32>
    %2:2 = stablehlo.custom_call @mhlo.topk(%x) {mhlo.attributes = {k = 1 : i64, largest = true}, mhlo.version = 1 : i64} : (tensor<2x3xf32>) -> (tensor<2x1xf32>, tensor<2x1xi32>)
    return %0#0, %1 : tensor<2x3xf32>, tensor<i32>)");
  const std::string text = ir::to_string(*m);
  for (const char* part :
       {"custom_call_target=\"my.target\"", "operand_layout_constraints={f32[2,3]{0,1}}",
        "output_to_operand_aliasing={{0}: (0, {})}", "api_version=API_VERSION_TYPED_FFI",
        "backend_config={uplo = 76 : ui8}", "frontend_attributes={n=\"0\"}",
        "(f32[2,3]{0,1}, s32[])", "backend_config=\"a\\\"b\"",
        "api_version=API_VERSION_STATUS_RETURNING", "custom_call_has_side_effect=true"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  }
}

TEST(Forms, ApproxTopKIsASortAndTheFirst) {
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
  const std::string hlo = ir::to_string(*read(text("tensor<2x4xf32>", "1")));
  EXPECT_NE(hlo.find("sort(x, y), dimensions={1}"), std::string::npos) << hlo;
  EXPECT_NE(hlo.find("slice={[0:2], [0:4]}"), std::string::npos) << hlo;
  EXPECT_THROW(read(text("tensor<2x4xf32>", "0")), Error);
  EXPECT_THROW(read(text("tensor<2x4xf32>", "7")), Error);
}

// With places as the second operand it is what top_k gives, and is partitioned as that.
TEST(Forms, ApproxTopKOfPlacesIsTopK) {
  for (const auto& [direction, want] :
       {std::pair("GT", std::vector<std::int64_t>{4, 1, 2, 0, 1, 4}),
        std::pair("LT", std::vector<std::int64_t>{3, 0, 2, 5, 2, 3})}) {
    const auto m = read(
        "func.func @compare(%a: tensor<f32>, %b: tensor<f32>, %i: tensor<i32>, %j: tensor<i32>) "
        "-> tensor<i1> {\n  %0 = stablehlo.compare " +
        std::string(direction) +
        ", %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
        "  stablehlo.return %0 : tensor<i1>\n}\n"
        "func.func public @main(%x: tensor<2x6xf32>) -> tensor<2x3xi32> {\n"
        "  %y = stablehlo.iota dim = 1 : tensor<2x6xi32>\n"
        "  %u = stablehlo.constant dense<0.0> : tensor<f32>\n"
        "  %v = stablehlo.constant dense<-1> : tensor<i32>\n"
        "  %0:2 = stablehlo.custom_call @ApproxTopK(%x, %y, %u, %v) {backend_config = \"\", "
        "called_computations = [@compare], mhlo.backend_config = {aggregate_to_topk = true, "
        "is_fallback = true, recall_target = 0.949999988 : f32, reduction_dim = 1 : i64, "
        "reduction_input_size_override = -1 : i64, top_k = 3 : i64}} : (tensor<2x6xf32>, "
        "tensor<2x6xi32>, tensor<f32>, tensor<i32>) -> (tensor<2x3xf32>, tensor<2x3xi32>)\n"
        "  return %0#1 : tensor<2x3xi32>\n}\n");
    find(*m, ir::Opcode::topk);
    EXPECT_EQ(run<std::int64_t>(
                  *m, {make_literal(DType::f32, {2, 6},
                                    std::vector<float>{1, 5, 3, 0, 7, 3, 9, 8, -1, -1, 8, -2})}),
              want)
        << direction;
  }
}

TEST(Forms, FunctionsOfComplexNumbersAreFormulasOfTheirParts) {
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
        body("(%x: " + type + ") -> " + type, "    %0 = chlo." + name + " %x : " + type + " -> " +
                                                  type + "\n    return %0 : " + type);
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

TEST(Forms, InverseAndHyperbolicFunctionsAreFormulas) {
  const std::vector<std::pair<std::string, double (*)(double)>> functions{
      {"sinh", std::sinh},   {"cosh", std::cosh},   {"asin", std::asin},  {"acos", std::acos},
      {"asinh", std::asinh}, {"acosh", std::acosh}, {"atanh", std::atanh}};
  const std::vector<double> points{-700, -3.5, -1.5,  -1,    -0.999, -0.3, -1e-9,
                                   -0.0, 0,    1e-12, 0.125, 0.99,   1,    1.0000001,
                                   1.5,  4,    80,    705,   1e9,    1e200};
  const std::string type = "tensor<" + std::to_string(points.size()) + "xf64>";
  for (const auto& [name, function] : functions) {
    const auto m =
        body("(%x: " + type + ") -> " + type, "    %0 = chlo." + name + " %x : " + type + " -> " +
                                                  type + "\n    return %0 : " + type);
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

TEST(Forms, LocationsBecomeMetadata) {
  auto m = read(R"(#loc = loc(unknown)
#loc1 = loc("x")
module {
  func.func @main(%arg0: tensor<f32> loc("x")) -> tensor<f32> {
    %0 = stablehlo.sine %arg0 : tensor<f32> loc(#loc5)
    %1 = stablehlo.abs %0 : tensor<f32> loc(fused<"k">["a.py":3:1, "b.py":4:2])
    %2 = stablehlo.negate %1 : tensor<f32>
    return %2 : tensor<f32> loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc3 = loc("m.py":12:4 to :18)
#loc4 = loc(callsite("f"(#loc3) at "g.py":1:1))
#loc5 = loc("jit(f)/sin"(#loc4))
)");
  const ir::Metadata& sine = *find(*m, ir::Opcode::sine)->metadata;
  EXPECT_EQ(sine.op_name, "jit(f)/sin");
  EXPECT_EQ(sine.source_file, "m.py");
  EXPECT_EQ(sine.source_line, 12);
  EXPECT_EQ(find(*m, ir::Opcode::abs)->metadata->source_file, "a.py");
  // Without a location of its own: the place in the text.
  EXPECT_EQ(find(*m, ir::Opcode::negate)->metadata->source_file, "t.mlir");
  EXPECT_EQ(find(*m, ir::Opcode::negate)->metadata->source_line, 7);
  EXPECT_EQ(m->entry()->parameter(0)->name, "x");
}

// A name that HLO's words can't be is quoted there.
TEST(Forms, AnyNameOfAFrontendAttribute) {
  const auto m = body(
      "(%arg0: tensor<2xf32>) -> tensor<2xf32>",
      R"(%0 = stablehlo.custom_call @f(%arg0) {mhlo.frontend_attributes = {"a b<" = "1", c = "2"}} : (tensor<2xf32>) -> tensor<2xf32>
return %0 : tensor<2xf32>)");
  const std::map<std::string, std::string> want = {{"a b<", "1"}, {"c", "2"}};
  EXPECT_EQ(*find(*m, ir::Opcode::custom_call)->frontend_attributes, want);
  const auto again = ir::parse_hlo(ir::to_string(*m));
  EXPECT_EQ(*find(*again, ir::Opcode::custom_call)->frontend_attributes, want);
}

// What stands behind a value up to the end of the line isn't part of it.
TEST(Forms, CommentsBetweenAttributes) {
  const auto m = read(R"(func.func @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "stablehlo.custom_call"(%arg0) {
    call_target_name = "f" // "g"
  } : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
})");
  EXPECT_EQ(find(*m, ir::Opcode::custom_call)->get<ir::CustomCallAttrs>().target, "f");
}

TEST(Forms, DimsOfConvolutionsFieldByField) {
  const std::string x = "tensor<1x4x4x2xf32>", k = "tensor<3x3x2x5xf32>", y = "tensor<1x2x2x5xf32>";
  const auto text = [&](const std::string& numbers) {
    return "%0 = \"stablehlo.convolution\"(%a, %b) <{batch_group_count = 1 : i64, "
           "feature_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<" +
           numbers + ">}> : (" + x + ", " + k + ") -> " + y + "\nreturn %0 : " + y;
  };
  const std::string fields =
      "input_batch_dimension = 0, input_feature_dimension = 3, input_spatial_dimensions = [1, 2], "
      "kernel_input_feature_dimension = 2, kernel_output_feature_dimension = 3, "
      "kernel_spatial_dimensions = [0, 1], output_batch_dimension = 0, output_feature_dimension = "
      "3, output_spatial_dimensions = [1, 2]";
  const std::string signature = "(%a: " + x + ", %b: " + k + ") -> " + y;
  for (const std::string& one : {"raw\n" + fields, fields, "raw " + fields + ","}) {
    expect_same(signature, text(one), text("[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]"));
  }
}

TEST(Forms, ShapesMayBeComputedFromConstants) {
  const auto padded = [](const std::string& high) {
    return "func.func @main(%x: tensor<2xf32>, %p: tensor<1xi32>) -> tensor<5xf32> {\n"
           "%z = stablehlo.constant dense<0.0> : tensor<f32>\n"
           "%a = stablehlo.constant dense<[3, -7]> : tensor<2xi32>\n"
           "%b = stablehlo.constant dense<2> : tensor<2xi32>\n"
           "%c = stablehlo.subtract %a, %b : tensor<2xi32>\n"
           "%low = stablehlo.slice %c [0:1] : (tensor<2xi32>) -> tensor<1xi32>\n"
           "%n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<2xf32>) -> tensor<i32>\n"
           "%h = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>\n"
           "%m = stablehlo.maximum %low, %h : tensor<1xi32>\n"
           "%w = stablehlo.constant dense<4294967296> : tensor<1xi64>\n"
           "%i = stablehlo.convert %w : (tensor<1xi64>) -> tensor<1xi32>\n"
           "%r = stablehlo.dynamic_pad %x, %z, %low, " +
           high +
           ", %i : (tensor<2xf32>, tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> "
           "tensor<5xf32>\nreturn %r : tensor<5xf32>\n}\n";
  };
  EXPECT_EQ(
      run<float>(*read(padded("%m")), {make_literal(DType::f32, {2}, std::vector<float>{1, 2}),
                                       make_literal(DType::s32, {1}, std::vector<int>{0})}),
      (std::vector<float>{0, 1, 2, 0, 0}));
  const std::string error = error_of(padded("%p"));
  EXPECT_NE(error.find("needs a constant as operand 3"), std::string::npos) << error;
}

TEST(Forms, LayoutsOfATuple) {
  const std::string type = "tuple<tensor<2x3xf32>, tensor<2xf32>, !stablehlo.token>";
  const auto text = [&](const std::string& layouts) {
    return "func.func @main(%x: tensor<2xf32>, %t: !stablehlo.token) -> " + type +
           " {\n%0 = \"stablehlo.custom_call\"(%x, %t) {call_target_name = \"foo\", "
           "operand_layouts = [dense<[0]> : tensor<1xindex>, dense<> : tensor<0xindex>], "
           "result_layouts = [" +
           layouts + "]} : (tensor<2xf32>, !stablehlo.token) -> " + type + "\nreturn %0 : " + type +
           "\n}\n";
  };
  const auto m =
      read(text("dense<[0, 1]> : tensor<2xindex>, dense<[0]> : tensor<1xindex>, "
                "dense<> : tensor<0xindex>"));
  const Shape& shape = find(*m, ir::Opcode::custom_call)->shape;
  EXPECT_EQ(shape.to_string(), "(f32[2,3], f32[2], token[])");
  EXPECT_EQ(shape.elements[0].layout, (Dims{0, 1}));
  const std::string error = error_of(text("dense<[0, 1]> : tensor<2xindex>"));
  EXPECT_NE(error.find("has 1 result_layouts for 3 values"), std::string::npos) << error;
}

TEST(Forms, CopiesOfTensorFlow) {
  for (const char* copy :
       {"mhlo.copy %x : tensor<3xf32>", "\"mhlo.copy\"(%x) : (tensor<3xf32>) -> tensor<3xf32>"}) {
    auto m = body("(%x: tensor<3xf32>) -> tensor<3xf32>",
                  "%0 = " + std::string(copy) + "\nreturn %0 : tensor<3xf32>");
    EXPECT_EQ(run<int>(*m, {make_literal<int>(f32, {3}, {1, 2, 3})}), (std::vector<int>{1, 2, 3}));
  }
}

TEST(Forms, AnglesOfFloatsOfAByte) {
  auto m = body("(%x: tensor<2xf32>) -> tensor<2xf32>", R"(
    %0 = stablehlo.convert %x : (tensor<2xf32>) -> tensor<2xf8E4M3FN>
    %1 = chlo.atan %0 : tensor<2xf8E4M3FN> -> tensor<2xf8E4M3FN>
    %2 = stablehlo.convert %1 : (tensor<2xf8E4M3FN>) -> tensor<2xf32>
    return %2 : tensor<2xf32>)");
  // pi / 4, rounded.
  EXPECT_EQ(run<double>(*m, {make_literal<double>(f32, {2}, {1, 0})}),
            (std::vector<double>{0.8125, 0}));
}

}  // namespace
}  // namespace tessera::text
