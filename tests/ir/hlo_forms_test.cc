// SPDX-License-Identifier: Apache-2.0
// Forms of HLO text that XLA's parsers of 2024 and 2026 accept, and what they are printed as.
#include "tests/ir/text_cases.h"

namespace tessera::ir::testing {
namespace {

struct Form {
  const char* name;
  const char* body;
  const char* printed;  ///< of the last instruction
};

class HloForms : public ::testing::TestWithParam<Form> {};

TEST_P(HloForms, PrintsInOneForm) {
  const Form& form = GetParam();
  auto module = parse_body(form.body);
  EXPECT_EQ(last_line(*module), form.printed);
  auto again = parse_hlo(to_string(*module));
  EXPECT_EQ(to_string(*again), to_string(*module));
}

const Form kForms[] = {
    {"PercentNames", "%p = f32[2]{0} parameter(0)\nROOT %r = f32[2]{0} add(f32[2]{0} %p, %p)",
     "r = f32[2]{0} add(p, p)"},
    {"PercentWithoutBlank", "%p=f32[2] parameter(0)\nROOT %r=f32[2] add(%p,%p)",
     "r = f32[2]{0} add(p, p)"},
    {"NoResultShape", "p = f32[2] parameter(0)\nROOT r = add(p, p)", "r = f32[2]{0} add(p, p)"},
    {"NoRoot", "p = f32[2] parameter(0)\nr = f32[2] add(p, p)", "r = f32[2]{0} add(p, p)"},
    {"Comments",
     "p = f32[2] parameter(0) // the input\n/* two\nlines */ ROOT r = f32[2] add(p, /*index=1*/p)",
     "r = f32[2]{0} add(p, p)"},
    {"NamesWithDotsAndDashes", "a.b-c_1 = f32[2] parameter(0)\nROOT r.2 = f32[2] abs(a.b-c_1)",
     "r.2 = f32[2]{0} abs(a.b-c_1)"},
    {"ReservedName", "%nan = f32[2] parameter(0)\nROOT r = f32[2] abs(%nan)",
     "r = f32[2]{0} abs(nan_)"},
    {"LayoutWithTiles", "p = f32[8,128]{1,0:T(8,128)S(5)} parameter(0)\nROOT r = copy(p)",
     "r = f32[8,128]{1,0} copy(p)"},
    {"LayoutElementBits", "p = s4[8,128]{1,0:E(4)} parameter(0)\nROOT r = s4[8,128]{1,0} copy(p)",
     "r = s4[8,128]{1,0} copy(p)"},
    {"ColumnMajor", "p = f32[3,4]{0,1} parameter(0)\nROOT r = f32[3,4]{0,1} abs(p)",
     "r = f32[3,4]{0,1} abs(p)"},
    {"ScalarLayout", "p = f32[]{} parameter(0)\nROOT r = f32[] abs(p)", "r = f32[] abs(p)"},
    {"ConstantTuple",
     "ROOT c = (f32[2], (s32[], pred[2,0,3])) constant(({1, 2}, (3, { { /*i0=0*/ }, {} })))",
     "c = (f32[2]{0}, (s32[], pred[2,0,3]{2,1,0})) tuple(constant, tuple)"},
    {"NestedInstruction",
     "ROOT r = f32[2] add(f32[2] parameter(0), f32[2] abs(f32[2] parameter(1)))",
     "r = f32[2]{0} add(parameter, abs)"},
    {"TupleIndexComment",
     "p = (f32[2], /*index=1*/(s32[], pred[])) parameter(0)\nROOT r = f32[2] "
     "get-tuple-element(p), index=0",
     "r = f32[2]{0} get-tuple-element(p), index=0"},
    {"TupleElementWithoutShape",
     "p = (f32[2], s32[]) parameter(0)\nROOT r = get-tuple-element(p), index=1",
     "r = s32[] get-tuple-element(p), index=1"},
    {"AnyAttributeOrder",
     "p = f32[4,6] parameter(0)\nc = f32[] constant(0)\nROOT r = reduce(p, c), to_apply=add, "
     "dimensions={1}",
     "r = f32[4]{0} reduce(p, c), dimensions={1}, to_apply=add"},
    {"InlineToApply",
     "p = f32[8] parameter(0)\nc = f32[] constant(0)\nROOT r = f32[] reduce(p, c), "
     "dimensions={0}, to_apply={ a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] "
     "add(a, b) }",
     "r = f32[] reduce(p, c), dimensions={0}, to_apply=anonymous"},
    {"WindowMinimal",
     "p = f32[8,8] parameter(0)\nc = f32[] constant(0)\nROOT r = reduce-window(p, c), "
     "window={size=3x1 pad=1_1x0_0}, to_apply=add",
     "r = f32[8,8]{1,0} reduce-window(p, c), window={size=3x1 pad=1_1x0_0}, to_apply=add"},
    {"WindowOfNoDims",
     "p = f32[] parameter(0)\nc = f32[] constant(0)\nROOT r = f32[] reduce-window(p, c), "
     "to_apply=add",
     "r = f32[] reduce-window(p, c), to_apply=add"},
    {"WindowNegativePadding",
     "p = f32[8,8] parameter(0)\nc = f32[] constant(0)\nROOT r = f32[5,8] reduce-window(p, c), "
     "window={size=3x1 pad=-1_0x0_0}, to_apply=add",
     "r = f32[5,8]{1,0} reduce-window(p, c), window={size=3x1 pad=-1_0x0_0}, to_apply=add"},
    {"SliceShort", "p = f32[8] parameter(0)\nROOT r = f32[4] slice(p), slice={[0:8:2]}",
     "r = f32[4]{0} slice(p), slice={[0:8:2]}"},
    {"PadInterior",
     "p = f32[8,2] parameter(0)\nc = f32[] constant(0)\nROOT r = f32[17,3] pad(p, c), "
     "padding=1_1_1x0_1",
     "r = f32[17,3]{1,0} pad(p, c), padding=1_1_1x0_1_0"},
    {"DotWithoutAttributes", "p = f32[] parameter(0)\nROOT r = f32[] dot(p, p)",
     "r = f32[] dot(p, p), lhs_contracting_dims={}, rhs_contracting_dims={}"},
    {"DotPrecision",
     "p = f32[4,4] parameter(0)\nROOT r = f32[4,4] dot(p, p), rhs_contracting_dims={0}, "
     "operand_precision={high,highest}, lhs_contracting_dims={1}, algorithm=dot_bf16_bf16_f32_x3",
     "r = f32[4,4]{1,0} dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
     "operand_precision={high,highest}, algorithm=dot_bf16_bf16_f32_x3"},
    {"DotDefaultPrecision",
     "p = f32[4] parameter(0)\nROOT r = f32[] dot(p, p), lhs_contracting_dims={0}, "
     "rhs_contracting_dims={0}, operand_precision={default,default}",
     "r = f32[] dot(p, p), lhs_contracting_dims={0}, rhs_contracting_dims={0}"},
    {"DotPreferredType",
     "p = bf16[4] parameter(0)\nROOT r = f32[] dot(p, p), lhs_contracting_dims={0}, "
     "rhs_contracting_dims={0}",
     "r = f32[] dot(p, p), lhs_contracting_dims={0}, rhs_contracting_dims={0}"},
    {"ConvolutionWithoutSpatialDims",
     "p = f32[2,3] parameter(0)\nk = f32[3,4] parameter(1)\nROOT r = f32[2,4] convolution(p, k), "
     "dim_labels=bf_io->bf",
     "r = f32[2,4]{1,0} convolution(p, k), dim_labels=bf_io->bf"},
    {"ConvolutionGroups",
     "p = f32[1,8,8,4] parameter(0)\nk = f32[3,3,2,6] parameter(1)\nROOT r = f32[1,6,6,6] "
     "convolution(p, k), window={size=3x3}, dim_labels=b01f_01io->b01f, feature_group_count=2",
     "r = f32[1,6,6,6]{3,2,1,0} convolution(p, k), window={size=3x3}, dim_labels=b01f_01io->b01f, "
     "feature_group_count=2"},
    {"CompareDefaultType",
     "p = f32[4] parameter(0)\nROOT r = compare(p, p), direction=LT, type=FLOAT",
     "r = pred[4]{0} compare(p, p), direction=LT"},
    {"CompareTotalOrder",
     "p = f32[4] parameter(0)\nROOT r = pred[4] compare(p, p), type=TOTALORDER, direction=LE",
     "r = pred[4]{0} compare(p, p), direction=LE, type=TOTALORDER"},
    {"CompareSignedDefault",
     "p = s32[4] parameter(0)\nROOT r = pred[4] compare(p, p), direction=LE, type=SIGNED",
     "r = pred[4]{0} compare(p, p), direction=LE"},
    {"ConditionalOfPred",
     "p = pred[] parameter(0)\nx = f32[4] parameter(1)\nROOT r = f32[4] conditional(p, x, x), "
     "true_computation=branch, false_computation=branch",
     "r = f32[4]{0} conditional(p, x, x), true_computation=branch, false_computation=branch"},
    {"ConditionalOfIndex",
     "p = s32[] parameter(0)\nx = f32[4] parameter(1)\nROOT r = f32[4] conditional(p, x, x), "
     "branch_computations={branch, branch}",
     "r = f32[4]{0} conditional(p, x, x), branch_computations={branch, branch}"},
    {"ConditionalOfPredInBranches",
     "p = pred[] parameter(0)\nx = f32[4] parameter(1)\nROOT r = f32[4] conditional(p, x, x), "
     "branch_computations={branch, branch}",
     "r = f32[4]{0} conditional(p, x, x), true_computation=branch, false_computation=branch"},
    {"GroupsIota",
     "p = f32[4] parameter(0)\nROOT r = f32[8] all-gather(p), channel_id=1, "
     "replica_groups=[4,2]<=[8], dimensions={0}, use_global_device_ids=true",
     "r = f32[8]{0} all-gather(p), channel_id=1, replica_groups={{0,1},{2,3},{4,5},{6,7}}, "
     "use_global_device_ids=true, dimensions={0}"},
    {"GroupsIotaTransposed",
     "p = f32[4] parameter(0)\nROOT r = f32[8] all-gather(p), channel_id=1, "
     "replica_groups=[4,2]<=[2,4]T(1,0), dimensions={0}",
     "r = f32[8]{0} all-gather(p), channel_id=1, replica_groups={{0,4},{1,5},{2,6},{3,7}}, "
     "dimensions={0}"},
    {"GroupsNamed",
     "p = f32[4] parameter(0)\nROOT r = f32[8] all-gather(p), channel_id=1, "
     "replica_groups=mesh['a'=2,'b'=4] {'a'}, dimensions={0}",
     "r = f32[8]{0} all-gather(p), channel_id=1, replica_groups={{0,4},{1,5},{2,6},{3,7}}, "
     "dimensions={0}"},
    {"GroupsNamedPart",
     "p = f32[4] parameter(0)\nROOT r = f32[8] all-gather(p), channel_id=1, "
     "replica_groups=mesh['a'=2,'b'=4] {'b':(1)2}, dimensions={0}",
     "r = f32[8]{0} all-gather(p), channel_id=1, replica_groups={{0,2},{1,3},{4,6},{5,7}}, "
     "dimensions={0}"},
    {"GroupsNamedDeviceIds",
     "p = f32[4] parameter(0)\nROOT r = f32[8] all-gather(p), channel_id=1, "
     "replica_groups=mesh['a'=2,'b'=2] {'b'}, device_ids=([2,2]T(1,0)), dimensions={0}",
     "r = f32[8]{0} all-gather(p), channel_id=1, replica_groups={{0,2},{1,3}}, dimensions={0}"},
    {"GroupsNamedDeviceIdsInside",
     "p = f32[4] parameter(0)\nROOT r = f32[8] all-gather(p), channel_id=1, "
     "replica_groups=mesh['a'=1,'b'=4,'c'=2], device_ids=([2,4]T(1,0)) {'c'}, dimensions={0}",
     "r = f32[8]{0} all-gather(p), channel_id=1, replica_groups={{0,4},{1,5},{2,6},{3,7}}, "
     "dimensions={0}"},
    {"GroupsEmpty",
     "p = f32[4] parameter(0)\nROOT r = f32[4] all-to-all(p), replica_groups={}, dimensions={0}",
     "r = f32[4]{0} all-to-all(p), replica_groups={}, dimensions={0}"},
    {"GatherOfAllPartitions",
     "p = f32[4] parameter(0)\nROOT r = f32[12] all-gather(p), replica_groups={}, dimensions={0}",
     "r = f32[12]{0} all-gather(p), replica_groups={}, dimensions={0}"},
    {"AllReduceOfSeveral",
     "p = f32[4] parameter(0)\nq = f32[] parameter(1)\nROOT r = all-reduce(p, q), "
     "replica_groups={}, to_apply=add",
     "r = (f32[4]{0}, f32[]) all-reduce(p, q), replica_groups={}, to_apply=add"},
    {"AsyncSugar",
     "p = f32[4] parameter(0)\ns = ((f32[4]), f32[4], s32[]) negate-start(p)\nu = ((f32[4]), "
     "f32[4], s32[]) negate-update(s)\nROOT d = f32[4] negate-done(u)",
     "d = f32[4]{0} async-done(u)"},
    {"AsyncSugarStart",
     "p = f32[4] parameter(0)\nROOT s = ((f32[4]), f32[4], s32[]) negate-start(p)",
     "s = ((f32[4]{0}), f32[4]{0}, s32[]) async-start(p), calls=wrapped_negate"},
    {"ControlPredecessors",
     "p = f32[4] parameter(0)\nq = f32[4] negate(p)\nROOT d = f32[4] abs(p), "
     "control-predecessors={%q}",
     "d = f32[4]{0} abs(p), control-predecessors={q}"},
    {"Infeed",
     "t = token[] after-all()\ni = ((f32[3]), token[]) infeed(t)\nROOT g = "
     "get-tuple-element(i), index=0",
     "g = (f32[3]{0}) get-tuple-element(i), index=0"},
    {"BackendConfigDictionary",
     "ROOT p = f32[8] parameter(0), backend_config={\"a\":{\"b\":[1,2]}}",
     "p = f32[8]{0} parameter(0), backend_config={\"a\":{\"b\":[1,2]}}"},
    {"BackendConfigText", "ROOT p = f32[8] parameter(0), backend_config=\"a, }b\"",
     "p = f32[8]{0} parameter(0), backend_config=\"a, }b\""},
    {"BackendConfigMlir", "ROOT p = f32[8] parameter(0), backend_config={uplo = 76 : ui8}",
     "p = f32[8]{0} parameter(0), backend_config={uplo = 76 : ui8}"},
    {"FrontendAttributes",
     R"(ROOT p = f32[8] parameter(0), frontend_attributes={b="\"x\"",a={c=1}})",
     R"(p = f32[8]{0} parameter(0), frontend_attributes={a="{c=1}",b="\"x\""})"},
    {"Metadata",
     "ROOT p = f32[8] parameter(0), metadata={source_line=7 op_name=\"jit(f)/x\" op_type=\"p\" "
     "source_file=\"/a b.py\" source_end_line=9 source_column=2}",
     "p = f32[8]{0} parameter(0), metadata={op_type=\"p\" op_name=\"jit(f)/x\" "
     "source_file=\"/a b.py\" source_line=7}"},
    {"IgnoredAttributes",
     "ROOT p = f32[8] parameter(0), parameter_replication={true}, origin={{\"x\"}}",
     "p = f32[8]{0} parameter(0)"},
    {"CustomCallToApply",
     "p = f32[4] parameter(0)\nROOT r = f32[4] custom-call(p), custom_call_target=\"f\", "
     "to_apply=branch",
     "r = f32[4]{0} custom-call(p), custom_call_target=\"f\", called_computations={branch}"},
    {"ResultAccuracy",
     "p = f32[4] parameter(0)\nROOT r = f32[4] exponential(p), "
     "result_accuracy={tolerance={rtol=0.5, atol=1.0, ulps=2}}",
     "r = f32[4]{0} exponential(p), result_accuracy={tolerance={rtol=0.5, atol=1.0, ulps=2}}"},
    {"ReduceScatterToScalarParts",
     "p = f32[8] parameter(0)\nROOT r = reduce-scatter(p), channel_id=1, "
     "replica_groups={{0,1,2,3}}, dimensions={0}, to_apply=add",
     "r = f32[2]{0} reduce-scatter(p), channel_id=1, replica_groups={{0,1,2,3}}, dimensions={0}, "
     "to_apply=add"},
    {"PadOfScalar", "p = f32[] parameter(0)\nROOT r = f32[] pad(p, p)", "r = f32[] pad(p, p)"},
    {"Scan",
     "p = f32[4] parameter(0)\nz = f32[] constant(0)\nROOT r = scan(p, z), dimensions={0}, "
     "num_carries=1, is_reverse=false, to_apply=step",
     "r = (f32[4]{0}, f32[]) scan(p, z), dimensions={0}, num_carries=1, is_reverse=false, "
     "to_apply=step"},
};

