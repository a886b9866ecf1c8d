// SPDX-License-Identifier: Apache-2.0
// Ops whose elements depend on each other along the split dim: correct, and only small parts are
// communicated.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "src/base/arrays/literal_util.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/spmd/propagation/propagate.h"
#include "tests/spmd/partitioner/partition_case.h"
#include "tests/support/random_program.h"

namespace tessera::testing {
namespace {

using ir::Opcode;

std::string top_k(const std::string& type, int rows, int n, int k, bool largest,
                  const std::string& from, const std::string& to) {
  auto dims = [&](int last) {
    return "[" + std::to_string(rows) + "," + std::to_string(last) + "]";
  };
  const std::string v = type + dims(k), i = "s32" + dims(k);
  return "a = " + type + dims(n) + " parameter(0), sharding={" + from + "}\n" + "t = (" + v + ", " +
         i + ") topk(a), k=" + std::to_string(k) + ", largest=" + (largest ? "true" : "false") +
         "\nv = " + v + " get-tuple-element(t), index=0\ni = " + i +
         " get-tuple-element(t), index=1\nROOT r = (" + v + ", " + i +
         ") tuple(v, i), sharding={{" + to + "}, {" + to + "}}";
}

constexpr const char *kRows = "devices=[8,1]<=[8]", *kColumns = "devices=[1,8]<=[8]",
                     *kWhole = "replicated", *kBoth = "devices=[2,4]<=[8]";

/// Bytes alone decide, so that small arrays too are not gathered.
spmd::PartitionOptions free_starts() {
  spmd::PartitionOptions options;
  Network network = cost::assumed_network();
  network.start_seconds = 0;
  options.machine = cost::Machine(network);
  return options;
}

/// For programs that are too large to be checked by evaluating them.
PartitionCase partition_only(const std::string& lines) {
  auto module = parse_entry(lines);
  spmd::propagate(module.get());
  PartitionCase out;
  out.device = spmd::partition(*module, {}, &out.report);
  out.text = ir::to_string(*out.device);
  return out;
}

TEST(PartitionTopK, OnlyWinnersTravel) {
  PartitionCase c = check_partition(top_k("f32", 16, 65536, 8, true, kColumns, kWhole));
  EXPECT_LE(c.bytes(), 1792 * 4) << c.text;
  EXPECT_FALSE(c.full_gather()) << c.text;
  EXPECT_EQ(c.text.find("65536"), std::string::npos) << c.text;
  // A batch that can't take the axes.
  c = check_partition(top_k("f32", 3, 4096, 8, true, kColumns, kWhole));
  EXPECT_EQ(c.bytes(), 2 * 3 * 64 * 4 * 7 / 8) << c.text;
  EXPECT_EQ(c.collectives(), 2) << c.text;
  // Batches need nothing.
  c = check_partition(top_k("f32", 16, 640, 8, true, kRows, kRows));
  EXPECT_EQ(c.collectives(), 0) << c.text;
}

TEST(PartitionTopK, TypesSizesAndTies) {
  // Small integers: ties all over. The padding of the parameters is NaN, or large.
  for (const char* type : {"f32", "s32", "u8", "bf16", "f64"}) {
    for (int n : {64, 61, 13, 5}) {
      for (int k : {1, 3, 5}) {
        for (bool largest : {true, false}) {
          for (const char* from : {kColumns, kBoth}) {
            check_partition(top_k(type, 4, n, k, largest, from, kWhole), 0, {}, free_starts());
          }
          check_partition(top_k(type, 4, n, k, largest, kColumns, kColumns), 0, {}, free_starts());
        }
      }
    }
  }
}

TEST(PartitionTopK, NotANumberAndSignedZero) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = INFINITY;
  for (int n : {40, 37}) {
    Literal x(Shape(f32, {2, n}));
    auto data = x.mutable_data<float>();
    const float special[] = {nan, -nan, inf, -inf, 0.f, -0.f, 1.f, -1.f};
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = special[(i * 5 + i / 7) % 8];
    for (bool largest : {true, false}) {
      for (int k : {1, 7, 30}) {
        check_partition(top_k("f32", 2, n, k, largest, kColumns, kWhole), 0, {x}, free_starts());
      }
    }
    for (float& v : data) v = -nan;  // what pads can't be told from
    check_partition(top_k("f32", 2, n, 9, true, kColumns, kWhole), 0, {x}, free_starts());
  }
}

TEST(PartitionTopK, CustomCall) {
  PartitionCase c = check_partition(R"(
    a = f32[3,4096] parameter(0), sharding={devices=[1,8]<=[8]}
    t = (f32[3,4], s32[3,4]) custom-call(a), custom_call_target="TopK"
    v = f32[3,4] get-tuple-element(t), index=0
    i = s32[3,4] get-tuple-element(t), index=1
    ROOT r = (f32[3,4], s32[3,4]) tuple(v, i), sharding={{replicated}, {replicated}})");
  EXPECT_EQ(c.bytes(), 2 * 3 * 32 * 4 * 7 / 8) << c.text;
}

// ----- reductions by reducers that aren't one op, and running folds

constexpr const char* kFolds = R"(
logaddexp { a = f32[] parameter(0)
  b = f32[] parameter(1)
  m = f32[] maximum(a, b)
  d = f32[] subtract(a, b)
  nan = pred[] compare(d, d), direction=NE
  s = f32[] add(a, b)
  n = f32[] abs(d)
  o = f32[] negate(n)
  e = f32[] exponential(o)
  l = f32[] log-plus-one(e)
  r = f32[] add(m, l)
  ROOT x = f32[] select(nan, s, r) }
affine { a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] parameter(2)
  d = f32[] parameter(3)
  ac = f32[] multiply(a, c)
  bc = f32[] multiply(b, c)
  e = f32[] add(bc, d)
  ROOT t = (f32[], f32[]) tuple(ac, e) }
