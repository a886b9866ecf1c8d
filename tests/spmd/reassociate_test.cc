// SPDX-License-Identifier: Apache-2.0
// Collectives that are swapped with other ops, so that fewer are left.
#include <gtest/gtest.h>

#include "src/spmd/collectives/optimize.h"
#include "tests/spmd/collective_case.h"

namespace tessera::testing {
namespace {

using ir::Opcode;
using spmd::create_reduce_scatters;
using spmd::reassociate_collectives;

const std::string kRowGroups = "replica_groups={{0,1,2,3},{4,5,6,7}}, use_global_device_ids=true";
const std::string kColumnGroups =
    "replica_groups={{0,4},{1,5},{2,6},{3,7}}, use_global_device_ids=true";
const std::string kSum = ", to_apply=add";

std::string channel(int n) { return "channel_id=" + std::to_string(n) + ", "; }

TEST(Reassociate, ReductionInBetweenByTheSameOp) {
  const std::string head =
      "ENTRY e {\n x = f32[4,6] parameter(0)\n z = f32[] constant(0)\n"
      "a = f32[4,6] all-reduce(x), " +
      channel(1) + kRowGroups + kSum;
  const std::string tail =
      "ROOT r = f32[4] all-reduce(s), " + channel(2) + kColumnGroups + kSum + "\n}\n";
  auto c =
      check_collectives(head + "\n s = f32[4] reduce(a, z), dimensions={1}, to_apply=add\n" + tail,
                        reassociate_collectives);
  EXPECT_EQ(c.count(Opcode::all_reduce), 1) << c.text;
  EXPECT_EQ(c.is.total_bytes, 2 * 16 * 7.0 / 8) << c.text;
  // Another op in between, a start that counts, another reader: two.
  for (const std::string& s :
       {std::string("\n s = f32[4] reduce(a, z), dimensions={1}, to_apply=max\n"),
        std::string("\n o = f32[] constant(1)\n"
                    " s = f32[4] reduce(a, o), dimensions={1}, to_apply=add\n"),
        std::string("\n m = f32[4,6] multiply(a, a)\n"
                    " s = f32[4] reduce(m, z), dimensions={1}, to_apply=add\n")}) {
    c = check_collectives(head + s + tail, reassociate_collectives);
    EXPECT_EQ(c.count(Opcode::all_reduce), 2) << c.text;
    EXPECT_EQ(c.changed, 0u) << c.text;
  }
}

TEST(Reassociate, SumOfReductions) {
  const std::string head =
      "ENTRY e {\n x = f32[4,2] parameter(0)\n y = f32[2,4] parameter(1)\n"
      " w = f32[8] parameter(2)\n"
      "a = f32[4,2] all-reduce(x), " +
      channel(1) + kRowGroups + kSum + "\nb = f32[2,4] all-reduce(y), " + channel(2) + kRowGroups +
      kSum + "\n p = f32[8] reshape(a)\n q = f32[8] reshape(b)\n";
  // Through a tree of sums with something else in it.
  auto c = check_collectives(head + " s = f32[8] add(p, w)\n ROOT r = f32[8] add(s, q)\n}\n",
                             reassociate_collectives);
  EXPECT_EQ(c.count(Opcode::all_reduce), 1) << c.text;
  EXPECT_EQ(c.is.total_bytes * 2, c.was.total_bytes);
  c = check_collectives(head + " ROOT r = f32[8] subtract(p, q)\n}\n", reassociate_collectives);
  EXPECT_EQ(c.count(Opcode::all_reduce), 1) << c.text;
  // A product of sums, and a sum that somebody else reads, stay as they are.
  c = check_collectives(head + " ROOT r = f32[8] multiply(p, q)\n}\n", reassociate_collectives);
  EXPECT_EQ(c.count(Opcode::all_reduce), 2) << c.text;
  c = check_collectives(head +
                            " s = f32[8] add(p, q)\n n = f32[8] negate(q)\n"
                            " ROOT r = f32[8] maximum(s, n)\n}\n",
                        reassociate_collectives);
  EXPECT_EQ(c.count(Opcode::all_reduce), 2) << c.text;
}

TEST(Reassociate, SumOverOtherGroupsStays) {
  const auto c = check_collectives(
      "ENTRY e {\n x = f32[4] parameter(0)\n y = f32[4] parameter(1)\n"
      "a = f32[4] all-reduce(x), " +
          channel(1) + kRowGroups + kSum + "\nb = f32[4] all-reduce(y), " + channel(2) +
          kColumnGroups + kSum + "\n ROOT r = f32[4] add(a, b)\n}\n",
      reassociate_collectives);
  EXPECT_EQ(c.count(Opcode::all_reduce), 2) << c.text;
}

TEST(Reassociate, ComputedBeforeItIsGathered) {
  const std::string head =
      "ENTRY e {\n x = f32[4,2] parameter(0)\n y = f32[4,2] parameter(1)\n"
      "a = f32[16,2] all-gather(x), dimensions={0}, " +
      channel(1) + kRowGroups + "\nb = f32[16,2] all-gather(y), dimensions={0}, " + channel(2) +
      kRowGroups + "\n o = f32[] constant(2)\n k = f32[16,2] broadcast(o), dimensions={}\n";
  auto c =
      check_collectives(head + " m = f32[16,2] multiply(a, b)\n ROOT r = f32[16,2] add(m, k)\n}\n",
                        reassociate_collectives);
  EXPECT_EQ(c.count(Opcode::all_gather), 1) << c.text;
  EXPECT_EQ(c.is.total_bytes * 2, c.was.total_bytes);
  // A number that differs from device to device is another one where the array is made.
  c = check_collectives(head +
                            " i = u32[] partition-id()\n f = f32[] convert(i)\n"
                            " d = f32[16,2] broadcast(f), dimensions={}\n"
                            " q = pred[16,2] compare(d, k), direction=LT\n"
                            " ROOT r = f32[16,2] select(q, a, b)\n}\n",
                        reassociate_collectives);
  EXPECT_EQ(c.count(Opcode::all_gather), 2) << c.text;
}

TEST(Reassociate, NarrowedBeforeItTravels) {
  const std::string head =
      "ENTRY e {\n x = f32[4,2] parameter(0)\n"
      "a = f32[16,2] all-gather(x), dimensions={0}, " +
      channel(1) + kRowGroups;
  auto c =
      check_collectives(head + "\n ROOT r = bf16[16,2] convert(a)\n}\n", reassociate_collectives);
  EXPECT_EQ(c.is.total_bytes * 2, c.was.total_bytes) << c.text;
  c = check_collectives(head + "\n ROOT r = f64[16,2] convert(a)\n}\n", reassociate_collectives);
  EXPECT_EQ(c.is.total_bytes, c.was.total_bytes) << c.text;
}

TEST(Reassociate, GathersAndScattersInARow) {
  auto c = check_collectives(
      "ENTRY e {\n x = f32[4,2] parameter(0)\n"
      "a = f32[16,2] all-gather(x), dimensions={0}, " +
          channel(1) + kRowGroups + "\nROOT r = f32[32,2] all-gather(a), dimensions={0}, " +
          channel(2) + kColumnGroups + "\n}\n",
      reassociate_collectives);
  EXPECT_EQ(c.count(Opcode::all_gather), 1) << c.text;
  EXPECT_EQ(c.is.total_bytes, c.was.total_bytes);
  c = check_collectives(
      "ENTRY e {\n x = f32[16,2] parameter(0)\n"
      "a = f32[4,2] reduce-scatter(x), dimensions={0}, " +
          channel(1) + kRowGroups + kSum +
          "\nROOT r = f32[2,2] reduce-scatter(a), dimensions={0}, " + channel(2) + kColumnGroups +
          kSum + "\n}\n",
      reassociate_collectives);
  EXPECT_EQ(c.count(Opcode::reduce_scatter), 1) << c.text;
  // What is scattered and gathered again was to be reduced.
  c = check_collectives(
      "ENTRY e {\n x = f32[16,2] parameter(0)\n"
      "a = f32[4,2] reduce-scatter(x), dimensions={0}, " +
          channel(1) + kRowGroups + kSum + "\nROOT r = f32[16,2] all-gather(a), dimensions={0}, " +
          channel(2) + kRowGroups + "\n}\n",
      reassociate_collectives);
  EXPECT_EQ(c.collectives(), 1) << c.text;
  EXPECT_EQ(c.count(Opcode::all_reduce), 1) << c.text;
  EXPECT_EQ(c.is.total_bytes, c.was.total_bytes);
  // Along another dim they are two.
  c = check_collectives(
      "ENTRY e {\n x = f32[4,2] parameter(0)\n"
      "a = f32[16,2] all-gather(x), dimensions={0}, " +
          channel(1) + kRowGroups + "\nROOT r = f32[16,4] all-gather(a), dimensions={1}, " +
          channel(2) + kColumnGroups + "\n}\n",
      reassociate_collectives);
  EXPECT_EQ(c.count(Opcode::all_gather), 2) << c.text;
}

TEST(Reassociate, PermutesInARow) {
  const std::string right = "source_target_pairs={{0,1},{1,2},{2,3},{3,4},{4,5},{5,6},{6,7},{7,0}}";
  const std::string left = "source_target_pairs={{1,0},{2,1},{3,2},{4,3},{5,4},{6,5},{7,6},{0,7}}";
  auto row = [&](const std::string& first, const std::string& second) {
    return check_collectives(
        "ENTRY e {\n x = f32[4] parameter(0)\n y = f32[4] negate(x)\n"
        "a = f32[4] collective-permute(y), " +
            channel(1) + first + "\n b = f32[4] collective-permute(a), " + channel(2) + second +
            "\n ROOT r = f32[4] negate(b)\n}\n",
        reassociate_collectives);
  };
  EXPECT_EQ(row(right, right).collectives(), 1);
  EXPECT_EQ(row(right, left).collectives(), 0);
  // Devices that nothing is sent to have zeros, also in the end.
  EXPECT_EQ(row("source_target_pairs={{0,1},{1,2}}", right).collectives(), 1);
  EXPECT_EQ(row(right, "source_target_pairs={{3,1},{1,2}}").collectives(), 1);
}

// ----- own shards

const std::string kPlace =
    " i = u32[] partition-id()\n s = s32[] convert(i)\n four = s32[] constant(4)\n"
    " zero = s32[] constant(0)\n p = s32[] remainder(s, four)\n k = s32[] divide(s, four)\n"
    " start = s32[] multiply(p, four)\n";

TEST(OwnShard, ReductionThatIsCutIsAScatter) {
  const std::string head = "ENTRY e {\n x = f32[16,2] parameter(0)\n" + kPlace;
  auto c =
      check_collectives(head + "a = f32[16,2] all-reduce(x), " + channel(1) + kRowGroups + kSum +
                            "\n ROOT r = f32[4,2] dynamic-slice(a, start, zero), "
                            "dynamic_slice_sizes={4,2}\n}\n",
                        create_reduce_scatters);
  EXPECT_EQ(c.count(Opcode::all_reduce), 0) << c.text;
  EXPECT_EQ(c.count(Opcode::reduce_scatter), 1) << c.text;
  EXPECT_EQ(c.count(Opcode::dynamic_slice), 0) << c.text;
  EXPECT_EQ(c.is.total_bytes * 2, c.was.total_bytes);
  // Of more devices than take different parts: a scatter, then the rest of the sum on the part.
  c = check_collectives(head + "a = f32[16,2] all-reduce(x), " + channel(1) +
                            "replica_groups={{0,1,2,3,4,5,6,7}}, use_global_device_ids=true" +
                            kSum +
                            "\n ROOT r = f32[4,2] dynamic-slice(a, start, zero), "
                            "dynamic_slice_sizes={4,2}\n}\n",
                        create_reduce_scatters);
  EXPECT_EQ(c.count(Opcode::reduce_scatter), 1) << c.text;
  EXPECT_EQ(c.count(Opcode::all_reduce), 1) << c.text;
  EXPECT_LT(c.is.total_bytes, c.was.total_bytes);
  // All of a group take the same part: they cut before.
  c = check_collectives(head + "a = f32[16,2] all-reduce(x), " + channel(1) + kColumnGroups + kSum +
                            "\n ROOT r = f32[4,2] dynamic-slice(a, start, zero), "
                            "dynamic_slice_sizes={4,2}\n}\n",
                        create_reduce_scatters);
  EXPECT_EQ(c.count(Opcode::all_reduce), 1) << c.text;
  EXPECT_EQ(c.is.total_bytes * 4, c.was.total_bytes) << c.text;
}

TEST(OwnShard, TwoDimsAndAMoveInBetween) {
  const auto c = check_collectives(
      "ENTRY e {\n x = f32[2,16] parameter(0)\n" + kPlace + "a = f32[2,16] all-reduce(x), " +
          channel(1) + "replica_groups={{0,1,2,3,4,5,6,7}}, use_global_device_ids=true" + kSum +
          "\n t = f32[16,2] transpose(a), dimensions={1,0}\n"
          " ROOT r = f32[4,1] dynamic-slice(t, start, k), dynamic_slice_sizes={4,1}\n}\n",
      create_reduce_scatters);
  EXPECT_EQ(c.count(Opcode::all_reduce), 0) << c.text;
  EXPECT_EQ(c.count(Opcode::reduce_scatter), 2) << c.text;
  EXPECT_EQ(c.is.total_bytes * 2, c.was.total_bytes);
}

TEST(OwnShard, OtherReadersAndUnknownStartsStay) {
  const std::string head = "ENTRY e {\n x = f32[16,2] parameter(0)\n j = s32[] parameter(1)\n" +
                           kPlace + "a = f32[16,2] all-reduce(x), " + channel(1) + kRowGroups +
                           kSum;
  auto c = check_collectives(
      head +
          "\n d = f32[4,2] dynamic-slice(a, start, zero), dynamic_slice_sizes={4,2}\n"
          " ROOT r = (f32[4,2], f32[16,2]) tuple(d, a)\n}\n",
      create_reduce_scatters);
  EXPECT_EQ(c.count(Opcode::all_reduce), 1) << c.text;
  EXPECT_EQ(c.count(Opcode::reduce_scatter), 0) << c.text;
  c = check_collectives(
      head + "\n ROOT r = f32[4,2] dynamic-slice(a, j, zero), dynamic_slice_sizes={4,2}\n}\n",
      create_reduce_scatters);
  EXPECT_EQ(c.count(Opcode::reduce_scatter), 0) << c.text;
  // Not all of the parts are taken.
  c = check_collectives(
      head + "\n ROOT r = f32[4,2] dynamic-slice(a, p, zero), dynamic_slice_sizes={4,2}\n}\n",
      create_reduce_scatters);
  EXPECT_EQ(c.count(Opcode::reduce_scatter), 0) << c.text;
}

TEST(OwnShard, GatheredAndCutAgain) {
  const std::string head = "ENTRY e {\n x = f32[4,2] parameter(0)\n" + kPlace +
                           "a = f32[16,2] all-gather(x), dimensions={0}, " + channel(1) +
                           kRowGroups;
  auto c = check_collectives(
      head + "\n ROOT r = f32[4,1] dynamic-slice(a, start, k), dynamic_slice_sizes={4,1}\n}\n",
      create_reduce_scatters);
  EXPECT_EQ(c.collectives(), 0) << c.text;
  EXPECT_EQ(c.count(Opcode::dynamic_slice), 1) << c.text;
  // Another device's part, one for each: a permute.
  c = check_collectives(head +
                            "\n one = s32[] constant(1)\n n = s32[] add(p, one)\n"
                            " w = s32[] remainder(n, four)\n at = s32[] multiply(w, four)\n"
                            " ROOT r = f32[4,2] dynamic-slice(a, at, zero), "
                            "dynamic_slice_sizes={4,2}\n}\n",
                        create_reduce_scatters);
  EXPECT_EQ(c.count(Opcode::all_gather), 0) << c.text;
  EXPECT_EQ(c.count(Opcode::collective_permute), 1) << c.text;
  EXPECT_LT(c.is.total_bytes, c.was.total_bytes);
  // The gather that others read stays, but its own part isn't cut from it.
  c = check_collectives(head +
                            "\n d = f32[4,2] dynamic-slice(a, start, zero), "
                            "dynamic_slice_sizes={4,2}\n"
                            " ROOT r = (f32[4,2], f32[16,2]) tuple(d, a)\n}\n",
                        create_reduce_scatters);
  EXPECT_EQ(c.count(Opcode::all_gather), 1) << c.text;
  EXPECT_EQ(c.count(Opcode::dynamic_slice), 0) << c.text;
  // All look at the same rows.
  c = check_collectives(head + "\n ROOT r = f32[4,2] slice(a), slice={[4:8], [0:2]}\n}\n",
                        create_reduce_scatters);
  EXPECT_EQ(c.count(Opcode::all_gather), 1) << c.text;
}

}  // namespace
}  // namespace tessera::testing
