// SPDX-License-Identifier: Apache-2.0
// Programs that move elements along split dims: each must compute the same as on one device, and
// receive no more than the bounds here.
#include <gtest/gtest.h>

#include "src/base/arrays/literal_util.h"
#include "src/cost/count.h"
#include "src/ir/hlo/hlo_text.h"
#include "tests/spmd/partitioner/partition_case.h"

namespace tessera::testing {
namespace {

using ir::Opcode;

const char* kSplitRows = "sharding={devices=[8,1]<=[8]}";
const char* kSplitColumns = "sharding={devices=[1,8]<=[8]}";
const char* kReplicated = "sharding={replicated}";

/// Elements of 4 bytes that a device receives, counted on the text.
double elements(const PartitionCase& c) {
  return cost::count_communication(*c.device).total_bytes / 4;
}

std::string parameter(const std::string& name, const std::string& shape, int number,
                      const std::string& sharding) {
  return name + " = " + shape + " parameter(" + std::to_string(number) + "), " + sharding + "\n";
}

Literal ints(const Dims& dims, const IndexList& values) {
  Literal l(Shape(s32, dims));
  auto data = l.mutable_data<std::int32_t>();
  for (std::size_t i = 0; i < values.size(); ++i) data[i] = values[i];
  return l;
}

Literal counted(const Dims& dims, int first = 1) {
  Literal l(Shape(f32, dims));
  for (float& x : l.mutable_data<float>()) x = float(first++ % 1009);
  return l;
}

TEST(Traffic, RowsAtADynamicIndex) {
  for (int at : {-3, 77, 4090, 99999}) {
    const std::string head = parameter("a", "f32[4096,256]", 0, kSplitRows) +
                             parameter("i", "s32[]", 1, kReplicated) + "z = s32[] constant(0)\n";
    PartitionCase c = check_partition(
        head + "ROOT r = f32[1,256] dynamic-slice(a, i, z), dynamic_slice_sizes={1,256}, " +
            kReplicated,
        0, {counted({4096, 256}), ints({}, {at})});
    EXPECT_EQ(elements(c), 448) << c.text;
    c = check_partition(
        head + "ROOT r = f32[16,256] dynamic-slice(a, i, z), dynamic_slice_sizes={16,256}, " +
            kReplicated,
        0, {counted({4096, 256}), ints({}, {at})});
    EXPECT_EQ(elements(c), 7168) << c.text;
    c = check_partition(parameter("a", "f32[4096,256]", 0, kSplitRows) +
                            parameter("u", "f32[16,256]", 1, kReplicated) +
                            parameter("i", "s32[]", 2, kReplicated) +
                            "z = s32[] constant(0)\nROOT r = f32[4096,256] "
                            "dynamic-update-slice(a, u, i, z), " +
                            kSplitRows,
                        0, {counted({4096, 256}), counted({16, 256}, 500), ints({}, {at})});
    EXPECT_EQ(elements(c), 0) << c.text;
  }
}

TEST(Traffic, UpdateAtAKnownPlace) {
  PartitionCase c = check_partition(parameter("a", "f32[4096,4]", 0, kSplitRows) +
                                    parameter("u", "f32[1000,4]", 1, kSplitRows) +
                                    "k = s32[] constant(100)\nz = s32[] constant(0)\n"
                                    "ROOT r = f32[4096,4] dynamic-update-slice(a, u, k, z), " +
                                    kSplitRows);
  // The update's 125 rows a device go to three devices.
  EXPECT_EQ(c.count(Opcode::all_gather), 0) << c.text;
  EXPECT_LT(elements(c), 1000 * 4 * 7 / 8) << c.text;
  // The same as a scatter, with odd sizes.
  check_partition(parameter("a", "f32[61,3]", 0, kSplitRows) +
                  parameter("u", "f32[13,3]", 1, kSplitRows) +
                  "k = s32[1] constant({41})\nROOT r = f32[61,3] scatter(a, k, u), "
                  "update_window_dims={0,1}, inserted_window_dims={}, "
                  "scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=add, " +
                  kSplitRows);
}

TEST(Traffic, ConcatenateAndSplit) {
  PartitionCase c =
      check_partition(parameter("a", "f32[4096,64]", 0, kSplitRows) +
                      parameter("b", "f32[4096,64]", 1, kSplitRows) +
                      "ROOT r = f32[8192,64] concatenate(a, b), dimensions={0}, " + kSplitRows);
  EXPECT_EQ(elements(c), 65536) << c.text;
  c = check_partition(parameter("a", "f32[4096,64]", 0, kSplitRows) +
                      "ROOT r = f32[2048,64] slice(a), slice={[0:2048], [0:64]}, " + kSplitRows);
  // No device receives more than it needs; some take part in one of the two permutes only.
  EXPECT_EQ(c.bytes(), 16384 * 4) << c.text;
  // Halves of one array travel together.
  c = check_partition(parameter("a", "f32[4096,64]", 0, kSplitRows) +
                      "x = f32[2048,64] slice(a), slice={[0:2048], [0:64]}, " + kSplitRows +
                      "\ny = f32[2048,64] slice(a), slice={[2048:4096], [0:64]}, " + kSplitRows +
                      "\nROOT r = (f32[2048,64], f32[2048,64]) tuple(x, y), "
                      "sharding={{devices=[8,1]<=[8]}, {devices=[8,1]<=[8]}}");
  EXPECT_EQ(elements(c), 32768) << c.text;
  EXPECT_EQ(c.collectives(), 2) << c.text;
  // Uneven parts of an uneven array.
  check_partition(parameter("a", "f32[61,3]", 0, kSplitRows) +
                  "x = f32[17,3] slice(a), slice={[0:17], [0:3]}, " + kSplitRows +
                  "\ny = f32[40,3] slice(a), slice={[17:57], [0:3]}, " + kSplitRows +
                  "\nw = f32[4,3] slice(a), slice={[57:61], [0:3]}, " + kSplitRows +
                  "\nROOT r = (f32[17,3], f32[40,3], f32[4,3]) tuple(x, y, w), "
                  "sharding={{devices=[8,1]<=[8]}, {devices=[8,1]<=[8]}, {devices=[8,1]<=[8]}}");
}

TEST(Traffic, HalvesSwappedAlongTheSplit) {
  PartitionCase c = check_partition(parameter("a", "f32[4,64]", 0, kSplitColumns) +
                                    "x = f32[4,32] slice(a), slice={[0:4], [32:64]}\n"
                                    "m = f32[4,32] negate(x)\n"
                                    "y = f32[4,32] slice(a), slice={[0:4], [0:32]}\n"
                                    "ROOT r = f32[4,64] concatenate(m, y), dimensions={1}, " +
                                    kSplitColumns);
  // 8 columns for the halves, 12 for their places: a device sends 4 of one and 8 of the other.
  EXPECT_LE(elements(c), 20 * 4) << c.text;
}

TEST(Traffic, FewRowsToAllDevicesInOneStep) {
  PartitionCase c = check_partition(parameter("a", "f32[4096,64]", 0, kSplitRows) +
                                    "s = f32[8,64] slice(a), slice={[0:8], [0:64]}\n"
                                    "ROOT r = f32[8,64] copy(s), " +
                                    kReplicated);
  EXPECT_EQ(c.collectives(), 1) << c.text;
  EXPECT_EQ(elements(c), 896) << c.text;
}

TEST(Traffic, ReshapeAcrossTheSplit) {
  const std::string inner = "sharding={devices=[1,1,8]<=[8]}";
  PartitionCase c =
      check_partition(parameter("a", "f32[64,768]", 0, kSplitColumns) +
                      "ROOT r = f32[64,12,64] reshape(a), sharding={devices=[1,1,8]<=[8]}");
  EXPECT_EQ(elements(c), 5632) << c.text;
  c = check_partition(parameter("a", "f32[64,12,64]", 0, inner) +
                      "ROOT r = f32[64,768] reshape(a), " + kSplitColumns);
  EXPECT_EQ(elements(c), 5632) << c.text;
  // Uneven on both sides, the axes in another order.
  check_partition(
      "a = f32[5,18] parameter(0), sharding={devices=[1,8]<=[8]}\n"
      "ROOT r = f32[5,6,3] reshape(a), sharding={devices=[1,4,2]<=[8]}");
  check_partition(
      "a = f32[5,18] parameter(0), sharding={devices=[1,8]<=[8]}\n"
      "ROOT r = f32[5,6,3] reshape(a), sharding={devices=[1,4,2]<=[2,4]T(1,0)}");
  check_partition(
      "a = f32[6,7] parameter(0), sharding={devices=[2,4]<=[8]}\n"
      "ROOT r = f32[42] reshape(a), sharding={devices=[8]<=[8]}");
}

TEST(Traffic, ShiftIsOneRow) {
  PartitionCase c = check_partition(parameter("a", "f32[4096,4]", 0, kSplitRows) +
                                    "z = f32[] constant(7)\n"
                                    "p = f32[4097,4] pad(a, z), padding=1_0x0_0\n"
                                    "ROOT r = f32[4096,4] slice(p), slice={[0:4096], [0:4]}, " +
                                    kSplitRows);
  EXPECT_EQ(elements(c), 4) << c.text;
  check_partition(parameter("a", "f32[61,4]", 0, kSplitRows) +
                  "z = f32[] constant(7)\n"
                  "p = f32[70,4] pad(a, z), padding=6_3x0_0\n"
                  "ROOT r = f32[59,2] slice(p), slice={[8:67], [1:3]}, " +
                  kSplitRows);
}

TEST(Traffic, EmbeddingOnOneAxis) {
  PartitionCase c = check_partition(
      parameter("t", "f32[2048,64]", 0, kSplitRows) +
      "i = s32[1024,1] parameter(1), sharding={devices=[8,1]<=[8]}\n"
      "ROOT r = f32[1024,64] gather(t, i), offset_dims={1}, collapsed_slice_dims={0}, "
      "start_index_map={0}, index_vector_dim=1, slice_sizes={1,64}, " +
      kSplitRows);
  EXPECT_LE(elements(c), 58240) << c.text;
}

TEST(Traffic, ASmallTableIsGatheredForItsLookups) {
  // Its 7 other rows are fewer bytes than a sum of 98.
  PartitionCase c = check_partition(
      parameter("t", "f32[8,2]", 0, kSplitRows) + parameter("i", "s32[98,1]", 1, kReplicated) +
      "ROOT r = f32[98,2] gather(t, i), offset_dims={1}, collapsed_slice_dims={0}, "
      "start_index_map={0}, index_vector_dim=1, slice_sizes={1,2}, " +
      kReplicated);
  EXPECT_EQ(elements(c), 7 * 2) << c.text;
}

TEST(Traffic, WindowsAcrossShards) {
  const Literal at = ints({8, 1}, {-5, 0, 3, 15, 16, 99, 61, 58});
  for (const char* rows : {"64", "61"}) {
    const std::string n(rows);
    PartitionCase c = check_partition(
        parameter("a", "f32[" + n + ",4]", 0, kSplitRows) +
            parameter("i", "s32[8,1]", 1, kReplicated) +
            "ROOT r = f32[8,3,4] gather(a, i), offset_dims={1,2}, collapsed_slice_dims={}, "
            "start_index_map={0}, index_vector_dim=1, slice_sizes={3,4}, " +
            kReplicated,
        0, {counted({std::stoi(n), 4}), at});
    EXPECT_EQ(c.count(Opcode::all_gather), 0) << c.text;
    EXPECT_EQ(elements(c), 2 * 8 * 3 * 4 * 7 / 8) << c.text;
    for (const char* combine : {"add", "max", "mul"}) {
      c = check_partition(
          parameter("a", "f32[" + n + ",4]", 0, kSplitRows) +
              parameter("i", "s32[8,1]", 1, kReplicated) +
              parameter("u", "f32[8,3,4]", 2, kReplicated) + "ROOT r = f32[" + n +
              ",4] scatter(a, i, u), update_window_dims={1,2}, inserted_window_dims={}, "
              "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=" +
              combine + ", " + kSplitRows,
          0, {counted({std::stoi(n), 4}), at, counted({8, 3, 4}, 3)});
      // Windows that leave the global array are dropped entirely; nothing is communicated.
      EXPECT_EQ(c.collectives(), 0) << c.text;
    }
  }
}

TEST(Traffic, IndicesThatCountAreBatchDims) {
  const std::string both =
      "p = s32[64] iota(), iota_dimension=0\n"
      "q = s32[64,8,1] broadcast(p), dimensions={0}\n"
      "j = s32[64,8,1] reshape(k)\n"
      "i = s32[64,8,2] concatenate(q, j), dimensions={2}\n";
  PartitionCase c = check_partition(
      parameter("a", "f32[64,16]", 0, kSplitRows) + parameter("k", "s32[64,8]", 1, kSplitRows) +
      both +
      "ROOT r = f32[64,8] gather(a, i), offset_dims={}, collapsed_slice_dims={0,1}, "
      "start_index_map={0,1}, index_vector_dim=2, slice_sizes={1,1}, " +
      kSplitRows);
  EXPECT_EQ(c.collectives(), 0) << c.text;
  c = check_partition(
      parameter("a", "f32[64,16]", 0, kSplitRows) + parameter("k", "s32[64,8]", 1, kSplitRows) +
      parameter("u", "f32[64,8]", 2, kSplitRows) + both +
      "ROOT r = f32[64,16] scatter(a, i, u), update_window_dims={}, inserted_window_dims={0,1}, "
      "scatter_dims_to_operand_dims={0,1}, index_vector_dim=2, to_apply=add, " +
      kSplitRows);
  EXPECT_EQ(c.collectives(), 0) << c.text;
  // Not those that count something else.
  check_partition(parameter("a", "f32[72,16]", 0, kSplitRows) +
                  parameter("k", "s32[64,8]", 1, kSplitRows) + both +
                  "ROOT r = f32[64,8] gather(a, i), offset_dims={}, collapsed_slice_dims={0,1}, "
                  "start_index_map={0,1}, index_vector_dim=2, slice_sizes={1,1}, " +
                  kSplitRows);
}

TEST(Traffic, GroupedConvolution) {
  const std::string features = "sharding={devices=[1,1,1,8]<=[8]}";
  PartitionCase c = check_partition(
      parameter("x", "f32[2,6,6,16]", 0, features) + parameter("k", "f32[3,3,1,32]", 1, features) +
          "ROOT r = f32[2,6,6,32] convolution(x, k), window={size=3x3 pad=1_1x1_1}, "
          "dim_labels=b01f_01io->b01f, feature_group_count=16, " +
          features,
      1e-4);
  EXPECT_EQ(c.collectives(), 0) << c.text;
  c = check_partition(
      parameter("x", "f32[16,6,6,4]", 0, kReplicated) +
          parameter("k", "f32[3,3,4,16]", 1, features) +
          "ROOT r = f32[2,6,6,16] convolution(x, k), window={size=3x3 pad=1_1x1_1}, "
          "dim_labels=b01f_01io->b01f, batch_group_count=8, " +
          features,
      1e-4);
  EXPECT_EQ(c.collectives(), 0) << c.text;
  // Fewer groups than devices.
  check_partition(parameter("x", "f32[2,6,6,16]", 0, features) +
                      parameter("k", "f32[3,3,4,32]", 1, features) +
                      "ROOT r = f32[2,6,6,32] convolution(x, k), window={size=3x3 pad=1_1x1_1}, "
                      "dim_labels=b01f_01io->b01f, feature_group_count=4, " +
                      features,
                  1e-4);
  // The gradient of a depthwise kernel sums over a split batch.
  c = check_partition(
      "x = f32[8,6,6,16] parameter(0), sharding={devices=[8,1,1,1]<=[8]}\n"
      "g = f32[8,6,6,16] parameter(1), sharding={devices=[8,1,1,1]<=[8]}\n"
      "ROOT r = f32[3,3,1,16] convolution(x, g), window={size=6x6 pad=1_1x1_1}, "
      "dim_labels=f01b_i01o->01bf, batch_group_count=16, sharding={replicated}",
      1e-4);
  EXPECT_EQ(c.collectives(), 1) << c.text;
  EXPECT_EQ(elements(c), 2 * 9 * 16 * 7 / 8) << c.text;
}

TEST(Traffic, WindowsOverAReplicatedArray) {
  const std::string out = "sharding={devices=[1,8,1,1]<=[8]}";
  PartitionCase c =
      check_partition(parameter("x", "f32[1,66,4,2]", 0, kReplicated) +
                          parameter("k", "f32[3,3,2,2]", 1, kReplicated) +
                          "ROOT r = f32[1,64,2,2] convolution(x, k), window={size=3x3}, "
                          "dim_labels=b01f_01io->b01f, " +
                          out,
                      1e-4);
  EXPECT_EQ(c.collectives(), 0) << c.text;
  EXPECT_EQ(cost::count_communication(*c.device).dot_flops, 2.0 * 8 * 2 * 2 * 9 * 2) << c.text;
}

TEST(Traffic, GradientOfPoolingBeyondTheEdge) {
  const std::string rows = "sharding={devices=[8,1]<=[8]}";
  PartitionCase c = check_partition(
      parameter("x", "f32[64,5]", 0, rows) + parameter("g", "f32[32,5]", 1, rows) +
      "low = f32[] constant(-inf)\nz = f32[] constant(0)\n"
      "p = f32[65,5] pad(x, low), padding=0_1x0_0\n"
      "s = f32[65,5] select-and-scatter(p, g, z), window={size=3x1 stride=2x1}, select=ge, "
      "scatter=add\n"
      "ROOT r = f32[64,5] slice(s), slice={[0:64], [0:5]}, " +
      rows);
  // A row from the next device, one row and its window from the one before.
  EXPECT_EQ(c.count(Opcode::all_gather), 0) << c.text;
  EXPECT_LE(elements(c), 4 * 5) << c.text;
  // Padding that is chosen takes its gradient away.
  check_partition(parameter("x", "f32[29,5]", 0, rows) + parameter("g", "f32[16,5]", 1, rows) +
                  "top = f32[] constant(2)\nz = f32[] constant(0)\n"
                  "p = f32[33,7] pad(x, top), padding=3_1x1_1\n"
                  "s = f32[33,7] select-and-scatter(p, g, z), window={size=3x3 stride=2x1}, "
                  "select=ge, scatter=add\n"
                  "ROOT r = f32[29,5] slice(s), slice={[3:32], [1:6]}, " +
                  rows);
}

TEST(Traffic, ReductionsOfUnevenDimsAndTheirInitialValue) {
  for (const char* n : {"64", "61", "5"}) {
    for (const char* op : {"add", "mul", "max"}) {
      for (const char* init : {"3", "-2.5"}) {
        check_partition(parameter("a", "f32[" + std::string(n) + ",4]", 0, kSplitRows) +
                            "i = f32[] constant(" + init +
                            ")\nROOT r = f32[4] reduce(a, i), dimensions={0}, to_apply=" + op +
                            ", sharding={replicated}",
                        1e-4);
      }
    }
    // What the padding becomes on the way doesn't count.
    check_partition(parameter("a", "f32[" + std::string(n) + ",4]", 0, kSplitRows) + "b = f32[" +
                        n + ",4] multiply(a, a)\nc = f32[" + n +
                        ",4] divide(b, b)\ni = f32[] constant(0)\n"
                        "ROOT r = f32[4] reduce(c, i), dimensions={0}, to_apply=add, "
                        "sharding={replicated}",
                    1e-4);
  }
}

TEST(Traffic, ALoopOverSplitRowsGathersOnce) {
  const char* text = R"(HloModule m, num_partitions=8
inside { p = (s32[], f32[64,16], f32[16]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(64)
  ROOT c = pred[] compare(i, n), direction=LT }
step { p = (s32[], f32[64,16], f32[16]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  a = f32[64,16] get-tuple-element(p), index=1
  s = f32[16] get-tuple-element(p), index=2
  z = s32[] constant(0)
  one = s32[] constant(1)
  row = f32[1,16] dynamic-slice(a, i, z), dynamic_slice_sizes={1,16}
  flat = f32[16] reshape(row)
  next = f32[16] add(s, flat)
  j = s32[] add(i, one)
  ROOT t = (s32[], f32[64,16], f32[16]) tuple(j, a, next) }
ENTRY e { a = f32[64,16] parameter(0), sharding={devices=[8,1]<=[8]}
  z = s32[] constant(0)
  f = f32[] constant(0)
  s = f32[16] broadcast(f), dimensions={}
  t = (s32[], f32[64,16], f32[16]) tuple(z, a, s)
  w = (s32[], f32[64,16], f32[16]) while(t), condition=inside, body=step,
    backend_config={"known_trip_count":{"n":"64"}}
  ROOT r = f32[16] get-tuple-element(w), index=2, sharding={replicated} }
)";
  PartitionCase c = check_partition(ir::parse_hlo(text));
  EXPECT_LE(elements(c), 64 * 16 * 7 / 8) << c.text;
}

}  // namespace
}  // namespace tessera::testing
