// SPDX-License-Identifier: Apache-2.0
// Matrix products of 8-bit integers with 32-bit sums, as quantised networks have them, and of bf16
// with sums in f32, by the instructions that are made for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <tessera/dtype.h>

namespace tessera::codegen {

class PackedSide;

/// c[m, n] = the sum over k of a[m, k] b[k, n]: modulo 2^32 for integers; for bf16 in f32, numbers
/// below its normal ones taken as zero, as the instructions do. Strides are in elements; one of
/// each side's is 1, and rows of c are contiguous.
struct NarrowGemm {
  DType a_type = DType::s8, b_type = DType::s8;  ///< s8 and u8 in any pairing, or both bf16
  const std::byte* a = nullptr;
  const std::byte* b = nullptr;
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_row = 0, a_column = 1;
  std::int64_t b_row = 0, b_column = 1;
  std::byte* c = nullptr;  ///< s32, f32 or bf16
  std::int64_t c_row = 0;
  bool accumulate = false;  ///< to f32 alone: what c holds is added
  bool c_is_bf16 = false;   ///< of bf16: sums are rounded. For k up to kMostRounded
  /// Of bf16: the matrix of which b is rows from k0 on and columns from n0 on. A PackedSide keeps
  /// it packed. Of the products that are left out some may be made after all, up to whole tiles.
  struct Whole {
    const std::byte* b = nullptr;
    std::int64_t n = 0, k = 0, n0 = 0, k0 = 0;
  };
  Whole whole = {};
  PackedSide* held = nullptr;
};
inline constexpr std::int64_t kMostRounded = 512;

/// The second side of products with many blocks of rows: what of it is read is packed once, while
/// no one writes to it. Calls of products of bf16 may be given one (KernelCall::kept).
class PackedSide {
 public:
  /// Its tiles in these ranges of `job.whole`, and how far apart columns of tiles are.
  const std::byte* tiles(const NarrowGemm& job);
  std::int64_t line() const { return line_; }

 private:
  void hold(const NarrowGemm& job);

  const std::byte* of_ = nullptr;
  std::int64_t line_ = 0;
  std::vector<std::byte> memory_;
  std::byte* first_ = nullptr;  ///< in memory_, at the begin of a line of the cache
  std::vector<bool> packed_;    ///< by tile
};

/// Whether this machine has such instructions for bf16. Integers are multiplied without as well.
bool has_bf16_gemm();
void narrow_gemm(const NarrowGemm& job);

}  // namespace tessera::codegen
