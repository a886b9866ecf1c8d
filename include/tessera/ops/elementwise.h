// SPDX-License-Identifier: Apache-2.0
// Elementwise operations. Operands broadcast as in numpy and promote as in JAX: plain C++ scalars
// adopt the other operand's dtype. ShapeError and DTypeError name the caller's line.
#pragma once

#include <optional>
#include <vector>

#include <tessera/array.h>

namespace tessera {

/// The dtype of an operation on these dtypes, by JAX's lattice (s32 + f16 = f16, u32 + s32 = s64).
DType promote_types(DType a, DType b);
/// The same for arrays, weak types counted.
DType result_type(const std::vector<Array>& arrays);

/// Element by element conversion: floats to integers go toward zero and saturate.
Array astype(Operand x, DType dtype);
/// Same bits, another dtype; the last dim changes if the widths differ.
Array bitcast_convert(Operand x, DType dtype);

/// |x|; real for complex x.
Array abs(Operand x);
Array negative(Operand x);
/// -1, 0 or 1; x/|x| for complex.
Array sign(Operand x);
Array square(Operand x);
/// Square root; integers become f32, as in all functions below that make real numbers.
Array sqrt(Operand x);
Array rsqrt(Operand x);
Array cbrt(Operand x);
/// 1/x
Array reciprocal(Operand x);
Array exp(Operand x);
Array exp2(Operand x);
/// exp(x) - 1, precise near 0.
Array expm1(Operand x);
Array log(Operand x);
Array log2(Operand x);
Array log10(Operand x);
/// log(1 + x), precise near 0.
Array log1p(Operand x);
Array sin(Operand x);
Array cos(Operand x);
Array tan(Operand x);
Array tanh(Operand x);
Array sinh(Operand x);
Array cosh(Operand x);
Array arcsin(Operand x);
Array arccos(Operand x);
Array arctan(Operand x);
Array arcsinh(Operand x);
Array arccosh(Operand x);
Array arctanh(Operand x);
Array erf(Operand x);
/// The x with erf(x) given; infinite at -1 and 1, NaN beyond.
Array erf_inv(Operand x);
/// 1 / (1 + exp(-x))
Array sigmoid(Operand x);
Array floor(Operand x);
Array ceil(Operand x);
Array trunc(Operand x);
/// To the nearest, ties to even.
Array round(Operand x);
/// To so many decimal places (negative: tens, hundreds, ...).
Array round(Operand x, int decimals);
Array isnan(Operand x);
Array isinf(Operand x);
Array isfinite(Operand x);
Array logical_not(Operand x);
Array bitwise_not(Operand x);
Array real(Operand x);
Array imag(Operand x);
Array conj(Operand x);
/// The argument of a complex number: 0 for real ones, pi for negative ones.
Array angle(Operand x);
/// Is the sign bit set (also of -0)?
Array signbit(Operand x);
/// NaN as 0, infinities as the greatest and least numbers.
Array nan_to_num(Operand x);

Array add(Operand a, Operand b);
Array subtract(Operand a, Operand b);
Array multiply(Operand a, Operand b);
/// True division: integers become f32.
Array divide(Operand a, Operand b);
/// Rounds toward minus infinity.
Array floor_divide(Operand a, Operand b);
/// Has the divisor's sign, as Python's %.
Array remainder(Operand a, Operand b);
/// Has the dividend's sign, as C's fmod.
Array fmod(Operand a, Operand b);
Array power(Operand a, Operand b);
/// NaN if either is.
Array maximum(Operand a, Operand b);
Array minimum(Operand a, Operand b);
Array arctan2(Operand a, Operand b);
/// sqrt(a^2 + b^2), without overflow.
Array hypot(Operand a, Operand b);
/// The size of a with the sign of b.
Array copysign(Operand a, Operand b);
/// The number next to a in the direction of b.
Array nextafter(Operand a, Operand b);
/// log(exp(a) + exp(b)), without overflow.
Array logaddexp(Operand a, Operand b);
/// a + b i
Array complex(Operand a, Operand b);

Array equal(Operand a, Operand b);
Array not_equal(Operand a, Operand b);
Array less(Operand a, Operand b);
Array less_equal(Operand a, Operand b);
Array greater(Operand a, Operand b);
Array greater_equal(Operand a, Operand b);
Array logical_and(Operand a, Operand b);
Array logical_or(Operand a, Operand b);
Array logical_xor(Operand a, Operand b);
Array bitwise_and(Operand a, Operand b);
Array bitwise_or(Operand a, Operand b);
Array bitwise_xor(Operand a, Operand b);
Array left_shift(Operand a, Operand b);
/// Arithmetic for signed, logical for unsigned types.
Array right_shift(Operand a, Operand b);

/// condition ? a : b, element by element.
Array where(Operand condition, Operand a, Operand b);
/// Limits to [low, high]; either may be absent.
Array clip(Operand x, const std::optional<Array>& low, const std::optional<Array>& high = {});

Array operator-(Operand x);
Array operator+(Operand x);
Array operator~(Operand x);
Array operator!(Operand x);
Array operator+(Operand a, Operand b);
Array operator-(Operand a, Operand b);
Array operator*(Operand a, Operand b);
Array operator/(Operand a, Operand b);
Array operator%(Operand a, Operand b);
Array operator&(Operand a, Operand b);
Array operator|(Operand a, Operand b);
Array operator^(Operand a, Operand b);
Array operator<<(Operand a, Operand b);
Array operator>>(Operand a, Operand b);
/// Elementwise, as all comparisons of arrays.
Array operator==(Operand a, Operand b);
Array operator!=(Operand a, Operand b);
Array operator<(Operand a, Operand b);
Array operator<=(Operand a, Operand b);
Array operator>(Operand a, Operand b);
Array operator>=(Operand a, Operand b);

}  // namespace tessera
