// SPDX-License-Identifier: Apache-2.0
// For each op: the device programs are correct, and communicate no more than necessary.
#include <gtest/gtest.h>

#include "src/base/arrays/literal_util.h"
#include "tests/spmd/partitioner/partition_case.h"

namespace tessera::testing {
namespace {

using ir::Opcode;

TEST(PartitionElementwise, StaysLocalAndBringsOperandsTogether) {
  PartitionCase c = check_partition(R"(
    a = f32[16,8] parameter(0), sharding={devices=[8,1]<=[8]}
    b = f32[16,8] parameter(1), sharding={devices=[8,1]<=[8]}
    s = f32[16,8] add(a, b)
    m = f32[16,8] multiply(s, a)
    ROOT r = f32[16,8] maximum(m, b), sharding={devices=[8,1]<=[8]})");
  EXPECT_EQ(c.collectives(), 0) << c.text;
  // One operand is split along the other dim: one all-to-all.
  c = check_partition(R"(
    a = f32[16,8] parameter(0), sharding={devices=[8,1]<=[8]}
    b = f32[16,8] parameter(1), sharding={devices=[1,8]<=[8]}
    ROOT r = f32[16,8] add(a, b), sharding={devices=[8,1]<=[8]})");
  EXPECT_EQ(c.collectives(), 1) << c.text;
  EXPECT_EQ(c.count(Opcode::all_to_all), 1) << c.text;
  EXPECT_EQ(c.bytes(), 16 * 4 * 7 / 8.0);
}

TEST(PartitionElementwise, TypesAndScalars) {
  for (const char* sizes : {"16,8", "13,5", "5,7"}) {
    std::string dims(sizes);
    PartitionCase c =
        check_partition("a = f32[" + dims + "] parameter(0), sharding={devices=[4,2]<=[8]}\n" +
                        "b = s32[" + dims + "] parameter(1), sharding={devices=[4,2]<=[8]}\n" +
                        "lo = f32[] constant(-2)\n hi = f32[] constant(2)\n" + "k = f32[" + dims +
                        "] clamp(lo, a, hi)\n" + "f = f32[" + dims + "] convert(b)\n" +
                        "p = pred[" + dims + "] compare(k, f), direction=LT\n" + "ROOT r = f32[" +
                        dims + "] select(p, k, f), sharding={devices=[4,2]<=[8]}\n");
    EXPECT_EQ(c.collectives(), 0) << c.text;
  }
}

TEST(PartitionSources, ConstantsAndIotas) {
  PartitionCase c = check_partition(R"(
    i = s32[13,4] iota(), iota_dimension=0
    f = bf16[300] iota(), iota_dimension=0
    k = f32[8] constant({1,2,3,4,5,6,7,8})
    s = f32[16] constant({2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2})
    ROOT t = (s32[13,4], bf16[300], f32[8], f32[16]) tuple(i, f, k, s),
      sharding={{devices=[4,2]<=[8]}, {devices=[8]<=[8]}, {devices=[8]<=[8]}, {devices=[8]<=[8]}})");
  EXPECT_EQ(c.collectives(), 0) << c.text;
  // A splat is made in the shard's size.
  EXPECT_EQ(c.text.find("f32[16]"), std::string::npos) << c.text;
}

TEST(PartitionDot, EachKindOfDim) {
  auto dot = [](const char* lhs, const char* rhs, const char* out) {
    return check_partition(std::string("a = f32[16,24] parameter(0), sharding={") + lhs +
                           "}\n b = f32[24,32] parameter(1), sharding={" + rhs +
                           "}\n ROOT d = f32[16,32] dot(a, b), lhs_contracting_dims={1}, "
                           "rhs_contracting_dims={0}, sharding={" +
                           out + "}");
  };
  const char *rows = "devices=[8,1]<=[8]", *columns = "devices=[1,8]<=[8]", *whole = "replicated";
  EXPECT_EQ(dot(rows, whole, rows).collectives(), 0);
  EXPECT_EQ(dot(whole, columns, columns).collectives(), 0);
  PartitionCase sum = dot(columns, rows, whole);
  EXPECT_EQ(sum.count(Opcode::all_reduce), 1) << sum.text;
  EXPECT_EQ(sum.collectives(), 1) << sum.text;
  PartitionCase scattered = dot(columns, rows, rows);
  EXPECT_EQ(scattered.count(Opcode::reduce_scatter), 1) << scattered.text;
  EXPECT_EQ(scattered.collectives(), 1) << scattered.text;
  EXPECT_EQ(scattered.bytes(), 2 * 32 * 4 * 7);
  // Two axes: both split free dims, the contracted dim is unsplit.
  PartitionCase both =
      dot("devices=[2,1,4]<=[8] last_tile_dim_replicate",
          "devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate", "devices=[2,4]<=[8]");
  EXPECT_EQ(both.collectives(), 0) << both.text;
  EXPECT_NE(both.text.find("f32[8,8]"), std::string::npos) << both.text;
}

TEST(PartitionDot, UnevenContractionIsMasked) {
  // The padding of the arguments is NaN.
  for (int n : {5, 7, 13}) {
    const std::string k = std::to_string(n);
    PartitionCase c = check_partition(
        "a = f32[6," + k + "] parameter(0), sharding={devices=[1,8]<=[8]}\n b = f32[" + k +
        ",10] parameter(1), sharding={devices=[8,1]<=[8]}\n ROOT d = f32[6,10] dot(a, b), "
        "lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={replicated}");
    EXPECT_EQ(c.count(Opcode::all_reduce), 1) << c.text;
    EXPECT_EQ(c.count(Opcode::all_gather), 0) << c.text;
  }
}

TEST(PartitionDot, SumOfProductsIsReducedOnce) {
  PartitionCase c = check_partition(R"(
    a = f32[16,24] parameter(0), sharding={devices=[1,8]<=[8]}
    b = f32[24,16] parameter(1), sharding={devices=[8,1]<=[8]}
    c = f32[16,8] parameter(2), sharding={devices=[1,8]<=[8]}
    d = f32[8,16] parameter(3), sharding={devices=[8,1]<=[8]}
    x = f32[16,16] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    y = f32[16,16] dot(c, d), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    ROOT s = f32[16,16] add(x, y), sharding={replicated})");
  EXPECT_EQ(c.collectives(), 1) << c.text;
  EXPECT_EQ(c.count(Opcode::all_reduce), 1) << c.text;
}

TEST(PartitionDot, BatchDims) {
  PartitionCase c = check_partition(R"(
    a = f32[8,5,7] parameter(0), sharding={devices=[8,1,1]<=[8]}
    b = f32[8,7,3] parameter(1), sharding={devices=[8,1,1]<=[8]}
    ROOT d = f32[8,5,3] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0},
      lhs_contracting_dims={2}, rhs_contracting_dims={1}, sharding={devices=[8,1,1]<=[8]})");
  EXPECT_EQ(c.collectives(), 0) << c.text;
}

TEST(PartitionReduce, MonoidsAndInitialValues) {
  // A sum whose initial value isn't 0 must count it once.
  for (const char* to : {"replicated", "devices=[8]<=[8]"}) {
    for (const char* n : {"16", "13", "5"}) {
      for (const char* reducer : {"add", "max"}) {
        PartitionCase c = check_partition(
            std::string("a = f32[") + n +
            ",8] parameter(0), sharding={devices=[8,1]<=[8]}\n i = f32[] constant(3)\n" +
            "ROOT r = f32[8] reduce(a, i), dimensions={0}, to_apply=" + reducer + ", sharding={" +
            to + "}");
        EXPECT_EQ(c.collectives(), 1) << c.text;
        EXPECT_EQ(c.count(Opcode::all_gather), 0) << c.text;
      }
    }
  }
  PartitionCase product = check_partition(R"(
    a = f32[4,5] parameter(0), sharding={devices=[4,2]<=[8]}
    i = f32[] constant(1)
    ROOT r = f32[] reduce(a, i), dimensions={0,1}, to_apply=mul, sharding={replicated})");
  // Two dims, one collective.
  EXPECT_EQ(product.count(Opcode::all_reduce), 1) << product.text;
  EXPECT_EQ(product.collectives(), 1) << product.text;
}

TEST(PartitionReduce, ArgMaxGathersOnePairPerDevice) {
  PartitionCase c = check_partition(R"(
    a = f32[4,29] parameter(0), sharding={devices=[1,8]<=[8]}
    i = s32[4,29] iota(), iota_dimension=1
    low = f32[] constant(-inf)
    zero = s32[] constant(0)
    r = (f32[4], s32[4]) reduce(a, i, low, zero), dimensions={1}, to_apply=argmax
    v = f32[4] get-tuple-element(r), index=0
    k = s32[4] get-tuple-element(r), index=1
    ROOT t = (f32[4], s32[4]) tuple(v, k), sharding={{replicated}, {replicated}})");
  EXPECT_EQ(c.count(Opcode::all_gather), 2) << c.text;
  EXPECT_EQ(c.bytes(), 2 * 7 * 4 * 4) << c.text;
}

TEST(PartitionReshape, SplitMergeAndHeads) {
  // Merging and splitting along the major part is free.
  PartitionCase c = check_partition(R"(
    a = f32[64,3] parameter(0), sharding={devices=[8,1]<=[8]}
    s = f32[8,8,3] reshape(a)
    ROOT m = f32[8,24] reshape(s), sharding={devices=[8,1]<=[8]})");
  EXPECT_EQ(c.collectives(), 0) << c.text;
  // 96 columns a device become 2 heads of 64 on each of 6: only columns that change owner travel.
  c = check_partition(R"(
    a = f32[4,768] parameter(0), sharding={devices=[1,8]<=[8]}
    ROOT m = f32[4,12,64] reshape(a), sharding={devices=[1,8,1]<=[8]})");
  EXPECT_EQ(c.count(Opcode::all_gather), 0) << c.text;
  EXPECT_LE(c.bytes(), 2 * 4 * 128 * 4) << c.text;
  // And back.
  c = check_partition(R"(
    a = f32[4,12,64] parameter(0), sharding={devices=[1,8,1]<=[8]}
    ROOT m = f32[4,768] reshape(a), sharding={devices=[1,8]<=[8]})");
  EXPECT_EQ(c.count(Opcode::all_gather), 0) << c.text;
  // The minor part of a merged dim.
  check_partition(R"(
    a = f32[6,8] parameter(0), sharding={devices=[1,8]<=[8]}
    ROOT m = f32[48] reshape(a), sharding={devices=[8]<=[8]})");
  check_partition(R"(
    a = f32[6,4] parameter(0), sharding={devices=[2,4]<=[8]}
    ROOT m = f32[4,6] reshape(a), sharding={devices=[4,2]<=[8]})");
  check_partition(R"(
    a = f32[13,1,5] parameter(0), sharding={devices=[8,1,1]<=[8]}
    ROOT m = f32[1,13,5,1] reshape(a), sharding={devices=[1,8,1,1]<=[8]})");
}

TEST(PartitionSort, SortDimMovesToAnotherDim) {
  PartitionCase c = check_partition(R"(
    a = f32[16,40] parameter(0), sharding={devices=[1,8]<=[8]}
    ROOT s = f32[16,40] sort(a), dimensions={1}, is_stable=true, to_apply=less,
      sharding={devices=[1,8]<=[8]})");
  EXPECT_EQ(c.count(Opcode::all_to_all), 2) << c.text;
  EXPECT_EQ(c.count(Opcode::all_gather), 0) << c.text;
  c = check_partition(R"(
    a = f32[13,40] parameter(0), sharding={devices=[8,1]<=[8]}
    ROOT s = f32[13,40] sort(a), dimensions={1}, is_stable=true, to_apply=less,
      sharding={devices=[8,1]<=[8]})");
  EXPECT_EQ(c.collectives(), 0) << c.text;
}

TEST(PartitionFft, BatchDimsStaySplit) {
  PartitionCase c = check_partition(R"(
    a = c64[16,32] parameter(0), sharding={devices=[8,1]<=[8]}
    ROOT f = c64[16,32] fft(a), fft_type=FFT, fft_length={32}, sharding={devices=[8,1]<=[8]})",
                                    1e-4);
  EXPECT_EQ(c.collectives(), 0) << c.text;
  EXPECT_EQ(c.count(Opcode::dynamic_slice), 0) << c.text;
  // One dim: it must be unsplit, and is split again.
  c = check_partition(R"(
    a = c64[32] parameter(0), sharding={devices=[8]<=[8]}
    ROOT f = c64[32] fft(a), fft_type=FFT, fft_length={32}, sharding={devices=[8]<=[8]})",
                      1e-4);
  EXPECT_EQ(c.count(Opcode::all_gather), 1) << c.text;
}

