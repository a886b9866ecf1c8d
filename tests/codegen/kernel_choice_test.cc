// SPDX-License-Identifier: Apache-2.0
// Tables of kernels: each takes any operation, names are documented, and steps say which was taken.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "src/codegen/kernel_families.h"
#include "src/runtime/plan_walk.h"
#include "tests/codegen/run_module.h"

namespace tessera::testing {
namespace {

TEST(KernelTables, EndInALineThatAlwaysApplies) {
  for (const codegen::KernelFamily& family : codegen::kernel_families()) {
    EXPECT_TRUE(family.ends) << family.name;
    EXPECT_GE(family.kernels.size(), 2u) << family.name;
  }
}

TEST(KernelTables, HaveNamesOfTheirOwnAndAReason) {
  std::set<std::string> names;
  for (const codegen::KernelFamily& family : codegen::kernel_families()) {
    for (const runtime::KernelLabel& label : family.kernels) {
      SCOPED_TRACE(label.name);
      const std::string name = label.name, reason = label.reason;
      EXPECT_FALSE(reason.empty() || reason.back() == '.');
      EXPECT_LE(reason.size(), 90u);
      if (name == codegen::kOnEvaluator.name) continue;
      EXPECT_TRUE(names.insert(name).second);
      EXPECT_EQ(name.rfind(family.name + std::string("/"), 0), 0u);
    }
  }
}

TEST(KernelTables, AreThoseOfTheDocument) {
  std::ifstream file(TESSERA_SOURCE_DIR "/docs/internals/kernels.md");
  std::stringstream text;
  text << file.rdbuf();
  const std::string document = text.str();
  // A kernel is the first cell of a row: | `dot/packed` | ...
  std::vector<std::string> documented, tables;
  const std::regex row("(?:^|\n)\\| `([a-z-]+/[a-z0-9-]+)` \\|");
  for (std::sregex_iterator it(document.begin(), document.end(), row), end; it != end; ++it) {
    const std::string name = (*it)[1];
    if (name.rfind("chain/", 0) != 0) documented.push_back(name);
  }
  for (const codegen::KernelFamily& family : codegen::kernel_families()) {
    for (const runtime::KernelLabel& label : family.kernels) {
      if (label.name != std::string(codegen::kOnEvaluator.name)) tables.push_back(label.name);
    }
  }
  EXPECT_EQ(documented, tables);
}

/// The kernels of a program's steps, by the instruction's name.
std::map<std::string, std::string> kernels_of(const std::string& entry) {
  const auto module = ir::parse_hlo(R"(
add_f32 {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT
}
odd {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  d = f32[] subtract(a, b)
  s = f32[] sine(d)
  zero = f32[] constant(0)
  ROOT r = pred[] compare(s, zero), direction=LT
}
not_less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=GE
}
ENTRY e {
)" + entry + "}\n");
  runtime::Plan plan = plan_of(*module).plan;
  std::map<std::string, std::string> out;
  runtime::for_each_step(plan.entry, [&](runtime::Step& step) {
    const auto* task = runtime::task_of(step);
    if (task != nullptr && task->label != nullptr) out[step.name] = task->label->name;
  });
  return out;
}

/// Instructions `r` of the parameters that they name, and the kernel of each.
struct Choice {
  const char *parameters, *r, *kernel;
};

class KernelChoice : public ::testing::TestWithParam<Choice> {};

TEST_P(KernelChoice, IsWhatTheTableSays) {
  const Choice& c = GetParam();
  const auto kernels = kernels_of(std::string(c.parameters) + "  ROOT r = " + c.r + "\n");
  ASSERT_EQ(kernels.count("r"), 1u) << c.r;
  std::string kernel = c.kernel;
  // Where all kernels are compiled, however small, these are.
  const char* jit = std::getenv("TESSERA_JIT");
  if (jit != nullptr && std::string(jit) == "always") {
    if (kernel == "loop/blocks") kernel = "loop/compiled";
    if (kernel == "reduce/op-blocks") kernel = "reduce/op-compiled";
  }
  EXPECT_EQ(kernels.at("r"), kernel) << c.r;
}

const char* const kTwo8 = "  a = f32[8,8] parameter(0)\n  b = f32[8,8] parameter(1)\n";
const char* const kImage =
    "  x = f32[2,9,9,8] parameter(0)\n  k = f32[3,3,8,16] parameter(1)\n"
    "  k1 = f32[1,1,8,16] parameter(2)\n  kd = f32[3,3,1,8] parameter(3)\n";
const char* const kRows =
    "  t = f32[50,24] parameter(0)\n  i = s32[7,1] parameter(1)\n"
    "  u = f32[7,24] parameter(2)\n";
const char* const kLines =
    "  v = f32[6,40] parameter(0)\n  z = f32[] parameter(1)\n"
    "  c = c64[6,40] parameter(2)\n  p = c64[6,1009] parameter(3)\n";

const Choice kChoices[] = {
    {"  a = f32[100,4,4] parameter(0)\n  b = f32[100,4] parameter(1)\n",
     "f32[100,4] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
     "rhs_contracting_dims={1}",
     "dot/lines"},
    {"  a = f32[300,640] parameter(0)\n  b = f32[640] parameter(1)\n",
     "f32[300] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "dot/vectors"},
    {"  a = s32[30,64] parameter(0)\n  b = s32[64,9] parameter(1)\n",
     "s32[30,9] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "dot/integers"},
    {"  a = s8[30,64] parameter(0)\n  b = s8[64,9] parameter(1)\n",
     "s32[30,9] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "dot/narrow"},
    {"  a = c64[30,64] parameter(0)\n  b = c64[64,9] parameter(1)\n",
     "c64[30,9] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "dot/small"},
    {"  a = c64[30,640] parameter(0)\n  b = c64[640,90] parameter(1)\n",
     "c64[30,90] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "dot/complex"},
    {"  a = f16[30,64] parameter(0)\n  b = f16[64,9] parameter(1)\n",
     "f16[30,9] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "dot/halves"},
    {kImage, "f32[2,9,9,16] convolution(x, k1), window={size=1x1}, dim_labels=b01f_01io->b01f",
     "convolution/product"},
    {kImage,
     "f32[2,7,7,8] convolution(x, kd), window={size=3x3}, dim_labels=b01f_01io->b01f, "
     "feature_group_count=8",
     "convolution/depthwise"},
    {"  x = f32[2,9,9,32] parameter(0)\n  k = f32[3,3,4,32] parameter(1)\n",
     "f32[2,7,7,32] convolution(x, k), window={size=3x3}, dim_labels=b01f_01io->b01f, "
     "feature_group_count=8",
     "convolution/grouped"},
    {"  x = c64[2,9,9,8] parameter(0)\n  k = c64[3,3,8,16] parameter(1)\n",
     "c64[2,7,7,16] convolution(x, k), window={size=3x3}, dim_labels=b01f_01io->b01f",
     "convolution/patches"},
    {kLines, "f32[6] reduce(v, z), dimensions={1}, to_apply=add_f32", "reduce/op-blocks"},
    {kLines, "f32[6,40] reduce-window(v, z), window={size=1x40 pad=0_0x39_0}, to_apply=add_f32",
     "reduce-window/scan"},
    {kLines, "f32[6,38] reduce-window(v, z), window={size=1x3}, to_apply=add_f32",
     "reduce-window/taps"},
    {kLines, "f32[6,21] reduce-window(v, z), window={size=1x20}, to_apply=add_f32",
     "reduce-window/runs"},
    {kLines, "f32[6,11] reduce-window(v, z), window={size=1x20 stride=1x2}, to_apply=add_f32",
     "reduce-window/windows"},
    {"  x = f32[6,8] parameter(0)\n  s = f32[3,4] parameter(1)\n  z = f32[] parameter(2)\n",
     "f32[6,8] select-and-scatter(x, s, z), window={size=2x2 stride=2x2}, select=not_less, "
     "scatter=add_f32",
     "select-and-scatter/windows"},
    {kRows,
     "f32[7,24] gather(t, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
     "index_vector_dim=1, slice_sizes={1,24}",
     "gather/rows"},
    {kRows,
     "f32[50,24] scatter(t, i, u), update_window_dims={1}, inserted_window_dims={0}, "
     "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add_f32",
     "scatter/rows"},
    {kLines, "f32[6,40] sort(v), dimensions={1}, to_apply=less", "sort/keys"},
    {kLines, "f32[6,40] sort(v), dimensions={1}, to_apply=odd", "sort/merge"},
    {kLines, "c64[6,40] fft(c), fft_type=FFT, fft_length={40}", "fft/lines"},
    {kLines, "c64[6,1009] fft(p), fft_type=FFT, fft_length={1009}", "fft/chirp"},
    {kTwo8, "f32[8,8] add(a, b)", "loop/blocks"},
    {kTwo8, "f32[8,8] transpose(a), dimensions={1,0}", "move/boxes"},
    {"  a = f32[8,8] parameter(0)\n  z = f32[] parameter(1)\n",
     "f32[10,8] pad(a, z), padding=1_1x0_0", "move/pad"},
    {"  a = f32[8,8] parameter(0)\n  i = s32[] parameter(1)\n",
     "f32[4,8] dynamic-slice(a, i, i), dynamic_slice_sizes={4,8}", "move/slice"},
    {"  a = f32[8,8] parameter(0)\n  b = f32[4,8] parameter(1)\n  i = s32[] parameter(2)\n",
     "f32[8,8] dynamic-update-slice(a, b, i, i)", "move/update"},
    {"  a = f32[8,8] parameter(0)\n", "f32[8,8] cholesky(a), lower=true", "library/solver"},
    {"  a = f8e4m3fn[3,4] parameter(0)\n  b = f8e4m3fn[4,3] parameter(1)\n",
     "f8e4m3fn[3,3] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "evaluator"},
};

INSTANTIATE_TEST_SUITE_P(Kernels, KernelChoice, ::testing::ValuesIn(kChoices),
                         [](const auto& info) {
                           std::string name = info.param.kernel;
                           for (char& c : name) c = std::isalnum(c) != 0 ? c : '_';
                           return name;
                         });

/// Points that are turned: sums along their lines would leave most of a vector empty.
TEST(KernelChoice, ManyShortRowsByASmallMatrix) {
  const auto kernels = kernels_of(
      "  a = f32[40000,3] parameter(0)\n  b = f32[3,3] parameter(1)\n"
      "  ROOT r = f32[40000,3] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n");
  EXPECT_EQ(kernels.at("r"), "dot/small");
}

}  // namespace
}  // namespace tessera::testing
