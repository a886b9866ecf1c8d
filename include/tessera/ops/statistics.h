// SPDX-License-Identifier: Apache-2.0
// Statistics: quantiles, averages, covariances, and reductions that leave out NaN.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include <tessera/array.h>
#include <tessera/ops/reductions.h>

/// @file
/// Statistics, as in numpy. Axes are those of reductions.h: without any, all dimensions; integers
/// become f32 where the result isn't an element. All messages name the caller's line.

namespace tessera {

/// How `quantile` chooses between the two elements next to a quantile.
enum class QuantileMethod : std::uint8_t {
  linear,        ///< interpolates linearly
  lower,         ///< the smaller element
  higher,        ///< the larger element
  midpoint,      ///< their mean
  nearest,       ///< the nearer one
  inverted_cdf,  ///< the first at which the (weighted) share of elements reaches q
};
/// Options of `quantile` and its kin.
struct QuantileOptions {
  /// See QuantileMethod.
  QuantileMethod method = QuantileMethod::linear;
  /// Keep reduced dimensions, with size 1.
  bool keepdims = false;
  /// Weights of the elements, of x's shape or with the shape of the reduced axes; only for
  /// QuantileMethod::inverted_cdf. Negative or NaN weights give NaN.
  std::optional<Array> weights{};
};
/// The q-quantile along `axes`, q in [0, 1]: x [..] -> x's shape without the axes, and with q [Q]
/// that with Q in front. NaN if an element is NaN.
/// @throws ShapeError if q has rank 2 or more, or weights don't fit.
/// @throws ValueError for weights with another method, or an axis that is out of range.
/// @throws DTypeError for complex numbers.
Array quantile(Operand x, Operand q, Axes axes = {}, const QuantileOptions& options = {});
/// `quantile` of q / 100.
Array percentile(Operand x, Operand q, Axes axes = {}, const QuantileOptions& options = {});
/// The median along `axes`: the middle element, or the mean of the two middle ones.
Array median(Operand x, Axes axes = {}, bool keepdims = false);
/// `quantile` of the elements that aren't NaN; NaN if there are none.
Array nanquantile(Operand x, Operand q, Axes axes = {}, const QuantileOptions& options = {});
/// `percentile` of the elements that aren't NaN; NaN if there are none.
Array nanpercentile(Operand x, Operand q, Axes axes = {}, const QuantileOptions& options = {});
/// `median` of the elements that aren't NaN; NaN if there are none.
Array nanmedian(Operand x, Axes axes = {}, bool keepdims = false);

/// Options of `average`.
struct AverageOptions {
  /// Weights, of x's shape or with the shape of the averaged axes; all 1 by default.
  std::optional<Array> weights{};
  /// Keep reduced dimensions, with size 1.
  bool keepdims = false;
};
/// Weighted mean along `axes`.
/// @throws ShapeError if the weights don't fit.
Array average(Operand x, Axes axes = {}, const AverageOptions& options = {});
/// `average` and the sums of the weights, of its shape (numpy's `returned`).
std::pair<Array, Array> average_and_weights(Operand x, Axes axes = {},
                                            const AverageOptions& options = {});
/// Largest minus smallest element along `axes`.
Array ptp(Operand x, Axes axes = {}, bool keepdims = false);

/// Options of `cov`.
struct CovOptions {
  /// More variables, as rows of their own.
  std::optional<Array> y{};
  /// Whether rows are variables and columns samples; else the other way round.
  bool rowvar = true;
  /// Divide by the number of samples, not by one less.
  bool bias = false;
  /// Divide by the number of samples minus this; by default what `bias` says.
  std::optional<std::int64_t> ddof{};
  /// Integer number of times that each sample counts.
  std::optional<Array> fweights{};
  /// Weights of samples.
  std::optional<Array> aweights{};
};
/// Covariances of variables: x [V, N] -> [V, V], a vector -> [].
/// @throws ShapeError for rank 3 or more, or weights that aren't a vector of N.
/// @throws DTypeError if `fweights` aren't integers.
Array cov(Operand x, const CovOptions& options = {});
/// Correlation coefficients of variables, in [-1, 1]: x [V, N] -> [V, V], a vector -> [].
Array corrcoef(Operand x, const std::optional<Array>& y = {}, bool rowvar = true);

/// `sum` of the elements that aren't NaN.
Array nansum(Operand x, Axes axes = {}, const ReduceOptions& options = {});
/// `prod` of the elements that aren't NaN.
Array nanprod(Operand x, Axes axes = {}, const ReduceOptions& options = {});
/// `mean` of the elements that aren't NaN; NaN if there are none.
Array nanmean(Operand x, Axes axes = {}, const ReduceOptions& options = {});
/// `var` of the elements that aren't NaN; NaN if there are no more than `ddof`.
Array nanvar(Operand x, Axes axes = {}, const VarOptions& options = {});
/// Square root of `nanvar`.
Array nanstd(Operand x, Axes axes = {}, const VarOptions& options = {});
/// `max` of the elements that aren't NaN; NaN if there are none.
Array nanmax(Operand x, Axes axes = {}, const ExtremeOptions& options = {});
/// `min` of the elements that aren't NaN; NaN if there are none.
Array nanmin(Operand x, Axes axes = {}, const ExtremeOptions& options = {});
/// `argmax` of the elements that aren't NaN; -1 if there are none.
Array nanargmax(Operand x, std::optional<std::int64_t> axis = {}, bool keepdims = false);
/// `argmin` of the elements that aren't NaN; -1 if there are none.
Array nanargmin(Operand x, std::optional<std::int64_t> axis = {}, bool keepdims = false);
/// `cumsum` with NaN counting as 0.
Array nancumsum(Operand x, std::optional<std::int64_t> axis = {});
/// `cumprod` with NaN counting as 1.
Array nancumprod(Operand x, std::optional<std::int64_t> axis = {});

}  // namespace tessera