TEST(PartitionIndexed, GatherFromASplitTable) {
  PartitionCase c = check_partition(R"(
    table = f32[64,16] parameter(0), sharding={devices=[8,1]<=[8]}
    ids = s32[12,1] parameter(1), sharding={replicated}
    ROOT g = f32[12,16] gather(table, ids), offset_dims={1}, collapsed_slice_dims={0},
      start_index_map={0}, index_vector_dim=1, slice_sizes={1,16}, sharding={replicated})");
  // Rows, not the table.
  EXPECT_LE(c.bytes(), 2 * 12 * 16 * 4) << c.text;
}

TEST(PartitionIndexed, OutOfRangeIndicesAreClampedByTheWhole) {
  Literal table(Shape(f32, {13, 2})), ids(Shape(s32, {4, 1}));
  for (int i = 0; i < 26; ++i) table.mutable_data<float>()[std::size_t(i)] = float(i + 1);
  const int values[] = {-100, 12, 99, 5};
  for (int i = 0; i < 4; ++i) ids.mutable_data<std::int32_t>()[std::size_t(i)] = values[i];
  check_partition(R"(
    table = f32[13,2] parameter(0), sharding={devices=[8,1]<=[8]}
    ids = s32[4,1] parameter(1), sharding={devices=[8,1]<=[8]}
    ROOT g = f32[4,2] gather(table, ids), offset_dims={1}, collapsed_slice_dims={0},
      start_index_map={0}, index_vector_dim=1, slice_sizes={1,2}, sharding={replicated})",
                  0, {table, ids});
  // Updates out of range are dropped.
  Literal updates(Shape(f32, {4, 2}));
  for (int i = 0; i < 8; ++i) updates.mutable_data<float>()[std::size_t(i)] = float(i + 1);
  PartitionCase c = check_partition(R"(
    table = f32[13,2] parameter(0), sharding={devices=[8,1]<=[8]}
    ids = s32[4,1] parameter(1), sharding={replicated}
    u = f32[4,2] parameter(2), sharding={replicated}
    ROOT g = f32[13,2] scatter(table, ids, u), update_window_dims={1}, inserted_window_dims={0},
      scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add,
      sharding={devices=[8,1]<=[8]})",
                                    0, {table, ids, updates});
  EXPECT_EQ(c.collectives(), 0) << c.text;
}

