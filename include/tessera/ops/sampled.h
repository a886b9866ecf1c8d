// SPDX-License-Identifier: Apache-2.0
// Sampled functions: differences, integrals, interpolation, convolution, polynomials.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
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
/// Quotient and remainder of polynomials u [M] and v [N]: [max(M - N + 1, 1)] and, with zeros in
/// front, [M].
/// @param u  The dividend.
/// @param v  The divisor, with v[0] not 0.
/// @param trim_leading_zeros  Leave out leading coefficients of the remainder that are 0 up to
///   rounding (the square root of the dtype's eps).
/// @throws ShapeError if they aren't vectors with elements.
/// @throws TracerError if zeros are to be trimmed in a trace.
std::pair<Array, Array> polydiv(Operand u, Operand v, bool trim_leading_zeros = false);
/// Coefficients of the polynomial with these zeros, or with the eigenvalues of a square matrix as
/// zeros, highest power (1) first: [N] -> [N + 1], [N, N] -> [N + 1].
/// @throws ShapeError for other shapes.
Array poly(Operand zeros);
/// The zeros of a polynomial, complex, as eigenvalues of its companion matrix: [N] -> [N - 1].
/// @param p  Coefficients, highest power first.
/// @param strip_zeros  Leave out leading coefficients that are 0, which traces don't allow; else
///   each of them makes the last zero NaN.
/// @throws ShapeError if p isn't a vector.
/// @throws TracerError if p is traced and zeros are to be stripped.
Array roots(Operand p, bool strip_zeros = true);

/// Options of `polyfit`.
struct PolyfitOptions {
  /// Singular values below this times the greatest count as 0; by default N times the dtype's eps.
  std::optional<double> rcond{};
  /// Weights of the samples, [N].
  std::optional<Array> w{};
};
/// Coefficients of the polynomial of degree `degree` with the least squared differences from
/// samples, highest power first: x [N], y [N] -> [degree + 1]; y [N, K] -> [degree + 1, K].
/// @throws ValueError if the degree is negative.
/// @throws ShapeError if x isn't a vector with elements, or y or the weights don't fit it.
Array polyfit(Operand x, Operand y, std::int64_t degree, const PolyfitOptions& options = {});
/// What `polyfit_full` gives.
struct PolyfitResult {
  Array coefficients;  ///< as `polyfit`
  Array residuals;     ///< [1] or [K]: sums of squared differences, weighted
  Array rank;          ///< of the system of equations (s32)
  Array s;             ///< its singular values, columns scaled to length 1: [degree + 1]
  double rcond = 0;    ///< that was used
};
/// `polyfit` and how well the system of equations is determined.
PolyfitResult polyfit_full(Operand x, Operand y, std::int64_t degree,
                           const PolyfitOptions& options = {});
/// `polyfit` and the coefficients' covariances: [degree + 1, degree + 1], or [.., .., K].
/// @param x  Positions.
/// @param y  Samples.
/// @param degree  The degree.
/// @param options  As of `polyfit`.
/// @param scaled  Multiply by the residuals over N - degree - 1; else the weights are taken to be
///   inverse standard deviations.
/// @throws ValueError if scaled with no more samples than coefficients.
std::pair<Array, Array> polyfit_cov(Operand x, Operand y, std::int64_t degree,
                                    const PolyfitOptions& options = {}, bool scaled = true);

}  // namespace tessera
