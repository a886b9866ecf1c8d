// SPDX-License-Identifier: Apache-2.0
// Slices, pads, reversals, concatenations and dynamic indices along split dims.
#include <gtest/gtest.h>

#include "src/base/arrays/literal_util.h"
#include "tests/spmd/partitioner/partition_case.h"

namespace tessera::testing {
namespace {

using ir::Opcode;

const char* kSplit = "sharding={devices=[8]<=[8]}";

std::string one_dim(const std::string& in, const std::string& op, const std::string& out) {
  return "a = f32[" + in + "] parameter(0), " + kSplit +
         "\n z = f32[] constant(9)\n ROOT r = f32[" + out + "] " + op + ", " + kSplit;
}

TEST(PartitionSlice, MovesOnlyRowsThatChangeOwner) {
  // Aligned strides need nothing.
  PartitionCase c = check_partition(one_dim("64", "slice(a), slice={[0:64:2]}", "32"));
  EXPECT_EQ(c.collectives(), 0) << c.text;
  // One row to the neighbour.
  c = check_partition(one_dim("64", "slice(a), slice={[1:64]}", "63"));
  EXPECT_EQ(c.collectives(), 1) << c.text;
  EXPECT_EQ(c.bytes(), 4) << c.text;
  c = check_partition(one_dim("64", "slice(a), slice={[3:63]}", "60"));
  EXPECT_EQ(c.count(Opcode::all_gather), 0) << c.text;
  // The first half: 8 rows a device come from 16, that is from one of two neighbours.
  c = check_partition(R"(
    a = f32[4096,16] parameter(0), sharding={devices=[8,1]<=[8]}
    ROOT r = f32[2048,16] slice(a), slice={[0:2048], [0:16]}, sharding={devices=[8,1]<=[8]})");
  EXPECT_LE(c.bytes(), 2 * 256 * 16 * 4) << c.text;
  for (const char* n : {"5", "7", "13"}) {
    check_partition(one_dim(n, "slice(a), slice={[2:4]}", "2"));
    check_partition(one_dim(n, "slice(a), slice={[1:5:3]}", "2"));
  }
}

TEST(PartitionSlice, FewRowsOfManyAreSummed) {
  PartitionCase c = check_partition(R"(
    a = f32[4096,16] parameter(0), sharding={devices=[8,1]<=[8]}
    ROOT r = f32[8,16] slice(a), slice={[16:24], [0:16]}, sharding={replicated})");
  EXPECT_LE(c.collectives(), 2) << c.text;
  EXPECT_LE(c.bytes(), 2 * 8 * 16 * 4) << c.text;
}

TEST(PartitionSlice, AColumnTakenOutIsSummedFromItsOwner) {
  // One of 4 devices has it; the rows along the other dim stay split, or every second of them.
  const auto column = [](const std::string& rows, const std::string& strided) {
    return check_partition("a = f32[16,32] parameter(0), sharding={devices=[2,4]<=[8]}\n s = f32[" +
                           rows + ",1] slice(a), slice={[0:16" + strided +
                           "], [5:6]}\n ROOT r = f32[" + rows +
                           "] reshape(s), sharding="
                           "{devices=[2,4]<=[8] last_tile_dim_replicate}");
  };
  PartitionCase c = column("16", "");
  EXPECT_EQ(c.collectives(), 1) << c.text;
  EXPECT_EQ(c.bytes(), 2 * 8 * 4 * 3 / 4.0) << c.text;
  c = column("8", ":2");
  EXPECT_EQ(c.bytes(), 2 * 4 * 4 * 3 / 4.0) << c.text;
  // As a result it has the stated sharding: here it stays on its device.
  c = check_partition(R"(
    a = f32[16,32] parameter(0), sharding={devices=[2,4]<=[8]}
    ROOT s = f32[16,1] slice(a), slice={[0:16], [5:6]}, sharding={devices=[2,4]<=[8]})");
  EXPECT_EQ(c.collectives(), 0) << c.text;
}

TEST(PartitionPad, LowHighInteriorNegative) {
  struct {
    const char *in, *padding, *out;
  } cases[] = {{"16", "0_0_1", "31"}, {"16", "3_5", "24"},    {"16", "1_0", "17"},
               {"13", "2_-4", "11"},  {"13", "-3_1_2", "35"}, {"5", "7_0", "12"},
               {"7", "-1_-1", "5"},   {"1", "0_12", "13"}};
  for (const auto& x : cases) {
    PartitionCase c =
        check_partition(one_dim(x.in, std::string("pad(a, z), padding=") + x.padding, x.out));
    EXPECT_EQ(c.count(Opcode::all_gather), 0) << c.text;
  }
}

TEST(PartitionReverse, MirrorsTheShards) {
  PartitionCase c = check_partition(one_dim("64", "reverse(a), dimensions={0}", "64"));
  EXPECT_EQ(c.count(Opcode::collective_permute), 1) << c.text;
  EXPECT_EQ(c.collectives(), 1) << c.text;
  for (const char* n : {"5", "7", "13", "3"}) {
    check_partition(one_dim(n, "reverse(a), dimensions={0}", n));
  }
  c = check_partition(R"(
    a = f32[16,10] parameter(0), sharding={devices=[8,1]<=[8]}
    ROOT r = f32[16,10] reverse(a), dimensions={1}, sharding={devices=[8,1]<=[8]})");
  EXPECT_EQ(c.collectives(), 0) << c.text;
}

TEST(PartitionConcatenate, BlocksMoveOnce) {
  PartitionCase c = check_partition(R"(
    a = f32[4096,4] parameter(0), sharding={devices=[8,1]<=[8]}
    b = f32[4096,4] parameter(1), sharding={devices=[8,1]<=[8]}
    ROOT r = f32[8192,4] concatenate(a, b), dimensions={0}, sharding={devices=[8,1]<=[8]})");
  EXPECT_EQ(c.count(Opcode::all_gather), 0) << c.text;
  EXPECT_LE(c.bytes(), 4 * 512 * 4 * 4.0) << c.text;
  // A roll is one step to the neighbour.
  c = check_partition(R"(
    a = f32[64] parameter(0), sharding={devices=[8]<=[8]}
    head = f32[62] slice(a), slice={[0:62]}
    tail = f32[2] slice(a), slice={[62:64]}
    ROOT r = f32[64] concatenate(tail, head), dimensions={0}, sharding={devices=[8]<=[8]})");
  EXPECT_EQ(c.count(Opcode::all_gather), 0) << c.text;
  // Parts that all devices hold cost nothing.
  c = check_partition(R"(
    a = f32[24] parameter(0), sharding={replicated}
    b = f32[13] parameter(1), sharding={replicated}
    ROOT r = f32[37] concatenate(a, b), dimensions={0}, sharding={devices=[8]<=[8]})");
  EXPECT_EQ(c.collectives(), 0) << c.text;
  for (const char* other : {"1", "5", "13"}) {
    const int total = 7 + std::stoi(other);
    check_partition(std::string("a = f32[7] parameter(0), ") + kSplit + "\n b = f32[" + other +
                    "] parameter(1), " + kSplit + "\n ROOT r = f32[" + std::to_string(total) +
                    "] concatenate(a, b), dimensions={0}, " + kSplit);
  }
}

/// A roll by one row and what its gradient is, of as many rows as devices, too: what is cut off
/// then has fewer rows than there are devices.
TEST(PartitionConcatenate, ARollIsOneStepHoweverFewTheRows) {
  for (const std::string n : {"8", "16", "24"}) {
    const std::string less = std::to_string(std::stoi(n) - 1), array = " = f32[8," + n + "] ",
                      columns = "sharding={devices=[1,8]<=[8]}\n";
    const std::string head = "a" + array + "parameter(0), " + columns;
    PartitionCase c = check_partition(
        head + "tail = f32[8," + less + "] slice(a), slice={[0:8], [1:" + n +
        "]}\nfirst = f32[8,1] slice(a), slice={[0:8], [0:1]}\nb" + array +
        "concatenate(tail, first), dimensions={1}\nROOT r" + array + "negate(b), " + columns);
    EXPECT_EQ(c.collectives(), 1) << c.text;
    EXPECT_EQ(c.bytes(), 8 * 4) << c.text;
    c = check_partition(
        head + "z = f32[] constant(0)\ntail = f32[8," + less +
        "] slice(a), slice={[0:8], [0:" + less + "]}\nfirst = f32[8,1] slice(a), slice={[0:8], [" +
        less + ":" + n + "]}\nb" + array + "pad(tail, z), padding=0_0x1_0\nc" + array +
        "pad(first, z), padding=0_0x0_" + less + "\nROOT r" + array + "add(b, c), " + columns);
    EXPECT_EQ(c.count(Opcode::collective_permute), c.collectives()) << c.text;
    EXPECT_LE(c.bytes(), 2 * 8 * 4) << c.text;
  }
}

Literal index(int v) {
  Literal l(Shape(s32, {}));
  l.mutable_data<std::int32_t>()[0] = v;
  return l;
}

Literal counting(const Dims& dims, int first) {
  Literal l(Shape(f32, dims));
  for (float& x : l.mutable_data<float>()) x = float(first++);
  return l;
}

TEST(PartitionDynamic, OneRowOfASplitArray) {
  for (int at : {-100, 0, 5, 11, 12, 99}) {
    PartitionCase c = check_partition(R"(
      a = f32[13,6] parameter(0), sharding={devices=[8,1]<=[8]}
      i = s32[] parameter(1), sharding={replicated}
      zero = s32[] constant(0)
      ROOT r = f32[1,6] dynamic-slice(a, i, zero), dynamic_slice_sizes={1,6},
        sharding={replicated})",
                                      0, {counting({13, 6}, -7), index(at)});
    EXPECT_EQ(c.collectives(), 1) << c.text;
    EXPECT_LE(c.bytes(), 2 * 6 * 4) << c.text;
    check_partition(R"(
      a = f32[13,6] parameter(0), sharding={devices=[8,1]<=[8]}
      i = s32[] parameter(1), sharding={replicated}
      zero = s32[] constant(0)
      ROOT r = f32[5,6] dynamic-slice(a, i, zero), dynamic_slice_sizes={5,6},
        sharding={replicated})",
                    0, {counting({13, 6}, -7), index(at)});
  }
}

TEST(PartitionDynamic, UpdatesAreWrittenByTheirOwners) {
  for (int at : {-100, 0, 3, 8, 12, 99}) {
    for (const char* rows : {"1", "5"}) {
      const std::string r(rows);
      PartitionCase c = check_partition(
          "a = f32[13,6] parameter(0), sharding={devices=[8,1]<=[8]}\n u = f32[" + r +
              ",6] parameter(1), sharding={replicated}\n i = s32[] parameter(2), "
              "sharding={replicated}\n zero = s32[] constant(0)\n ROOT r = f32[13,6] "
              "dynamic-update-slice(a, u, i, zero), sharding={devices=[8,1]<=[8]}",
          0, {counting({13, 6}, 0), counting({std::stoi(r), 6}, 1000), index(at)});
      // Positions out of range are clamped by the global size, and nothing is communicated.
      EXPECT_EQ(c.collectives(), 0) << c.text;
    }
  }
}

}  // namespace
}  // namespace tessera::testing
