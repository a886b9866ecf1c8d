// SPDX-License-Identifier: Apache-2.0
// Programs with dims of unknown size, read for arguments of certain sizes.
#include "src/text/bytecode/bytecode.h"
#include "src/text/read/types.h"
#include "tests/text/read_case.h"

namespace tessera::text {
namespace {

/// The program for arguments of these sizes.
std::unique_ptr<ir::Module> read_for(const std::string& text, std::vector<Dims> sizes) {
  const Arguments given = [&](const Signature&) {
    std::vector<GivenArgument> out;
    for (const Dims& s : sizes) out.push_back({s});
    return std::optional(out);
  };
  auto module = parse_stablehlo(text, "t.mlir", &given);
  ir::verify(*module);
  return module;
}

std::string error_for(const std::string& text, std::vector<Dims> sizes) {
  try {
    read_for(text, std::move(sizes));
  } catch (const InternalError& e) {
    return std::string("internal: ") + e.what();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text << "\nlacks " << part;
}

std::string result_for(const std::string& text, std::vector<Dims> sizes) {
  return read_for(text, std::move(sizes))->entry()->root()->shape.to_string();
}

Literal row(std::vector<float> values) {
  const auto n = std::int64_t(values.size());
  return make_literal(DType::f32, {n}, values);
}

// What JAX writes of x / x.shape[0], with a function that is given the size.
constexpr const char* kMean = R"(module @mean {
  func.func public @main(%arg0: tensor<?xf32> loc("x")) -> tensor<?xf32> {
    %c = stablehlo.constant dense<2> : tensor<i32>
    %0 = stablehlo.get_dimension_size %arg0, dim = 0 : (tensor<?xf32>) -> tensor<i32>
    %1 = stablehlo.compare GE, %0, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.custom_call @shape_assertion(%1, %0) {api_version = 2 : i32, error_message = "expected b >= 2, found {0}", has_side_effect = true} : (tensor<i1>, tensor<i32>) -> ()
    %2 = call @mean(%0, %arg0) : (tensor<i32>, tensor<?xf32>) -> tensor<?xf32>
    return %2 : tensor<?xf32>
  }
  func.func private @mean(%arg0: tensor<i32>, %arg1: tensor<?xf32>) -> tensor<?xf32> {
    %0 = stablehlo.convert %arg0 : (tensor<i32>) -> tensor<f32>
    %1 = stablehlo.reshape %arg0 : (tensor<i32>) -> tensor<1xi32>
    %2 = stablehlo.dynamic_broadcast_in_dim %0, %1, dims = [] : (tensor<f32>, tensor<1xi32>) -> tensor<?xf32>
    %3 = stablehlo.divide %arg1, %2 : tensor<?xf32>
    return %3 : tensor<?xf32>
  }
}
)";

TEST(OpenSizes, FollowFromArguments) {
  EXPECT_EQ(evaluated<float>(*read_for(kMean, {{2}}), {row({1, 3})}),
            (std::vector<float>{.5, 1.5}));
  EXPECT_EQ(evaluated<float>(*read_for(kMean, {{4}}), {row({4, 8, 0, 2})}),
            (std::vector<float>{1, 2, 0, .5}));
}

TEST(OpenSizes, AreAskedFor) {
  const auto given = [](const Signature& program) {
    EXPECT_EQ(program.name, "mean");
    EXPECT_EQ(program.parameters.size(), 1u);
    EXPECT_EQ(program.parameters[0].name, "x");
    EXPECT_EQ(mlir_type(program.parameters[0].type), "tensor<?xf32>");
    EXPECT_EQ(program.results.size(), 1u);
    EXPECT_TRUE(program.is_open());
    return std::optional<std::vector<GivenArgument>>();
  };
  const Arguments later = given;
  EXPECT_EQ(parse_stablehlo(kMean, "t.mlir", &later), nullptr);
  expect_part(error_of(kMean), "t.mlir:2: column 13: argument 0 of @main is tensor<?xf32>");
}

TEST(OpenSizes, AreCheckedByTheProgram) {
  expect_part(error_for(kMean, {{1}}), "t.mlir:6: expected b >= 2, found 1");
  try {
    read_for(kMean, {{1}});
    ADD_FAILURE() << "it was read";
  } catch (const ShapeError&) {
  }
  expect_part(error_for(kMean, {{2, 3}}), "argument 0 of @main is tensor<?xf32>");
}

// A body of main on x, open in its first dim, and y, open in both.
std::string with_body(const std::string& body, const std::string& result) {
  return "func.func @main(%x: tensor<?x4xf32>, %y: tensor<?x?xf32>) -> " + result + " {\n" +
         "%n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>\n" +
         "%n1 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>\n" + body + "\n}\n";
}

TEST(OpenSizes, GoThroughOperations) {
  struct Case {
    const char *body, *result, *shape;
  };
  // x is f32[6,4] and y f32[3,5].
  const Case cases[] = {
      {R"(%c = stablehlo.constant dense<2> : tensor<1xi32>
%s = stablehlo.concatenate %n1, %c, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
%m = stablehlo.constant dense<[2, 1]> : tensor<2xi32>
%q = stablehlo.divide %s, %m : tensor<2xi32>
%r = stablehlo.dynamic_iota %q, dim = 1 : (tensor<2xi32>) -> tensor<?x?xf32>
return %r : tensor<?x?xf32>)",
       "tensor<?x?xf32>", "f32[3,2]"},
      {R"(%r = stablehlo.dot_general %y, %y, contracting_dims = [0] x [0] : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
return %r : tensor<?x?xf32>)",
       "tensor<?x?xf32>", "f32[5,5]"},
      {R"(%r = stablehlo.concatenate %x, %x, dim = 0 : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
return %r : tensor<?x4xf32>)",
       "tensor<?x4xf32>", "f32[12,4]"},
      {R"(%z = stablehlo.constant dense<0.0> : tensor<f32>
%r = stablehlo.reduce(%y init: %z) applies stablehlo.add across dimensions = [0] : (tensor<?x?xf32>, tensor<f32>) -> tensor<?xf32>
return %r : tensor<?xf32>)",
       "tensor<?xf32>", "f32[5]"},
      {R"(%a = stablehlo.constant dense<4> : tensor<1xi32>
%s = stablehlo.multiply %n1, %a : tensor<1xi32>
%r = stablehlo.dynamic_reshape %x, %s : (tensor<?x4xf32>, tensor<1xi32>) -> tensor<?xf32>
return %r : tensor<?xf32>)",
       "tensor<?xf32>", "f32[24]"},
      {R"(%z = stablehlo.constant dense<0.0> : tensor<f32>
%c = stablehlo.constant dense<1> : tensor<1xi32>
%o = stablehlo.constant dense<0> : tensor<2xi32>
%h = stablehlo.concatenate %n1, %c, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
%r = stablehlo.dynamic_pad %x, %z, %o, %h, %o : (tensor<?x4xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x5xf32>
return %r : tensor<?x5xf32>)",
       "tensor<?x5xf32>", "f32[12,5]"},
      // Sizes that are between a start and a limit, neither of which is known.
      {R"(%f = stablehlo.slice %y [0:1, 0:2] : (tensor<?x?xf32>) -> tensor<1x2xf32>
%i = stablehlo.reshape %f : (tensor<1x2xf32>) -> tensor<2xf32>
%s = stablehlo.convert %i : (tensor<2xf32>) -> tensor<2xi32>
%w = stablehlo.constant dense<2> : tensor<2xi32>
%l = stablehlo.add %s, %w : tensor<2xi32>
%o = stablehlo.constant dense<1> : tensor<2xi32>
%r = stablehlo.real_dynamic_slice %x, %s, %l, %o : (tensor<?x4xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x?xf32>
return %r : tensor<?x?xf32>)",
       "tensor<?x?xf32>", "f32[2,2]"},
      {R"(%r:2 = stablehlo.custom_call @stablehlo.dynamic_top_k(%y, %k) : (tensor<?x?xf32>, tensor<i32>) -> (tensor<?x?xf32>, tensor<?x?xi32>)
return %r#1 : tensor<?x?xi32>)",
       "tensor<?x?xi32>", "s32[3,2]"},
      {R"(%i = stablehlo.constant dense<0> : tensor<i32>
%r:2 = stablehlo.while(%a = %i, %b = %y) : tensor<i32>, tensor<?x?xf32>
 cond {
  %p = stablehlo.compare LT, %a, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.return %p : tensor<i1>
} do {
  %s = stablehlo.concatenate %n1, %n1, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %t = stablehlo.dynamic_iota %s, dim = 0 : (tensor<2xi32>) -> tensor<?x?xi32>
  %e = stablehlo.add %b, %b : tensor<?x?xf32>
  %d = stablehlo.get_dimension_size %t, dim = 1 : (tensor<?x?xi32>) -> tensor<i32>
  %f = stablehlo.add %a, %d : tensor<i32>
  stablehlo.return %f, %e : tensor<i32>, tensor<?x?xf32>
}
return %r#1 : tensor<?x?xf32>)",
       "tensor<?x?xf32>", "f32[3,5]"},
      {R"(%p = stablehlo.constant dense<true> : tensor<i1>
%r = "stablehlo.if"(%p) ({
  %t = stablehlo.transpose %y, dims = [1, 0] : (tensor<?x?xf32>) -> tensor<?x?xf32>
  stablehlo.return %t : tensor<?x?xf32>
}, {
  %t = stablehlo.transpose %y, dims = [1, 0] : (tensor<?x?xf32>) -> tensor<?x?xf32>
  %e = stablehlo.exponential %t : tensor<?x?xf32>
  stablehlo.return %e : tensor<?x?xf32>
}) : (tensor<i1>) -> tensor<?x?xf32>
return %r : tensor<?x?xf32>)",
       "tensor<?x?xf32>", "f32[5,3]"},
  };
  for (const Case& c : cases) {
    std::string body = c.body;
    if (body.find("%k") != std::string::npos) {
      body =
          "%t = stablehlo.constant dense<4> : tensor<i32>\n"
          "%k = stablehlo.subtract %n, %t : tensor<i32>\n" +
          body;
    }
    EXPECT_EQ(result_for(with_body(body, c.result), {{6, 4}, {3, 5}}), c.shape) << c.body;
  }
}

