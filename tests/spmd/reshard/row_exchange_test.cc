// SPDX-License-Identifier: Apache-2.0
// Row exchanges of many devices are planned in runs: the same as piece by piece.
#include "src/spmd/reshard/row_exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "src/ir/hlo/hlo_text.h"
#include "src/spmd/reshard/by_coordinate.h"
#include "tests/spmd/partitioner/partition_case.h"

namespace tessera::spmd {
namespace {

Dims listed(const ByCoordinate& numbers) {
  Dims out;
  for (std::int64_t c = 0; c < numbers.size(); ++c) out.push_back(numbers[std::size_t(c)]);
  return out;
}

struct Random {
  std::mt19937 bits;
  std::int64_t operator()(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(bits);
  }
};

ByCoordinate random_numbers(Random& any, std::int64_t size) {
  ByCoordinate out;
  while (out.size() < size) {
    out.append(any(1, std::min<std::int64_t>(size - out.size(), 5)), any(-4, 4), any(-2, 2));
  }
  return out;
}

TEST(ByCoordinate, IsTheListOfItsNumbers) {
  Random any{std::mt19937(1)};
  for (int round = 0; round < 2000; ++round) {
    const std::int64_t size = any(1, 12), k = any(-5, 5);
    const ByCoordinate a = random_numbers(any, size), b = random_numbers(any, size);
    const Dims x = listed(a), y = listed(b);
    EXPECT_EQ(ByCoordinate(x), a);
    EXPECT_EQ(a == b, x == y);
    EXPECT_EQ(a.least(), *std::min_element(x.begin(), x.end()));
    EXPECT_EQ(a.greatest(), *std::max_element(x.begin(), x.end()));
    EXPECT_EQ(a.count(k), std::count(x.begin(), x.end(), k));
    EXPECT_EQ(a.is_sorted(), std::is_sorted(x.begin(), x.end()));
    const auto expect = [&](const ByCoordinate& found, auto f) {
      ByCoordinate each;
      for (std::size_t c = 0; c < x.size(); ++c) each.push_back(f(x[c], y[c]));
      EXPECT_EQ(listed(found), listed(each));
      EXPECT_EQ(found, each) << "in other pieces";
    };
    expect(a + b, [](auto p, auto q) { return p + q; });
    expect(a.plus(k), [&](auto p, auto) { return p + k; });
    expect(a.times(k), [&](auto p, auto) { return p * k; });
    expect(least_of(a, b), [](auto p, auto q) { return std::min(p, q); });
    expect(greatest_of(a, b), [](auto p, auto q) { return std::max(p, q); });
    std::vector<ByCoordinate::Range> ranges;
    Dims covered(std::size_t(size), k);
    for (int r = 0; r < 3; ++r) {
      const std::int64_t first = any(0, size), last = any(0, size), value = any(-2, 2);
      ranges.push_back({first, last, value});
      for (std::int64_t c = first; c < last; ++c) covered[std::size_t(c)] = value;
    }
    EXPECT_EQ(ByCoordinate::of_ranges(size, k, ranges), ByCoordinate(covered));
    const std::int64_t step = any(-6, 6), divisor = any(1, 4);
    const ByCoordinate quotients = ByCoordinate::quotients(size, k, step, divisor);
    for (std::int64_t c = 0; c < size; ++c) {
      EXPECT_EQ(quotients[std::size_t(c)], ceil_div(k + step * c, divisor));
    }
  }
}

/// The same exchange, from its pieces.
RowExchangePlan by_pieces(const std::vector<RowSource>& parts, const Dims& begin, std::int64_t size,
                          std::int64_t block) {
  std::vector<RowRun> pieces;
  const auto ways = std::int64_t(begin.size());
  for (const RowSource& part : parts) {
    for (std::int64_t c = 0; c < ways; ++c) {
      const auto at = std::size_t(c);
      const std::int64_t low = std::max<std::int64_t>(part.lo[at], 0),
                         high = std::min(part.hi[at], size), start = part.start[at];
      for (std::int64_t d = 0; d < ways; ++d) {
        const std::int64_t from = begin[std::size_t(d)];
        const std::int64_t lo = std::max(low, from), hi = std::min(high, from + block);
        if (lo < hi) {
          pieces.push_back({c, d, lo - start, lo - from, hi - lo, part.array, part.rows});
        }
      }
    }
  }
  return plan_pieces(pieces, ways, block);
}

std::string text(const RowExchangePlan& plan, bool stays) {
  std::string out = std::to_string(plan.block) + " " + std::to_string(plan.rows_received) + " " +
                    std::to_string(plan.rows_moved) + " " + std::to_string(plan.permutes);
  for (const RowPermute& m : plan.moves) {
    if (!m.travels && !stays) continue;
    out += "\n" + std::to_string(m.travels) + " " + std::to_string(m.rows);
    for (const ByCoordinate* list : {&m.array, &m.target, &m.cut, &m.place, &m.lo, &m.hi}) {
      out += " |";
      for (const std::int64_t n : listed(*list)) out += " " + std::to_string(n);
    }
  }
  return out;
}

TEST(RowExchange, RunsAreWhatPiecesAre) {
  Random any{std::mt19937(2)};
  for (int round = 0; round < 3000; ++round) {
    const std::int64_t ways = any(1, 14), size = any(1, 60), block = ceil_div(size, ways);
    std::vector<RowSource> parts;
    const std::int64_t count = any(1, 3);
    for (std::int64_t k = 0; k < count; ++k) {
      const bool spread = any(0, 3) == 0;
      RowSource part = spread ? spread_part(ways, any(1, size), any(-3, 3), any(0, 2), size)
                              : block_part(ways, size, any(0, 2) == 0 ? any(1, 9) : block);
      if (any(0, 1) == 0) {
        const std::int64_t by = any(-size, size);
        for (ByCoordinate* list : {&part.start, &part.lo, &part.hi}) *list = list->plus(by);
        // Parts don't overlap, as a rule, but plans needn't know.
        part.lo = part.lo.at_least(any(0, size / 2));
      }
      part.array = std::size_t(k);
      parts.push_back(std::move(part));
    }
    const std::int64_t apart = any(0, 2) == 0 ? any(1, 2 * block) : block,
                       window = any(1, 2 * block), first = any(-block, block);
    const ByCoordinate begin = ByCoordinate::line(ways, first, apart);
    const RowExchangePlan plan = plan_windows(parts, begin, size, window);
    EXPECT_EQ(text(plan, count == 1),
              text(by_pieces(parts, listed(begin), size, window), count == 1))
        << "round " << round;
  }
}

/// Of each row of a target: which array's row of which source comes there.
using Origin = std::array<std::int64_t, 3>;
using Landed = std::map<std::pair<std::int64_t, std::int64_t>, Origin>;

Landed landed(const RowExchangePlan& plan) {
  Landed out;
  for (const RowPermute& m : plan.moves) {
    Dims source = listed(ByCoordinate::line(m.lo.size(), 0, 1));
    if (m.travels) {
      source.assign(source.size(), -1);
      for (std::int64_t s = 0; s < m.target.size(); ++s) {
        const std::int64_t t = m.target[std::size_t(s)];
        if (t < 0) continue;
        EXPECT_EQ(source[std::size_t(t)], -1) << "two sources of " << t;
        source[std::size_t(t)] = s;
      }
    }
    for (std::int64_t t = 0; t < m.lo.size(); ++t) {
      const auto at = std::size_t(t);
      for (std::int64_t row = m.lo[at]; row < m.hi[at]; ++row) {
        const std::int64_t s = source[at];
        EXPECT_GE(s, 0);
        const std::int64_t cut = m.cut[std::size_t(s)] + row - m.place[at];
        EXPECT_LT(cut - m.cut[std::size_t(s)], m.rows);
        EXPECT_GE(cut, m.cut[std::size_t(s)]);
        EXPECT_TRUE(out.emplace(std::pair(t, row), Origin{m.array[std::size_t(s)], s, cut}).second);
      }
    }
  }
  return out;
}

RowSource reversed_part(std::int64_t ways, std::int64_t size) {
  RowSource part;
  const std::int64_t block = ceil_div(size, ways);
  part.rows = block;
  part.start = ByCoordinate::line(ways, size - block, -block);
  part.lo = part.start.at_least(0);
  part.hi = part.start.plus(block).at_least(0);
  return part;
}

TEST(RowExchange, ManyDevicesGetTheirRows) {
  Random any{std::mt19937(3)};
  int as_good = 0, rounds = 300;
  for (int round = 0; round < rounds; ++round) {
    const std::int64_t ways = any(65, 100), block = any(1, 6) * 2;
    std::vector<RowSource> parts;
    std::int64_t size = 0;
    const std::int64_t count = any(1, 3), first = any(-4, 4);
    for (std::int64_t k = 0; k < count; ++k) {
      const std::int64_t rows = ways * block - (any(0, 3) == 0 ? any(0, block) : 0);
      RowSource part =
          count == 1 && any(0, 3) == 0 ? reversed_part(ways, rows) : block_part(ways, rows, block);
      for (ByCoordinate* list : {&part.start, &part.lo, &part.hi}) *list = list->plus(size + first);
      part.array = std::size_t(k);
      parts.push_back(std::move(part));
      size += rows;
    }
    size = any(0, 1) == 0 ? size : any(1, 2 * size);
    const std::int64_t to = ceil_div(size, ways);
    const RowExchangePlan plan = plan_row_exchange(parts, ways, size, to);
    const RowExchangePlan other =
        by_pieces(parts, listed(ByCoordinate::line(ways, 0, to)), size, to);
    EXPECT_EQ(landed(plan), landed(other)) << "round " << round;
    as_good += plan.rows_moved <= other.rows_moved ? 1 : 0;
    EXPECT_LE(plan.rows_received, plan.rows_moved);
  }
  EXPECT_EQ(as_good, rounds);
}

TEST(RowExchange, ManyDevicesAreAFewPieces) {
  const std::int64_t ways = 65536, block = 16;
  const RowExchangePlan halo =
      plan_windows({block_part(ways, ways * block, block)}, ByCoordinate::line(ways, -1, block),
                   ways * block, block + 2);
  ASSERT_EQ(halo.moves.size(), 3u);
  EXPECT_EQ(halo.permutes, 2);
  EXPECT_EQ(halo.rows_received, 2);
  for (const RowPermute& m : halo.moves) {
    for (const ByCoordinate* list : {&m.array, &m.target, &m.cut, &m.place, &m.lo, &m.hi}) {
      EXPECT_LE(list->pieces().size(), 4u);
    }
  }
  EXPECT_EQ(halo.moves[1].target[0], 1);
  EXPECT_EQ(halo.moves[1].target[std::size_t(ways) - 1], -1);
  EXPECT_EQ(halo.moves[2].target[0], -1);
  EXPECT_EQ(halo.moves[2].target[std::size_t(ways) - 1], ways - 2);
}

/// On so many devices, arrays split along their first dim.
void check_on(std::int64_t devices, std::string entry) {
  const std::string n = std::to_string(devices);
  const std::string split = "{devices=[" + n + ",1]<=[" + n + "]}";
  for (std::size_t at; (at = entry.find("SPLIT")) != std::string::npos;)
    entry.replace(at, 5, split);
  testing::check_partition(ir::parse_hlo("HloModule many, num_partitions=" + n + "\n" + entry));
}

TEST(RowExchange, RowsOfManyDevicesAreRight) {
  check_on(128, R"(ENTRY main {
  x = f32[512,2] parameter(0), sharding=SPLIT
  y = f32[512,2] parameter(1), sharding=SPLIT
  seven = f32[] constant(7)
  joined = f32[1024,2] concatenate(x, y), dimensions={0}, sharding=SPLIT
  padded = f32[1024,2] pad(x, seven), padding=5_507x0_0, sharding=SPLIT
  turned = f32[512,2] reverse(y), dimensions={0}, sharding=SPLIT
  half = f32[256,2] slice(x), slice={[3:259], [0:2]}, sharding=SPLIT
  tail = f32[509,2] slice(x), slice={[3:512], [0:2]}
  head = f32[3,2] slice(x), slice={[0:3], [0:2]}
  rolled = f32[512,2] concatenate(tail, head), dimensions={0}, sharding=SPLIT
  ROOT all = (f32[1024,2], f32[1024,2], f32[512,2], f32[256,2], f32[512,2])
    tuple(joined, padded, turned, half, rolled), sharding={SPLIT, SPLIT, SPLIT, SPLIT, SPLIT}
})");
}

TEST(RowExchange, WhatDiffersAtTheEndsOfManyDevicesIsComputed) {
  check_on(1100, R"(most {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b)
}
ENTRY main {
  x = f32[2200,1] parameter(0), sharding=SPLIT
  least = f32[] constant(-inf)
  ROOT y = f32[2200,1] reduce-window(x, least), window={size=4x1 pad=2_1x0_0}, to_apply=most, sharding=SPLIT
})");
}

}  // namespace
}  // namespace tessera::spmd