TEST(PartitionIndexed, AWindowOfASplitDimIsWrittenOnce) {
  Literal table(Shape(f32, {16, 24})), ids(Shape(s32, {3, 1})), updates(Shape(f32, {3, 3, 24}));
  for (int i = 0; i < 16 * 24; ++i) table.mutable_data<float>()[std::size_t(i)] = float(i);
  for (int i = 0; i < 3 * 24 * 3; ++i) updates.mutable_data<float>()[std::size_t(i)] = float(i + 1);
  // Inside one shard, across two of them, and off the end.
  const int values[] = {4, 7, 14};
  for (int i = 0; i < 3; ++i) ids.mutable_data<std::int32_t>()[std::size_t(i)] = values[i];
  for (const char* split : {"devices=[2,4]<=[8]", "devices=[8,1]<=[8]"}) {
    check_partition("table = f32[16,24] parameter(0), sharding={" + std::string(split) + R"(}
      ids = s32[3,1] parameter(1), sharding={replicated}
      u = f32[3,3,24] parameter(2), sharding={replicated}
      ROOT g = f32[16,24] scatter(table, ids, u), update_window_dims={1,2},
        inserted_window_dims={}, scatter_dims_to_operand_dims={0}, index_vector_dim=1,
        to_apply=add, sharding={)" +
                        split + "}",
                    0, {table, ids, updates});
  }
  // A window of one row, and a row that no index names: the first.
  Literal rows(Shape(f32, {3, 1}));
  for (int i = 0; i < 3; ++i) rows.mutable_data<float>()[std::size_t(i)] = float(i + 1);
  PartitionCase row = check_partition(R"(
    table = f32[16,24] parameter(0), sharding={devices=[8,1]<=[8]}
    ids = s32[3,1] parameter(1), sharding={replicated}
    u = f32[3,1] parameter(2), sharding={replicated}
    ROOT g = f32[16,24] scatter(table, ids, u), update_window_dims={1}, inserted_window_dims={1},
      scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add,
      sharding={devices=[8,1]<=[8]})",
                                      0, {table, ids, rows});
  EXPECT_EQ(row.collectives(), 0) << row.text;
  check_partition(R"(
    table = f32[16,24] parameter(0), sharding={devices=[1,8]<=[8]}
    ids = s32[3,1] parameter(1), sharding={replicated}
    u = f32[3,1] parameter(2), sharding={replicated}
    ROOT g = f32[16,24] scatter(table, ids, u), update_window_dims={1}, inserted_window_dims={1},
      scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add,
      sharding={devices=[1,8]<=[8]})",
                  0, {table, ids, rows});
}

