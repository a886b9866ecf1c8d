// SPDX-License-Identifier: Apache-2.0
// Invalid texts, and that messages state the position, what was expected and what was found.
#include "tests/ir/text_cases.h"

namespace tessera::ir::testing {
namespace {

struct Refused {
  const char* name;
  const char* body;  ///< of the entry, which starts at line 20 of t.hlo
  const char* parts;
};

class HloErrors : public ::testing::TestWithParam<Refused> {};

TEST_P(HloErrors, NamePlaceAndCause) {
  expect_error<ParseError>(with_body(GetParam().body), GetParam().parts);
}

const Refused kRefused[] = {
    {"NameWithoutBlank", "p=f32[2] parameter(0)", "t.hlo:20: column 1|'p=' reads as an attribute"},
    {"ForwardReference", "ROOT r = f32[2] add(p, p)\np = f32[2] parameter(0)",
     "t.hlo:20: column 21|'p' is not defined before this use in e"},
    {"ForwardComputation", "p = f32[4] parameter(0)\nROOT r = f32[4] call(p), to_apply=later",
     "t.hlo:21: column 35|computation 'later' is not defined before this use"},
    {"UnknownAttribute", "p = f32[2] parameter(0)\nROOT r = f32[2] add(p, p), foo=1",
     "t.hlo:21: column 28|unknown attribute 'foo' of add|valid: |backend_config|sharding"},
    {"AttributeOfAnotherOpcode", "p = f32[2] parameter(0)\nROOT r = f32[2] abs(p), dimensions={0}",
     "unknown attribute 'dimensions' of abs|result_accuracy"},
    {"AttributeTwice",
     "p = f32[2] parameter(0)\nROOT r = f32[2] add(p, p), metadata={op_name=\"x\"}, "
     "metadata={op_name=\"y\"}",
     "t.hlo:21: column 52|'metadata' of add stands twice"},
    {"UnknownOpcode", "p = f32[2] parameter(0)\nROOT r = f32[2] addd(p, p)",
     "t.hlo:21: column 17|unknown opcode 'addd'"},
    {"OpcodeMissing", "p = f32[2] parameter(0)\nROOT r = p", "expected a shape or an opcode|'p'"},
    {"UnknownType", "p = q32[2] parameter(0)", "column 5|'q32' is no element type"},
    {"NameTwice", "p = f32[2] parameter(0)\np = f32[2] abs(p)", "'p' stands twice in e"},
    {"ParameterTwice", "p = f32[2] parameter(0)\nq = f32[2] parameter(0)",
     "t.hlo:21: column 22|parameter 0 of e stands twice; the first is p"},
    {"ParameterMissing", "p = f32[2] parameter(1)", "computation e lacks parameter 0"},
    {"ParameterHuge", "p = f32[2] parameter(1000000000)",
     "parameter number 1000000000; parameters are numbered from 0 without gaps"},
    {"ParameterNegative", "p = f32[2] parameter(-1)", "parameter number -1"},
    {"TwoRoots", "ROOT p = f32[2] parameter(0)\nROOT q = f32[2] abs(p)",
     "t.hlo:21: column 1|a second ROOT in e; the first is p"},
    {"EmptyComputation", "", "computation e has no instructions"},
    {"NotClosed", "p = f32[2] parameter(0)\nq = f32[2] abs(p", "t.hlo:22|expected ')'|found '}'"},
    {"TooFewOperands", "p = f32[2] parameter(0)\nq = f32[2] add(p)",
     "t.hlo:21|add takes 2 operands and 1 stand here"},
    {"TooManyOperands", "p = f32[2] parameter(0)\nq = f32[2] abs(p, p)",
     "abs takes 1 operand and 2 stand here"},
    {"OperandShapeWrong", "p = f32[2] parameter(0)\nq = f32[2] abs(f32[3] p)",
     "column 16|operand p is written as f32[3] and is f32[2]"},
    {"ConstantWithoutShape", "c = constant(1)", "column 5|a constant needs its shape"},
    {"ConstantWithShapePrefix", "c = f32[2,2] constant(f32[2,2]{{1,2},{3,4}})",
     "column 23|expected '{' before dim 0|found 'f32'"},
    {"ConstantHex", "c = u32[] constant(0xff)", "column 20|expected an integer|u32|'0xff'"},
    {"ConstantHexFloat", "c = f32[] constant(0x1p-3)", "expected a number|f32|'0x1p-3'"},
    {"ConstantTooLarge", "c = s8[] constant(128)", "column 19|'128' does not fit s8"},
    {"ConstantFourBits", "c = s4[2] constant({7,8})", "column 23|'8' does not fit s4"},
    {"ConstantNegativeUnsigned", "c = u8[] constant(-1)", "'-1' does not fit u8"},
    {"ConstantFloatTooLarge", "c = f32[] constant(1e39)", "'1e39' does not fit f32"},
    {"ConstantHalfTooLarge", "c = f16[] constant(70000)", "'70000' does not fit f16"},
    {"ConstantFraction", "c = s32[] constant(1.5)", "expected an integer|s32|'1.5'"},
    {"ConstantPred", "c = pred[] constant(2)", "expected true, false, 1 or 0|pred|'2'"},
    {"ConstantTooFew", "c = f32[3] constant({1,2})",
     "expected ','|dim 0|f32[3] has 3 entries and only 2 stand here"},
    {"ConstantTooMany", "c = f32[2] constant({1,2,3})",
     "expected '}' after the 2 entries of dim 0"},
    {"ConstantWrongNesting", "c = f32[2,2] constant({1,2,3,4})", "expected '{' before dim 1"},
    {"ConstantTooDeep", "c = f32[2] constant({{1,2}})", "expected a number|f32"},
    {"ConstantOfHugeShape", "c = f32[1000000000000] constant({1})",
     "the text is too short for the 1000000000000 elements"},
    {"ChannelOfATransfer",
     "t = token[] after-all()\nr = (f32[2], u32[], token[]) recv(t), channel_id=~2",
     "t.hlo:21: column|expected an integer for channel_id"},
    {"ConstantNotEmpty", "c = f32[0] constant({1})", "f32[0] has no elements"},
    {"ConstantPayload", "c = f32[] constant(nan(0x800000))",
     "payload of a NaN must be 0x1 to 0x7fffff"},
    {"ConstantTuple", "c = (f32[], s32[]) constant((1))", "expected ','|tuple literal"},
    {"ConstantComplex", "c = c64[] constant((1))", "expected ','|complex"},
    {"ConstantToken", "c = token[] constant(0)", "a token has no constant value"},
    {"ShapeNotClosed", "p = f32[2 parameter(0)", "expected ']' after the dimensions|'parameter'"},
    {"ShapeNegative", "p = f32[-2] parameter(0)", "column 9|must not be negative"},
    {"ShapeOverflow", "p = f32[4294967296,4294967296] parameter(0)", "does not fit 64 bits"},
    {"DimOverflow", "p = f32[99999999999999999999] parameter(0)", "a dimension that fits 64 bits"},
    {"LayoutWrongRank", "p = f32[2,3]{0} parameter(0)",
     "the layout {0} is no order of the 2 dimensions of f32[2,3]"},
    {"LayoutTwice", "p = f32[2,3]{1,1} parameter(0)", "the layout {1,1} is no order"},
    {"CommentNotClosed", "p = f32[2] parameter(0) /* and so on", "the comment has no end"},
    {"QuoteNotClosed", "p = f32[2] parameter(0), backend_config=\"abc\nd",
     "column 41|the quoted text has no end"},
    {"BracketNotClosed", "p = f32[2] parameter(0), backend_config={\"a\":1",
     "computation e is not closed (expected '}')"},
    {"BracketWrong", "p = f32[2] parameter(0), sharding={devices=[2)}", "expected ']'"},
    {"MissingDimensions",
     "p = f32[4] parameter(0)\nc = f32[] constant(0)\nr = reduce(p, c), "
     "to_apply=add",
     "t.hlo:22|reduce needs the attribute 'dimensions'"},
    {"MissingCallee",
     "p = f32[4] parameter(0)\nc = f32[] constant(0)\nr = reduce(p, c), "
     "dimensions={0}",
     "reduce needs the attribute 'to_apply'"},
    {"MissingDirection", "p = f32[4] parameter(0)\nr = compare(p, p)",
     "compare needs the attribute "
     "'direction'"},
    {"BadDirection", "p = f32[4] parameter(0)\nr = compare(p, p), direction=LESS",
     "direction=LESS is not valid; valid: EQ, NE, LT, LE, GT, GE"},
    {"BadFftType", "p = c64[4] parameter(0)\nr = fft(p), fft_type=DFT, fft_length={4}",
     "fft_type=DFT is not valid; valid: FFT, IFFT, RFFT, IRFFT"},
    {"BadFlag", "p = f32[4,4] parameter(0)\nr = cholesky(p), lower=yes",
     "expected true or false for lower, found 'yes'"},
    {"BadInteger", "r = s32[4] iota(), iota_dimension=x", "expected an integer for iota_dimension"},
    {"BadList", "p = f32[4] parameter(0)\nr = reverse(p), dimensions=0",
     "expected '{' before dimensions"},
    {"BadSlice", "p = f32[4] parameter(0)\nr = slice(p), slice={[0-2]}", "expected ':'"},
    {"BadPadding", "p = f32[4] parameter(0)\nc = f32[] constant(0)\nr = pad(p, c), padding=1",
     "padding is written low_high"},
    {"PaddingMissing", "p = f32[4] parameter(0)\nc = f32[] constant(0)\nr = pad(p, c)",
     "pad needs the attribute 'padding'"},
    {"WindowWithoutSize",
     "p = f32[4] parameter(0)\nc = f32[] constant(0)\nr = reduce-window(p, c), "
     "window={stride=2}, to_apply=add",
     "the window must start with its size"},
    {"WindowRanks",
     "p = f32[4] parameter(0)\nc = f32[] constant(0)\nr = reduce-window(p, c), "
     "window={size=2 stride=2x2}, to_apply=add",
     "stride has 2 dims and the window 1"},
    {"WindowUnknownPart",
     "p = f32[4] parameter(0)\nc = f32[] constant(0)\nr = reduce-window(p, c), "
     "window={size=2 step=2}, to_apply=add",
     "unknown part 'step' of a window; valid: size, stride, pad"},
    {"DimLabels",
     "p = f32[1,8,3] parameter(0)\nk = f32[3,3,4] parameter(1)\nr = convolution(p, k), "
     "window={size=3}, dim_labels=b0f_0ii->b0f",
     "label 'i' of '0ii'"},
    {"DimLabelsForm", "p = f32[1,8,3] parameter(0)\nr = convolution(p, p), dim_labels=b0f",
     "expected dim_labels like b01f_01io->b01f"},
    {"GroupsCount",
     "p = f32[4] parameter(0)\nr = all-reduce(p), replica_groups=[2,2]<=[8], to_apply=add",
     "[2,2] groups of 8 devices"},
    {"GroupsPermutation",
     "p = f32[4] parameter(0)\nr = all-reduce(p), replica_groups=[2,4]<=[2,4]T(1,1), to_apply=add",
     "T(1,1) is no permutation of [2,4]"},
    {"GroupsHuge",
     "p = f32[4] parameter(0)\nr = all-reduce(p), replica_groups=[1,99999999]<=[99999999], "
     "to_apply=add",
     "no number of devices"},
    {"GroupsUnknownAxis",
     "p = f32[4] parameter(0)\nr = all-reduce(p), replica_groups=mesh['a'=2] {'b'}, to_apply=add",
     "the mesh has no axis 'b'"},
    {"GroupsPart",
     "p = f32[4] parameter(0)\nr = all-reduce(p), replica_groups=mesh['a'=4] {'a':(3)2}, "
     "to_apply=add",
     "is no part of an axis of size 4"},
    {"PairOfThree",
     "p = f32[4] parameter(0)\nr = collective-permute(p), source_target_pairs={{0,1,2}}",
     "expected a pair {source,target}"},
    {"MetadataKey", "p = f32[4] parameter(0), metadata={opname=\"x\"}",
     "column 36|unknown key 'opname' of metadata; valid: |op_name"},
    {"MetadataTwice", "p = f32[4] parameter(0), metadata={op_name=\"x\" op_name=\"y\"}",
     "'op_name' stands twice in the metadata"},
    {"FrontendTwice", "p = f32[4] parameter(0), frontend_attributes={a=\"1\",a=\"2\"}",
     "frontend attribute 'a' stands twice"},
    {"ControlForward", "p = f32[4] parameter(0), control-predecessors={q}",
     "'q' is not defined before this use"},
    {"TripCount",
     "p = f32[4] parameter(0)\nr = f32[4] while(p), condition=ge, body=branch, "
     "backend_config={\"known_trip_count\":7}",
     "expected '{' after known_trip_count"},
    {"SortDims", "p = f32[4,4] parameter(0)\nr = sort(p), dimensions={0,1}, to_apply=ge",
     "sort takes exactly one dimension"},
    {"AsyncShape", "p = f32[4] parameter(0)\nr = f32[4] negate-start(p)",
     "asynchronous start must be ((operands), outputs, state)"},
    {"ShardingText", "p = f32[4] parameter(0), sharding={devices=[4]<=[5]}", "t.hlo:20: column 35"},
    {"ShardingUnquotedMesh",
     "p = f32[8,4] parameter(0), sharding={mesh[a=2,b=4], [{a}, {b}], replicated={}}",
     "t.hlo:20: column 37"},
    {"ShardingRank", "p = f32[8,4] parameter(0), sharding={devices=[2]0,1}",
     "column 37|rank 1|p is f32[8,4]"},
    {"ShardingCount",
     "p = (f32[8], f32[]) parameter(0), sharding={{devices=[2]0,1},{replicated},"
     "{replicated}}",
     "3 shardings for the 2 values of p"},
    {"ShardingOverTooMany", "p = f32[8] parameter(0), sharding={devices=[99999999]<=[99999999]}",
     "column 35|too many devices"},
    {"SdyText",
     "p = f32[8] parameter(0), frontend_attributes={xla.sdy.sharding=\"#sdy.sharding<@mesh, "
     "[{}]>\"}",
     "in xla.sdy.sharding|mesh"},
};

INSTANTIATE_TEST_SUITE_P(All, HloErrors, ::testing::ValuesIn(kRefused),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(HloModuleErrors, Structure) {
  expect_error<ParseError>("", "expected a computation|the end of the text");
  expect_error<ParseError>("HloModule m\n", "t.hlo:2: column 1|expected a computation");
  expect_error<ParseError>("HloModule m\np = f32[2] parameter(0)\nROOT r = f32[2] abs(p)\n",
                           "t.hlo:2: column 1|an instruction stands outside of a computation");
  expect_error<ParseError>("a { ROOT p = f32[] parameter(0) }\na { ROOT p = f32[] parameter(0) }",
                           "t.hlo:2|computation 'a' stands twice");
  expect_error<ParseError>(
      "ENTRY a { ROOT p = f32[] parameter(0) }\nENTRY b { ROOT p = f32[] parameter(0) }",
      "t.hlo:2|a second ENTRY; the first is a");
  expect_error<ParseError>("ENTRY a { ROOT p = f32[] parameter(0)\n", "a is not closed");
  expect_error<ParseError>("ENTRY a { ROOT p = f32[] parameter(0) } 7",
                           "expected a computation|'7'");
}

TEST(HloModuleErrors, Header) {
  auto with = [](const std::string& header) {
    return "HloModule m, " + header + "\nENTRY a { ROOT p = f32[2] parameter(0) }";
  };
  expect_error<ParseError>(with("foo=1"),
                           "unknown attribute 'foo' of HloModule|num_partitions|buffer_donor");
  expect_error<ParseError>(with("num_partitions=0"), "num_partitions must be 1 or more");
  expect_error<ParseError>(with("num_partitions=2, num_partitions=2"), "stands twice");
  expect_error<ParseError>(with("entry_computation_layout={(f32[3]{0})->f32[2]{0}}"),
                           "says f32[3] for parameter 0, which is f32[2]");
  expect_error<ParseError>(with("entry_computation_layout={()->f32[2]{0}}"),
                           "has 0 parameters and the entry 1");
  expect_error<ParseError>(with("entry_computation_layout={(f32[2]{0})->f32[]}"),
                           "says f32[] for the result, which is f32[2]");
  expect_error<ParseError>(with("input_output_alias={ {}: (0, {}, perhaps) }"),
                           "expected may-alias or must-alias");
  expect_error<ParseError>(
      with("frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<[\"x\"=2, \"x\"=4]>}}"),
      "in xla.sdy.meshes");
}

TEST(HloModuleErrors, Verified) {
  auto with = [](const std::string& header) {
    return "HloModule m, " + header + "\nENTRY a { ROOT p = f32[2] parameter(0) }";
  };
  EXPECT_THROW(parse_hlo(with("input_output_alias={ {}: (1, {}) }")), ValueError);
  EXPECT_THROW(parse_hlo(with("input_output_alias={ {0}: (0, {}) }")), ValueError);
  EXPECT_THROW(parse_hlo(with("buffer_donor={ (0, {0}) }")), ValueError);
}

TEST(HloModuleErrors, ShardingBeyondThePartitions) {
  expect_error<ParseError>(
      "HloModule m, num_partitions=4\nENTRY a { ROOT p = f32[8] parameter(0), "
      "sharding={devices=[8]<=[8]} }",
      "t.hlo:2|8 devices in a module of 4 partitions");
}

TEST(HloModuleErrors, MeshesOfDifferentSizes) {
  const auto with = [](const std::string& header) {
    return "HloModule m, " + header +
           R"(frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=4]>}}
ENTRY e {
  a = f32[8] parameter(0), sharding={devices=[8]<=[8]}
  ROOT b = f32[8] copy(a), frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\"x\"}]>"}
})";
  };
  // The smaller one is on the first devices.
  const auto module = parse_hlo(with(""));
  EXPECT_EQ(module->entry()->root()->sharding[0].mesh->num_devices(), 4);
  EXPECT_EQ(module->entry()->parameter(0)->sharding[0].mesh->num_devices(), 8);
  EXPECT_THROW(parse_hlo(with("num_partitions=4, ")), ParseError);
}

TEST(HloModuleErrors, NotSupportedYet) {
  auto refuse = [](const std::string& body, const std::string& parts) {
    expect_error<NotImplementedError>(with_body(body), parts);
  };
  refuse("p = f32[<=8,4] parameter(0)", "t.hlo:20: column 9|dynamic dimensions");
  refuse("p = f32[?,4] parameter(0)", "dynamic dimensions");
  refuse("a = b(f32[4]) parameter(0)", "t.hlo:20: column 5|buffer types b(...)");
  refuse("a = opaque[] parameter(0)", "opaque[]");
  refuse("p = f32[4] parameter(0)\nr = all-reduce(p), mode=flattened_id, to_apply=add",
         "t.hlo:21: column 25|attribute mode of all-reduce");
  refuse("p = f32[1,8,3,2] parameter(0)\nr = convolution(p, p), dim_labels=b0f?_0io?->b0f?",
         "dimensions without a role");
}

TEST(HloModuleErrors, ShapeErrorsNameLineAndInstruction) {
  const std::string call =
      "p = f32[2,3] parameter(0)\nROOT r = f32[2] custom-call(p), custom_call_target=\"mine\", ";
  expect_error<ParseError>(with_body(call + "operand_layout_constraints={f32[3,2]{0,1}}"),
                           "operand_layout_constraints gives operand 0 the shape f32[3,2], and it "
                           "is f32[2,3]");
  expect_error<ParseError>(with_body(call + "operand_layout_constraints={f32[2,3]{0,1}, f32[]}"),
                           "operand_layout_constraints has 2 shapes for 1 operand");
  expect_error<ParseError>(with_body(call + "output_to_operand_aliasing={{}: (1, {})}"),
                           "output_to_operand_aliasing names operand 1 of 1 operand");
  expect_error<ParseError>(with_body(call + "output_to_operand_aliasing={{}: 0}"),
                           "before the operand");
  expect_error<ShapeError>(with_body("p = f32[2,3] parameter(0)\nROOT r = f32[2] custom-call(p), "
                                     "custom_call_target=\"xla.sdy.FuncResultSharding\""),
                           "the result is f32[2,3] and f32[2] was declared");
  expect_error<ShapeError>(with_body("p = f32[2] parameter(0)\nq = f32[3] parameter(1)\nROOT r = "
                                     "f32[2] add(p, q)"),
                           "t.hlo:22: |r = add(f32[2], f32[3])|dims [2] and [3]|must be equal");
  expect_error<ShapeError>(
      with_body("p = f32[2] parameter(0)\nROOT r = f32[3] abs(p)"),
      "t.hlo:21: |r = abs(f32[2])|the result is f32[2] and f32[3] was declared");
  expect_error<DTypeError>(with_body("p = f32[2] parameter(0)\nq = s32[2] parameter(1)\nROOT r = "
                                     "add(p, q)"),
                           "t.hlo:22: |f32 and s32");
}

TEST(HloModuleErrors, ChannelIdsAreBounded) {
  expect_error<ParseError>(
      with_body("p = f32[2] parameter(0)\nr = f32[2] collective-permute(p), "
                "channel_id=9223372036854775807, source_target_pairs={{0,0}}"),
      "t.hlo:21: column|channel_id=9223372036854775807|at most 4611686018427387904");
}

TEST(HloModuleErrors, DeepNestingIsRefused) {
  std::string open(100000, '('), tuple = "p = " + open;
  expect_error<ParseError>(with_body(tuple + " parameter(0)"), "tuples nest deeper than 64");
  std::string nested = "p = f32[] parameter(0)\nr = ";
  for (int i = 0; i < 100000; ++i) nested += "f32[] abs(";
  expect_error<ParseError>(with_body(nested), "instructions nest deeper than 64");
  std::string inner = "p = f32[4] parameter(0)\nr = f32[4] ";
  for (int i = 0; i < 200; ++i) inner += "call(p), to_apply={ p = f32[4] parameter(0) r = f32[4] ";
  inner += "abs(p)";
  for (int i = 0; i < 200; ++i) inner += "}";
  expect_error<ParseError>(with_body(inner), "computations nest deeper than 64");
  std::string braces = "p = f32[] parameter(0), backend_config=" + std::string(1000000, '{');
  expect_error<ParseError>(with_body(braces), "the bracket is not closed");
}

TEST(HloModuleErrors, LongLinesAreCut) {
  std::string body =
      "p = f32[2] parameter(0), metadata={op_name=\"" + std::string(100000, 'x') + "\"}, foo=1";
  try {
    parse_hlo(with_body(body), "t.hlo");
    FAIL();
  } catch (const ParseError& e) {
    EXPECT_LT(std::string(e.what()).size(), 1000u);
  }
}

}  // namespace
}  // namespace tessera::ir::testing
