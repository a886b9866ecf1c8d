// SPDX-License-Identifier: Apache-2.0
// More of numpy's elementwise operations.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <tessera/array.h>

/// @file
/// Elementwise operations of numpy that programs use less often than those of elementwise.h, with
/// the same rules for shapes, dtypes and errors. Functions of real numbers refuse complex ones
/// with a DTypeError, and convert integers and pred to f32 unless stated otherwise.

namespace tessera {

/// log2(2^a + 2^b) without intermediate overflow.
Array logaddexp2(Operand a, Operand b);
/// 0 where x < 0, 1 where x > 0, `at_zero` where x = 0; NaN of NaN.
Array heaviside(Operand x, Operand at_zero);
/// x * 2^n, rounded once.
/// @throws DTypeError if n isn't an array of integers, or x is complex.
Array ldexp(Operand x, Operand n);
/// Mantissa m with 1/2 <= |m| < 1 and exponent e (s32) of x = m * 2^e. Zeros, infinities and NaN
/// are their own mantissas, with exponent 0.
std::pair<Array, Array> frexp(Operand x);
/// Fractional and whole part, both with the sign of x.
std::pair<Array, Array> modf(Operand x);
/// Greatest common divisor of integers, not negative; gcd(0, 0) = 0.
/// @throws DTypeError for other dtypes.
Array gcd(Operand a, Operand b);
/// Least common multiple of integers, not negative; 0 if either is.
/// @throws DTypeError for other dtypes.
Array lcm(Operand a, Operand b);
/// `floor_divide` and `remainder`.
std::pair<Array, Array> divmod(Operand a, Operand b);
/// a to the power b; integers become f32.
Array float_power(Operand a, Operand b);
/// Larger of a and b; where one is NaN, the other.
Array fmax(Operand a, Operand b);
/// Smaller of a and b; where one is NaN, the other.
Array fmin(Operand a, Operand b);
/// Radians to degrees.
Array degrees(Operand x);
/// Same as `degrees`.
Array rad2deg(Operand x);
/// Degrees to radians.
Array radians(Operand x);
/// Same as `radians`.
Array deg2rad(Operand x);
/// Rounds to the nearest integer, ties to even, also both parts of complex numbers. Unlike `round`
/// it makes integers f32.
Array rint(Operand x);
/// Rounds toward 0; same as `trunc`.
Array fix(Operand x);
/// Returns x.
/// @throws DTypeError for pred.
Array positive(Operand x);
/// Same as `bitwise_not`.
Array invert(Operand x);
/// Number (u8) of bits that are set in |x|, of integers.
/// @throws DTypeError for other dtypes.
Array bitwise_count(Operand x);
/// Number of bits that are set (jax.lax.population_count), in x's dtype, of integers.
/// @throws DTypeError for other dtypes.
Array population_count(Operand x);
/// Number of bits before the highest one that is set (jax.lax.clz), in x's dtype, of integers.
/// @throws DTypeError for other dtypes.
Array clz(Operand x);
/// x rounded to a float of so many bits of exponent and mantissa, in x's dtype. Keeps infinities
/// and NaN; what is too large becomes infinite. The derivative is rounded likewise.
/// @throws ValueError for less than 1 bit of exponent or a negative number.
/// @throws DTypeError unless x is real and floating.
Array reduce_precision(Operand x, std::int64_t exponent_bits, std::int64_t mantissa_bits);
/// Distance from x to the next number away from 0, with the sign of x (f16: upwards).
Array spacing(Operand x);
/// Tests for positive infinity; returns pred.
Array isposinf(Operand x);
/// Tests for negative infinity; returns pred.
Array isneginf(Operand x);
/// Replaces NaN and infinities by given numbers: infinities that have none by the largest and
/// smallest finite numbers of the dtype. Of complex numbers, in both parts.
Array nan_to_num(Operand x, double nan, std::optional<double> posinf = {},
                 std::optional<double> neginf = {});

/// Tests whether |a - b| <= atol + rtol * |b|; returns pred. Equal infinities are close; NaN is
/// close to nothing, or with `equal_nan` to NaN.
Array isclose(Operand a, Operand b, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false);
/// Whether the arrays have the same shape and equal elements; a scalar pred. `equal_nan`: NaN is
/// equal to NaN.
Array array_equal(Operand a, Operand b, bool equal_nan = false);
/// Whether the arrays broadcast and have equal elements; a scalar pred.
Array array_equiv(Operand a, Operand b);

/// For each element the choice of the first condition that is true there, else `otherwise`. All
/// broadcast; the choices are promoted.
/// @throws ValueError if there are no conditions, or not as many as choices.
/// @throws DTypeError if a condition isn't pred.
Array select(const std::vector<Array>& conditions, const std::vector<Array>& choices,
             Operand otherwise = 0);

/// A piece of `piecewise`: a function of x, or a number.
class Piece {
 public:
  /// A function, applied to all of x.
  template <class F>
  requires(std::is_invocable_r_v<Array, F&, Array>) Piece(F f)  // NOLINT: implicit by design
      : function_(std::move(f)) {}
  /// A number.
  template <ScalarLike T>
  Piece(T value) {  // NOLINT: implicit by design
    function_ = [value](const Array&) { return Array(value); };
  }
  /// For internal use.
  Array operator()(const Array& x) const { return function_(x); }

 private:
  std::function<Array(const Array&)> function_;
};
/// Evaluates the piece of the last condition that is true of each element, in x's dtype. One more
/// piece than conditions is for elements of which none is true; they are 0 otherwise.
/// @code
/// piecewise(x, {x < 0, x > 1}, {[](Array v) { return -v; }, 1, 0.5});
/// @endcode
/// @throws ValueError for another number of pieces.
Array piecewise(Operand x, const std::vector<Array>& conditions, const std::vector<Piece>& pieces);

/// Removes jumps along an axis: differences of neighbours that are larger than `discont` (half of
/// the period by default) are changed by multiples of the period. Integers become f32.
Array unwrap(Operand x, std::optional<double> discont = {}, std::int64_t axis = -1,
             double period = 6.283185307179586);

/// What a dtype of floats holds (complex dtypes: that of their parts).
struct FloatInfo {
  int bits = 0;                   ///< width
  double eps = 0;                 ///< 1 plus this is the next number after 1
  double max = 0, min = 0;        ///< largest and smallest finite numbers
  double smallest_normal = 0;     ///< smallest positive number of full precision
  double smallest_subnormal = 0;  ///< smallest positive number
};
/// Returns what a dtype of floats holds.
/// @throws DTypeError for integers and pred.
FloatInfo finfo(DType dtype, Location location = Location::current());
/// What a dtype of integers holds.
struct IntegerInfo {
  int bits = 0;           ///< width
  std::int64_t min = 0;   ///< smallest number
  std::uint64_t max = 0;  ///< largest number
};
/// Returns what a dtype of integers holds.
/// @throws DTypeError for floats, complex numbers and pred.
IntegerInfo iinfo(DType dtype, Location location = Location::current());
/// Whether each number of one dtype has an equal one in another, as numpy's safe casts: integers
/// of 64 bits count as fitting into f64.
bool can_cast(DType from, DType to);

}  // namespace tessera
