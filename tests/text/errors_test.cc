// SPDX-License-Identifier: Apache-2.0
// Errors in a text are reported with their position.
#include <chrono>
#include <random>

#include "src/ir/shapes/shape_inference.h"
#include "src/text/read/stablehlo.h"
#include "tests/text/programs.h"

namespace tessera::text {
namespace {

std::string error_of(const std::string& text) {
  try {
    parse_stablehlo(text, "t.mlir");
  } catch (const ParseError& e) {
    return e.what();
  } catch (const NotImplementedError& e) {
    return std::string("not supported: ") + e.what();
  }
  return "no error";
}

std::string in_body(const std::string& line) {
  return "func.func @main(%a: tensor<2x3xf32>, %i: tensor<i32>) -> tensor<2x3xf32> {\n" + line +
         "\nreturn %a : tensor<2x3xf32>\n}\n";
}

void expect_error(const std::string& text, const std::string& place, const std::string& part) {
  std::string error = error_of(text);
  EXPECT_NE(error.find(place), std::string::npos) << error << "\nlacks " << place;
  EXPECT_NE(error.find(part), std::string::npos) << error << "\nlacks " << part;
}

TEST(Errors, NamePlaceAndRemedy) {
  expect_error(in_body("%0 = stablehlo.foo %a : tensor<2x3xf32>"), "t.mlir:2: column 6",
               "there is no operation 'stablehlo.foo'");
  expect_error(in_body("%0 = shape.of %a : tensor<2x3xf32>"), "t.mlir:2: column 6",
               "a dialect that is not read here; valid: stablehlo, chlo, sdy, func");
  expect_error(in_body("%0 = stablehlo.add %a, %b : tensor<2x3xf32>"), "t.mlir:2: column 24",
               "value %b is not defined before this use");
  expect_error(in_body("%0 = stablehlo.add %a, %i : tensor<2x3xf32>"), "t.mlir:2: column 24",
               "operand 1 of stablehlo.add is tensor<i32> and is used as tensor<2x3xf32>");
  expect_error(in_body("%a = stablehlo.abs %a : tensor<2x3xf32>"), "t.mlir:2: column 1",
               "value %a is defined twice");
  expect_error(in_body("%0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3xf32>) -> "
                       "tensor<2x3xf32>"),
               "t.mlir:2: column 6", "f32[3,2]");
  expect_error(in_body("%0 = stablehlo.transpose %a, dims = [1, 5] : (tensor<2x3xf32>) -> "
                       "tensor<3x2xf32>"),
               "t.mlir:2: column 6", "5 is not in [0, 2)");
  expect_error(in_body("%0 = stablehlo.reshape %a : (tensor<2x3xf32>) -> tensor<?x3xf32>"),
               "not supported: t.mlir:2: column 6",
               "gives tensor<?x3xf32>, whose sizes must be known before the program runs");
  expect_error(in_body("%0 = stablehlo.constant dense<[1, 2]> : tensor<3xi32>"),
               "t.mlir:2: column 32", "expected 3 elements of dim 0 of tensor<3xi32>");
  expect_error(in_body("%0 = stablehlo.constant dense<300> : tensor<i8>"), "t.mlir:2: column 31",
               "an integer that fits s8");
  expect_error(in_body("%0 = stablehlo.constant dense<\"0x01\"> : tensor<2xi32>"),
               "t.mlir:2: column 31", "a blob of 1 bytes for tensor<2xi32>; expected 8");
  expect_error(in_body("%0 = call @g(%a) : (tensor<2x3xf32>) -> tensor<2x3xf32>"),
               "t.mlir:2: column 11", "there is no function @g");
  expect_error(in_body("%0 = call @main(%a) : (tensor<2x3xf32>) -> tensor<2x3xf32>"),
               "t.mlir:2: column 6", "doesn't fit function @main");
  expect_error(in_body("%0:2 = stablehlo.abs %a : tensor<2x3xf32>"), "t.mlir:2: column 8",
               "gives 1 results and 2 are named");
  expect_error(in_body("%0 = \"stablehlo.iota\"() : () -> tensor<4xi32>"), "t.mlir:2: column 6",
               "needs the attribute iota_dimension");
  expect_error(in_body("%0 = stablehlo.abs %a : tensor<2x3xf99>"), "t.mlir:2: column 36",
               "element type f99 is not supported");
  expect_error(in_body("%0 = stablehlo.constant dense<0> : tensor<9999999999x9999999999xi8>"),
               "t.mlir:2: column 36", "doesn't fit 64 bits");
  expect_error("module {\n  func.func @main() {\n    return\n", "t.mlir:2: column", "not closed");
  expect_error(
      in_body("%0 = stablehlo.custom_call @f(%a) {mhlo.backend_config = {a = 1 : i32} b {}} : "
              "(tensor<2x3xf32>) -> tensor<2x3xf32>"),
      "t.mlir:2: column", "more in mhlo.backend_config than one dictionary");
  expect_error(in_body("%0 = stablehlo.custom_call @f(%a) {mhlo.backend_config = Q {a = 1 : i32}} "
                       ": (tensor<2x3xf32>) -> tensor<2x3xf32>"),
               "t.mlir:2: column", "mhlo.backend_config that is neither text nor a dictionary");
  expect_error(
      in_body("%0 = stablehlo.custom_call @f(%a) {output_operand_aliases = "
              "[#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 2, "
              "operand_tuple_indices = []>]} : (tensor<2x3xf32>) -> tensor<2x3xf32>"),
      "t.mlir:2: column", "output_operand_aliases that name operand 2 of 1");
  expect_error("module attributes {a = {b = [1)}} {\n", "t.mlir:1: column",
               "expected ']', found ')'");
  expect_error("module {\n func.func @f() {\n return\n }\n func.func @g() {\n return\n }\n}",
               "t.mlir:2", "expected a function @main");
  expect_error("", "t.mlir:1: column 1", "expected a module");
  expect_error(
      "sdy.mesh @m = <[\"x\"=2]>\nfunc.func @main(%a: tensor<4xf32> {sdy.sharding = "
      "#sdy.sharding<@m, [{\"z\"}]>}) {\n return\n}",
      "t.mlir:2: column", "'z' is not in mesh @m");
  expect_error(in_body("sdy.sharding_constraint %a <@m, [{}, {}]> : tensor<2x3xf32>"),
               "t.mlir:2: column", "there is no mesh @m");
}

TEST(Errors, CaptureWhereItCannotBe) {
  expect_error(in_body("%c = stablehlo.constant dense<0.0> : tensor<f32>\n"
                       "%s = stablehlo.sine %c : tensor<f32>\n"
                       "%0 = \"stablehlo.all_reduce\"(%a) <{replica_groups = dense<[[0]]> : "
                       "tensor<1x1xi64>}> ({\n^bb0(%x: tensor<f32>, %y: tensor<f32>):\n"
                       "%m = stablehlo.add %x, %s : tensor<f32>\n "
                       "stablehlo.return %m : tensor<f32> }) : (tensor<2x3xf32>) -> "
                       "tensor<2x3xf32>"),
               "not supported: t.mlir:4: column 6", "may only use its arguments");
  expect_error(in_body("%c = stablehlo.constant dense<0.0> : tensor<f32>\n"
                       "%0 = stablehlo.reduce(%a init: %c) across dimensions = [0] : "
                       "(tensor<2x3xf32>, tensor<f32>) -> tensor<3xf32> reducer(%x: tensor<f32>, "
                       "%y: tensor<f32>) {\n %v = stablehlo.slice %a [0:1, 0:1] : "
                       "(tensor<2x3xf32>) -> tensor<1x1xf32>\n %w = stablehlo.reshape %v : "
                       "(tensor<1x1xf32>) -> tensor<f32>\n %m = stablehlo.add %x, %w : "
                       "tensor<f32>\n stablehlo.return %m : tensor<f32> }"),
               "not supported: t.mlir:3: column 6",
               "uses tensor<2x3xf32> from outside; valid: scalars and constants");
}

TEST(Errors, HostileTextsAreRefusedQuickly) {
  auto start = std::chrono::steady_clock::now();
  // Calls in a circle.
  const std::string type = " : (tensor<f32>) -> tensor<f32>";
  const std::string signature = "(%a: tensor<f32>) -> tensor<f32> {\n";
  EXPECT_THROW(
      parse_stablehlo("func.func @main" + signature + "%0 = call @f(%a)" + type +
                          "\nreturn %0 : tensor<f32>\n}\nfunc.func private @f" + signature +
                          "%0 = call @main(%a)" + type + "\nreturn %0 : tensor<f32>\n}",
                      "t"),
      Error);
  // Calls in calls.
  std::string calls =
      "func.func @main" + signature + "%0 = call @f1(%a)" + type + "\nreturn %0 : tensor<f32>\n}\n";
  for (int i = 1; i < 20000; ++i) {
    calls += "func.func private @f" + std::to_string(i) + signature + "%0 = call @f" +
             std::to_string(i + 1) + "(%a)" + type + "\nreturn %0 : tensor<f32>\n}\n";
  }
  calls += "func.func private @f20000" + signature + "return %a : tensor<f32>\n}\n";
  try {
    parse_stablehlo(calls, "t");
    ADD_FAILURE() << "calls in calls are accepted";
  } catch (const ValueError& e) {
    EXPECT_NE(std::string(e.what()).find("more than 256 deep"), std::string::npos) << e.what();
  }
  // Many meshes, and one with many axes.
  std::string meshes, axes = "sdy.mesh @m = <[";
  for (int i = 0; i < 50000; ++i) {
    meshes += "sdy.mesh @m" + std::to_string(i % 49999) + " = <[\"x\"=2]>\n";
    axes += "\"x" + std::to_string(i) + "\"=1, ";
  }
  EXPECT_NE(error_of(meshes + in_body("")).find("mesh @m0 stands twice"), std::string::npos);
  EXPECT_NE(error_of(axes + "\"y\"=1]>\n" + in_body("")).find("50001 axes"), std::string::npos);
  // Deep nests of regions, lists, types, locations.
  std::string deep = "func.func @main(%p: tensor<i1>) {\n";
  for (int i = 0; i < 5000; ++i) deep += "\"stablehlo.if\"(%p) ({\n";
  EXPECT_NE(error_of(deep + std::string(5000, '}') + "}").find("deeper than"), std::string::npos);
  EXPECT_NE(error_of(in_body("%0 = stablehlo.constant dense<" + std::string(100000, '[') +
                             "> : tensor<2xi32>"))
                .find("t.mlir:2"),
            std::string::npos);
  std::string types = "func.func @main(%p: ";
  for (int i = 0; i < 100000; ++i) types += "tuple<";
  EXPECT_NE(error_of(types).find("deeper than 64"), std::string::npos);
  EXPECT_NE(error_of("#a = loc(fused[#b, #b])\n#b = loc(fused[#a, #a])\nfunc.func @main(%p: "
                     "tensor<i1> loc(#a)) -> tensor<f32> {\n return %p : tensor<i1>\n}")
                .find("declared as"),
            std::string::npos);
  // Types that call themselves.
  EXPECT_NE(error_of("!a = tuple<!b, !b>\n!b = tuple<!a, !a>\nfunc.func @main(%p: !a) { return }")
                .find("deeper than 64"),
            std::string::npos);
  // Much memory from little text.
  EXPECT_NE(error_of(in_body("%0 = stablehlo.constant dense<[1]> : tensor<1000000000000xi8>"))
                .find("t.mlir:2"),
            std::string::npos);
  EXPECT_NE(error_of(in_body("%0:999999999999 = stablehlo.abs %a : tensor<2x3xf32>"))
                .find("can't stand for"),
            std::string::npos);
  auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_LT(seconds, 5);
}

// Texts with parts removed, doubled or exchanged are read or refused, and nothing else.
TEST(Errors, MutatedTextsAreReadOrRefused) {
  const std::string root = std::string(TESSERA_SOURCE_DIR) + "/tests/";
  std::mt19937 dice(5);
  int refused = 0, read = 0;
  for (const char* file : {"corpus/cond_switch/s1.mlir", "corpus/linear_solve_spd/s0.mlir",
                           "corpus/sort_argsort_topk/plain.mlir", "fixtures/text/shard_map.mlir",
                           "fixtures/text/located.mlir", "fixtures/text/captures.mlir"}) {
    const std::string text = read_file(root + file);
    for (int n = 0; n < 150; ++n) {
      std::string changed = text;
      for (int k = 0; k < 2; ++k) {
        std::size_t at = dice() % changed.size();
        std::size_t length = std::min<std::size_t>(1 + dice() % 12, changed.size() - at);
        switch (dice() % 4) {
          case 0:
            changed.erase(at, length);
            break;
          case 1:
            changed.insert(dice() % changed.size(), changed.substr(at, length));
            break;
          case 2:
            changed[at] = "%#@<>(){}[]\"0159x-:,=?!^"[dice() % 24];
            break;
          default:
            changed.resize(at + 1);
            break;
        }
      }
      try {
        auto m = parse_stablehlo(changed, "t.mlir");
        ir::verify(*m);
        ++read;
      } catch (const InternalError& e) {
        ADD_FAILURE() << e.what() << "\n" << changed;
      } catch (const Error&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 300);
  EXPECT_GT(read, 0);
}

}  // namespace
}  // namespace tessera::text
