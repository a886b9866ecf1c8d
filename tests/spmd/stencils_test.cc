// SPDX-License-Identifier: Apache-2.0
// Stencils along split dims: one exchange of rows for all that is computed from it, and the same
// results as on one device, whatever the lengths of the arrays in between.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "src/spmd/partitioner/stencils/stencils.h"
#include "src/spmd/propagation/propagate.h"
#include "tests/spmd/partitioner/partition_case.h"
#include "tests/support/random_program.h"

namespace tessera::testing {
namespace {

using ir::Opcode;

const std::string kRows = ", sharding={devices=[8,1]<=[8]}";

/// A program on f32[64,4] split by rows, with `n`, the fill of pads.
PartitionCase on_rows(const std::string& lines) {
  return check_partition("a = f32[64,4] parameter(0)" + kRows + "\nn = f32[] constant(9)\n" +
                         lines + kRows);
}

/// A row from each neighbour and nothing else.
void expect_one_halo(const PartitionCase& c, int permutes, double rows) {
  EXPECT_EQ(c.collectives(), permutes) << c.text;
  EXPECT_EQ(c.count(Opcode::collective_permute), permutes) << c.text;
  EXPECT_EQ(c.bytes(), rows * 4 * 4) << c.text;
  EXPECT_EQ(c.count(Opcode::gather), 0) << c.text;
}

TEST(Stencils, NeighboursOfAPaddedArray) {
  const std::string sum = R"(
    s0 = f32[64,4] slice(p), slice={[0:64], [0:4]}
    s1 = f32[64,4] slice(p), slice={[1:65], [0:4]}
    s2 = f32[64,4] slice(p), slice={[2:66], [0:4]}
    x = f32[64,4] add(s0, s1)
    ROOT r = f32[64,4] add(x, s2))";
  const std::string first = "f = f32[1,4] slice(a), slice={[0:1], [0:4]}\n",
                    last = "l = f32[1,4] slice(a), slice={[63:64], [0:4]}\n";
  const std::string around = "p = f32[66,4] concatenate(";
  // Constants, edges, the other end, mirrored.
  expect_one_halo(on_rows("p = f32[66,4] pad(a, n), padding=1_1x0_0" + sum), 2, 2);
  expect_one_halo(on_rows(first + last + around + "f, a, l), dimensions={0}" + sum), 2, 2);
  expect_one_halo(on_rows(first + last + around + "l, a, f), dimensions={0}" + sum), 2, 2);
  expect_one_halo(on_rows("f = f32[1,4] slice(a), slice={[1:2], [0:4]}\n"
                          "l = f32[1,4] slice(a), slice={[62:63], [0:4]}\n" +
                          around + "f, a, l), dimensions={0}" + sum),
                  2, 2);
}

TEST(Stencils, WhatIsComputedBetween) {
  // Fluxes through 65 faces, of which a device of 8 rows would have 9.
  expect_one_halo(on_rows(R"(
    p = f32[66,4] pad(a, n), padding=1_1x0_0
    up = f32[65,4] slice(p), slice={[1:66], [0:4]}
    down = f32[65,4] slice(p), slice={[0:65], [0:4]}
    flux = f32[65,4] subtract(up, down)
    out = f32[64,4] slice(flux), slice={[1:65], [0:4]}
    in = f32[64,4] slice(flux), slice={[0:64], [0:4]}
    ROOT r = f32[64,4] subtract(out, in))"),
                  2, 2);
}

TEST(Stencils, RowsRepeatedAndReversed) {
  expect_one_halo(on_rows(R"(
    f = f32[1,4] slice(a), slice={[0:1], [0:4]}
    f2 = f32[1,2,4] broadcast(f), dimensions={0,2}
    low = f32[2,4] reshape(f2)
    l = f32[2,4] slice(a), slice={[61:63], [0:4]}
    high = f32[2,4] reverse(l), dimensions={0}
    p = f32[68,4] concatenate(low, a, high), dimensions={0}
    s0 = f32[64,4] slice(p), slice={[0:64], [0:4]}
    s2 = f32[64,4] slice(p), slice={[4:68], [0:4]}
    ROOT r = f32[64,4] subtract(s2, s0))"),
                  2, 4);
}

TEST(Stencils, UpdatesOfTheInterior) {
  // Of two columns there is less to fetch.
  expect_one_halo(on_rows(R"(
    up = f32[62,2] slice(a), slice={[2:64], [1:3]}
    down = f32[62,2] slice(a), slice={[0:62], [1:3]}
    sum = f32[62,2] add(up, down)
    one = s32[] constant(1)
    ROOT r = f32[64,4] dynamic-update-slice(a, sum, one, one))"),
                  2, 1.5);
}

TEST(Stencils, LoopsExchangeTheirOwnRowsEachTrip) {
  PartitionCase c = check_partition(parse_entry("a = f32[64,4] parameter(0)" + kRows + R"(
    zero = s32[] constant(0)
    t = (s32[], f32[64,4]) tuple(zero, a)
    w = (s32[], f32[64,4]) while(t), condition=goes_on, body=step
    ROOT r = f32[64,4] get-tuple-element(w), index=1)" +
                                                    kRows,
                                                R"(
goes_on {
  c = (s32[], f32[64,4]) parameter(0)
  i = s32[] get-tuple-element(c), index=0
  n = s32[] constant(3)
  ROOT less = pred[] compare(i, n), direction=LT
}

step {
  c = (s32[], f32[64,4]) parameter(0)
  i = s32[] get-tuple-element(c), index=0
  u = f32[64,4] get-tuple-element(c), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  up = f32[62,4] slice(u), slice={[2:64], [0:4]}
  down = f32[62,4] slice(u), slice={[0:62], [0:4]}
  sum = f32[62,4] add(up, down)
  n = f32[] constant(0)
  p = f32[64,4] pad(sum, n), padding=1_1x0_0
  ROOT r = (s32[], f32[64,4]) tuple(next, p)
}
)"));
  EXPECT_EQ(c.collectives(), 2) << c.text;
  EXPECT_EQ(c.count(Opcode::collective_permute), 2) << c.text;
}

TEST(Stencils, BothDimsOfAMesh) {
  const std::string split = ", sharding={devices=[4,2]<=[8]}";
  const PartitionCase c = check_partition("a = f32[32,16] parameter(0)" + split + R"(
    n = f32[] constant(9)
    p = f32[34,18] pad(a, n), padding=1_1x1_1
    q = f32[34,18] negate(p)
    s0 = f32[32,16] slice(q), slice={[0:32], [0:16]}
    s1 = f32[32,16] slice(q), slice={[1:33], [2:18]}
    s2 = f32[32,16] slice(q), slice={[2:34], [1:17]}
    x = f32[32,16] add(s0, s1)
    ROOT r = f32[32,16] add(x, s2))" + split);
  EXPECT_EQ(c.count(Opcode::collective_permute), 4) << c.text;
  EXPECT_EQ(c.collectives(), 4) << c.text;
}

TEST(Stencils, ShiftsAlongTheOtherDimAreKept) {
  // As many rows are cut off as are put in.
  const std::string split = ", sharding={devices=[2,4]<=[8]}";
  const PartitionCase c = check_partition("a = f32[16,16] parameter(0)" + split + R"(
    n = f32[] constant(9)
    p = f32[16,18] pad(a, n), padding=0_0x1_1
    q = f32[16,18] negate(p)
    s0 = f32[16,16] pad(q, n), padding=-1_1x0_-2
    s1 = f32[16,16] pad(q, n), padding=1_-1x-1_-1
    s2 = f32[16,16] slice(q), slice={[0:16], [2:18]}
    x = f32[16,16] add(s0, s1)
    ROOT r = f32[16,16] add(x, s2))" + split);
  EXPECT_EQ(c.count(Opcode::all_gather), 0) << c.text;
}

TEST(Stencils, WindowsRowsForWindowsAndRepetitions) {
  // Means of two rows, each of them twice, and differences of those: a device's own rows but for
  // one mean, of two rows of a neighbour.
  const PartitionCase c = on_rows(R"(
    z = f32[] constant(0)
    half = f32[32,4] reduce-window(a, z), window={size=2x1 stride=2x1}, to_apply=add
    twice = f32[32,2,4] broadcast(half), dimensions={0,2}
    up = f32[64,4] reshape(twice)
    d = f32[64,4] subtract(a, up)
    p = f32[66,4] pad(d, n), padding=1_1x0_0
    w = f32[64,4] reduce-window(p, z), window={size=3x1}, to_apply=add
    ROOT r = f32[64,4] multiply(w, a))");
  expect_one_halo(c, 2, 2);
}

TEST(Stencils, EvenAndOddRowsInTurn) {
  // A step of a wavelet and back.
  const PartitionCase c = on_rows(R"(
    e = f32[32,4] slice(a), slice={[0:64:2], [0:4]}
    o = f32[32,4] slice(a), slice={[1:64:2], [0:4]}
    e1 = f32[31,4] slice(e), slice={[1:32], [0:4]}
    e0 = f32[1,4] slice(e), slice={[0:1], [0:4]}
    next = f32[32,4] concatenate(e1, e0), dimensions={0}
    s = f32[32,4] add(e, next)
    d = f32[32,4] subtract(o, s)
    x = f32[32,1,4] reshape(e)
    y = f32[32,1,4] reshape(d)
    xy = f32[32,2,4] concatenate(x, y), dimensions={1}
    ROOT r = f32[64,4] reshape(xy))");
  expect_one_halo(c, 1, 1);
}

TEST(Stencils, RowsOfSeveralDevices) {
  // Three rows a device, and five on each side.
  const PartitionCase c = check_partition("a = f32[24,4] parameter(0)" + kRows + R"(
    n = f32[] constant(9)
    p = f32[34,4] pad(a, n), padding=5_5x0_0
    q = f32[34,4] negate(p)
    s0 = f32[24,4] slice(q), slice={[0:24], [0:4]}
    s1 = f32[24,4] slice(q), slice={[5:29], [0:4]}
    s2 = f32[24,4] slice(q), slice={[10:34], [0:4]}
    x = f32[24,4] add(s0, s1)
    ROOT r = f32[24,4] add(x, s2))" + kRows);
  EXPECT_EQ(c.collectives(), 4) << c.text;
  EXPECT_EQ(c.count(Opcode::collective_permute), 4) << c.text;
}

TEST(Stencils, ReportsNameTheUsersDims) {
  // 61 rows, of which the last device has fewer.
  const PartitionCase c = check_partition("a = f32[61,4] parameter(0)" + kRows + R"(
    n = f32[] constant(9)
    p = f32[63,4] pad(a, n), padding=1_1x0_0
    q = f32[63,4] negate(p)
    s0 = f32[61,4] slice(q), slice={[0:61], [0:4]}
    s2 = f32[61,4] slice(q), slice={[2:63], [0:4]}
    ROOT r = f32[61,4] subtract(s0, s2))" +
                                          kRows);
  EXPECT_EQ(c.count(Opcode::collective_permute), 2) << c.text;
  ASSERT_FALSE(c.report.records.empty());
  for (const spmd::CommunicationRecord& r : c.report.records) {
    EXPECT_EQ(std::count(r.from.begin(), r.from.end(), ','), 1) << r.from;
  }
}