TEST(OpenSizes, AreComputedInFunctions) {
  // Each call is for another integer, which the function's own type doesn't tell.
  const std::string text = R"(func.func @main(%x: tensor<?xf32>) -> (tensor<?xi32>, tensor<?xi32>) {
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
  %c = stablehlo.constant dense<3> : tensor<i32>
  %h:2 = call @halves(%n, %c) : (tensor<i32>, tensor<i32>) -> (tensor<i32>, tensor<i32>)
  %0 = call @count(%h#0) : (tensor<i32>) -> tensor<?xi32>
  %1 = call @count(%h#1) : (tensor<i32>) -> tensor<?xi32>
  return %0, %1 : tensor<?xi32>, tensor<?xi32>
}
func.func private @halves(%a: tensor<i32>, %b: tensor<i32>) -> (tensor<i32>, tensor<i32>) {
  %q = stablehlo.divide %a, %b : tensor<i32>
  %r = stablehlo.remainder %a, %b : tensor<i32>
  return %q, %r : tensor<i32>, tensor<i32>
}
func.func private @count(%a: tensor<i32>) -> tensor<?xi32> {
  %s = stablehlo.reshape %a : (tensor<i32>) -> tensor<1xi32>
  %0 = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<?xi32>
  return %0 : tensor<?xi32>
})";
  EXPECT_EQ(result_for(text, {{14}}), "(s32[4], s32[2])");
  const auto module = read_for(text, {{14}});
  const Literal got =
      evaluator::evaluate(*module, std::vector<Literal>{row(std::vector<float>(14))});
  EXPECT_EQ(to_vector<std::int64_t>(got.elements()[0]), (Dims{0, 1, 2, 3}));
}

