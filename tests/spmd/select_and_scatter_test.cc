// SPDX-License-Identifier: Apache-2.0
// The gradient of pooling along split dims: neighbours' rows instead of gathers.
#include <gtest/gtest.h>

#include "src/ir/hlo/hlo_text.h"
#include "tests/spmd/partitioner/partition_case.h"
#include "tests/support/random_program.h"

namespace tessera::testing {
namespace {

using ir::Opcode;

std::string shape(const Dims& dims) { return "f32[" + join(dims) + "]"; }

/// Operand, source and result all split by `tiling` (of rank 2).
std::unique_ptr<ir::Module> program(const Dims& in, const Dims& out, const std::string& window,
                                    const std::string& direction, const std::string& tiling) {
  return ir::parse_hlo(R"(HloModule m, num_partitions=8
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
pick { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=)" +
                       direction + R"( }
ENTRY e {
  x = )" + shape(in) + " parameter(0), sharding={" +
                       tiling + "}\n  y = " + shape(out) + " parameter(1)\n  yy = " + shape(out) +
                       R"( custom-call(y), custom_call_target="Sharding", sharding={)" + tiling +
                       "}\n  zero = f32[] constant(0)\n  s = " + shape(in) +
                       " select-and-scatter(x, yy, zero), window={" + window +
                       "}, select=pick, scatter=add\n  ROOT r = " + shape(in) +
                       " copy(s), sharding={" + tiling + "}\n}\n");
}

TEST(SelectAndScatter, WindowsThatDontOverlapMoveNothing) {
  const PartitionCase c = check_partition(
      program({32, 64}, {16, 32}, "size=2x2 stride=2x2", "GE", "devices=[4,2]<=[8]"));
  // The argument that isn't split is cut, no more.
  EXPECT_EQ(c.collectives(), 0) << c.text;
}

TEST(SelectAndScatter, OverlappingWindowsFetchRowsOnly) {
  const PartitionCase c = check_partition(
      program({64, 256}, {32, 256}, "size=3x1 stride=2x1 pad=0_1x0_0", "GE", "devices=[8,1]<=[8]"));
  EXPECT_EQ(c.count(Opcode::all_gather), 0) << c.text;
  EXPECT_EQ(c.count(Opcode::all_to_all), 0) << c.text;
  EXPECT_GE(c.count(Opcode::collective_permute), 1) << c.text;
  // Fewer bytes than a device's own shard.
  EXPECT_LT(c.bytes(), 8.0 * 256 * 4) << c.text;
  EXPECT_FALSE(c.full_gather());
}

TEST(SelectAndScatter, RandomWindowsAndSplits) {
  Dice dice(11);
  const std::vector<std::string> tilings = {"devices=[8,1]<=[8]", "devices=[4,2]<=[8]",
                                            "devices=[2,4]<=[8]", "devices=[1,8]<=[8]",
                                            "devices=[4,1,2]<=[8] last_tile_dim_replicate"};
  for (int round = 0; round < 120 && !HasFailure(); ++round) {
    Dims in, out;
    std::string size, stride, pad;
    for (int d = 0; d < 2; ++d) {
      const std::int64_t n = dice.between(8, 40), k = dice.between(1, 4), s = dice.between(1, 4);
      const std::int64_t low = dice.below(k), high = dice.below(k);
      in.push_back(n);
      out.push_back((n + low + high - k) / s + 1);
      const std::string x = d ? "x" : "";
      size += x + std::to_string(k);
      stride += x + std::to_string(s);
      pad += x + std::to_string(low) + "_" + std::to_string(high);
    }
    const std::string window = "size=" + size + " stride=" + stride + " pad=" + pad;
    SCOPED_TRACE(window);
    check_partition(program(in, out, window,
                            dice.pick(std::vector<std::string>{"GE", "GT", "LE", "LT"}),
                            dice.pick(tilings)));
  }
}

}  // namespace
}  // namespace tessera::testing
