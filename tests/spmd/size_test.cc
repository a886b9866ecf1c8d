// SPDX-License-Identifier: Apache-2.0
// The compiler's time doesn't depend on the number of devices and is linear in the program: groups
// stay symbolic, and layouts and reshards are computed once.
#include <gtest/gtest.h>

#include <string>

#include "bench/programs.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/spmd/partitioner/compile_context.h"
#include "src/spmd/partitioner/partition.h"
#include "src/spmd/propagation/propagate.h"

namespace tessera::testing {
namespace {

struct Made {
  std::size_t instructions = 0, collectives = 0, records = 0;
  std::size_t text = 0;    ///< without the pairs of permutes, which HLO has no symbols for
  std::int64_t plans = 0;  ///< of reshards
};

std::size_t length_without_pairs(const std::string& text) {
  std::size_t length = text.size();
  for (std::size_t at = 0; (at = text.find("source_target_pairs={", at)) != std::string::npos;) {
    const std::size_t end = text.find("}}", at);
    length -= end - at;
    at = end;
  }
  return length;
}

Made partitioned(std::unique_ptr<ir::Module> module) {
  Made made;
  spmd::propagate(module.get());
  spmd::CompileContext context;
  spmd::PartitionOptions options;
  options.context = &context;
  spmd::PartitionReport report;
  const auto device = spmd::partition(*module, options, &report);
  for (const auto& i : device->entry()->instructions()) {
    ++made.instructions;
    made.collectives += ir::is_collective(i->opcode);
  }
  made.records = report.records.size();
  made.text = length_without_pairs(ir::to_string(*device));
  made.plans = context.reshards.plans_made();
  return made;
}

Made step(int layers, std::int64_t x, std::int64_t y) {
  bench::StepOptions options;
  options.layers = layers;
  options.mesh = {x, y};
  return partitioned(bench::transformer_step(options));
}

void expect_within(std::size_t a, std::size_t b, double factor, const char* what) {
  EXPECT_LE(double(b), factor * double(a)) << what;
  EXPECT_LE(double(a), factor * double(b)) << what;
}

/// Windows, a roll and a reversal of rows that are split among so many devices.
Made rows_moved(std::int64_t devices) {
  const auto number = [](std::int64_t n) { return std::to_string(n); };
  const std::string rows = number(8 * devices), n = number(devices);
  const std::string array = "f32[" + rows + ",4]";
  const std::string split = ", sharding={devices=[" + n + ",1]<=[" + n + "]}\n";
  return partitioned(ir::parse_hlo(
      "HloModule rows, num_partitions=" + n +
      "\nmost {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
      "  ROOT c = f32[] maximum(a, b)\n}\nENTRY main {\n  x = " +
      array + " parameter(0)" + split + "  least = f32[] constant(-inf)\n  y = " + array +
      " reduce-window(x, least), window={size=3x1 pad=1_1x0_0}, to_apply=most" + split +
      "  tail = f32[" + number(8 * devices - 3) + ",4] slice(y), slice={[3:" + rows +
      "], [0:4]}\n  head = f32[3,4] slice(y), slice={[0:3], [0:4]}\n  rolled = " + array +
      " concatenate(tail, head), dimensions={0}" + split + "  ROOT turned = " + array +
      " reverse(rolled), dimensions={0}" + split + "}\n"));
}

TEST(Size, RowsAreMovedByAsMuchTextOnManyDevices) {
  const Made few = rows_moved(8), many = rows_moved(65536);
  EXPECT_EQ(few.collectives, many.collectives);
  expect_within(few.instructions, many.instructions, 1.5, "instructions");
  expect_within(few.text, many.text, 1.5, "text");
}

TEST(Size, OfADeviceProgramDoesNotGrowWithTheDevices) {
  const Made small = step(3, 2, 4), medium = step(3, 16, 16), large = step(3, 64, 32);
  ASSERT_GT(small.collectives, 10u);
  for (const Made* other : {&medium, &large}) {
    expect_within(small.instructions, other->instructions, 1.15, "instructions");
    expect_within(small.collectives, other->collectives, 1.5, "collectives");
    expect_within(small.records, other->records, 1.5, "records");
    expect_within(small.text, other->text, 1.2, "text");
  }
  // More pieces of axes, more ways to go: but by a few plans, not by the devices.
  EXPECT_LE(large.plans, small.plans + 200);
}

TEST(Size, EqualLayersAreSearchedOnce) {
  const Made few = step(2, 16, 16), many = step(6, 16, 16);
  EXPECT_GT(few.plans, 0);
  EXPECT_EQ(many.plans, few.plans);
  // Three times the layers: three times the program, less what is there once.
  EXPECT_LE(many.instructions, 3 * few.instructions);
  EXPECT_LE(many.text, 3.1 * double(few.text));
}

TEST(Size, OfAChainIsLinear) {
  const Made small = partitioned(bench::chain(400, {16, 16}));
  const Made large = partitioned(bench::chain(4000, {16, 16}));
  EXPECT_LE(large.instructions, 11 * small.instructions);
  EXPECT_EQ(large.plans, small.plans);
}

}  // namespace
}  // namespace tessera::testing