TEST(OpenSizes, ReadFunctionsOnceForEachKind) {
  // Two calls for equal sizes share a function; integers that say no size make none of their own.
  const std::string text = R"(func.func @main(%x: tensor<?xi32>) -> tensor<?xi32> {
  %a = stablehlo.constant dense<1> : tensor<i32>
  %b = stablehlo.constant dense<2> : tensor<i32>
  %0 = call @scaled(%a, %x) : (tensor<i32>, tensor<?xi32>) -> tensor<?xi32>
  %1 = call @scaled(%b, %0) : (tensor<i32>, tensor<?xi32>) -> tensor<?xi32>
  return %1 : tensor<?xi32>
}
func.func private @scaled(%s: tensor<i32>, %x: tensor<?xi32>) -> tensor<?xi32> {
  %0 = chlo.broadcast_multiply %s, %x : (tensor<i32>, tensor<?xi32>) -> tensor<?xi32>
  return %0 : tensor<?xi32>
})";
  EXPECT_EQ(read_for(text, {{7}})->computations().size(), 2u);
}

// A size that a region on scalars sees is a constant there; other values go through with the
// elements, whose results are closed then, too.
TEST(OpenSizes, AreSeenByRegions) {
  const auto windows = [](const std::string& seen) {
    return with_body("%z = stablehlo.constant dense<0.0> : tensor<f32>\n%s = " + seen + R"(
%r = "stablehlo.reduce_window"(%y, %z) <{window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 2>}> ({
^bb0(%a: tensor<f32>, %b: tensor<f32>):
  %c = stablehlo.maximum %a, %b : tensor<f32>
  %d = stablehlo.maximum %c, %s : tensor<f32>
  stablehlo.return %d : tensor<f32>
}) : (tensor<?x?xf32>, tensor<f32>) -> tensor<?x?xf32>
return %r : tensor<?x?xf32>)",
                     "tensor<?x?xf32>");
  };
  const Literal x = make_literal(DType::f32, {2, 4}, std::vector<float>{3, 3, 3, 3, 3, 3, 3, 3});
  const Literal y = make_literal(DType::f32, {1, 6}, std::vector<float>{1, 2, 3, 4, 5, 6});
  const auto of_elements = read_for(
      windows(
          R"(stablehlo.reduce(%x init: %z) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<?x4xf32>, tensor<f32>) -> tensor<f32>)"),
      {{2, 4}, {1, 6}});
  EXPECT_EQ(evaluated<float>(*of_elements, {x, y}), (std::vector<float>{3, 4, 6}));
  const auto of_sizes = read_for(with_body(R"(%z = stablehlo.constant dense<0> : tensor<i32>
%w = stablehlo.convert %y : (tensor<?x?xf32>) -> tensor<?x?xi32>
%r = "stablehlo.reduce_window"(%w, %z) <{window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 2>}> ({
^bb0(%a: tensor<i32>, %b: tensor<i32>):
  %c = stablehlo.maximum %a, %b : tensor<i32>
  %d = stablehlo.maximum %c, %n : tensor<i32>
  stablehlo.return %d : tensor<i32>
}) : (tensor<?x?xi32>, tensor<i32>) -> tensor<?x?xi32>
return %r : tensor<?x?xi32>)",
                                           "tensor<?x?xi32>"),
                                 {{2, 4}, {1, 6}});
  EXPECT_EQ(only(*of_sizes, ir::Opcode::reduce_window)->operands().size(), 2u);
  EXPECT_EQ(evaluated<std::int32_t>(*of_sizes, {x, y}), (std::vector<std::int32_t>{2, 4, 6}));
}