TEST(Stencils, ConvolutionsOfMirroredEdges) {
  const std::string split = ", sharding={devices=[1,8,1,1]<=[8]}";
  const PartitionCase c = check_partition("a = f32[1,32,6,2] parameter(0)" + split + R"(
    k = f32[3,3,2,2] parameter(1), sharding={replicated}
    f = f32[1,1,6,2] slice(a), slice={[0:1], [1:2], [0:6], [0:2]}
    l = f32[1,1,6,2] slice(a), slice={[0:1], [30:31], [0:6], [0:2]}
    p = f32[1,34,6,2] concatenate(f, a, l), dimensions={1}
    c = f32[1,32,4,2] convolution(p, k), window={size=3x3}, dim_labels=b01f_01io->b01f
    ROOT r = f32[1,32,4,2] negate(c))" + split);
  EXPECT_EQ(c.collectives(), 2) << c.text;
  EXPECT_EQ(c.count(Opcode::collective_permute), 2) << c.text;
}

TEST(Stencils, RollsByNothing) {
  const PartitionCase c = on_rows(R"(
    all = f32[64,4] slice(a), slice={[0:64], [0:4]}
    none = f32[0,4] slice(a), slice={[0:0], [0:4]}
    r0 = f32[64,4] concatenate(all, none), dimensions={0}
    up = f32[64,4] pad(r0, n), padding=1_-1x0_0
    ROOT r = f32[64,4] add(up, r0))");
  expect_one_halo(c, 1, 1);
}

