// SPDX-License-Identifier: Apache-2.0
// Functions of the parts of floats and of their neighbours: signs, next numbers, rounding, and
// others.
#include <cmath>
#include <limits>
#include <numbers>

#include <tessera/custom_derivative.h>

#include "src/base/arrays/literal_util.h"
#include "src/frontend/ops/located.h"

namespace tessera {

using frontend::choose;
using frontend::composed;
using frontend::Located;
using internal::impl_of;
using ir::Opcode;

namespace {

Located located_inexact(const Operand& x) {
  const DType t = frontend::to_inexact(impl_of(x.array, x.location).shape.dtype);
  return {frontend::converted(x.array, t, x.location, x.array.weak_type()), x.location};
}

/// Both operands as real floats of one dtype, broadcast.
std::pair<Located, Located> float_pair(const std::string& op, const Operand& a, const Operand& b) {
  const Location l = a.location.known() ? a.location : b.location;
  std::vector<Array> xs = frontend::promoted(op, {a.array, b.array}, l);
  const DType t = frontend::to_inexact(xs[0].dtype());
  if (is_complex(t)) throw DTypeError(op + " of complex numbers", l);
  return {frontend::as_type({xs[0], l}, t), frontend::as_type({xs[1], l}, t)};
}

DType word_of(DType t) {
  return byte_size(t) == 8 ? s64 : byte_size(t) == 4 ? s32 : byte_size(t) == 2 ? s16 : s8;
}

Array unary(Opcode op, const Operand& x, const std::string& name) {
  return composed(name, x.location,
                  [&] { return frontend::unary(op, located_inexact(x).array, x.location, name); });
}

}  // namespace

Array arcsinh(Operand x) { return unary(Opcode::asinh, x, "arcsinh"); }
Array arccosh(Operand x) { return unary(Opcode::acosh, x, "arccosh"); }
Array arctanh(Operand x) { return unary(Opcode::atanh, x, "arctanh"); }

Array signbit(Operand x) {
  const DType t = impl_of(x.array, x.location).shape.dtype;
  if (is_complex(t)) throw DTypeError("signbit of complex numbers", x.location);
  return composed("signbit", x.location, [&]() -> Array {
    const Located v{x.array, x.location};
    if (!is_floating(t)) return t == DType::pred ? logical_and(v, !v) : (v < 0.0).array;
    return (frontend::same_bits(v, word_of(t)) < 0.0).array;
  });
}

Array copysign(Operand a, Operand b) {
  const Location l = a.location;
  return composed("copysign", l, [&] {
    const auto [magnitude, sign] = float_pair("copysign", a, b);
    const Located size = magnitude.with(abs(magnitude));
    return choose(magnitude.with(signbit(sign)), -size, size).array;
  });
}

namespace {

Located next_number(const Located& x, const Located& y) {
  const DType t = x.dtype(), word = word_of(t);
  const Located bits = frontend::same_bits(x, word);
  // In sign-magnitude form, the bits of the next number are those of this one plus or minus 1.
  const Located up = (x < y) == (x > 0.0);
  const Located moved =
      frontend::same_bits(bits + choose(up, bits.constant(1), bits.constant(-1)), t);
  const Located least = frontend::same_bits(bits.constant(1), t);
  const Located from_zero = choose(y > 0.0, least, -least);
  Located out = choose(x == 0.0, from_zero, moved);
  out = choose(x == y, y, out);
  return choose((x != x) | (y != y), x + y, out);
}

}  // namespace

Array nextafter(Operand a, Operand b) {
  const Location l = a.location;
  return composed("nextafter", l, [&] {
    const auto [x, y] = float_pair("nextafter", a, b);
    // Made of bits, whose derivative counts as zero; that of the number isn't known to be.
    auto function = custom_jvp(
        [l](Array p, Array q) {
          return next_number({p, l}, {q, l}).array;
        },
        "nextafter", l);
    function.def_jvp([l](std::tuple<Array, Array>,
                         std::tuple<Array, Array>) -> std::pair<Array, Array> {
      throw NotImplementedError(
          "can't differentiate nextafter: nextafter has no derivative; stop_gradient in front of "
          "it if its own shall count as zero",
          l);
    });
    return function.call_at(l, x.array, y.array);
  });
}

Array hypot(Operand a, Operand b) {
  const Location l = a.location;
  return composed("hypot", l, [&] {
    const auto [x, y] = float_pair("hypot", a, b);
    const Located p = x.with(abs(x)), q = x.with(abs(y));
    const Located high = x.with(maximum(p, q)), low = x.with(minimum(p, q));
    // Scaled by the larger one, so that no intermediate result overflows.
    const Located safe = choose(high == 0.0, high.constant(1), high);
    const Located ratio = low / safe;
    const Located length = high * x.with(sqrt(ratio * ratio + 1.0));
    const double infinity = std::numeric_limits<double>::infinity();
    const Located endless = (p == infinity) | (q == infinity);
    return choose(endless, x.constant(infinity), choose(high == 0.0, high, length)).array;
  });
}

Array angle(Operand x) {
  return composed("angle", x.location, [&] {
    const Located v = located_inexact(x);
    const Located re = v.with(real(v)), im = v.with(imag(v));
    return choose(re == re, re.with(arctan2(im, re)), re).array;
  });
}

Array nan_to_num(Operand x) {
  return composed("nan_to_num", x.location, [&]() -> Array {
    const DType t = impl_of(x.array, x.location).shape.dtype;
    if (is_complex(t)) {
      return complex({nan_to_num({real(x), x.location}), x.location},
                     {nan_to_num({imag(x), x.location}), x.location});
    }
    if (!is_floating(t)) return x.array;
    const double infinity = std::numeric_limits<double>::infinity();
    const double greatest = t == f64   ? std::numeric_limits<double>::max()
                            : t == f32 ? double(std::numeric_limits<float>::max())
                            : t == f16 ? 65504.0
                                       : std::ldexp(255.0, 120);  // bf16
    Located v{x.array, x.location};
    v = choose(v != v, v.constant(0), v);
    v = choose(v == infinity, v.constant(greatest), v);
    return choose(v == -infinity, v.constant(-greatest), v).array;
  });
}

Array round(Operand x, int decimals) {
  const DType t = impl_of(x.array, x.location).shape.dtype;
  if (decimals == 0) return round(x);
  if (!is_floating(t)) {
    if (is_integer(t) && decimals > 0) return x.array;
    throw DTypeError("round of " + x.array.type_string() + " to " + std::to_string(decimals) +
                         " decimals; it is for floats",
                     x.location);
  }
  return composed("round", x.location, [&] {
    const DType work = t == f64 ? f64 : f32;
    const Located v = frontend::as_type({x.array, x.location}, work);
    const double factor = std::pow(10.0, decimals);
    return frontend::as_type(v.with(round(v * factor)) / factor, t).array;
  });
}

}  // namespace tessera