TEST(OpenSizes, AreNoMoreThanTheirBounds) {
  const auto program = [](const std::string& encoding) {
    return "#most = #stablehlo.bounds<4, ?>\n"
           "func.func @main(%rows: tensor<?x?xf32, " +
           encoding +
           "> loc(\"rows\")) -> tensor<?x?xf32> {\n"
           "%0 = stablehlo.negate %rows : (tensor<?x?xf32, " +
           encoding + ">) -> tensor<?x?xf32>\nreturn %0 : tensor<?x?xf32>\n}\n";
  };
  for (const char* encoding :
       {"#stablehlo.bounds<4, ?>", "#stablehlo<bounds<4, ?>>", "#most",
        "#stablehlo.type_extensions<bounds = [4, ?]>", "#mhlo.type_extensions<bounds = [4, -1]>"}) {
    EXPECT_EQ(result_for(program(encoding), {{4, 9}}), "f32[4,9]") << encoding;
    expect_part(error_for(program(encoding), {{5, 2}}),
                "t.mlir:2: argument 0 ('rows') of @main is tensor<5x2xf32>: dim 0 is 5, and the "
                "program bounds it by 4");
  }
  EXPECT_EQ(result_for(program("#stablehlo.bounds<?, ?>"), {{5, 2}}), "f32[5,2]");
  expect_part(error_for(program("#stablehlo.bounds<4>"), {{4, 9}}),
              "there are 1 bounds for 2 dims");
  expect_part(error_for("func.func @main(%x: tensor<3x?xf32, #stablehlo.bounds<4, 9>>) -> "
                        "tensor<3x?xf32> {\nreturn %x : tensor<3x?xf32>\n}",
                        {{3, 9}}),
              "dim 0 has a bound and is of size 3");
}