TEST(Stencils, StepsOfALoopOfLargeArrays) {
  // Five of twenty steps between exchanges, of arrays that are rolled along both dims.
  const std::string split = ", sharding={devices=[8,1]<=[8]}";
  const std::unique_ptr<ir::Module> module = parse_entry("a = f32[1024,1024] parameter(0)" + split +
                                                             R"(
    zero = s32[] constant(0)
    t = (s32[], f32[1024,1024]) tuple(zero, a)
    w = (s32[], f32[1024,1024]) while(t), condition=goes_on, body=step
    ROOT r = f32[1024,1024] get-tuple-element(w), index=1)" + split,
                                                         R"(
goes_on {
  c = (s32[], f32[1024,1024]) parameter(0)
  i = s32[] get-tuple-element(c), index=0
  n = s32[] constant(20)
  ROOT less = pred[] compare(i, n), direction=LT
}

step {
  c = (s32[], f32[1024,1024]) parameter(0)
  i = s32[] get-tuple-element(c), index=0
  u = f32[1024,1024] get-tuple-element(c), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  u0 = f32[1,1024] slice(u), slice={[1023:1024], [0:1024]}
  u1 = f32[1023,1024] slice(u), slice={[0:1023], [0:1024]}
  down = f32[1024,1024] concatenate(u0, u1), dimensions={0}
  v0 = f32[1024,1] slice(u), slice={[0:1024], [1023:1024]}
  v1 = f32[1024,1023] slice(u), slice={[0:1024], [0:1023]}
  right = f32[1024,1024] concatenate(v0, v1), dimensions={1}
  s = f32[1024,1024] add(down, right)
  ROOT r = (s32[], f32[1024,1024]) tuple(next, s)
}
)");
  spmd::propagate(module.get());
  const std::unique_ptr<ir::Module> device = spmd::partition(*module, {}, nullptr);
  int permutes = 0, trips = 0;
  for (const auto& c : device->computations()) {
    for (const auto& i : c->instructions()) {
      permutes += i->is(Opcode::collective_permute) ? 1 : 0;
      EXPECT_FALSE(i->is(Opcode::all_gather));
      if (i->is(Opcode::while_)) trips = int(*i->get<ir::WhileAttrs>().known_trip_count);
    }
  }
  EXPECT_EQ(permutes, 1);
  EXPECT_EQ(trips, 4);
}