INSTANTIATE_TEST_SUITE_P(All, HloForms, ::testing::ValuesIn(kForms),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(HloModuleForms, NoHeader) {
  auto m = parse_hlo("ENTRY e { ROOT p = f32[2] parameter(0) }");
  EXPECT_EQ(m->name, "module");
  EXPECT_EQ(m->entry()->name(), "e");
}

TEST(HloModuleForms, OneComputationNeedsNoEntry) {
  auto m = parse_hlo("HloModule m\n\nmain { ROOT p = f32[2] parameter(0) }\n");
  EXPECT_EQ(m->entry()->name(), "main");
}

TEST(HloModuleForms, EntryNeedNotBeLast) {
  auto m = parse_hlo(
      "HloModule m\nENTRY main { ROOT p = f32[2] parameter(0) }\nother { ROOT p = f32[] "
      "parameter(0) }");
  EXPECT_EQ(m->entry()->name(), "main");
  std::string text = to_string(*m);
  EXPECT_LT(text.find("other {"), text.find("ENTRY main {"));
}

TEST(HloModuleForms, Signature) {
  auto m = parse_hlo(
      "HloModule m\n%f (a: f32[2], b: (s32[], f32[])) -> f32[2]{0} {\n  %b = (s32[], f32[]) "
      "parameter(1)\n  ROOT %a = f32[2] parameter(0)\n}, execution_thread=\"main\"\nENTRY %e (p: "
      "f32[2], q: (s32[], f32[])) -> f32[2] {\n  %p = f32[2] parameter(0)\n  %q = (s32[], f32[]) "
      "parameter(1)\n  ROOT %c = f32[2] call(f32[2] %p, (s32[], f32[]) %q), to_apply=%f\n}\n");
  EXPECT_EQ(last_line(*m), "c = f32[2]{0} call(p, q), to_apply=f");
  ASSERT_EQ(m->entry()->parameters().size(), 2u);
  EXPECT_EQ(m->computations()[0]->parameter(1)->name, "b");
}

TEST(HloModuleForms, HeaderAttributes) {
  auto m = parse_hlo(
      "HloModule jit_f, is_scheduled=true, input_output_alias={ {}: (0, {}, must-alias) }, "
      "buffer_donor={ (1, {0}), (1, {1}) }, entry_computation_layout={(f32[8,16]{1,0}, "
      "/*index=1*/(s32[], f32[]))->f32[8,16]{1,0}}, replica_count=2, num_partitions=4, "
      "allow_spmd_sharding_propagation_to_output={true}, frontend_attributes={a=\"b\"}\nENTRY e "
      "{\n  p = f32[8,16] parameter(0)\n  q = (s32[], f32[]) parameter(1)\n  ROOT r = f32[8,16] "
      "abs(p)\n}");
  EXPECT_EQ(m->name, "jit_f");
  EXPECT_EQ(m->replica_count, 2);
  EXPECT_EQ(m->num_partitions, 4);
  ASSERT_EQ(m->input_output_alias.size(), 1u);
  EXPECT_TRUE(m->input_output_alias[0].must);
  ASSERT_EQ(m->buffer_donor.size(), 2u);
  EXPECT_EQ(m->buffer_donor[1], (std::pair<std::int64_t, Dims>(1, {1})));
  EXPECT_EQ(m->frontend_attributes.at("a"), "b");
  std::string text = to_string(*m);
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "HloModule jit_f, input_output_alias={ {}: (0, {}, must-alias) }, buffer_donor={ (1, "
            "{0}), (1, {1}) }, entry_computation_layout={(f32[8,16]{1,0}, (s32[], "
            "f32[]))->f32[8,16]{1,0}}, replica_count=2, num_partitions=4, is_scheduled=true, "
            "allow_spmd_sharding_propagation_to_output={true}, frontend_attributes={a=\"b\"}");
}

