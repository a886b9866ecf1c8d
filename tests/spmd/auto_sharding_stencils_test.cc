// SPDX-License-Identifier: Apache-2.0
// Stencils whose arrays the program splits along one dim: solved shardings split the other one as
// well, as rows are exchanged once for all ops, and work is shared out among all devices.
#include <gtest/gtest.h>

#include <string>

#include "src/cost/count.h"
#include "src/spmd/auto_sharding/auto_sharding.h"
#include "src/spmd/propagation/propagate.h"
#include "tests/spmd/partitioner/partition_case.h"

namespace tessera::testing {
namespace {

using ir::Opcode;

/// Rows among 4, the same on 2 devices each.
const std::string kRowsOfFour = ", sharding={devices=[4,1,2]<=[8] last_tile_dim_replicate}";

double bytes_as_propagated(const std::string& lines) {
  const std::unique_ptr<ir::Module> module = parse_entry(lines);
  spmd::propagate(module.get());
  return cost::count_communication(*spmd::partition(*module, {}, nullptr)).total_bytes;
}

/// A program on f32[512,512].
void expect_both_dims(const std::string& steps) {
  const std::string lines =
      "a = f32[512,512] parameter(0)" + kRowsOfFour + "\nn = f32[] constant(2)\n" + steps;
  SCOPED_TRACE(lines);
  const PartitionCase c = check_solved(parse_entry(lines));
  // What is computed is split by both, and rows and columns come from neighbours.
  EXPECT_NE(c.text.find("f32[128,256]"), std::string::npos) << c.text;
  EXPECT_EQ(c.count(Opcode::all_to_all), 0) << c.text;
  EXPECT_GE(c.count(Opcode::collective_permute), 2) << c.text;
  EXPECT_EQ(c.count(Opcode::all_gather), 0) << c.text;
}

/// x after a step, of rows and columns around it.
std::string stencil_step(const std::string& x, const std::string& up, const std::string& left,
                         const std::string& out) {
  return out + "0 = f32[512,512] " + up + "\n" + out + "1 = f32[512,512] " + left + "\n" + out +
         "2 = f32[512,512] add(" + out + "0, " + out + "1)\n" + out + "3 = f32[512,512] tanh(" +
         out + "2)\n" + out + " = f32[512,512] subtract(" + x + ", " + out + "3)\n";
}

TEST(AutoShardingOfStencils, ShiftsWithFill) {
  std::string lines, x = "a";
  for (int k = 0; k < 4; ++k) {
    const std::string y = "x" + std::to_string(k);
    lines += stencil_step(x, "pad(" + x + ", n), padding=1_-1x0_0",
                          "pad(" + x + ", n), padding=0_0x1_-1", y);
    x = y;
  }
  expect_both_dims(lines + "ROOT r = f32[512,512] negate(" + x + ")");
}

TEST(AutoShardingOfStencils, Rolls) {
  std::string lines, x = "a";
  for (int k = 0; k < 4; ++k) {
    const std::string y = "x" + std::to_string(k);
    lines += y + "a = f32[1,512] slice(" + x + "), slice={[511:512], [0:512]}\n" + y +
             "b = f32[511,512] slice(" + x + "), slice={[0:511], [0:512]}\n" + y +
             "c = f32[512,1] slice(" + x + "), slice={[0:512], [511:512]}\n" + y +
             "d = f32[512,511] slice(" + x + "), slice={[0:512], [0:511]}\n" +
             stencil_step(x, "concatenate(" + y + "a, " + y + "b), dimensions={0}",
                          "concatenate(" + y + "c, " + y + "d), dimensions={1}", y);
    x = y;
  }
  expect_both_dims(lines + "ROOT r = f32[512,512] negate(" + x + ")");
}

TEST(AutoShardingOfStencils, WindowsOfConvolutions) {
  const std::string split = ", sharding={devices=[1,4,1,1,2]<=[8] last_tile_dim_replicate}";
  std::string lines = "a = f32[1,64,64,8] parameter(0)" + split +
                      "\nk = f32[3,3,8,8] parameter(1), sharding={replicated}\n";
  std::string x = "a";
  for (int n = 0; n < 3; ++n) {
    const std::string y = "x" + std::to_string(n);
    lines += y + "c = f32[1,64,64,8] convolution(" + x +
             ", k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f\n" + y +
             " = f32[1,64,64,8] negate(" + y + "c)\n";
    x = y;
  }
  lines += "ROOT r = f32[1,64,64,8] negate(" + x + ")";
  const PartitionCase c = check_solved(parse_entry(lines));
  EXPECT_NE(c.text.find("f32[1,16,32,8]"), std::string::npos) << c.text;
  EXPECT_EQ(c.count(Opcode::all_gather), 0) << c.text;
  EXPECT_EQ(c.count(Opcode::all_to_all), 0) << c.text;
}

TEST(AutoShardingOfStencils, NoMoreThanAsPropagated) {
  // Halves of an array are elsewhere on each device: nothing is to be had by splitting there.
  const std::string lines = "a = f32[64,256] parameter(0)" + kRowsOfFour + R"(
    l = f32[64,128] slice(a), slice={[0:64], [0:128]}
    h = f32[64,128] slice(a), slice={[0:64], [128:256]}
    p = f32[64,128] multiply(l, h)
    ROOT r = f32[64,128] tanh(p))" +
                            kRowsOfFour;
  EXPECT_LE(check_solved(parse_entry(lines), 1e-6).bytes(), bytes_as_propagated(lines));
}

}  // namespace
}  // namespace tessera::testing