both { a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] parameter(2)
  d = f32[] parameter(3)
  s = f32[] add(a, c)
  m = f32[] maximum(d, b)
  ROOT t = (f32[], f32[]) tuple(s, m) }
)";

PartitionCase check_folds(const std::string& lines, double tolerance = 0,
                          std::vector<Literal> arguments = {},
                          const spmd::PartitionOptions& options = free_starts()) {
  SCOPED_TRACE(lines);
  return check_partition(parse_entry(lines, kFolds), tolerance, std::move(arguments), options);
}

/// Elements of 1 and 2: products stay exact.
Literal ones_and_twos(Dims dims) {
  Literal x(Shape(f32, dims));
  auto data = x.mutable_data<float>();
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = i % 37 == 3 ? 2.f : 1.f;
  return x;
}

std::string s(std::int64_t n) { return std::to_string(n); }

TEST(PartitionFold, ReducersOfAnyKindMoveOnePartPerDevice) {
  for (int n : {64, 61, 13, 5}) {
    for (const char* to : {kWhole, "devices=[8]<=[8]"}) {
      // The initial value counts once, whatever it is.
      PartitionCase c =
          check_folds("a = f32[" + s(n) + ",16] parameter(0), sharding={devices=[8,1]<=[8]}\n" +
                          "i = f32[] constant(2)\nROOT r = f32[16] reduce(a, i), " +
                          "dimensions={0}, to_apply=logaddexp, sharding={" + to + "}",
                      1e-5);
      EXPECT_LE(c.bytes(), 16 * 7 * 4) << c.text;
      if (to != kWhole) {
        EXPECT_EQ(c.bytes(), 2 * 7 * 4) << c.text;
      }
    }
    // Composition of affine maps does not commute.
    PartitionCase c = check_folds(
        "a = f32[" + s(n) + ",3] parameter(0), sharding={devices=[8,1]<=[8]}\nb = f32[" + s(n) +
            ",3] parameter(1), sharding={devices=[8,1]<=[8]}\n" +
            "i = f32[] constant(2)\nj = f32[] constant(3)\nROOT r = (f32[3], f32[3]) reduce(a, b, "
            "i, j), dimensions={0}, to_apply=affine, sharding={{replicated}, {replicated}}",
        0, {ones_and_twos({n, 3}), ones_and_twos({n, 3})});
    EXPECT_LE(c.bytes(), 2 * 3 * 7 * 4) << c.text;
    check_folds("a = f32[" + s(n) + ",6] parameter(0), sharding={devices=[2,4]<=[8]}\nb = f32[" +
                    s(n) + ",6] parameter(1), sharding={devices=[4,2]<=[8]}\n" +
                    "i = f32[] constant(2)\nj = f32[] constant(3)\nROOT r = (f32[], f32[]) "
                    "reduce(a, b, i, j), dimensions={0,1}, to_apply=affine, "
                    "sharding={{replicated}, {replicated}}",
                0, {ones_and_twos({n, 6}), ones_and_twos({n, 6})});
  }
}