/// Random programs of ops that move rows by a few, take some of them or windows, and of sums of
/// what they give.
class RandomStencil {
 public:
  explicit RandomStencil(std::uint64_t seed) : dice_(seed) {
    struct Split {
      const char* text;
      std::int64_t ways[2];
    };
    static constexpr Split kSplits[] = {{"devices=[8,1]<=[8]", {8, 1}},
                                        {"devices=[1,8]<=[8]", {1, 8}},
                                        {"devices=[4,2]<=[8]", {4, 2}},
                                        {"devices=[2,4]<=[4,2]T(1,0)", {2, 4}},
                                        {"devices=[4,1,2]<=[8] last_tile_dim_replicate", {4, 1}}};
    const Split& split = kSplits[std::size_t(dice_.below(5))];
    sharding_ = std::string(", sharding={") + split.text + "}";
    Dims dims;
    for (const std::int64_t ways : split.ways) {
      const std::int64_t block = dice_.between(2, 6);
      dims.push_back(ways == 1 ? 6 : ways * block);
    }
    lines_ = "a = " + shape(dims) + " parameter(0)" + sharding_ + "\nb = " + shape(dims) +
             " parameter(1)" + sharding_ +
             "\nn = f32[] constant(9)\nnought = f32[] constant(0)\nleast = f32[] constant(-inf)\n";
    values_ = {{"a", dims}, {"b", dims}};
    const std::int64_t steps = dice_.between(6, 17);
    for (std::int64_t k = 0; k < steps; ++k) step();
    // All of the last ones, so that nothing is left out.
    Value sum = fitted(values_.back(), dims);
    for (std::size_t k = 2; k <= 3 && k < values_.size(); ++k) {
      const Value other = fitted(values_[values_.size() - k], dims);
      sum = made(dims, "add(" + sum.name + ", " + other.name + ")");
    }
    lines_ += "ROOT r = " + shape(dims) + " negate(" + sum.name + ")" + sharding_;
  }