// No engine's collectives join integers bit by bit: the parts travel, and each device joins them.
TEST(PartitionReduce, OfBitsJoinsPartsLocally) {
  for (const std::string op : {"and", "or", "xor"}) {
    for (const std::string type : {"u64", "s32", "pred"}) {
      for (const char* result : {"{replicated}", "{devices=[8]<=[8]}"}) {
        const std::string reducer = "bits { p = " + type + "[] parameter(0)\n q = " + type +
                                    "[] parameter(1)\n ROOT r = " + type + "[] " + op +
                                    "(p, q) }\n";
        PartitionCase c = check_partition(parse_entry(
            "a = " + type + "[61,24] parameter(0), sharding={devices=[8,1]<=[8]}\n i = " + type +
                "[] constant(" + (op == "and" ? "1" : "0") + ")\n ROOT r = " + type +
                "[24] reduce(a, i), dimensions={0}, to_apply=bits, sharding=" + result + "\n",
            reducer));
        const int joined = c.count(ir::Opcode::all_reduce) + c.count(ir::Opcode::reduce_scatter);
        EXPECT_EQ(joined, type == "pred" && op != "xor" ? 1 : 0) << c.text;
        EXPECT_EQ(c.collectives(), 1) << c.text;
      }
    }
  }
}

TEST(PartitionWindow, RunningSumExchangesOneTotalPerDevice) {
  for (const char* n : {"64", "61"}) {
    const std::string size(n), reach = std::to_string(std::stoi(size) - 1);
    PartitionCase c =
        check_partition("a = f32[" + size + "] parameter(0), sharding={devices=[8]<=[8]}\n" +
                        "i = f32[] constant(0)\n ROOT s = f32[" + size +
                        "] reduce-window(a, i), window={size=" + size + " pad=" + reach +
                        "_0}, to_apply=add, sharding={devices=[8]<=[8]}");
    EXPECT_EQ(c.collectives(), 1) << c.text;
    EXPECT_EQ(c.bytes(), 8 * 4 * 7 / 8.0) << c.text;
  }
}