TEST(HloModuleForms, TablesOfStackFrames) {
  auto m = parse_hlo(R"(HloModule m, entry_computation_layout={(f32[2]{0})->f32[2]{0}}

FileNames
1 "/home/model.py"
2 "/home/train.py"

FunctionNames
1 "f"

FileLocations
1 {file_name_id=2 function_name_id=1 line=34 end_line=34 column=4 end_column=9}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

ENTRY e {
  ROOT p = f32[2]{0} parameter(0), metadata={op_name="x" stack_frame_id=1}
}
)");
  EXPECT_EQ(m->entry()->root()->metadata->source_file, "/home/train.py");
  EXPECT_EQ(m->entry()->root()->metadata->source_line, 34);
  EXPECT_EQ(m->entry()->root()->location().to_string(), "/home/train.py:34");
}

TEST(HloModuleForms, TripCountIsReadAndPrintedBack) {
  const char* loop = R"(HloModule m
c { s = s32[] parameter(0) n = s32[] constant(5) ROOT lt = pred[] compare(s, n), direction=LT }
b { s = s32[] parameter(0) n = s32[] constant(1) ROOT a = s32[] add(s, n) }
ENTRY e {
  p = s32[] parameter(0)
  ROOT w = s32[] while(p), condition=c, body=b, backend_config=)";
  auto plain = parse_hlo(std::string(loop) + R"({"known_trip_count":{"n":"5"}})" + "\n}");
  EXPECT_EQ(plain->entry()->root()->get<WhileAttrs>().known_trip_count, 5);
  EXPECT_EQ(*plain->entry()->root()->backend_config, "");
  EXPECT_EQ(
      last_line(*plain),
      R"(w = s32[] while(p), condition=c, body=b, backend_config={"known_trip_count":{"n":"5"}})");
  auto more = parse_hlo(std::string(loop) +
                        R"({"a":[1], "known_trip_count":{"n":"7"}, "b":{"c":2}})" + "\n}");
  EXPECT_EQ(more->entry()->root()->get<WhileAttrs>().known_trip_count, 7);
  EXPECT_EQ(*more->entry()->root()->backend_config, R"({"a":[1],"b":{"c":2}})");
  more->entry()->root()->edit<WhileAttrs>().known_trip_count = 9;
  EXPECT_EQ(last_line(*more),
            R"(w = s32[] while(p), condition=c, body=b, )"
            R"(backend_config={"known_trip_count":{"n":"9"},"a":[1],"b":{"c":2}})");
}

