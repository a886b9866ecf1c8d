// SPDX-License-Identifier: Apache-2.0
// Records of what a program communicates, and the collectives that they are about.
#include <gtest/gtest.h>

#include "src/compiler/compile.h"
#include "src/ir/hlo/hlo_text.h"

namespace tessera::testing {
namespace {

// Names and lines are no help: the loop's sum and the one before it have the same.
TEST(Report, AReportOmitsCommunicationThatLeftTheLoop) {
  auto module = ir::parse_hlo(R"(
HloModule rows, num_partitions=8
any { a = pred[] parameter(0)
  b = pred[] parameter(1)
  ROOT r = pred[] or(a, b) }
sum { a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT r = s32[] add(a, b) }
cond {
  s = (s32[16], s32[16]) parameter(0)
  x = s32[16] get-tuple-element(s), index=0
  one = s32[] constant(1)
  ones = s32[16] broadcast(one), dimensions={}
  some = pred[16] compare(x, ones), direction=GT
  no = pred[] constant(false)
  ROOT r = pred[] reduce(some, no), dimensions={0}, to_apply=any
}
body {
  s = (s32[16], s32[16]) parameter(0)
  x = s32[16] get-tuple-element(s), index=0
  count = s32[16] get-tuple-element(s), index=1
  one = s32[] constant(1)
  ones = s32[16] broadcast(one), dimensions={}
  some = pred[16] compare(x, ones), direction=GT
  less = s32[16] subtract(x, ones)
  more = s32[16] add(count, ones)
  next = s32[16] select(some, less, x)
  counts = s32[16] select(some, more, count)
  ROOT t = (s32[16], s32[16]) tuple(next, counts)
}
ENTRY e {
  x = s32[16] parameter(0), sharding={devices=[8]<=[8]}
  zero = s32[] constant(0)
  total = s32[] reduce(x, zero), dimensions={0}, to_apply=sum
  zeros = s32[16] broadcast(zero), dimensions={}
  s = (s32[16], s32[16]) tuple(x, zeros)
  w = (s32[16], s32[16]) while(s), condition=cond, body=body
  counts = s32[16] get-tuple-element(w), index=1
  ROOT r = (s32[16], s32[]) tuple(counts, total), sharding={{devices=[8]<=[8]}, {replicated}}
})");
  const auto executable = compiler::compile(std::move(module));
  const ir::Module& device = executable->partitioned();
  const ir::Instruction* left = nullptr;
  for (const auto& c : device.computations()) {
    for (const auto& i : c->instructions()) {
      if (!ir::is_collective(i->opcode)) continue;
      EXPECT_EQ(left, nullptr) << ir::to_string(device);
      left = i.get();
    }
  }
  ASSERT_NE(left, nullptr) << ir::to_string(device);
  ASSERT_EQ(left->shape.dtype, DType::s32);
  ASSERT_EQ(executable->report().records.size(), 1u);
  // Four bytes, not a flag's one.
  EXPECT_EQ(executable->report().records[0].bytes_received, 2 * 4 * 7 / 8.0);
  EXPECT_EQ(ir::to_string(device).find("record"), std::string::npos);
}

}  // namespace
}  // namespace tessera::testing