  const std::string& lines() const { return lines_; }

 private:
  struct Value {
    std::string name;
    Dims dims;
  };

  static std::string shape(const Dims& dims) { return "f32[" + join(dims) + "]"; }
  Value made(const Dims& dims, const std::string& op) {
    const std::string name = "v" + std::to_string(made_++);
    lines_ += name + " = " + shape(dims) + " " + op + "\n";
    return {name, dims};
  }
  std::int64_t few(std::int64_t most) { return dice_.below(most + 1); }

  Value cut(const Value& v, std::size_t d, std::int64_t begin, std::int64_t end) {
    Dims dims = v.dims;
    dims[d] = end - begin;
    std::string text = "slice(" + v.name + "), slice={";
    for (std::size_t i = 0; i < dims.size(); ++i) {
      text += i > 0 ? ", [" : "[";
      text += i == d ? std::to_string(begin) + ":" + std::to_string(end)
                     : "0:" + std::to_string(dims[i]);
      text += "]";
    }
    return made(dims, text + "}");
  }
  Value padded(const Value& v, std::size_t d, std::int64_t low, std::int64_t high) {
    Dims dims = v.dims;
    dims[d] += low + high;
    const std::string by = std::to_string(low) + "_" + std::to_string(high);
    return made(dims, "pad(" + v.name + ", n), padding=" + (d == 0 ? by + "x0_0" : "0_0x" + by));
  }
  Value joined(const std::vector<Value>& parts, std::size_t d) {
    Dims dims = parts[0].dims;
    dims[d] = 0;
    std::string names;
    for (const Value& p : parts) {
      dims[d] += p.dims[d];
      names += (names.empty() ? "" : ", ") + p.name;
    }
    return made(dims, "concatenate(" + names + "), dimensions={" + std::to_string(d) + "}");
  }
  Value repeated(const Value& row, std::size_t d, std::int64_t times) {
    Dims wide = row.dims, dims = row.dims;
    wide.insert(wide.begin() + std::ptrdiff_t(d) + 1, times);
    dims[d] = times;
    const Value w =
        made(wide, "broadcast(" + row.name + "), dimensions={" + (d == 0 ? "0,2}" : "0,1}"));
    return made(dims, "reshape(" + w.name + ")");
  }
  Value reversed(const Value& v, std::size_t d) {
    return made(v.dims, "reverse(" + v.name + "), dimensions={" + std::to_string(d) + "}");
  }
  /// Every `k`th row from `first` on.
  Value picked(const Value& v, std::size_t d, std::int64_t first, std::int64_t k) {
    Dims dims = v.dims;
    dims[d] = (v.dims[d] - first + k - 1) / k;
    std::string text = "slice(" + v.name + "), slice={";
    for (std::size_t i = 0; i < dims.size(); ++i) {
      text += i > 0 ? ", [" : "[";
      text +=
          i == d ? std::to_string(first) + ":" + std::to_string(v.dims[d]) + ":" + std::to_string(k)
                 : "0:" + std::to_string(v.dims[i]);
      text += "]";
    }
    return made(dims, text + "}");
  }
  /// Each row so many times.
  Value multiplied(const Value& v, std::size_t d, std::int64_t times) {
    Dims wide = v.dims, dims = v.dims;
    wide.insert(wide.begin() + std::ptrdiff_t(d) + 1, times);
    dims[d] *= times;
    const Value w =
        made(wide, "broadcast(" + v.name + "), dimensions={" + (d == 0 ? "0,2}" : "0,1}"));
    return made(dims, "reshape(" + w.name + ")");
  }
  /// Rows of two arrays in turn.
  Value interleaved(const Value& v, const Value& w, std::size_t d) {
    Dims one = v.dims, two = v.dims, dims = v.dims;
    const auto at = std::ptrdiff_t(d) + 1;
    one.insert(one.begin() + at, 1);
    two.insert(two.begin() + at, 2);
    dims[d] *= 2;
    const Value a = made(one, "reshape(" + v.name + ")"), b = made(one, "reshape(" + w.name + ")");
    const Value both = made(two, "concatenate(" + a.name + ", " + b.name + "), dimensions={" +
                                     std::to_string(at) + "}");
    return made(dims, "reshape(" + both.name + ")");
  }
  /// Sums or maxima of `size` rows, every `stride`.
  Value windows(const Value& v, std::size_t d, std::int64_t size, std::int64_t stride,
                std::int64_t low, std::int64_t high) {
    Dims dims = v.dims;
    dims[d] = (v.dims[d] + low + high - size) / stride + 1;
    const auto along = [&](const std::string& mine, const std::string& other) {
      return d == 0 ? mine + "x" + other : other + "x" + mine;
    };
    const bool sums = dice_.below(2) == 0;
    return made(dims, "reduce-window(" + v.name + (sums ? ", nought" : ", least") +
                          "), window={size=" + along(std::to_string(size), "1") +
                          " stride=" + along(std::to_string(stride), "1") +
                          " pad=" + along(std::to_string(low) + "_" + std::to_string(high), "0_0") +
                          "}, to_apply=" + (sums ? "add" : "max"));
  }
  /// In another array's dims.
  Value fitted(Value v, const Dims& dims) {
    for (std::size_t d = 0; d < dims.size(); ++d) {
      const std::int64_t more = v.dims[d] - dims[d];
      if (more > 0) {
        const std::int64_t begin = few(more);
        v = cut(v, d, begin, begin + dims[d]);
      } else if (more < 0) {
        const std::int64_t low = few(-more);
        v = padded(v, d, low, -more - low);
      }
    }
    return v;
  }

