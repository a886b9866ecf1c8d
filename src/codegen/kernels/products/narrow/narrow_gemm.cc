// SPDX-License-Identifier: Apache-2.0
// Products of narrow types, a block of both sides after the other: packed, then multiplied.
#include "src/codegen/kernels/products/narrow/narrow_gemm.h"

#include <algorithm>
#include <vector>

#include "src/codegen/kernels/loops/fused_loop.h"
#include "src/codegen/kernels/products/narrow/byte_pairs_gemm.h"
#include "src/codegen/kernels/products/narrow/narrow_panels.h"
#include "src/codegen/kernels/products/narrow/narrow_products.h"

namespace tessera::codegen {
namespace {

/// Of what is packed at a time: two columns of tiles stay in the first cache, all in the second.
constexpr std::int64_t kDeep = 16, kRows = 256, kColumns = 1024;

/// On vectors one side of integers is signed and the other isn't. With a' and b' for what they
/// are moved to, a = a' + p and b = b' - q, the sum of a b is that of a' b' and
/// p sum(b) - q sum(a) + k p q.
struct Moved {
  std::uint32_t p = 0, q = 0;
  bool any() const { return p != 0 || q != 0; }
};

/// What the sums of rows and of columns begin with.
struct Starts {
  std::vector<std::uint32_t> rows, columns;
};
Starts starts_of(const NarrowGemm& job, const Moved& moved) {
  const auto k = std::uint32_t(job.k);
  Starts out{std::vector<std::uint32_t>(std::size_t(job.m)),
             std::vector<std::uint32_t>(std::size_t(job.n))};
  if (moved.q != 0) {
    sum_lines({job.a_type, job.a, job.m, job.k, job.a_row, job.a_column}, out.rows.data());
    for (std::uint32_t& x : out.rows) x = moved.q * (k * moved.p - x);
  }
  if (moved.p != 0) {
    sum_lines({job.b_type, job.b, job.n, job.k, job.b_column, job.b_row}, out.columns.data());
    for (std::uint32_t& x : out.columns) x *= moved.p;
  }
  return out;
}

/// The panel of a's rows from m0 on and products from k0 on, or those rows as they stand.
struct RowsOfA {
  const std::byte* at;
  std::int64_t row, tile, line;
};
RowsOfA rows_of_a(const Panel& a, std::byte* scratch) {
  const std::int64_t deep = tile_depth(a.element_bytes), row = a.across_stride * a.element_bytes;
  if (a.depth_stride == 1 && a.across % kTileRows == 0 && a.depth % deep == 0 && a.flip == 0) {
    return {a.from, row, kTileRowBytes, kTileRows * row};
  }
  pack_rows_of_tiles(a, scratch);
  return {scratch, kTileRowBytes, kTileBytes, (a.depth + deep - 1) / deep * kTileBytes};
}

}  // namespace

void PackedSide::hold(const NarrowGemm& job) {
  const NarrowGemm::Whole& whole = job.whole;
  const std::int64_t deep = tile_depth(2);
  const std::int64_t along = (whole.k + deep - 1) / deep;
  const std::int64_t across = (whole.n + kTileRows - 1) / kTileRows;
  of_ = whole.b;
  line_ = along * kTileBytes;
  memory_.resize(std::size_t(across * line_ + kTileRowBytes));
  first_ = memory_.data();
  while (reinterpret_cast<std::uintptr_t>(first_) % kTileRowBytes != 0) ++first_;
  packed_.assign(std::size_t(across * along), false);
}

const std::byte* PackedSide::tiles(const NarrowGemm& job) {
  const NarrowGemm::Whole& whole = job.whole;
  if (of_ != whole.b) hold(job);
  const std::int64_t deep = tile_depth(2), along = line_ / kTileBytes;
  for (std::int64_t n = whole.n0; n < whole.n0 + job.n; n += kTileRows) {
    for (std::int64_t k = whole.k0; k < whole.k0 + job.k; k += deep) {
      const std::int64_t tile = n / kTileRows * along + k / deep;
      if (packed_[std::size_t(tile)]) continue;
      packed_[std::size_t(tile)] = true;
      pack_columns_of_tiles(
          {whole.b + 2 * (n * job.b_column + k * job.b_row), 2, std::min(kTileRows, whole.n - n),
           std::min(deep, whole.k - k), job.b_column, job.b_row, 0},
          first_ + tile * kTileBytes);
    }
  }
  return first_ + whole.n0 / kTileRows * line_ + whole.k0 / deep * kTileBytes;
}

bool has_bf16_gemm() { return bf16_instructions() != NarrowInstructions::none; }

void narrow_gemm(const NarrowGemm& job) {
  const bool floats = job.a_type == DType::bf16;
  const NarrowInstructions with = floats ? bf16_instructions() : integer_instructions();
  if (with == NarrowInstructions::none) return byte_pairs_gemm(job);
  const TileFunction multiply = tile_products(with, job.a_type, job.b_type);
  Moved moved;
  if (!floats && with == NarrowInstructions::vectors) {
    moved.p = job.a_type == DType::u8 ? 128 : 0;
    moved.q = job.b_type == DType::s8 ? 128 : 0;
  }
  const Starts starts = moved.any() ? starts_of(job, moved) : Starts();
  const int bytes = floats ? 2 : 1;
  const std::int64_t deep = kDeep * tile_depth(bytes);
  const auto panel_of_a = [&](std::int64_t m0, std::int64_t k0) {
    return Panel{job.a + (m0 * job.a_row + k0 * job.a_column) * bytes,
                 bytes,
                 std::min(kRows, job.m - m0),
                 std::min(deep, job.k - k0),
                 job.a_row,
                 job.a_column,
                 std::uint8_t(moved.p)};
  };
  const auto panel_of_b = [&](std::int64_t n0, std::int64_t k0) {
    return Panel{job.b + (k0 * job.b_row + n0 * job.b_column) * bytes,
                 bytes,
                 std::min(kColumns, job.n - n0),
                 std::min(deep, job.k - k0),
                 job.b_column,
                 job.b_row,
                 std::uint8_t(moved.q)};
  };
  const ScratchMemory of_a(std::size_t(packed_bytes(panel_of_a(0, 0))));
  const bool holds = job.held != nullptr && job.whole.b != nullptr &&
                     job.whole.n0 % kTileRows == 0 && job.whole.k0 % tile_depth(2) == 0;
  const ScratchMemory of_b(holds ? 0 : std::size_t(packed_bytes(panel_of_b(0, 0))));
  const std::byte* const held = holds ? job.held->tiles(job) : nullptr;
  const TileScope tiles(with);
  for (std::int64_t n0 = 0; n0 < job.n; n0 += kColumns) {
    for (std::int64_t k0 = 0; k0 < job.k; k0 += deep) {
      const Panel b = panel_of_b(n0, k0);
      const std::int64_t along = (b.depth + tile_depth(bytes) - 1) / tile_depth(bytes);
      const std::int64_t b_line = holds ? job.held->line() : along * kTileBytes;
      const std::byte* columns = of_b.data();
      if (holds) {
        columns = held + n0 / kTileRows * b_line + k0 / tile_depth(bytes) * kTileBytes;
      } else {
        pack_columns_of_tiles(b, of_b.data());
      }
      for (std::int64_t m0 = 0; m0 < job.m; m0 += kRows) {
        const Panel a = panel_of_a(m0, k0);
        const RowsOfA rows = rows_of_a(a, of_a.data());
        multiply({rows.at, columns, a.across, b.across, along,
                  job.c + (job.c_is_bf16 ? 2 : 4) * (m0 * job.c_row + n0), job.c_row,
                  job.accumulate || k0 > 0, job.c_is_bf16, rows.row, rows.tile, rows.line, b_line,
                  moved.any() ? starts.rows.data() + m0 : nullptr,
                  moved.any() ? starts.columns.data() + n0 : nullptr});
      }
    }
  }
}

}  // namespace tessera::codegen
