// SPDX-License-Identifier: Apache-2.0
// Elementwise operations.
#pragma once

#include <optional>
#include <vector>

#include <tessera/array.h>

/// @file
/// Elementwise operations.
///
/// Shapes: operands of binary and ternary functions broadcast as in numpy; the result has the
/// broadcast shape. A unary function returns an array of its operand's shape.
///
/// Dtypes: operands are promoted to a common dtype by JAX's lattice (see `promote_types`). Plain
/// C++ scalars are weakly typed: they adopt the dtype of the other operand, except that a float
/// scalar makes integer arrays f32 (a complex one makes real arrays complex). Functions that
/// produce real numbers, from `sqrt` on, convert integers and pred to f32 first. Unless stated
/// otherwise the result has the promoted dtype, and complex operands are supported.
///
/// Accuracy: f32 `exp` and `tanh` are within 2 ulp; other functions of f32 and f64 are as accurate
/// as those of the C math library. f16, bf16 and narrower floats are computed in f32 and rounded
/// once.
///
/// @throws ShapeError if the shapes don't broadcast.
/// @throws DTypeError if the dtypes have no common type, or the function isn't defined for theirs.
/// @throws TracerError if an operand belongs to a trace that has ended.
///
/// All messages name the caller's line.

namespace tessera {

/// Returns the dtype that an operation on arrays of these dtypes computes in, by JAX's promotion
/// lattice: for example s32 and f16 give f16, u32 and s32 give s64, u64 and s64 give f32, bf16 and
/// f16 give f32.
/// @throws DTypeError if no dtype holds both, as for two different 8-bit floats.
DType promote_types(DType a, DType b);
/// Returns the dtype that an operation on these arrays computes in, taking weak types into account:
/// `result_type({x, 2})` is x's dtype for any integer or floating-point x.
/// @throws ValueError if `arrays` is empty.
/// @throws DTypeError if the dtypes have no common type.
DType result_type(const std::vector<Array>& arrays);

/// Converts each element to `dtype`.
///
/// Floats convert to integers by truncation toward zero; values out of range saturate and NaN
/// becomes 0. Conversion to pred tests for nonzero.
/// @throws DTypeError when a complex array is converted to a real dtype; take `real` first.
Array astype(Operand x, DType dtype);
/// Reinterprets the bits of each element as `dtype`.
///
/// If the new elements are narrower, a dimension is appended: f32 [..] -> u8 [.., 4]. If they are
/// wider, the last dimension must equal the ratio of the widths and is removed.
/// @throws ShapeError if the last dimension isn't that ratio.
/// @throws DTypeError for pred.
Array bitcast_convert(Operand x, DType dtype);

/// Absolute value. Complex arrays give their real magnitude (c64 -> f32); pred is unchanged.
Array abs(Operand x);
/// Negation, -x.
/// @throws DTypeError for pred.
Array negative(Operand x);
/// Sign: -1, 0 or 1 in x's dtype; x/|x| for complex numbers. Not defined for pred.
Array sign(Operand x);
/// x * x. pred becomes s32.
Array square(Operand x);
/// Square root; NaN for negative numbers.
Array sqrt(Operand x);
/// Reciprocal square root, 1 / sqrt(x).
Array rsqrt(Operand x);
/// Real cube root, also of negative numbers. Not defined for complex numbers.
Array cbrt(Operand x);
/// Reciprocal, 1 / x. Integers become f32.
Array reciprocal(Operand x);
/// Exponential, e^x.
Array exp(Operand x);
/// 2^x, computed as exp(x * ln 2): the relative error grows with |x|.
Array exp2(Operand x);
/// exp(x) - 1, accurate near 0.
Array expm1(Operand x);
/// Natural logarithm; NaN for negative numbers, -inf for 0.
Array log(Operand x);
/// Logarithm to base 2, computed as log(x) / ln 2.
Array log2(Operand x);
/// Logarithm to base 10, computed as log(x) / ln 10.
Array log10(Operand x);
/// log(1 + x), accurate near 0.
Array log1p(Operand x);
/// Sine of an angle in radians.
Array sin(Operand x);
/// Cosine of an angle in radians.
Array cos(Operand x);
/// Tangent of an angle in radians.
Array tan(Operand x);
/// Hyperbolic tangent.
Array tanh(Operand x);
/// Hyperbolic sine.
Array sinh(Operand x);
/// Hyperbolic cosine.
Array cosh(Operand x);
/// Inverse sine, in [-pi/2, pi/2]; NaN outside [-1, 1].
Array arcsin(Operand x);
/// Inverse cosine, in [0, pi]; NaN outside [-1, 1].
Array arccos(Operand x);
/// Inverse tangent, in [-pi/2, pi/2]. Not defined for complex numbers.
Array arctan(Operand x);
/// Inverse hyperbolic sine.
Array arcsinh(Operand x);
/// Inverse hyperbolic cosine; NaN below 1.
Array arccosh(Operand x);
/// Inverse hyperbolic tangent; NaN outside [-1, 1].
Array arctanh(Operand x);
/// Error function. Not defined for complex numbers.
Array erf(Operand x);
/// Inverse of `erf`: infinite at -1 and 1, NaN beyond. Not defined for complex numbers.
Array erf_inv(Operand x);
/// Logistic function, 1 / (1 + exp(-x)).
Array sigmoid(Operand x);
/// Largest integer not above x, in x's dtype. Integers are unchanged. Not defined for complex
/// numbers.
Array floor(Operand x);
/// Smallest integer not below x, in x's dtype. Integers are unchanged. Not defined for complex
/// numbers.
Array ceil(Operand x);
/// Rounds toward 0, in x's dtype. Integers are unchanged. Not defined for complex numbers.
Array trunc(Operand x);
/// Rounds to the nearest integer, ties to even, in x's dtype. Integers are unchanged. Not defined
/// for complex numbers.
Array round(Operand x);
/// Rounds to a number of decimal places, ties to even: round(x * 10^decimals) / 10^decimals.
/// @param x  Floats; integers are accepted (and unchanged) if `decimals` isn't negative.
/// @param decimals  May be negative: -2 rounds to hundreds.
Array round(Operand x, int decimals);
/// Tests for NaN; returns pred. A complex number is NaN if either part is. False for integers.
Array isnan(Operand x);
/// Tests for an infinity; returns pred. A complex number is infinite if either part is. False for
/// integers.
Array isinf(Operand x);
/// Tests for a number that is neither infinite nor NaN; returns pred. True for integers.
Array isfinite(Operand x);
/// Tests for zero; returns pred.
Array logical_not(Operand x);
/// Inverts all bits of an integer; logical not of pred. Not defined for other dtypes.
Array bitwise_not(Operand x);
/// Real part, of the matching real dtype; x itself if it is real.
Array real(Operand x);
/// Imaginary part, of the matching real dtype; zeros of x's dtype if it is real.
Array imag(Operand x);
/// Complex conjugate; x itself if it is real.
Array conj(Operand x);
/// Argument of a complex number in radians, in [-pi, pi]. For real x, pi where x is negative and 0
/// elsewhere.
Array angle(Operand x);
/// Tests whether the sign bit is set (true for -0.0); returns pred. Not defined for complex
/// numbers.
Array signbit(Operand x);
/// Replaces NaN by 0 and infinities by the largest and smallest finite numbers of the dtype.
Array nan_to_num(Operand x);

/// Sum, a + b. Of two pred arrays: logical or.
Array add(Operand a, Operand b);
/// Difference, a - b.
/// @throws DTypeError for two pred arrays; use `logical_xor`.
Array subtract(Operand a, Operand b);
/// Product, a * b. Of two pred arrays: logical and.
Array multiply(Operand a, Operand b);
/// Quotient, a / b. Integers become f32.
Array divide(Operand a, Operand b);
/// Quotient rounded toward negative infinity, as Python's `//`, in the promoted dtype. Not defined
/// for complex numbers. Division of integers by 0 doesn't trap; its result is unspecified.
Array floor_divide(Operand a, Operand b);
/// Remainder with the sign of b, as Python's `%`: a - floor_divide(a, b) * b. For integers and b =
/// 0 the result is a. Not defined for complex numbers.
Array remainder(Operand a, Operand b);
/// Remainder with the sign of a, as C's `fmod`. For integers and b = 0 the result is a. Not defined
/// for complex numbers.
Array fmod(Operand a, Operand b);
/// a to the power b, in the promoted dtype: integers stay integers, and a negative exponent then
/// truncates toward 0.
Array power(Operand a, Operand b);
/// Larger of a and b; NaN if either is NaN. Not defined for complex numbers.
Array maximum(Operand a, Operand b);
/// Smaller of a and b; NaN if either is NaN. Not defined for complex numbers.
Array minimum(Operand a, Operand b);
/// Angle of the point (x = b, y = a) in radians, in [-pi, pi]. Integers become f32. Not defined for
/// complex numbers.
Array arctan2(Operand a, Operand b);
/// sqrt(a^2 + b^2) without intermediate overflow. Not defined for complex numbers.
Array hypot(Operand a, Operand b);
/// Magnitude of a with the sign of b, -0.0 counting as negative. Integers become f32. Not defined
/// for complex numbers.
Array copysign(Operand a, Operand b);
/// Next representable number after a in the direction of b. Integers become f32. Not defined for
/// complex numbers. It has no derivative: NotImplementedError where one is asked for.
Array nextafter(Operand a, Operand b);
/// log(exp(a) + exp(b)) without intermediate overflow. Not defined for complex numbers.
Array logaddexp(Operand a, Operand b);
/// Complex number a + bi of real a and b: c128 if they promote to f64, else c64.
Array complex(Operand a, Operand b);

/// a == b; returns pred. NaN equals nothing.
Array equal(Operand a, Operand b);
/// a != b; returns pred.
Array not_equal(Operand a, Operand b);
/// a < b; returns pred. Not defined for complex numbers.
Array less(Operand a, Operand b);
/// a <= b; returns pred. Not defined for complex numbers.
Array less_equal(Operand a, Operand b);
/// a > b; returns pred. Not defined for complex numbers.
Array greater(Operand a, Operand b);
/// a >= b; returns pred. Not defined for complex numbers.
Array greater_equal(Operand a, Operand b);
/// True where both are nonzero; returns pred.
Array logical_and(Operand a, Operand b);
/// True where at least one is nonzero; returns pred.
Array logical_or(Operand a, Operand b);
/// True where exactly one is nonzero; returns pred.
Array logical_xor(Operand a, Operand b);
/// Bitwise and of integers or pred. Not defined for other dtypes.
Array bitwise_and(Operand a, Operand b);
/// Bitwise or of integers or pred. Not defined for other dtypes.
Array bitwise_or(Operand a, Operand b);
/// Bitwise exclusive or of integers or pred. Not defined for other dtypes.
Array bitwise_xor(Operand a, Operand b);
/// Shifts the bits of a left by b places; 0 if b is the width or more. For integers only.
Array left_shift(Operand a, Operand b);
/// Shifts the bits of a right by b places: an arithmetic shift for signed dtypes, a logical one for
/// unsigned dtypes. For integers only.
Array right_shift(Operand a, Operand b);

/// Selects a where `condition` is nonzero, else b. All three broadcast; a and b are promoted.
Array where(Operand condition, Operand a, Operand b);
/// Limits x to [low, high], either of which may be absent: minimum(maximum(x, low), high).
Array clip(Operand x, const std::optional<Array>& low, const std::optional<Array>& high = {});

/// Same as `negative`.
Array operator-(Operand x);
/// Returns x.
Array operator+(Operand x);
/// Same as `bitwise_not`.
Array operator~(Operand x);
/// Same as `logical_not`.
Array operator!(Operand x);
/// Same as `add`.
Array operator+(Operand a, Operand b);
/// Same as `subtract`.
Array operator-(Operand a, Operand b);
/// Same as `multiply`: the elementwise product.
Array operator*(Operand a, Operand b);
/// Same as `divide`.
Array operator/(Operand a, Operand b);
/// Same as `remainder`: the result has the sign of b, unlike C++'s `%`.
Array operator%(Operand a, Operand b);
/// Same as `bitwise_and`.
Array operator&(Operand a, Operand b);
/// Same as `bitwise_or`.
Array operator|(Operand a, Operand b);
/// Same as `bitwise_xor`.
Array operator^(Operand a, Operand b);
/// Same as `left_shift`.
Array operator<<(Operand a, Operand b);
/// Same as `right_shift`.
Array operator>>(Operand a, Operand b);
/// Same as `equal`: elementwise, like all comparisons of arrays.
Array operator==(Operand a, Operand b);
/// Same as `not_equal`.
Array operator!=(Operand a, Operand b);
/// Same as `less`.
Array operator<(Operand a, Operand b);
/// Same as `less_equal`.
Array operator<=(Operand a, Operand b);
/// Same as `greater`.
Array operator>(Operand a, Operand b);
/// Same as `greater_equal`.
Array operator>=(Operand a, Operand b);

/// JAX's jax.lax, where its functions differ from numpy's of the same purpose.
namespace lax {
/// Quotient. Of integers it is rounded towards 0 and stays an integer (jax.lax.div), where `divide`
/// gives floats and `floor_divide` rounds down: div(-7, 2) is -3. By 0: -1, all bits set.
Array div(Operand a, Operand b);
/// The rest of `div`, with the sign of a (jax.lax.rem), where `remainder` has that of b: rem(-7, 2)
/// is -1. By 0: a.
Array rem(Operand a, Operand b);
}  // namespace lax

}  // namespace tessera