TEST(PartitionFold, EachOperandByItsOwnMonoid) {
  for (int n : {64, 13}) {
    PartitionCase c = check_folds(
        "a = f32[" + s(n) + ",16] parameter(0), sharding={devices=[8,1]<=[8]}\nb = f32[" + s(n) +
        ",16] parameter(1), sharding={devices=[8,1]<=[8]}\n" +
        "i = f32[] constant(0)\nj = f32[] constant(3)\nROOT r = (f32[16], f32[16]) reduce(a, b, "
        "i, j), dimensions={0}, to_apply=both, sharding={{replicated}, {replicated}}");
    EXPECT_EQ(c.count(Opcode::all_reduce), 2) << c.text;
    EXPECT_EQ(c.collectives(), 2) << c.text;
    EXPECT_EQ(c.bytes(), 2 * 2 * 16 * 4 * 7 / 8) << c.text;
  }
}

TEST(PartitionFold, ArgMaxIntoASplitBatch) {
  PartitionCase c = check_folds(R"(
    a = f32[16,200] parameter(0), sharding={devices=[1,8]<=[8]}
    i = s32[16,200] iota(), iota_dimension=1
    low = f32[] constant(-inf)
    zero = s32[] constant(0)
    ROOT r = (f32[16], s32[16]) reduce(a, i, low, zero), dimensions={1}, to_apply=argmax,
      sharding={{devices=[8]<=[8]}, {devices=[8]<=[8]}})");
  EXPECT_EQ(c.count(Opcode::all_to_all), 2) << c.text;
  EXPECT_EQ(c.bytes(), 2 * 14 * 4) << c.text;
}

std::string running(const std::string& operands, const std::string& init, const std::string& result,
                    const std::string& reducer, int n, bool forward, const std::string& sharding) {
  const std::string pad = forward ? s(n - 1) + "_0" : "0_" + s(n - 1);
  return "ROOT r = " + result + " reduce-window(" + operands + ", " + init + "), window={size=1x" +
         s(n) + " pad=0_0x" + pad + "}, to_apply=" + reducer + ", sharding={" + sharding + "}";
}

TEST(PartitionFold, RunningFoldsExchangeTotals) {
  const std::string split = "devices=[1,8]<=[8]";
  for (int n : {64, 61, 13, 5}) {
    for (bool forward : {true, false}) {
      const std::string type = "f32[4," + s(n) + "]";
      PartitionCase c = check_folds("a = " + type + " parameter(0), sharding={" + split +
                                        "}\ni = f32[] constant(-inf)\n" +
                                        running("a", "i", type, "logaddexp", n, forward, split),
                                    1e-5);
      EXPECT_EQ(c.collectives(), 1) << c.text;
      EXPECT_EQ(c.bytes(), 4 * 7 * 4) << c.text;
      c = check_folds("a = " + type + " parameter(0), sharding={" + split + "}\nb = " + type +
                          " parameter(1), sharding={" + split +
                          "}\ni = f32[] constant(1)\nj = f32[] constant(0)\n" +
                          running("a, b", "i, j", "(" + type + ", " + type + ")", "affine", n,
                                  forward, "{" + split + "}, {" + split + "}"),
                      0, {ones_and_twos({4, n}), ones_and_twos({4, n})});
      EXPECT_EQ(c.collectives(), 2) << c.text;
      EXPECT_EQ(c.bytes(), 2 * 4 * 7 * 4) << c.text;
    }
  }
}