  std::int64_t count() const { return std::int64_t(values_.size()); }

  void step() {
    const std::size_t back = std::size_t(dice_.below(std::min<std::int64_t>(3, count())));
    const Value v = values_[values_.size() - 1 - back];
    const std::size_t d = std::size_t(dice_.below(2));
    const std::int64_t n = v.dims[d], k = 1 + few(1);
    switch (dice_.below(16)) {
      case 0:
        if (n > 6) values_.push_back(cut(v, d, few(2), n - few(2)));
        return;
      case 1:
        if (n > 6) values_.push_back(padded(v, d, few(4) - 2, few(4) - 2));
        return;
      case 2:
        return values_.push_back(
            joined({repeated(cut(v, d, 0, 1), d, k), v, repeated(cut(v, d, n - 1, n), d, k)}, d));
      case 3:
        return values_.push_back(joined({cut(v, d, n - k, n), v, cut(v, d, 0, k)}, d));
      case 4:
        return values_.push_back(joined({cut(v, d, k, n), cut(v, d, 0, k)}, d));
      case 5:
        return values_.push_back(joined(
            {reversed(cut(v, d, 1, 1 + k), d), v, reversed(cut(v, d, n - 1 - k, n - 1), d)}, d));
      case 6: {
        if (n < 6 || v.dims[1 - d] < 4) return;
        const Value rows = cut(v, d, 1, n - k);
        Value inner = made(rows.dims, "negate(" + rows.name + ")");
        if (dice_.below(2) == 0) inner = cut(inner, 1 - d, 1, v.dims[1 - d] - 1);
        const std::string i = "i" + std::to_string(made_), j = "j" + std::to_string(made_);
        lines_ += i + " = s32[] constant(" + std::to_string(few(k + 1)) + ")\n" + j +
                  " = s32[] constant(" + std::to_string(few(2)) + ")\n";
        return values_.push_back(made(v.dims, "dynamic-update-slice(" + v.name + ", " + inner.name +
                                                  ", " + i + ", " + j + ")"));
      }
      case 7: {
        const std::string i = "i" + std::to_string(made_);
        lines_ += i + " = " + shape(v.dims) + " iota(), iota_dimension=" + std::to_string(d) + "\n";
        return values_.push_back(made(v.dims, "add(" + v.name + ", " + i + ")"));
      }
      case 8:
        // Half of the rows, and as many as before.
        if (n < 8 || n % 2 != 0) return;
        return values_.push_back(multiplied(picked(v, d, few(1), 2), d, 2));
      case 9: {
        if (n < 8 || n % 2 != 0) return;
        const Value even = picked(v, d, 0, 2), odd = picked(v, d, 1, 2);
        const Value sum = made(even.dims, "add(" + even.name + ", " + odd.name + ")");
        return values_.push_back(interleaved(dice_.below(2) == 0 ? sum : odd, sum, d));
      }
      case 10: {
        if (n < 8 || n % 2 != 0) return;
        const Value half = picked(v, d, few(1), 2);
        Dims dims = half.dims;
        dims[d] = n;
        const std::string by = few(1) == 0 ? "0_1_1" : "1_0_1";
        return values_.push_back(made(
            dims, "pad(" + half.name + ", n), padding=" + (d == 0 ? by + "x0_0" : "0_0x" + by)));
      }
      case 11:
        if (n > 6) values_.push_back(windows(v, d, 2 + few(2), 1, few(2), few(2)));
        return;
      case 12:
        if (n < 8 || n % 2 != 0) return;
        return values_.push_back(multiplied(windows(v, d, 3, 2, few(1), 1), d, 2));
      case 13: {
        // By more than a neighbour has.
        const std::int64_t by = 1 + few(7);
        return values_.push_back(dice_.below(2) == 0 ? padded(v, d, by, -by)
                                                     : padded(v, d, -by, by));
      }
      default: {
        const Value w = fitted(values_[std::size_t(dice_.below(count()))], v.dims);
        return values_.push_back(made(v.dims, "maximum(" + v.name + ", " + w.name + ")"));
      }
    }
  }