TEST(HloModuleForms, PrintOptions) {
  auto m = parse_body(
      "p = f32[3] parameter(0), sharding={replicated}, metadata={op_name=\"x\"}\nc = f32[3] "
      "constant({1,2,3})\nROOT r = f32[3] add(p, c), sharding={devices=[3]<=[3]}");
  PrintOptions options;
  options.operand_shapes = true;
  EXPECT_EQ(last_line(*m, options),
            "r = f32[3]{0} add(f32[3]{0} p, f32[3]{0} c), sharding={devices=[3]<=[3]}");
  options = {};
  options.shardings = false;
  options.metadata = false;
  EXPECT_EQ(last_line(*m, options), "r = f32[3]{0} add(p, c)");
  EXPECT_EQ(to_string(*m->entry()->parameter(0), options), "p = f32[3]{0} parameter(0)");
  options.max_constant_elements = 2;
  EXPECT_EQ(to_string(*m->entry()->instructions()[1], options), "c = f32[3]{0} constant({...})");
  EXPECT_EQ(to_string(*m->entry()).substr(0, 10), "ENTRY e {\n");
}

std::string groups_of(const Instruction& i) {
  const std::string text = to_string(i);
  const std::size_t from = text.find("replica_groups=") + 15;
  return text.substr(from, text.find(", to_apply") - from);
}