TEST(PartitionFold, RunningSumOfManyRows) {
  PartitionCase c = partition_only(R"(
    a = f32[8192,64] parameter(0), sharding={devices=[8,1]<=[8]}
    i = f32[] constant(0)
    ROOT r = f32[8192,64] reduce-window(a, i), window={size=8192x1 pad=8191_0x0_0}, to_apply=add,
      sharding={devices=[8,1]<=[8]})");
  EXPECT_EQ(c.bytes(), 448 * 4) << c.text;
}

// ----- sorts

constexpr const char* kOrders = R"(HloModule m, num_partitions=8
less { a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT }
greater { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=GT, type=TOTALORDER }
canonical { a = f32[] parameter(0)
  b = f32[] parameter(1)
  z = f32[] constant(0)
  n = f32[] constant(nan)
  az = pred[] compare(a, z), direction=EQ
  bz = pred[] compare(b, z), direction=EQ
  aa = f32[] select(az, z, a)
  bb = f32[] select(bz, z, b)
  an = pred[] compare(a, a), direction=NE
  bn = pred[] compare(b, b), direction=NE
  x = f32[] select(an, n, aa)
  y = f32[] select(bn, n, bb)
  ROOT r = pred[] compare(x, y), direction=LT, type=TOTALORDER }
by_key { a = s32[] parameter(0)
  b = s32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=LT }
float_key { a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = bf16[] parameter(2)
  d = bf16[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=LT, type=TOTALORDER }
unordered { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT }
ENTRY e {
)";

PartitionCase check_sort(const std::string& lines, std::vector<Literal> arguments = {},
                         const spmd::PartitionOptions& options = free_starts()) {
  SCOPED_TRACE(lines);
  return check_partition(ir::parse_hlo(kOrders + lines + "\n}\n"), 0, std::move(arguments),
                         options);
}

TEST(PartitionSort, OneDimInBlocks) {
  // Even, in need of padding blocks, and uneven.
  for (int n : {800, 1024, 801, 1000, 1061, 4095}) {
    const std::string type = "s32[" + s(n) + "]", split = "sharding={devices=[8]<=[8]}";
    PartitionCase c = check_sort("a = " + type + " parameter(0), " + split + "\nROOT r = " + type +
                                 " sort(a), dimensions={0}, to_apply=less, " + split);
    EXPECT_EQ(c.count(Opcode::all_gather), 0) << c.text;
    EXPECT_FALSE(c.full_gather());
    if (n == 1024) {
      EXPECT_EQ(c.collectives(), 4) << c.text;
      EXPECT_EQ(c.bytes(), 2.75 * 128 * 4) << c.text;
    }
  }
}

// Shards of so few rows are merged two by two.
TEST(PartitionSort, FewRows) {
  const std::string split = "sharding={devices=[8]<=[8]}";
  for (int n : {5, 8, 13, 16, 61, 64, 100, 700}) {
    std::string type = "s32[" + s(n) + "]";
    PartitionCase c = check_sort("a = " + type + " parameter(0), " + split + "\nROOT r = " + type +
                                 " sort(a), dimensions={0}, to_apply=less, " + split);
    EXPECT_EQ(c.count(Opcode::all_gather), 0) << c.text;
    EXPECT_EQ(c.count(Opcode::collective_permute), c.collectives()) << c.text;
    if (n % 8 == 0) {
      EXPECT_EQ(c.bytes(), 6 * n / 8 * 4) << c.text;
    }
    // Small keys: equal rows keep their order.
    c = check_sort("a = " + type + " parameter(0), " + split + "\nb = " + type + " parameter(1), " +
                   split + "\nROOT r = (" + type + ", " + type +
                   ") sort(a, b), dimensions={0}, is_stable=true, to_apply=by_key, sharding={{"
                   "devices=[8]<=[8]}, {devices=[8]<=[8]}}");
    EXPECT_EQ(c.count(Opcode::all_gather), 0) << c.text;
    EXPECT_FALSE(c.full_gather());
    // Along four of the devices, in another order.
    type = "f32[2," + s(n) + "]";
    c = check_sort("a = " + type +
                   " parameter(0), sharding={devices=[2,4]<=[4,2]T(1,0)}\nROOT r = " + type +
                   " sort(a), dimensions={1}, is_stable=true, to_apply=canonical, "
                   "sharding={devices=[2,4]<=[4,2]T(1,0)}");
    EXPECT_FALSE(c.full_gather());
  }
}

TEST(PartitionSort, StableByPlace) {
  Literal x(Shape(f32, {1600}));
  auto data = x.mutable_data<float>();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float special[] = {0.f, -0.f, 1.f, nan, -nan, INFINITY, -INFINITY, 0.f, -1.f, -0.f, 2.f};
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = special[(i * 7 + i / 13) % 11];
  for (const char* order : {"canonical", "greater"}) {
    PartitionCase c = check_sort(
        std::string("a = f32[1600] parameter(0), sharding={devices=[8]<=[8]}\n") +
            "ROOT r = f32[1600] sort(a), dimensions={0}, is_stable=true, to_apply=" + order +
            ", sharding={devices=[8]<=[8]}",
        {x});
    EXPECT_EQ(c.count(Opcode::all_gather), 0) << c.text;
  }
  // Comparisons that NaN makes no order of stay with one device's order.
  check_sort(R"(
    a = f32[1600] parameter(0), sharding={devices=[8]<=[8]}
    ROOT r = f32[1600] sort(a), dimensions={0}, is_stable=true, to_apply=unordered,
      sharding={devices=[8]<=[8]})",
             {x});
}

