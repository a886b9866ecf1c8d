// SPDX-License-Identifier: Apache-2.0
// Modules and functions: results, aliases, names, copies of computations, locations, refusals.
#include "src/ir/rewrite/builder.h"
#include "src/text/read/layout_modes.h"
#include "src/text/write/stablehlo.h"
#include "tests/text/write_cases.h"

namespace tessera::text {
namespace {

using testing::expect_has;
using testing::module_of;
using testing::written;

template <class E>
void expect_refused(const std::string& body, const std::string& part,
                    const std::string& before = "", const std::string& header = "HloModule t") {
  try {
    ADD_FAILURE() << "written: " << written(body, before, header);
  } catch (const E& e) {
    expect_has(e.what(), part);
  }
}

TEST(WriteModule, TuplesBecomeLists) {
  const std::string text = written(
      "  p = (f32[4], (s32[], pred[2])) parameter(0)\n"
      "  a = (s32[], pred[2]) get-tuple-element(p), index=1\n"
      "  b = f32[4] get-tuple-element(p), index=0\n"
      "  ROOT t = ((s32[], pred[2]), f32[4]) tuple(a, b)");
  expect_has(text,
             "func.func public @main(%arg0: tensor<4xf32>, %arg1: tensor<i32>, "
             "%arg2: tensor<2xi1>) -> (tensor<i32>, tensor<2xi1>, tensor<4xf32>) {");
  expect_has(text, "return %arg1, %arg2, %arg0 : tensor<i32>, tensor<2xi1>, tensor<4xf32>");
}

TEST(WriteModule, NothingIsReturned) {
  const std::string text = written("  ROOT t = () tuple()");
  expect_has(text, "func.func public @main() {\n    return\n  }");
}

TEST(WriteModule, AliasesNameFlatResults) {
  const std::string text = written(
      "  p = (f32[4], s32[]) parameter(0)\n"
      "  q = f32[4] parameter(1)\n"
      "  a = f32[4] get-tuple-element(p), index=0\n"
      "  b = s32[] get-tuple-element(p), index=1\n"
      "  i = (f32[4], s32[]) tuple(a, b)\n"
      "  ROOT t = (f32[4], (f32[4], s32[])) tuple(q, i)",
      "",
      "HloModule t, input_output_alias={ {1, 1}: (0, {1}, may-alias) }, "
      "buffer_donor={ (0, {0}), (1, {}) }");
  expect_has(text,
             "%arg0: tensor<4xf32> {jax.buffer_donor = true}, "
             "%arg1: tensor<i32> {tf.aliasing_output = 2 : i32}, "
             "%arg2: tensor<4xf32> {jax.buffer_donor = true}");
}

TEST(WriteModule, LayoutModesStay) {
  const auto read = parse_stablehlo(
      R"(func.func @main(%a: tensor<4x2xf32> {mhlo.layout_mode = "{0,1}"},
          %b: tensor<4x2xf32> {mhlo.layout_mode = "default"})
          -> (tensor<4x2xf32>, tensor<4x2xf32> {mhlo.layout_mode = "auto"}) {
        return %a, %b : tensor<4x2xf32>, tensor<4x2xf32>
      })");
  for (const auto& m :
       {parse_stablehlo(to_stablehlo(*read)), ir::parse_hlo(ir::to_string(*read))}) {
    EXPECT_EQ(m->entry()->parameter(0)->frontend_attributes->at(kLayoutMode), "{0,1}");
    EXPECT_EQ(m->entry()->parameter(1)->frontend_attributes->count(kLayoutMode), 0U);
    EXPECT_EQ(m->frontend_attributes.at(kResultLayoutModes), "default;auto");
  }
}

TEST(WriteModule, NamesStayDistinct) {
  // A function called main is not the entry; names of meshes are symbols as well.
  const std::string text = written(
      "  p = f32[4] parameter(0), sharding={maximal device=3}\n"
      "  a = f32[4] call(p), to_apply=main\n"
      "  b = f32[4] call(a), to_apply=maximal_mesh_3\n"
      "  ROOT c = f32[4] call(b), to_apply=odd-name",
      "main {\n  ROOT x = f32[4] parameter(0)\n}\n"
      "maximal_mesh_3 {\n  ROOT x = f32[4] parameter(0)\n}\n"
      "odd-name {\n  ROOT x = f32[4] parameter(0)\n}\n",
      "HloModule other-name, num_partitions=8");
  expect_has(text, "module @\"other-name\" attributes");
  expect_has(text, "func.func public @main(");
  expect_has(text, "call @main_0(");
  expect_has(text, "sdy.mesh @maximal_mesh_3 = ");
  expect_has(text, "call @maximal_mesh_3_0(");
  expect_has(text, "func.func private @\"odd-name\"(");
}

TEST(WriteModule, NumPartitionsIsTheSizeOfTheMesh) {
  EXPECT_NE(written("  ROOT p = f32[8] parameter(0), sharding={devices=[8]<=[8]}")
                .find("mhlo.num_partitions = 8 : i32"),
            std::string::npos);
}

// A small computation is copied into each region; a larger one that is used again is called.
TEST(WriteModule, SharedComputationsAreCalled) {
  std::string big = "big {\n  x0 = f32[] parameter(0)\n  y = f32[] parameter(1)\n";
  for (int n = 1; n <= 20; ++n) {
    big += "  x" + std::to_string(n) + " = f32[] add(x" + std::to_string(n - 1) + ", y)\n";
  }
  big += "  ROOT r = f32[] maximum(x20, y)\n}\n";
  const std::string one =
      "  p = f32[4] parameter(0)\n  z = f32[] constant(0)\n"
      "  ROOT a = f32[] reduce(p, z), dimensions={0}, to_apply=big";
  EXPECT_EQ(written(one, big).find("@big"), std::string::npos);
  const std::string two =
      "  p = f32[4] parameter(0)\n  z = f32[] constant(0)\n"
      "  a = f32[] reduce(p, z), dimensions={0}, to_apply=big\n"
      "  b = f32[] reduce(p, a), dimensions={0}, to_apply=big\n  ROOT r = f32[] add(a, b)";
  const std::string text = written(two, big);
  EXPECT_EQ(text.find("func.func private @big("), text.rfind("func.func private @big("));
  expect_has(text, "func.call @big(");
}

// Each computation branches twice into the next: 2^18 copies, if they were copies.
TEST(WriteModule, TextGrowsWithTheModule) {
  std::string before = "c0 {\n  x = f32[] parameter(0)\n  ROOT y = f32[] sine(x)\n}\n";
  for (int n = 1; n <= 16; ++n) {
    const std::string last = "c" + std::to_string(n - 1);
    before += "c" + std::to_string(n) +
              " {\n  x = f32[] parameter(0)\n  i = s32[] constant(0)\n"
              "  ROOT y = f32[] conditional(i, x, x), branch_computations={" +
              last + ", " + last + "}\n}\n";
  }
  const std::string text =
      written("  p = f32[] parameter(0)\n  ROOT r = f32[] call(p), to_apply=c16", before);
  EXPECT_LT(text.size(), 16u * 1000);
}

// Regions nest to a limit only; what is deeper is called.
TEST(WriteModule, DeepNestsAreFunctions) {
  std::string before = "c0 {\n  x = f32[] parameter(0)\n  ROOT y = f32[] sine(x)\n}\n";
  constexpr int kDepth = 200;
  for (int n = 1; n <= kDepth; ++n) {
    before += "c" + std::to_string(n) +
              " {\n  x = f32[] parameter(0)\n  i = pred[] constant(true)\n"
              "  ROOT y = f32[] conditional(i, x, x), true_computation=c" +
              std::to_string(n - 1) + ", false_computation=c0\n}\n";
  }
  const std::string text = written(
      "  p = f32[] parameter(0)\n  ROOT r = f32[] call(p), to_apply=c" + std::to_string(kDepth),
      before);
  EXPECT_LT(text.size(), std::size_t(kDepth) * 1500);
}

TEST(WriteModule, LocationsAreAnOption) {
  const auto module = module_of(
      "HloModule t\nENTRY e {\n  p = f32[4] parameter(0)\n"
      "  a = f32[4] sine(p), metadata={op_name=\"jit(f)/sin\" source_file=\"a \\\"b\\\".py\" "
      "source_line=12}\n  b = f32[4] cosine(a), metadata={op_name=\"cos\"}\n"
      "  ROOT c = f32[4] tan(b)\n}\n");
  EXPECT_EQ(to_stablehlo(*module).find("loc("), std::string::npos);
  WriteOptions options;
  options.locations = true;
  const std::string text = to_stablehlo(*module, options);
  expect_has(text,
             "stablehlo.sine %arg0 : tensor<4xf32> loc(\"jit(f)/sin\"(\"a \\22b\\22.py\":12:0))\n");
  expect_has(text, "stablehlo.cosine %0 : tensor<4xf32> loc(\"cos\")\n");
  expect_has(text, "stablehlo.tan %1 : tensor<4xf32>\n");
  const auto back = parse_stablehlo(text);
  const ir::Instruction& sine = *back->entry()->root()->operand(0)->operand(0);
  EXPECT_EQ(sine.metadata->source_line, 12);
}

TEST(WriteModule, CustomPartitioningIsItsPlainBody) {
  ir::Module module("t");
  ir::Computation* body = module.add_computation("plain");
  ir::Builder inside(body);
  body->set_root(inside.unary(ir::Opcode::sine, inside.parameter(0, Shape(f32, {4}))));
  ir::Computation* entry = module.add_computation("main");
  ir::Builder b(entry);
  entry->set_root(b.emit_shaped(ir::Opcode::custom_partitioning, Shape(f32, {4}),
                                {b.parameter(0, Shape(f32, {4}))}, ir::CustomPartitioningAttrs{},
                                {body}));
  module.set_entry(entry);
  const std::string text = to_stablehlo(module);
  expect_has(text,
             "\"stablehlo.composite\"(%arg0) <{composite_attributes = {name = \"\"}, "
             "decomposition = @plain, name = \"tessera.custom_partitioning\"}> : "
             "(tensor<4xf32>) -> tensor<4xf32>");
}

TEST(WriteModule, RefusalsNameTheInstruction) {
  for (const char* config : {"text", "{a = 1 : i>}"}) {
    expect_refused<NotImplementedError>(
        "  p = f32[4] parameter(0)\n  ROOT c = f32[4] custom-call(p), custom_call_target=\"f\", "
        "api_version=API_VERSION_TYPED_FFI, backend_config=" +
            std::string(config),
        "a backend_config of API_VERSION_TYPED_FFI that is no dictionary");
  }
  expect_refused<NotImplementedError>(
      "  x = f32[4,6] parameter(0)\n  n = s32[] constant(2)\n"
      "  ROOT cut = f32[4,6] set-dimension-size(x, n), dimensions={0}",
      "cut");
  expect_refused<NotImplementedError>(
      "  x = f32[4,6] parameter(0)\n  s = f32[4,1] parameter(1)\n"
      "  ROOT product = f32[4,4] scaled-dot(x, x, s, s), lhs_contracting_dims={1}, "
      "rhs_contracting_dims={1}, metadata={op_name=\"a\" source_file=\"model.py\" source_line=7}",
      "product (model.py:7): StableHLO has no form of scaled-dot");
  expect_refused<ValueError>("  ROOT big = f32[4] constant({...})", "big: the constant's value");
  expect_refused<NotImplementedError>(
      "  x = f32[8] parameter(0)\n  z = f32[] constant(0)\n"
      "  ROOT w = f32[8] reduce-window(x, z), window={size=3 pad=1_1 rhs_reversal=1}, "
      "to_apply=add",
      "w: StableHLO has no form of a window with reversal",
      "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = f32[] add(a, b)\n}\n");
  expect_refused<NotImplementedError>(
      "  x = f32[4] parameter(0)\n  s = (f32[4], f32[4], u32[]) copy-start(x)\n"
      "  c = f32[4] get-tuple-element(s), index=1\n  ROOT d = f32[4] copy-done(s)",
      "s: StableHLO has no async ops");
}

}  // namespace
}  // namespace tessera::text
