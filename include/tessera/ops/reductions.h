// SPDX-License-Identifier: Apache-2.0
// Reductions along dimensions, and prefix sums.
#pragma once

#include <optional>
#include <vector>

#include <tessera/array.h>
#include <tessera/detail/axes.h>

/// @file
/// Reductions along dimensions, as in numpy.
///
/// x [d0, d1, ..] -> x's shape without the reduced dimensions; with `keepdims` they stay, with size
/// 1. Without axes all dimensions are reduced, to a scalar; an empty list reduces none. Sums and
/// products of f16 and bf16 accumulate in f32 and are rounded once. The order of summation is
/// unspecified, so the last bits of floating-point results may depend on the sharding.
///
/// @throws ValueError if an axis is out of range or given twice.
///
/// All messages name the caller's line.

namespace tessera {

/// Options of `sum`, `prod` and `mean`.
struct ReduceOptions {
  /// Keep reduced dimensions, with size 1.
  bool keepdims = false;
  /// Dtype of the result, to which elements are converted first. By default pred and signed
  /// integers of fewer than 32 bits become s32, such unsigned ones u32, and other dtypes stay
  /// (`mean`: integers become f32).
  std::optional<DType> dtype{};
  /// Only the elements count for which this is true: it broadcasts to the array's shape.
  std::optional<Array> where{};
  /// A scalar that is added to the sum or multiplied with the product; `mean` has none.
  std::optional<Array> initial{};
};

/// Sum of the elements along `axes`; 0 if there are none.
/// @code
/// sum(x);                             // all elements
/// sum(x, -1);                         // the last dimension
/// sum(x, {0, 1}, {.keepdims = true});
/// @endcode
Array sum(Operand x, Axes axes = {}, const ReduceOptions& options = {});
/// Product of the elements along `axes`; 1 if there are none.
Array prod(Operand x, Axes axes = {}, const ReduceOptions& options = {});
/// Arithmetic mean along `axes`; NaN if there are no elements. Integers become f32; f16 and bf16
/// are computed in f32.
Array mean(Operand x, Axes axes = {}, const ReduceOptions& options = {});
/// Options of `var` and `stddev`.
struct VarOptions {
  /// Keep reduced dimensions, with size 1.
  bool keepdims = false;
  /// Delta degrees of freedom: the sum of squares of n elements is divided by n - ddof. NaN if that
  /// isn't positive.
  double ddof = 0;
  /// Only the elements count for which this is true: it broadcasts to the array's shape.
  std::optional<Array> where{};
};
/// Variance along `axes`: the mean of |x - mean(x)|^2, in two passes. The result is real; integers
/// become f32; f16 and bf16 are computed in f32.
Array var(Operand x, Axes axes = {}, const VarOptions& options = {});
/// Standard deviation: the square root of `var`.
Array stddev(Operand x, Axes axes = {}, const VarOptions& options = {});
/// Same as `stddev`, under numpy's name. After `using namespace tessera;` an unqualified `std(x)`
/// is ambiguous with namespace std: write `stddev(x)` or `tessera::std(x)`.
Array std(Operand x, Axes axes = {}, const VarOptions& options = {});
/// Largest element along `axes`; NaN if one is among them.
/// @throws ValueError if there are no elements.
/// @throws DTypeError for complex numbers.
Array max(Operand x, Axes axes = {}, bool keepdims = false);
/// Smallest element along `axes`; NaN if one is among them.
/// @throws ValueError if there are no elements.
/// @throws DTypeError for complex numbers.
Array min(Operand x, Axes axes = {}, bool keepdims = false);
/// Options of `max` and `min`.
struct ExtremeOptions {
  /// Keep reduced dimensions, with size 1.
  bool keepdims = false;
  /// Only the elements count for which this is true: it broadcasts to the array's shape. Needs
  /// `initial`.
  std::optional<Array> where{};
  /// A scalar that counts as one more element; with it there may be no others.
  std::optional<Array> initial{};
};
/// `max` of some elements, or of at least a number.
/// @code
/// max(x, 1, {.where = x < 10, .initial = 0});
/// @endcode
/// @throws ValueError if there are no elements, or with `where`, and no `initial`.
Array max(Operand x, Axes axes, const ExtremeOptions& options);
/// `min` of some elements, or of at most a number.
/// @throws ValueError if there are no elements, or with `where`, and no `initial`.
Array min(Operand x, Axes axes, const ExtremeOptions& options);
/// True if any element along `axes` is nonzero; returns pred. False if there are none.
Array any(Operand x, Axes axes = {}, bool keepdims = false);
/// True if all elements along `axes` are nonzero; returns pred. True if there are none.
Array all(Operand x, Axes axes = {}, bool keepdims = false);
/// Options of `any` and `all`.
struct WhereOptions {
  /// Keep reduced dimensions, with size 1.
  bool keepdims = false;
  /// Only the elements count for which this is true: it broadcasts to the array's shape.
  std::optional<Array> where{};
};
/// `any` of some elements.
Array any(Operand x, Axes axes, const WhereOptions& options);
/// `all` of some elements.
Array all(Operand x, Axes axes, const WhereOptions& options);
/// Index (s32) of the first largest element along `axis`, or in the flattened array without one.
/// NaN counts as largest.
/// @throws ValueError if there are no elements.
/// @throws DTypeError for complex numbers.
Array argmax(Operand x, std::optional<std::int64_t> axis = {}, bool keepdims = false);
/// Index (s32) of the first smallest element along `axis`, or in the flattened array without one.
/// NaN counts as smallest.
/// @throws ValueError if there are no elements.
/// @throws DTypeError for complex numbers.
Array argmin(Operand x, std::optional<std::int64_t> axis = {}, bool keepdims = false);
/// log(sum(exp(x))) along `axes` without intermediate overflow. Integers become f32. Not defined
/// for complex numbers or empty ranges.
Array logsumexp(Operand x, Axes axes = {}, bool keepdims = false);
/// Number (s32) of nonzero elements along `axes`.
Array count_nonzero(Operand x, Axes axes = {}, bool keepdims = false);
/// Prefix sum along `axis`, of x's shape; without an axis, of the flattened array. Unlike `sum` it
/// keeps x's dtype (pred becomes s32).
Array cumsum(Operand x, std::optional<std::int64_t> axis = {});
/// Prefix product along `axis`, as `cumsum`.
Array cumprod(Operand x, std::optional<std::int64_t> axis = {});
/// Largest element so far along `axis`, of x's shape; without an axis, of the flattened array. NaN
/// from the first NaN on. Not defined for complex numbers.
Array cummax(Operand x, std::optional<std::int64_t> axis = {});
/// Smallest element so far, as `cummax`.
Array cummin(Operand x, std::optional<std::int64_t> axis = {});
/// log(cumsum(exp(x))) along `axis` without intermediate overflow, as `cumsum`. Integers become
/// f32. Not defined for complex numbers.
Array cumlogsumexp(Operand x, std::optional<std::int64_t> axis = {});
/// True if |a - b| <= atol + rtol * |b| for all elements; returns a scalar pred. Equal infinities
/// are close; NaN is close to nothing.
Array allclose(Operand a, Operand b, double rtol = 1e-5, double atol = 1e-8);

}  // namespace tessera