TEST(PartitionSort, SeveralOperandsAndTheirPlaces) {
  for (int n : {1600, 1601}) {
    const std::string t = "s32[" + s(n) + "]", split = "sharding={devices=[8]<=[8]}";
    const std::string both = "sharding={{devices=[8]<=[8]}, {devices=[8]<=[8]}}";
    // Keys are small: many ties, and the second operand tells which came first.
    PartitionCase c =
        check_sort("a = " + t + " parameter(0), " + split + "\ni = " + t +
                   " iota(), iota_dimension=0\nROOT r = (" + t + ", " + t +
                   ") sort(a, i), dimensions={0}, is_stable=true, to_apply=by_key, " + both);
    EXPECT_EQ(c.count(Opcode::all_gather), 0) << c.text;
    if (n == 1600) {
      EXPECT_EQ(c.bytes(), 2 * 2.75 * 200 * 4) << c.text;
    }
    c = check_sort("a = f32[" + s(n) + "] parameter(0), " + split + "\nb = bf16[" + s(n) +
                   "] parameter(1), " + split + "\nROOT r = (f32[" + s(n) + "], bf16[" + s(n) +
                   "]) sort(a, b), dimensions={0}, is_stable=true, to_apply=float_key, " + both);
    EXPECT_EQ(c.count(Opcode::all_gather), 0) << c.text;
  }
}

TEST(PartitionSort, RowsOfBatches) {
  // The batch is split by one axis and can't take the other.
  for (int n : {256, 250}) {
    for (const char* layout : {"devices=[2,4]<=[8]", "devices=[2,4]<=[4,2]T(1,0)"}) {
      const std::string t = "s32[2," + s(n) + "]";
      PartitionCase c =
          check_sort("a = " + t + " parameter(0), sharding={" + layout + "}\nROOT r = " + t +
                     " sort(a), dimensions={1}, to_apply=less, sharding={" + layout + "}");
      EXPECT_EQ(c.count(Opcode::all_gather), 0) << c.text;
    }
  }
  // Along dim 0, by two.
  for (int n : {64, 63}) {
    const std::string t = "s32[" + s(n) + ",4]";
    PartitionCase c =
        check_sort("a = " + t + " parameter(0), sharding={devices=[2,4]<=[8]}\n" + "ROOT r = " + t +
                   " sort(a), dimensions={0}, to_apply=less, " + "sharding={devices=[2,4]<=[8]}");
    if (n == 64) {
      EXPECT_EQ(c.count(Opcode::collective_permute), 1) << c.text;
      EXPECT_EQ(c.bytes(), 32 * 4) << c.text;
    }
  }
  // Rows enough: all-to-alls there and back are less.
  PartitionCase c = check_sort(R"(
    a = s32[16,1024] parameter(0), sharding={devices=[1,8]<=[8]}
    ROOT r = s32[16,1024] sort(a), dimensions={1}, to_apply=less,
      sharding={devices=[1,8]<=[8]})");
  EXPECT_EQ(c.count(Opcode::all_to_all), 2) << c.text;
  EXPECT_EQ(c.collectives(), 2) << c.text;
}