TEST(HloModuleForms, GroupsOfManyDevicesHaveAsFewDimsAsTheyCan) {
  for (const auto& [written, printed] : std::vector<std::pair<std::string, std::string>>{
           {"[2,48]<=[2,6,8]", "[2,48]<=[96]"},
           {"[48,2]<=[2,6,8]T(1,2,0)", "[48,2]<=[2,48]T(1,0)"},
           {"[8,12]<=[2,6,2,4]T(2,3,0,1)", "[8,12]<=[12,8]T(1,0)"},
           {"[12,8]<=[2,6,8]T(1,0,2)", "[12,8]<=[2,6,8]T(1,0,2)"}}) {
    const auto text = [&](const std::string& groups) {
      return "HloModule m, num_partitions=96\nadd { a = f32[] parameter(0) b = f32[] parameter(1) "
             "ROOT s = f32[] add(a, b) }\nENTRY e { p = f32[4] parameter(0) ROOT r = f32[4] "
             "all-reduce(p), replica_groups=" +
             groups + ", to_apply=add }";
    };
    const auto once = parse_hlo(text(written));
    EXPECT_EQ(groups_of(*once->entry()->root()), printed);
    const auto twice = parse_hlo(to_string(*once));
    EXPECT_EQ(to_string(*twice), to_string(*once));
    EXPECT_EQ(twice->entry()->root()->get<CollectiveAttrs>().groups,
              once->entry()->root()->get<CollectiveAttrs>().groups);
  }
}