TEST(PartitionWindow, NeighboursRowsAreFetched) {
  PartitionCase c = check_partition(R"(
    a = f32[64,32] parameter(0), sharding={devices=[8,1]<=[8]}
    i = f32[] constant(0)
    ROOT s = f32[64,32] reduce-window(a, i), window={size=3x1 pad=1_1x0_0}, to_apply=add,
      sharding={devices=[8,1]<=[8]})");
  EXPECT_EQ(c.count(Opcode::collective_permute), 2) << c.text;
  EXPECT_EQ(c.collectives(), 2) << c.text;
  EXPECT_EQ(c.bytes(), 2 * 32 * 4) << c.text;
}

TEST(PartitionUnsplittable, OperandsAreGatheredAndTheReportSaysSo) {
  PartitionCase c = check_partition(R"(
    a = f32[64] parameter(0), sharding={devices=[8]<=[8]}
    ROOT s = f32[64] sort(a), dimensions={0}, is_stable=true, to_apply=less,
      metadata={source_file="model.cc" source_line=12}, sharding={devices=[8]<=[8]})");
  EXPECT_EQ(c.count(Opcode::all_gather), 1) << c.text;
  EXPECT_TRUE(c.full_gather());
  ASSERT_FALSE(c.report.records.empty());
  EXPECT_EQ(c.report.records[0].location.to_string(), "model.cc:12");
  EXPECT_EQ(c.report.records[0].bytes_received, 64 * 4 * 7 / 8.0);
}

}  // namespace
}  // namespace tessera::testing