TEST(PartitionSort, ResultsThatNobodyUsesAreNotBroughtBack) {
  const std::string lines = R"(
    k = s32[16,1024] parameter(0), sharding={devices=[1,8]<=[8]}
    v = s32[16,1024] parameter(1), sharding={devices=[1,8]<=[8]}
    t = (s32[16,1024], s32[16,1024]) sort(k, v), dimensions={1}, to_apply=by_key
    ROOT r = s32[16,1024] get-tuple-element(t), index=1, sharding={devices=[1,8]<=[8]})";
  PartitionCase c = check_sort(lines);
  EXPECT_EQ(c.collectives(), 3) << c.text;
  EXPECT_EQ(c.bytes(), 3 * 16 * 128 * 4 * 7 / 8.0) << c.text;
  // Where leaving the split dim pays only if the keys stay away.
  c = check_sort(R"(
    k = s32[4,64] parameter(0), sharding={devices=[1,2,4]<=[8] last_tile_dim_replicate}
    v = s32[4,64] parameter(1), sharding={devices=[1,2,4]<=[8] last_tile_dim_replicate}
    t = (s32[4,64], s32[4,64]) sort(k, v), dimensions={1}, to_apply=by_key
    ROOT r = s32[4,64] get-tuple-element(t), index=1,
      sharding={devices=[1,2,4]<=[8] last_tile_dim_replicate})");
  EXPECT_LE(c.bytes(), 3 * 4 * 32 * 4 / 2.0) << c.text;
}

// ----- random bits

TEST(PartitionRandomBits, SameOnAnyMeshWithoutCommunication) {
  Literal state(Shape(u64, {2})), three(Shape(u64, {3}));
  const std::uint64_t words[] = {0x0123456789ABCDEFu, ~std::uint64_t(0) - 20, 77};
  for (std::size_t i = 0; i < 3; ++i) {
    if (i < 2) state.mutable_data<std::uint64_t>()[i] = words[i];
    three.mutable_data<std::uint64_t>()[i] = words[i];
  }
  for (const char* kind : {"rng_three_fry", "rng_philox", "rng_default"}) {
    for (const char* type : {"u32", "u64", "u8", "u16"}) {
      for (const char* dims : {"16,8", "16,6", "5,6", "7,13", "1,48", "33,4", "12,12", "15,5"}) {
        for (const char* layout : {"devices=[8,1]<=[8]", "devices=[1,8]<=[8]", "devices=[2,4]<=[8]",
                                   "devices=[2,2,2]<=[8] last_tile_dim_replicate"}) {
          for (bool wide : {false, true}) {
            if (wide && std::string(kind) == "rng_three_fry") continue;
            const std::string key = wide ? "u64[3]" : "u64[2]";
            const std::string out = std::string(type) + "[" + dims + "]";
            PartitionCase c =
                check_partition("k = " + key + " parameter(0)\nROOT r = (" + key + ", " + out +
                                    ") rng-bit-generator(k), algorithm=" + kind +
                                    ", sharding={{replicated}, {" + layout + "}}",
                                0, {wide ? three : state});
            EXPECT_EQ(c.collectives(), 0) << c.text;
            if (dims[0] != '1' || dims[1] != ',') {
              EXPECT_EQ(c.text.find(out), std::string::npos) << c.text;
            }
          }
        }
      }
    }
  }
}