TEST(OpenSizes, AreSetWhereTheyAreKnown) {
  const auto set = [](const std::string& size) {
    return with_body("%k = " + size + R"(
%r = stablehlo.set_dimension_size %y, %k, dim = 1 : (tensor<?x?xf32>, tensor<i32>) -> tensor<?x?xf32, #stablehlo.bounds<?, 9>>
return %r : tensor<?x?xf32, #stablehlo.bounds<?, 9>>)",
                     "tensor<?x?xf32, #stablehlo.bounds<?, 9>>");
  };
  // The first rows and columns are left.
  const std::string two = "stablehlo.constant dense<2> : tensor<i32>";
  const auto module = read_for(set(two), {{6, 4}, {2, 3}});
  const Literal x = make_literal(DType::f32, {6, 4}, std::vector<float>(24));
  const Literal y = make_literal(DType::f32, {2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6});
  EXPECT_EQ(evaluated<float>(*module, {x, y}), (std::vector<float>{1, 2, 4, 5}));
  EXPECT_EQ(result_for(set("stablehlo.add %n, %n : tensor<i32>"), {{6, 4}, {3, 12}}), "f32[3,12]");
  expect_part(error_for(set("stablehlo.add %n, %n : tensor<i32>"), {{6, 4}, {3, 5}}),
              "sets dim 1 of tensor<3x5xf32> to size 12; valid: sizes up to 5");
  expect_part(error_for(set(R"(stablehlo.constant dense<0> : tensor<i32>
%z = stablehlo.constant dense<0.0> : tensor<f32>
%t = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<?x4xf32>, tensor<f32>) -> tensor<f32>
%u = stablehlo.convert %t : (tensor<f32>) -> tensor<i32>
%v = stablehlo.set_dimension_size %y, %u, dim = 1 : (tensor<?x?xf32>, tensor<i32>) -> tensor<?x?xf32>)"),
                        {{6, 4}, {3, 5}}),
              "sets dim 1 of tensor<3x5xf32> to a size that only the running program knows; valid: "
              "sizes that follow from the arguments'");
}

// What jax.export wrote of a model with attention, padding, a scan and a sort, for a batch of b
// rows of t, and JAX's results (tests/fixtures/open_sizes).
TEST(OpenSizes, OfJaxInBothForms) {
  const std::string folder = std::string(TESSERA_SOURCE_DIR) + "/tests/fixtures/open_sizes/";
  const std::vector<Dims> kinds[] = {{{2, 4, 4}, {4, 3}}, {{3, 6, 4}, {4, 3}}};
  for (int n = 0; n < 2; ++n) {
    const Arguments given = [&](const Signature& program) {
      EXPECT_EQ(program.parameters[0].name, "arg0");
      return std::optional(std::vector<GivenArgument>{{kinds[n][0]}, {kinds[n][1]}});
    };
    const std::string prefix = folder + "s" + std::to_string(n) + "_";
    const auto of_text = parse_stablehlo(read_file(folder + "model.mlir"), "model.mlir", &given);
    const auto of_bytes = parse_bytecode(read_file(folder + "model.mlirbc"), "m.mlirbc", &given);
    ir::verify(*of_text);
    ir::verify(*of_bytes);
    expect_outputs(*of_text, prefix, 1e-5);
    expect_outputs(*of_bytes, prefix, 1e-5);
  }
  // An odd length is one that JAX's constraint excludes.
  expect_part(error_for(read_file(folder + "model.mlir"), {{2, 5, 4}, {4, 3}}),
              "do not match the symbolic shape constraint");
}

TEST(OpenSizes, ErrorsSayWhatIsMissing) {
  expect_part(error_for(with_body(R"(%r = stablehlo.add %x, %x : tensor<?x4xf32>
%t = stablehlo.slice %r [0:1, 0:1] : (tensor<?x4xf32>) -> tensor<1x1xf32>
%u = stablehlo.reshape %t : (tensor<1x1xf32>) -> tensor<1xf32>
%i = stablehlo.convert %u : (tensor<1xf32>) -> tensor<1xi32>
%v = stablehlo.dynamic_iota %i, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
return %v : tensor<?xf32>)",
                                  "tensor<?xf32>"),
                        {{6, 4}, {3, 5}}),
              "t.mlir:8: column 6: stablehlo.dynamic_iota gives tensor<?xf32>, whose sizes must be "
              "known before the program runs: operand 0, its shape, depends on more than the "
              "arguments' sizes");
  // Sizes that two arguments contradict.
  expect_part(error_for(R"(func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
%0 = stablehlo.add %x, %y : tensor<?xf32>
return %0 : tensor<?xf32>
})",
                        {{3}, {4}}),
              "t.mlir:2: column 6: stablehlo.add: add(f32[3], f32[4])");
  expect_part(error_for(R"(func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
%0 = call @f(%x) : (tensor<?xf32>) -> tensor<?xf32>
return %0 : tensor<?xf32>
}
func.func private @f(%x: tensor<?xf32>) -> tensor<?xf32> {
%0 = call @f(%x) : (tensor<?xf32>) -> tensor<?xf32>
return %0 : tensor<?xf32>
})",
                        {{3}}),
              "t.mlir:6: column 6: call calls @f within itself");
}

}  // namespace
}  // namespace tessera::text
