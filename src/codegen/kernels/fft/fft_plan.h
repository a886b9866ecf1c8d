// SPDX-License-Identifier: Apache-2.0
// What a Fourier transform of one length does, found once: factors, and tables of angles.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace tessera::codegen {

/// A transform of a length with small factors, of as many lines at once as a vector has elements:
/// Stockham's algorithm, by decimation in frequency, which needs no permutation of the result.
template <class T>
struct LanePlan {
  /// Lines of [radix, m, s] become [m, radix, s]: transforms along `radix`, times powers of the
  /// (radix m)-th root of one.
  struct Pass {
    std::int64_t radix = 2, m = 1, s = 1;
    std::size_t twiddles = 0;  ///< m times (radix - 1) pairs in `table`; none if m is 1
    std::size_t roots = 0;     ///< of a radix without code of its own: radix pairs in `table`
  };
  std::int64_t n = 1;
  std::vector<Pass> passes;
  std::vector<T> table;
};

/// Lengths with no larger prime factor take passes; others Bluestein's algorithm.
inline constexpr std::int64_t kMaxRadix = 64;

/// A transform along lines of one length.
///
/// Example: 1000 = 25 * 40 is too long for a vector of lines to stay in the nearest cache. Each
/// line is a matrix of 25 rows; its 40 columns are transformed, some at a time (`columns`),
/// multiplied by `twist`, and then its rows are (`rows`). 1009 is prime: by way of a convolution
/// with a chirp, it takes two transforms of 2048.
template <class T>
struct LinePlan {
  enum class Way : std::uint8_t { lanes, matrix, chirp };
  std::int64_t n = 1;
  Way way = Way::lanes;
  LanePlan<T> columns, rows;  ///< `lanes` uses only `columns`
  /// By matrix: powers of the n-th root, [columns.n][2][rows.n rounded up to kPadding].
  std::vector<T> twist;
  std::int64_t padded = 0;  ///< rows.n, rounded up
  /// By chirp: n pairs; the transform of the filter over its length, `inner->n` pairs.
  std::vector<T> chirp, filter;
  std::unique_ptr<const LinePlan> inner;
};
/// No vector has more elements.
inline constexpr std::int64_t kPadding = 16;

bool has_small_factors(std::int64_t n);
template <class T>
LanePlan<T> lane_plan(std::int64_t n);
template <class T>
LinePlan<T> line_plan(std::int64_t n);
/// e^(-2 pi i k / n), as precisely as T has it.
void root_of_one(std::int64_t k, std::int64_t n, double* re, double* im);

}  // namespace tessera::codegen
