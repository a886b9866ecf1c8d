// SPDX-License-Identifier: Apache-2.0
// Other names of operations, as numpy and the array API standard have them.
#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <tessera/ops/creation.h>
#include <tessera/ops/elementwise.h>
#include <tessera/ops/reductions.h>
#include <tessera/ops/shape_ops.h>

namespace tessera {

/// Same as `abs`.
inline Array absolute(Operand x) { return abs(std::move(x)); }
/// Magnitude of real numbers, as `abs`; integers and pred become f32.
/// @throws DTypeError for complex numbers.
Array fabs(Operand x);
/// Same as `arccos`.
inline Array acos(Operand x) { return arccos(std::move(x)); }
/// Same as `arccosh`.
inline Array acosh(Operand x) { return arccosh(std::move(x)); }
/// Same as `arcsin`.
inline Array asin(Operand x) { return arcsin(std::move(x)); }
/// Same as `arcsinh`.
inline Array asinh(Operand x) { return arcsinh(std::move(x)); }
/// Same as `arctan`.
inline Array atan(Operand x) { return arctan(std::move(x)); }
/// Same as `arctan2`.
inline Array atan2(Operand a, Operand b) { return arctan2(std::move(a), std::move(b)); }
/// Same as `arctanh`.
inline Array atanh(Operand x) { return arctanh(std::move(x)); }
/// Same as `round`.
inline Array around(Operand x, int decimals = 0) { return round(std::move(x), decimals); }
/// Same as `conj`.
inline Array conjugate(Operand x) { return conj(std::move(x)); }
/// Same as `bitwise_not`.
inline Array bitwise_invert(Operand x) { return bitwise_not(std::move(x)); }
/// Same as `left_shift`.
inline Array bitwise_left_shift(Operand a, Operand b) {
  return left_shift(std::move(a), std::move(b));
}
/// Same as `right_shift`.
inline Array bitwise_right_shift(Operand a, Operand b) {
  return right_shift(std::move(a), std::move(b));
}
/// Same as `remainder`.
inline Array mod(Operand a, Operand b) { return remainder(std::move(a), std::move(b)); }
/// Same as `power`.
inline Array pow(Operand a, Operand b) { return power(std::move(a), std::move(b)); }
/// Same as `divide`.
inline Array true_divide(Operand a, Operand b) { return divide(std::move(a), std::move(b)); }

/// Same as `max`.
inline Array amax(Operand x, Axes axes = {}, bool keepdims = false) {
  return max(std::move(x), std::move(axes), keepdims);
}
/// Same as `max` of some elements.
inline Array amax(Operand x, Axes axes, const ExtremeOptions& options) {
  return max(std::move(x), std::move(axes), options);
}
/// Same as `min`.
inline Array amin(Operand x, Axes axes = {}, bool keepdims = false) {
  return min(std::move(x), std::move(axes), keepdims);
}
/// Same as `min` of some elements.
inline Array amin(Operand x, Axes axes, const ExtremeOptions& options) {
  return min(std::move(x), std::move(axes), options);
}
/// Options of `cumulative_sum` and `cumulative_prod`.
struct CumulativeOptions {
  /// Dtype of the result, to which elements are converted first; by default that of `sum`, or x's
  /// dtype for products.
  std::optional<DType> dtype{};
  /// Begin with 0, or 1 for products: the result is longer by one.
  bool include_initial = false;
};
/// Sums of the first elements along an axis (array API); of vectors the axis may be left out.
/// @throws ValueError if x isn't a vector and there is no axis, or it is out of range.
Array cumulative_sum(Operand x, std::optional<std::int64_t> axis = {},
                     const CumulativeOptions& options = {});
/// Products of the first elements along an axis, as `cumulative_sum`.
Array cumulative_prod(Operand x, std::optional<std::int64_t> axis = {},
                      const CumulativeOptions& options = {});

/// Same as `concatenate`; without an axis, of the flattened arrays.
Array concat(const std::vector<Array>& arrays, std::optional<std::int64_t> axis = 0,
             Location location = Location::current());
/// Same as `transpose` with these dimensions.
inline Array permute_dims(Operand x, std::vector<std::int64_t> perm) {
  return transpose(std::move(x), std::move(perm));
}
/// Exchanges the last two dimensions.
/// @throws ShapeError for ranks below 2.
Array matrix_transpose(Operand x);
/// Reverses the order of columns (dimension 1).
/// @throws ShapeError for ranks below 2.
Array fliplr(Operand x);
/// Reverses the order of rows (dimension 0).
/// @throws ShapeError for scalars.
Array flipud(Operand x);
/// Shape that arrays of these shapes broadcast to.
/// @throws ShapeError if there is none.
std::vector<std::int64_t> broadcast_shapes(const std::vector<std::vector<std::int64_t>>& shapes,
                                           Location location = Location::current());

/// An array of any values: zeros.
inline Array empty(std::vector<std::int64_t> shape, DType dtype = DType::f32,
                   Location location = Location::current()) {
  return zeros(std::move(shape), dtype, location);
}
/// An array of any values, as `zeros_like`.
inline Array empty_like(Operand x, std::optional<DType> dtype = {}) {
  return zeros_like(std::move(x), dtype);
}
/// x as an array, which a plain number becomes; converted to a dtype if one is given.
Array asarray(Operand x, std::optional<DType> dtype = {});

/// Tests for an imaginary part other than 0; returns pred.
Array iscomplex(Operand x);
/// Tests for an imaginary part of 0; returns pred.
Array isreal(Operand x);
/// Whether the dtype is complex.
bool iscomplexobj(const Array& x, Location location = Location::current());
/// Whether the dtype isn't complex.
bool isrealobj(const Array& x, Location location = Location::current());
/// Whether the array has no dimensions.
bool isscalar(const Array& x, Location location = Location::current());
/// Whether a dtype is of a kind: "bool", "signed integer", "unsigned integer", "integral",
/// "real floating", "complex floating" or "numeric" (array API).
/// @throws ValueError for another text.
bool isdtype(DType dtype, std::string_view kind, Location location = Location::current());
/// Sorts along the last axis; the result is complex: c128 for f64, c64 for other real dtypes.
Array sort_complex(Operand x);

}  // namespace tessera