TEST(HloModuleForms, GroupsOverAxesPrintAsTheirListsDo) {
  std::vector<std::pair<std::string, std::int64_t>> bits;
  for (int k = 0; k < 16; ++k) bits.emplace_back("a" + std::to_string(k), 2);
  const MeshRef mesh = make_logical_mesh(bits);
  const auto m = parse_hlo(
      "HloModule m, num_partitions=65536\nadd { a = f32[] parameter(0) b = f32[] parameter(1) "
      "ROOT s = f32[] add(a, b) }\nENTRY e { p = f32[4] parameter(0) ROOT r = f32[4] "
      "all-reduce(p), replica_groups={}, to_apply=add }");
  Instruction* root = m->entry()->root();
  for (const auto& [axes, printed] : std::vector<std::pair<IndexList, std::string>>{
           {{9, 10, 11, 12, 13, 14, 15}, "[512,128]<=[65536]"},
           {{0, 1, 2}, "[8192,8]<=[8,8192]T(1,0)"},
           {{1, 0}, "[16384,4]<=[2,2,16384]T(2,1,0)"},
           {{4, 5}, "[16384,4]<=[16,4,1024]T(0,2,1)"}}) {
    root->edit<CollectiveAttrs>().groups = DeviceGroups::over(mesh, axes);
    EXPECT_EQ(groups_of(*root), printed);
    DeviceGroups lists;
    lists.lists = DeviceGroups::over(mesh, axes).expand(65536);
    root->edit<CollectiveAttrs>().groups = lists;
    EXPECT_EQ(groups_of(*root), printed);
  }
}