  Dice dice_;
  std::string sharding_, lines_;
  std::vector<Value> values_;
  int made_ = 0;
};

/// As in differential_test.cc.
std::int64_t number_from(const char* variable, std::int64_t fallback) {
  const char* text = std::getenv(variable);
  return text && *text ? std::strtoll(text, nullptr, 10) : fallback;
}

TEST(Stencils, RandomOnesGiveTheSame) {
  const std::int64_t first = number_from("SOAK_SEED", 1), count = number_from("SOAK_PROGRAMS", 300);
  std::int64_t expanded = 0;
  for (std::int64_t seed = first; seed < first + count; ++seed) {
    const RandomStencil program{std::uint64_t(seed)};
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + program.lines());
    try {
      std::unique_ptr<ir::Module> module = parse_entry(program.lines());
      spmd::propagate(module.get());
      spmd::Origins origins;
      for (const auto& c : module->computations()) {
        for (const auto& i : c->instructions()) origins[i.get()] = i.get();
      }
      expanded += spmd::expand_stencils(module.get(), {}, &origins) > 0 ? 1 : 0;
      check_partition(program.lines());
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
    }
    if (HasFailure()) return;
  }
  EXPECT_GE(expanded, count / 2);
}

}  // namespace
}  // namespace tessera::testing