// ----- Fourier transforms

std::string fft(const std::string& from, const std::string& dims, const std::string& to,
                const std::string& result, const std::string& type, const std::string& lengths,
                const std::string& in_layout, const std::string& out_layout) {
  return "a = " + from + "[" + dims + "] parameter(0), sharding={" + in_layout +
         "}\nROOT r = " + to + "[" + result + "] fft(a), fft_type=" + type + ", fft_length={" +
         lengths + "}, sharding={" + out_layout + "}";
}

TEST(PartitionFft, DimByDim) {
  const char *rows = "devices=[8,1]<=[8]", *columns = "devices=[1,8]<=[8]",
             *both = "devices=[2,4]<=[8]";
  for (const char* type : {"FFT", "IFFT"}) {
    for (const char* in : {rows, columns, both}) {
      for (const char* out : {rows, columns, both}) {
        PartitionCase c = check_partition(
            fft("c64", "16,24", "c64", "16,24", type, "16,24", in, out), 1e-5, {}, free_starts());
        EXPECT_EQ(c.count(Opcode::all_gather), 0) << c.text;
        if (in == out && in != both) {
          EXPECT_EQ(c.collectives(), 2) << c.text;
          EXPECT_EQ(c.bytes(), 2 * 48 * 8 * 7 / 8) << c.text;
        } else if (in != both && out != both) {
          EXPECT_EQ(c.collectives(), 1) << c.text;
        }
      }
    }
  }
  // Uneven, real on one side, three dims.
  check_partition(fft("c64", "13,6", "c64", "13,6", "FFT", "13,6", rows, columns), 1e-5, {},
                  free_starts());
  for (const char* in : {rows, columns, both}) {
    for (const char* out : {rows, columns, both}) {
      PartitionCase c = check_partition(
          fft("f32", "16,24", "c64", "16,13", "RFFT", "16,24", in, out), 1e-5, {}, free_starts());
      EXPECT_FALSE(c.full_gather()) << c.text;
      c = check_partition(fft("c64", "16,13", "f32", "16,24", "IRFFT", "16,24", in, out), 1e-5, {},
                          free_starts());
      EXPECT_FALSE(c.full_gather()) << c.text;
    }
  }
  PartitionCase c = check_partition(fft("c64", "2,8,8,16", "c64", "2,8,8,16", "FFT", "8,8,16",
                                        "devices=[1,1,1,8]<=[8]", "devices=[1,1,1,8]<=[8]"),
                                    1e-5, {}, free_starts());
  EXPECT_EQ(c.count(Opcode::all_to_all), 2) << c.text;
  EXPECT_EQ(c.collectives(), 2) << c.text;
}

TEST(PartitionFft, OneDimInThreeExchanges) {
  for (const char* type : {"FFT", "IFFT"}) {
    PartitionCase c = check_partition(
        fft("c64", "512", "c64", "512", type, "512", "devices=[8]<=[8]", "devices=[8]<=[8]"), 1e-4,
        {}, free_starts());
    EXPECT_EQ(c.count(Opcode::all_to_all), 3) << c.text;
    EXPECT_EQ(c.bytes(), 3 * 64 * 8 * 7 / 8) << c.text;
    EXPECT_EQ(c.text.find("c64[512]"), std::string::npos) << c.text;
    // Batches that can't take the axes; other precision.
    c = check_partition(fft("c128", "3,320", "c128", "3,320", type, "320", "devices=[1,8]<=[8]",
                            "devices=[1,8]<=[8]"),
                        1e-10, {}, free_starts());
    EXPECT_EQ(c.count(Opcode::all_to_all), 3) << c.text;
  }
  // Sizes that don't divide so are gathered.
  check_partition(
      fft("c64", "72", "c64", "72", "FFT", "72", "devices=[8]<=[8]", "devices=[8]<=[8]"), 1e-4, {},
      free_starts());
}

}  // namespace
}  // namespace tessera::testing
