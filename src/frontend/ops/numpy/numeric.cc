// SPDX-License-Identifier: Apache-2.0
// Elementwise operations of numpy in terms of others.
#include <tessera/ops/numeric.h>

#include <cmath>
#include <limits>
#include <numbers>

#include <tessera/control_flow.h>
#include <tessera/ops/reductions.h>
#include <tessera/ops/shape_ops.h>

#include "src/base/arrays/small_floats.h"
#include "src/frontend/ops/moves.h"
#include "src/frontend/ops/special/special_function.h"

namespace tessera {

using frontend::as_type;
using frontend::choose;
using frontend::composed;
using frontend::inexact_operands;
using frontend::Located;
using frontend::shape_of;
using frontend::where_of;
using ir::Opcode;

namespace {

/// Of a dtype of floats: its integers of the same width, bits of the fraction, bias of exponents.
struct FloatBits {
  DType word;
  int fraction, bias;
};
FloatBits float_bits(const std::string& name, DType t, Location location) {
  if (t == f64) return {s64, 52, 1023};
  if (t == f32) return {s32, 23, 127};
  if (t == bf16) return {s16, 7, 127};
  if (t == f16) return {s16, 10, 15};
  throw DTypeError(name + " of " + std::string(tessera::name(t)) +
                       "; valid are f64, f32, f16, bf16, integers and pred",
                   location);
}

FloatInfo small_finfo(DType t) {
  FloatInfo out;
  out.bits = small_float_width(t);
  out.eps = std::ldexp(1.0, -small_float_mantissa_bits(t));
  if (t == DType::f8e8m0fnu) {  // powers of two without a sign
    out.max = std::ldexp(1.0, 127);
    out.min = out.smallest_normal = out.smallest_subnormal = std::ldexp(1.0, -127);
    return out;
  }
  const SmallFloatForm form = small_float_form(t);
  const bool has_infinity = form.special == SmallFloatSpecial::ieee;
  const bool has_nan_on_top = form.special == SmallFloatSpecial::one_nan;
  const int greatest = (1 << form.exponent_bits) - (has_infinity ? 2 : 1);
  out.max = std::ldexp(2 - (has_nan_on_top ? 2 : 1) * out.eps, greatest - form.bias);
  out.min = -out.max;
  out.smallest_normal = std::ldexp(1.0, 1 - form.bias);
  out.smallest_subnormal = out.smallest_normal * out.eps;
  return out;
}

void check_integers(const std::string& name, const Operand& x) {
  if (!is_integer(shape_of(x).dtype)) {
    throw DTypeError(name + " of " + x.array.type_string() + "; valid are integers", x.location);
  }
}

Located is_nan(const Located& x) { return x != x; }

/// Integers as they are, others as floats; both of one dtype, real.
std::vector<Located> real_pair(const std::string& name, const Operand& a, const Operand& b) {
  const Location l = where_of(a, b);
  const std::vector<Array> xs = frontend::promoted(name, {a.array, b.array}, l);
  if (is_complex(xs[0].dtype())) throw DTypeError(name + " of complex numbers", l);
  return {{xs[0], l}, {xs[1], l}};
}

Array scaled(const char* name, const Operand& x, double factor) {
  return composed(name, x.location,
                  [&] { return (inexact_operands(name, {x})[0] * factor).array; });
}

}  // namespace

Array logaddexp2(Operand a, Operand b) {
  return composed("logaddexp2", where_of(a, b), [&] {
    const auto xs = inexact_operands("logaddexp2", {a, b});
    const Located high = xs[0].with(maximum(xs[0], xs[1])), low = xs[0].with(minimum(xs[0], xs[1]));
    // Of equal infinities the difference would be NaN.
    const Located gap = choose(low == high, low.constant(0), low - high);
    const Located rest = low.with(log1p(low.with(exp2(gap)))) * (1 / std::numbers::ln2);
    return (high + rest).array;
  });
}

Array heaviside(Operand x, Operand at_zero) {
  return composed("heaviside", where_of(x, at_zero), [&] {
    const auto v = inexact_operands("heaviside", {x, at_zero});
    const Located zero = v[0].constant(0), one = v[0].constant(1);
    const Located rest = choose(is_nan(v[0]), v[0], v[1]);
    return choose(v[0] < 0.0, zero, choose(v[0] > 0.0, one, rest)).array;
  });
}

std::pair<Array, Array> frexp(Operand x) {
  const Location l = x.location;
  const auto both = frontend::as_one_program("frexp", l, [&] {
    const Located v = inexact_operands("frexp", {x})[0];
    const FloatBits form = float_bits("frexp", v.dtype(), l);
    const double least = std::ldexp(1.0, 1 - form.bias);
    // Subnormal numbers are made normal first.
    const Located size = v.with(abs(v));
    const Located tiny = size < least;
    const Located lift = choose(tiny, v.constant(std::ldexp(1.0, form.fraction)), v.constant(1));
    const Located normal = v * lift;
    const Located bits = frontend::same_bits(normal, form.word);
    const Located mask =
        bits.constant(std::ldexp(1.0, 8 * int(byte_size(form.word)) - form.fraction - 1) - 1);
    const Located field = frontend::shifted_right(bits, std::uint32_t(form.fraction)) & mask;
    const Located exponent =
        as_type(field, s32) - double(form.bias - 1) -
        choose(tiny, as_type(field, s32).constant(form.fraction), as_type(field, s32).constant(0));
    const Located same = (v == 0.0) | is_nan(v) | (size == std::numeric_limits<double>::infinity());
    // 2^(1 - bias - field) in two steps, so that both are normal.
    const Located zero = exponent.constant(0);
    const Located power = choose(same, zero, as_type(field, s32) - double(form.bias - 1));
    const Located half = v.with(right_shift(power, power.constant(1)));
    const auto inverse = [&](const Located& n) {
      const Located word = as_type(n.constant(form.bias) - n, form.word);
      return frontend::same_bits(frontend::shifted_left(word, std::uint32_t(form.fraction)),
                                 v.dtype());
    };
    const Located mantissa = normal * inverse(half) * inverse(power - half);
    return std::vector<Array>{choose(same, v, mantissa).array, choose(same, zero, exponent).array};
  });
  return {both[0], both[1]};
}

Array ldexp(Operand x, Operand n) {
  check_integers("ldexp: n is", n);
  return composed("ldexp", where_of(x, n), [&] {
    const Located v = inexact_operands("ldexp", {x})[0];
    const auto [mantissa, exponent] = frexp(v);
    const DType wide = byte_size(v.dtype()) < 4 ? f32 : v.dtype();
    const Located m = as_type(v.with(mantissa), wide);
    const Located e = as_type(v.with(exponent), wide) + as_type(v.with(n.array), wide);
    // The mantissa is doubled where that lets the power be finite.
    const Located large = e > 0.0;
    const Located size =
        choose(large, m * 2.0, m) * v.with(power(m.constant(2), choose(large, e - 1.0, e)));
    const Located same = (v == 0.0) | v.with(logical_not(v.with(isfinite(v))));
    return choose(same, v, as_type(size, v.dtype())).array;
  });
}

std::pair<Array, Array> modf(Operand x) {
  const auto both = frontend::as_one_program("modf", x.location, [&] {
    const Located v = inexact_operands("modf", {x})[0];
    const Located whole = choose(v >= 0.0, v.with(floor(v)), v.with(ceil(v)));
    return std::vector<Array>{(v - whole).array, whole.array};
  });
  return {both[0], both[1]};
}

Array gcd(Operand a, Operand b) {
  check_integers("gcd", a);
  check_integers("gcd", b);
  return composed("gcd", where_of(a, b), [&] {
    const auto xs = real_pair("gcd", a, b);
    // As many steps of Euclid's algorithm as numbers of this width may need: no element waits for
    // another, on whatever device.
    const std::size_t bytes = byte_size(xs[0].dtype());
    const int steps = bytes == 1 ? 12 : bytes == 2 ? 24 : bytes == 4 ? 47 : 93;
    const Location l = xs[0].location;
    const auto size = [](const Located& x) {
      return is_unsigned_integer(x.dtype()) ? x.array : abs(x);
    };
    using Pair = std::pair<Array, Array>;
    const Pair last = fori_loop(
        0, steps,
        [l](Array, Pair p) {
          const Located x{p.first, l}, y{p.second, l};
          const Located done = y == 0.0, zero = y.constant(0);
          const Located rest = x.with(fmod(x, choose(done, y.constant(1), y)));
          return Pair{choose(done, x, y).array, choose(done, zero, rest).array};
        },
        Pair{size(xs[0]), size(xs[1])}, l);
    return last.first;
  });
}

Array lcm(Operand a, Operand b) {
  check_integers("lcm", a);
  check_integers("lcm", b);
  return composed("lcm", where_of(a, b), [&] {
    const auto xs = real_pair("lcm", a, b);
    const bool plain = is_unsigned_integer(xs[0].dtype());
    const Located x = plain ? xs[0] : xs[0].with(abs(xs[0]));
    const Located y = plain ? xs[1] : xs[1].with(abs(xs[1]));
    const Located d = x.with(gcd(x, y)), zero = d == 0.0;
    const Located part = x.with(floor_divide(y, choose(zero, d.constant(1), d)));
    return choose(zero, d, x * part).array;
  });
}

std::pair<Array, Array> divmod(Operand a, Operand b) {
  const auto both = frontend::as_one_program("divmod", where_of(a, b), [&] {
    return std::vector<Array>{floor_divide(a, b), remainder(a, b)};
  });
  return {both[0], both[1]};
}

Array float_power(Operand a, Operand b) {
  return composed("float_power", where_of(a, b), [&] {
    const auto v = inexact_operands("float_power", {a, b}, true);
    return power(v[0], v[1]);
  });
}

Array fmax(Operand a, Operand b) {
  return composed("fmax", where_of(a, b), [&] {
    const auto v = real_pair("fmax", a, b);
    return choose((v[0] > v[1]) | is_nan(v[1]), v[0], v[1]).array;
  });
}
Array fmin(Operand a, Operand b) {
  return composed("fmin", where_of(a, b), [&] {
    const auto v = real_pair("fmin", a, b);
    return choose((v[0] < v[1]) | is_nan(v[1]), v[0], v[1]).array;
  });
}

Array degrees(Operand x) { return scaled("degrees", x, 180 / std::numbers::pi); }
Array rad2deg(Operand x) { return degrees(x); }
Array radians(Operand x) { return scaled("radians", x, std::numbers::pi / 180); }
Array deg2rad(Operand x) { return radians(x); }

Array rint(Operand x) {
  return composed("rint", x.location, [&]() -> Array {
    const Located v = inexact_operands("rint", {x}, true)[0];
    if (!is_complex(v.dtype())) return round(v);
    return complex(v.with(round(v.with(real(v)))), v.with(round(v.with(imag(v)))));
  });
}
Array fix(Operand x) { return trunc(x); }
Array positive(Operand x) {
  if (shape_of(x).dtype == DType::pred) throw DTypeError("positive of pred", x.location);
  return x.array;
}
Array invert(Operand x) { return bitwise_not(x); }

Array bitwise_count(Operand x) {
  check_integers("bitwise_count", x);
  return composed("bitwise_count", x.location, [&] {
    const Located v{is_unsigned_integer(shape_of(x).dtype) ? x.array : abs(x), x.location};
    return as_type(v.with(frontend::unary(Opcode::popcnt, v.array, x.location, "bitwise_count")),
                   u8)
        .array;
  });
}

Array population_count(Operand x) {
  check_integers("population_count", x);
  return frontend::unary(Opcode::popcnt, x.array, x.location, "population_count");
}
Array clz(Operand x) {
  check_integers("clz", x);
  return frontend::unary(Opcode::count_leading_zeros, x.array, x.location, "clz");
}
Array reduce_precision(Operand x, std::int64_t exponent_bits, std::int64_t mantissa_bits) {
  if (exponent_bits < 1 || mantissa_bits < 0) {
    throw ValueError("reduce_precision to " + std::to_string(exponent_bits) +
                         " bits of exponent and " + std::to_string(mantissa_bits) +
                         " of mantissa; give 1 and 0 or more",
                     x.location);
  }
  if (!is_floating(shape_of(x).dtype)) {
    throw DTypeError("reduce_precision of " + shape_of(x).to_string() + "; give floats",
                     x.location);
  }
  const std::vector<Array> operands{x.array};
  return frontend::apply(Opcode::reduce_precision, operands,
                         ir::ReducePrecisionAttrs{exponent_bits, mantissa_bits}, x.location,
                         "reduce_precision");
}

Array spacing(Operand x) {
  return composed("spacing", x.location, [&]() -> Array {
    const Located v = inexact_operands("spacing", {x})[0];
    const Located endless = v.constant(std::numeric_limits<double>::infinity());
    if (v.dtype() == f16) return (v.with(nextafter(v, endless)) - v).array;
    const Located step = v.with(nextafter(v, v.with(copysign(endless, v)))) - v;
    const Located least = v.constant(finfo(v.dtype(), x.location).smallest_subnormal);
    return choose(step == 0.0, v.with(copysign(least, v)), step).array;
  });
}

namespace {

Array is_infinity(const char* name, const Operand& x, double which) {
  return composed(name, x.location, [&] {
    const Located v = inexact_operands(name, {x})[0];
    return (v == which).array;
  });
}

}  // namespace

Array isposinf(Operand x) {
  return is_infinity("isposinf", x, std::numeric_limits<double>::infinity());
}
Array isneginf(Operand x) {
  return is_infinity("isneginf", x, -std::numeric_limits<double>::infinity());
}

Array nan_to_num(Operand x, double nan, std::optional<double> posinf,
                 std::optional<double> neginf) {
  return composed("nan_to_num", x.location, [&]() -> Array {
    Located v{x.array, x.location};
    if (is_complex(v.dtype())) {
      return complex(v.with(nan_to_num(v.with(real(v)), nan, posinf, neginf)),
                     v.with(nan_to_num(v.with(imag(v)), nan, posinf, neginf)));
    }
    if (!is_floating(v.dtype())) return v.array;
    const FloatInfo info = finfo(v.dtype(), x.location);
    const double endless = std::numeric_limits<double>::infinity();
    const Located none = is_nan(v), high = v == endless, low = v == -endless;
    v = choose(high, v.constant(posinf.value_or(info.max)), v);
    v = choose(low, v.constant(neginf.value_or(info.min)), v);
    return choose(none, v.constant(nan), v).array;
  });
}

Array isclose(Operand a, Operand b, double rtol, double atol, bool equal_nan) {
  return composed("isclose", where_of(a, b), [&] {
    const auto v = inexact_operands("isclose", {a, b}, true);
    const Located gap = v[0].with(abs(v[0] - v[1])), size = v[0].with(abs(v[1]));
    const Located near = (gap <= size * rtol + atol) & v[0].with(isfinite(v[1]));
    const Located close = (v[0] == v[1]) | near;
    return equal_nan ? (close | (is_nan(v[0]) & is_nan(v[1]))).array : close.array;
  });
}

Array array_equal(Operand a, Operand b, bool equal_nan) {
  const Location l = where_of(a, b);
  return composed("array_equal", l, [&] {
    if (shape_of(a).dims != shape_of(b).dims) {
      return frontend::program_constant(DType::pred, 0);
    }
    Located same{equal(a, b), l};
    if (equal_nan) same = same | (same.with(isnan(a)) & same.with(isnan(b)));
    return all(same);
  });
}
Array array_equiv(Operand a, Operand b) {
  const Location l = where_of(a, b);
  return composed("array_equiv", l, [&] {
    const Dims &x = shape_of(a).dims, &y = shape_of(b).dims;
    for (std::size_t i = 1; i <= std::min(x.size(), y.size()); ++i) {
      const std::int64_t m = x[x.size() - i], n = y[y.size() - i];
      if (m != n && m != 1 && n != 1) return frontend::program_constant(DType::pred, 0);
    }
    return all({equal(a, b), l});
  });
}

Array select(const std::vector<Array>& conditions, const std::vector<Array>& choices,
             Operand otherwise) {
  const Location l = otherwise.location;
  if (conditions.empty() || conditions.size() != choices.size()) {
    throw ValueError("select with " + std::to_string(conditions.size()) + " conditions and " +
                         std::to_string(choices.size()) +
                         " choices; give one choice for each condition, and at least one",
                     l);
  }
  for (const Array& c : conditions) {
    if (c.dtype(l) != DType::pred) {
      throw DTypeError("select: a condition is " + c.type_string() + "; valid are arrays of pred",
                       l);
    }
  }
  return composed("select", l, [&] {
    // All are promoted together, so that the dtype doesn't depend on the order.
    std::vector<Array> all = choices;
    all.push_back(otherwise.array);
    const frontend::TypeNode type = frontend::promote(all, l);
    Located out{frontend::converted(otherwise.array, type.dtype, l, type.weak), l};
    for (std::size_t i = conditions.size(); i-- > 0;) {
      const Located choice{frontend::converted(choices[i], type.dtype, l, type.weak), l};
      out = choose({conditions[i], l}, choice, out);
    }
    return out.array;
  });
}

Array piecewise(Operand x, const std::vector<Array>& conditions, const std::vector<Piece>& pieces) {
  const Location l = x.location;
  if (pieces.size() != conditions.size() && pieces.size() != conditions.size() + 1) {
    throw ValueError("piecewise with " + std::to_string(conditions.size()) + " conditions and " +
                         std::to_string(pieces.size()) + " pieces; valid are " +
                         std::to_string(conditions.size()) + " and, with one for the rest, " +
                         std::to_string(conditions.size() + 1),
                     l);
  }
  return composed("piecewise", l, [&] {
    const DType t = shape_of(x).dtype;
    const auto piece = [&](std::size_t i) {
      const Array made = pieces[i](x.array);
      return frontend::broadcasted(frontend::converted(made, t, l), x.array.shape(), l);
    };
    Located out{pieces.size() > conditions.size()
                    ? piece(conditions.size())
                    : frontend::broadcasted(frontend::program_constant(t, 0), x.array.shape(), l),
                l};
    for (std::size_t i = 0; i < conditions.size(); ++i) {
      out = choose({conditions[i], l}, {piece(i), l}, out);
    }
    return out.array;
  });
}

Array unwrap(Operand x, std::optional<double> discont, std::int64_t axis, double period) {
  const Location l = x.location;
  const std::int64_t dim = frontend::normalize_axis("unwrap", axis, shape_of(x).rank(), l);
  return composed("unwrap", l, [&] {
    const Located v = inexact_operands("unwrap", {x})[0];
    const std::int64_t n = shape_of(x).dim(dim);
    if (n < 2) return v.array;
    const Located first = v.with(frontend::sliced_dim(v.array, dim, 0, 1, l));
    const Located rest = v.with(frontend::sliced_dim(v.array, dim, 1, n, l));
    const Located step = rest - v.with(frontend::sliced_dim(v.array, dim, 0, n - 1, l));
    const double half = period / 2;
    Located turned = v.with(remainder(step + half, v.constant(period))) - half;
    turned = choose((turned == -half) & (step > 0.0), v.constant(half), turned);
    const Located change =
        choose(v.with(abs(step)) < discont.value_or(half), v.constant(0), turned - step);
    const Located moved = rest + v.with(cumsum(change, dim));
    return frontend::concatenated({first.array, moved.array}, dim, l, "unwrap");
  });
}

FloatInfo finfo(DType dtype, Location location) {
  if (!is_floating(dtype) && !is_complex(dtype)) {
    throw DTypeError("finfo of " + std::string(name(dtype)) + "; valid are dtypes of floats",
                     location);
  }
  const DType t = real_type(dtype);
  if (is_small_float(t)) return small_finfo(t);
  const FloatBits form = float_bits("finfo", t, location);
  FloatInfo out;
  out.bits = int(byte_size(t)) * 8;
  out.eps = std::ldexp(1.0, -form.fraction);
  out.max = std::ldexp(2 - out.eps, form.bias);
  out.min = -out.max;
  out.smallest_normal = std::ldexp(1.0, 1 - form.bias);
  out.smallest_subnormal = std::ldexp(1.0, 1 - form.bias - form.fraction);
  return out;
}

IntegerInfo iinfo(DType dtype, Location location) {
  if (!is_integer(dtype) || dtype == DType::s4 || dtype == DType::u4) {
    throw DTypeError("iinfo of " + std::string(name(dtype)) +
                         "; valid are dtypes of integers of 8 bits and more",
                     location);
  }
  IntegerInfo out;
  out.bits = int(byte_size(dtype)) * 8;
  const bool plain = is_unsigned_integer(dtype);
  out.max = ~std::uint64_t(0) >> (64 - out.bits + (plain ? 0 : 1));
  out.min = plain ? 0 : -std::int64_t(out.max) - 1;
  return out;
}

bool can_cast(DType from, DType to) {
  if (from == to || from == DType::pred) return true;
  if (to == DType::pred) return false;
  if (is_complex(from)) return is_complex(to) && byte_size(to) >= byte_size(from);
  if (is_complex(to)) return can_cast(from, real_type(to));
  if (is_floating(from)) {
    return is_floating(to) && byte_size(to) > byte_size(from) && byte_size(to) >= 4;
  }
  const std::size_t width = byte_size(from);
  if (is_floating(to)) return byte_size(to) > width || (width == 8 && to == f64);
  if (is_unsigned_integer(from) == is_unsigned_integer(to)) return byte_size(to) >= width;
  return is_unsigned_integer(from) && byte_size(to) > width;
}

}  // namespace tessera
