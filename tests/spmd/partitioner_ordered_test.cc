// SPDX-License-Identifier: Apache-2.0
// Ops along whose split dim elements depend on each other: right, and only small parts travel.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "src/base/literal_util.h"
#include "tests/spmd/partition_case.h"
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
  options.cost.latency_bytes = 0;
  return options;
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

}  // namespace
}  // namespace tessera::testing