TEST(HloModuleForms, CanonicalTextForgetsNames) {
  auto a = parse_hlo(
      "HloModule a\nf { ROOT x = f32[] parameter(0) }\nENTRY e { p = f32[] parameter(0), "
      "metadata={op_name=\"p\"} ROOT r = f32[] call(p), to_apply=f }");
  auto b = parse_hlo(
      "HloModule b\ng { ROOT y = f32[] parameter(0) }\nENTRY h { q = f32[] parameter(0) ROOT s = "
      "f32[] call(q), to_apply=g }");
  PrintOptions canonical;
  canonical.canonical = true;
  EXPECT_NE(to_string(*a), to_string(*b));
  EXPECT_EQ(to_string(*a, canonical), to_string(*b, canonical));
}

// Forms that XLA reads and does not print.
TEST(HloModuleForms, LastComputationIsTheEntryIfNoneIsMarked) {
  const auto m = parse_hlo(
      "HloModule m:\nf { ROOT p = f32[] parameter(0) }\ng (q f32[2], r: f32[2]) -> f32[2] { q = "
      "f32[2] parameter(0) r = f32[2] parameter(1) ROOT s = f32[2] map(q, r), to_apply={ a = f32[] "
      "parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) } }");
  EXPECT_EQ(m->name, "m");
  EXPECT_EQ(m->entry()->name(), "g");
  EXPECT_EQ(m->entry()->root()->get<DimensionsAttrs>().dims, Dims{0});
}

