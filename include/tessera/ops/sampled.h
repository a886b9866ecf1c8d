// SPDX-License-Identifier: Apache-2.0
// Sampled functions: differences, integrals, interpolation, convolution, polynomials.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <tessera/array.h>
#include <tessera/ops/reductions.h>

/// @file
/// Sampled functions and polynomials, as in numpy. Integers become f32 unless stated otherwise.
/// All messages name the caller's line.

namespace tessera {

/// Options of `diff`.
struct DiffOptions {
  /// What stands before and after x along the axis: an array, or a scalar for one element.
  std::optional<Array> prepend{}, append{};
};
/// n-th differences of neighbours along an axis, which becomes shorter by n. Keeps x's dtype; of
/// pred, whether they differ.
/// @throws ValueError if n is negative.
/// @throws ShapeError for scalars.
Array diff(Operand x, std::int64_t n = 1, std::int64_t axis = -1, const DiffOptions& options = {});
/// Differences of neighbours in the flattened array, after `to_begin` and before `to_end`. Keeps
/// x's dtype.
Array ediff1d(Operand x, const std::optional<Array>& to_end = {},
              const std::optional<Array>& to_begin = {});
/// Derivatives along `axes` by central differences, and one-sided ones at the ends: one array of
/// x's shape for each axis.
/// @param spacing  Distances of the samples (scalars), or their positions (vectors): one for all
///   axes, or one for each; 1 by default.
/// @throws ShapeError if an axis has fewer than 2 elements, or positions don't fit.
/// @throws ValueError for another number of spacings.
std::vector<Array> gradient(Operand x, const std::vector<Array>& spacing = {}, Axes axes = {});
/// Integral along an axis by the trapezoidal rule, for samples at distances of dx.
Array trapezoid(Operand y, double dx = 1, std::int64_t axis = -1);
/// The same for samples at positions x, a vector or of y's shape.
Array trapezoid_at(Operand y, Operand x, std::int64_t axis = -1);

/// Options of `interp`.
struct InterpOptions {
  /// Values beyond the first and the last point; by default those of these points.
  std::optional<Array> left{}, right{};
  /// Continue the first and the last line instead.
  bool extrapolate_left = false, extrapolate_right = false;
  /// Period of the points' positions, which then may be in any order.
  std::optional<double> period{};
};
/// Piecewise linear interpolation at x, of any shape, of points (xp, fp): vectors of one size, with
/// ascending xp.
/// @throws ShapeError if xp and fp aren't such vectors.
Array interp(Operand x, Operand xp, Operand fp, const InterpOptions& options = {});

/// The part of a convolution that `convolve` and `correlate` give.
enum class ConvolveMode : std::uint8_t {
  full,   ///< wherever the vectors overlap: sizes M and N give M + N - 1
  same,   ///< the middle of that, of the larger size
  valid,  ///< where one vector covers the other: |M - N| + 1
};
/// Convolution of two vectors.
/// @throws ShapeError if they aren't vectors with elements.
Array convolve(Operand a, Operand v, ConvolveMode mode = ConvolveMode::full);
/// Cross-correlation of two vectors, with the conjugate of v.
/// @throws ShapeError if they aren't vectors with elements.
Array correlate(Operand a, Operand v, ConvolveMode mode = ConvolveMode::valid);

/// Value at x of the polynomial with coefficients p [N], highest power first; of several, p [N,
/// ..]. Keeps the promoted dtype.
/// @throws ShapeError if p is a scalar.
Array polyval(Operand p, Operand x);
/// Sum of polynomials. Keeps the promoted dtype.
/// @throws ShapeError if they aren't vectors with elements.
Array polyadd(Operand a, Operand b);
/// Difference of polynomials. Keeps the promoted dtype.
/// @throws ShapeError if they aren't vectors with elements.
Array polysub(Operand a, Operand b);
/// Product of polynomials.
/// @throws ShapeError if they aren't vectors with elements.
Array polymul(Operand a, Operand b);
/// m-th derivative of a polynomial.
/// @throws ValueError if m is negative.
/// @throws ShapeError if p isn't a vector.
Array polyder(Operand p, std::int64_t m = 1);
/// m-th integral of a polynomial, with m constants of integration, or one for all; 0 by default.
/// @throws ValueError if m is negative.
/// @throws ShapeError if p or the constants aren't such vectors.
Array polyint(Operand p, std::int64_t m = 1, const std::optional<Array>& constants = {});

}  // namespace tessera
