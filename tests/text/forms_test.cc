// SPDX-License-Identifier: Apache-2.0
// The forms in which StableHLO is written.
#include "src/base/arrays/literal_util.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/shapes/shape_inference.h"
#include "src/text/read/stablehlo.h"
#include "src/text/write/stablehlo.h"
#include "tests/text/read_case.h"

namespace tessera::text {
namespace {

// Both forms give the same program.
void expect_same(const std::string& signature, const std::string& one, const std::string& other) {
  ir::PrintOptions options;
  options.metadata = false;
  EXPECT_EQ(ir::to_string(*read_main(signature, one), options),
            ir::to_string(*read_main(signature, other), options));
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
    auto m = read_main(signature, "%0 = " + form + "\nreturn %0 : tensor<2xf32>");
    std::vector<Literal> arguments{make_literal<int>(f32, {2, 3}, {1, 9, 2, -3, -1, -2}),
                                   Literal::scalar(f32, -2)};
    EXPECT_EQ(evaluated<int>(*m, arguments), (std::vector<int>{9, -1}));
    EXPECT_EQ(only(*m, ir::Opcode::reduce)->called()[0]->instructions().size(), 3u);
  }
}

TEST(Forms, WholeModuleInTheGenericForm) {
  auto m = read_verified(R"("builtin.module"() <{sym_name = "jit_f"}> ({
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
    auto m = read_main("() -> " + type,
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
    auto m = read_main("() -> tensor<" + type + ">", "%0 = stablehlo.constant dense<" + value +
                                                         "> : tensor<" + type +
                                                         ">\nreturn %0 : tensor<" + type + ">");
    const auto& c = only(*m, ir::Opcode::constant)->get<ir::ConstantAttrs>();
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
  auto m = read_verified(R"(module {
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
  EXPECT_EQ(evaluated<int>(*m), (std::vector<int>{3, 9}));
}

TEST(Forms, SeveralResultsAndAliases) {
  auto m = read_verified(R"(#map = array<i64: 1, 0>
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
  auto m = read_main("(%n: tensor<i32>, %x: tensor<f32>) -> (tensor<i32>, tensor<f32>)", R"(
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
  const ir::Instruction* loop = only(*m, ir::Opcode::while_);
  // Two own values, and n, step, x; the constants are written again inside.
  EXPECT_EQ(loop->shape.elements.size(), 5u);
  std::vector<Literal> arguments{Literal::scalar(s32, 3), Literal::scalar(f32, 3)};
  Literal out = evaluator::evaluate(*m, arguments);
  EXPECT_EQ(to_scalar<int>(out.elements()[0]), 3);
  EXPECT_EQ(to_scalar<float>(out.elements()[1]), 3 + 9 - 3 + 9);
}

TEST(Forms, BranchesOfCases) {
  auto m = read_main("(%i: tensor<i32>) -> (tensor<i32>, tensor<i32>)", R"(
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
  EXPECT_EQ(only(*m, ir::Opcode::conditional)->operand(1), m->entry()->parameter(0));
}

TEST(Forms, CustomCallsAsInHlo) {
  auto m = read_main("(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<i32>)", R"(
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

// mhlo writes functions that chlo has, too, with one type, as TensorFlow's text does.
TEST(Forms, FunctionsUnderTheirNamesInMhlo) {
  auto m = read_main("(%x: tensor<2xf32>) -> tensor<2xf32>", R"(
    %0 = mhlo.erf %x : tensor<2xf32> loc("place")
    %1 = mhlo.cosh %0 : (tensor<2xf32>) -> tensor<2xf32>
    %2 = "mhlo.erf"(%1) : (tensor<2xf32>) -> tensor<2xf32>
    %3 = mhlo.negate %2 : tensor<2xf32>
    %4 = chlo.erf %3 : tensor<2xf32> -> tensor<2xf32>
    return %4 : tensor<2xf32>)");
  int count = 0;
  for (const auto& i : m->entry()->instructions()) count += int(i->is(ir::Opcode::erf));
  EXPECT_EQ(count, 3);
}

TEST(Forms, LocationsBecomeMetadata) {
  auto m = read_verified(R"(#loc = loc(unknown)
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
  const ir::Metadata& sine = *only(*m, ir::Opcode::sine)->metadata;
  EXPECT_EQ(sine.op_name, "jit(f)/sin");
  EXPECT_EQ(sine.source_file, "m.py");
  EXPECT_EQ(sine.source_line, 12);
  EXPECT_EQ(only(*m, ir::Opcode::abs)->metadata->source_file, "a.py");
  // Without a location of its own: the place in the text.
  EXPECT_EQ(only(*m, ir::Opcode::negate)->metadata->source_file, "t.mlir");
  EXPECT_EQ(only(*m, ir::Opcode::negate)->metadata->source_line, 7);
  EXPECT_EQ(m->entry()->parameter(0)->name, "x");
}

// A name that HLO's words can't be is quoted there.
TEST(Forms, AnyNameOfAFrontendAttribute) {
  const auto m = read_main(
      "(%arg0: tensor<2xf32>) -> tensor<2xf32>",
      R"(%0 = stablehlo.custom_call @f(%arg0) {mhlo.frontend_attributes = {"a b<" = "1", c = "2"}} : (tensor<2xf32>) -> tensor<2xf32>
return %0 : tensor<2xf32>)");
  const std::map<std::string, std::string> want = {{"a b<", "1"}, {"c", "2"}};
  EXPECT_EQ(*only(*m, ir::Opcode::custom_call)->frontend_attributes, want);
  const auto again = ir::parse_hlo(ir::to_string(*m));
  EXPECT_EQ(*only(*again, ir::Opcode::custom_call)->frontend_attributes, want);
}

TEST(Forms, CallsKeepTheirFrontendAttributes) {
  const std::string g = R"(
func.func private @g(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  return %x, %x : tensor<2xf32>, tensor<2xf32>
})";
  const auto m = read_verified(R"(func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0:2 = call @g(%x) {mhlo.frontend_attributes = {inlineable = "false"}} : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  return %0#1 : tensor<2xf32>
})" + g);
  const std::map<std::string, std::string> want = {{"inlineable", "false"}};
  EXPECT_EQ(*only(*m, ir::Opcode::call)->frontend_attributes, want);
  const auto again = read_verified(text::to_stablehlo(*m));
  EXPECT_EQ(*only(*again, ir::Opcode::call)->frontend_attributes, want);
}

// What stands behind a value up to the end of the line isn't part of it.
TEST(Forms, CommentsBetweenAttributes) {
  const auto m = read_verified(R"(func.func @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "stablehlo.custom_call"(%arg0) {
    call_target_name = "f" // "g"
  } : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
})");
  EXPECT_EQ(only(*m, ir::Opcode::custom_call)->get<ir::CustomCallAttrs>().target, "f");
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
  EXPECT_EQ(evaluated<float>(*read_verified(padded("%m")),
                             {make_literal(DType::f32, {2}, std::vector<float>{1, 2}),
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
      read_verified(text("dense<[0, 1]> : tensor<2xindex>, dense<[0]> : tensor<1xindex>, "
                         "dense<> : tensor<0xindex>"));
  const Shape& shape = only(*m, ir::Opcode::custom_call)->shape;
  EXPECT_EQ(shape.to_string(), "(f32[2,3], f32[2], token[])");
  EXPECT_EQ(shape.elements[0].layout, (Dims{0, 1}));
  const std::string error = error_of(text("dense<[0, 1]> : tensor<2xindex>"));
  EXPECT_NE(error.find("has 1 result_layouts for 3 values"), std::string::npos) << error;
}

TEST(Forms, CopiesOfTensorFlow) {
  for (const char* copy :
       {"mhlo.copy %x : tensor<3xf32>", "\"mhlo.copy\"(%x) : (tensor<3xf32>) -> tensor<3xf32>"}) {
    auto m = read_main("(%x: tensor<3xf32>) -> tensor<3xf32>",
                       "%0 = " + std::string(copy) + "\nreturn %0 : tensor<3xf32>");
    EXPECT_EQ(evaluated<int>(*m, {make_literal<int>(f32, {3}, {1, 2, 3})}),
              (std::vector<int>{1, 2, 3}));
  }
}

}  // namespace
}  // namespace tessera::text