TEST(HloModuleForms, LiteralOfOneElementNeedsNoBraces) {
  const auto m = parse_body("ROOT c = s32[1,1] constant(-7)");
  EXPECT_EQ(last_line(*m), "c = s32[1,1]{1,0} constant({ { -7 } })");
  EXPECT_THROW(parse_body("ROOT c = s32[2] constant(-7)"), ParseError);
}

TEST(HloModuleForms, MetadataMayHaveCommas) {
  const auto m = parse_body(
      "ROOT c = f32[] constant(1), metadata={source_line=3, op_type=\"a\" source_file=\"b\", "
      "op_name=\"c\"}");
  const Metadata& metadata = *m->entry()->root()->metadata;
  EXPECT_EQ(metadata.op_type, "a");
  EXPECT_EQ(metadata.op_name, "c");
  EXPECT_EQ(metadata.source_line, 3);
}

TEST(HloModuleForms, QuotedTextMayGoOverLines) {
  const auto m = parse_body(
      "p = f32[2] parameter(0)\nROOT c = f32[2] custom-call(p), custom_call_target=\"t\", "
      "backend_config=\"one\ntwo\"");
  const auto again = parse_hlo(to_string(*m));
  EXPECT_EQ(to_string(*again), to_string(*m));
  EXPECT_NE(to_string(*m).find("one\ntwo"), std::string::npos);
}

TEST(HloModuleForms, StepsAfterAnAsynchronousStartNeedNotRepeatIt) {
  const auto m = parse_body(
      "p = f32[4] parameter(0)\ns = ((f32[4]), f32[2], s32[]) slice-start(p), slice={[1:3]}, "
      "async_execution_thread=\"copies\"\nu = ((f32[4]), f32[2], s32[]) slice-update(s)\nROOT d = "
      "f32[2] slice-done(u), metadata={op_name=\"x\"}, async_execution_thread=\"copies\"");
  const Instruction* done = m->entry()->root();
  EXPECT_TRUE(done->is(Opcode::async_done));
  EXPECT_EQ(done->metadata->op_name, "x");
  const Instruction* start = done->operand(0)->operand(0);
  EXPECT_TRUE(start->called().at(0)->root()->is(Opcode::slice));
  // One that repeats it is read as before, and what belongs to another op is not.
  EXPECT_NO_THROW(parse_body(
      "p = f32[4] parameter(0)\ns = ((f32[4]), f32[2], s32[]) slice-start(p), slice={[1:3]}\nROOT "
      "d = f32[2] slice-done(s), slice={[1:3]}"));
  EXPECT_THROW(parse_body("p = f32[4] parameter(0)\ns = ((f32[4]), f32[2], s32[]) slice-start(p), "
                          "slice={[1:3]}\nROOT d = f32[2] slice-done(s), dimensions={0}"),
               ParseError);
}

TEST(HloModuleForms, ElidedConstantsStayElided) {
  auto m = parse_body("ROOT c = f32[100,100] constant({...})");
  EXPECT_TRUE(m->entry()->root()->get<ConstantAttrs>().elided);
  EXPECT_EQ(last_line(*m), "c = f32[100,100]{1,0} constant({...})");
}

}  // namespace
}  // namespace tessera::ir::testing
