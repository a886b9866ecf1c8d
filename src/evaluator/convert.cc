// SPDX-License-Identifier: Apache-2.0
// Evaluates convert and reduce-precision, with saturation and single rounding.
#include <bit>
#include <cmath>

#include "src/base/arrays/small_floats.h"
#include "src/evaluator/elementwise.h"
#include "src/evaluator/ops.h"

namespace tessera::evaluator {
namespace {

std::uint64_t saturated(double v, int width, bool is_signed) {
  if (std::isnan(v)) return 0;
  const double top = std::ldexp(1.0, is_signed ? width - 1 : width);
  if (is_signed) {
    if (v >= top) return (std::uint64_t(1) << (width - 1)) - 1;
    if (v < -top) return ~std::uint64_t(0) << (width - 1);
    return std::uint64_t(std::int64_t(v));
  }
  if (v >= top) return width >= 64 ? ~std::uint64_t(0) : (std::uint64_t(1) << width) - 1;
  if (v <= -1) return 0;
  return v < 0 ? 0 : std::uint64_t(v);
}

/// The magnitude cut to 53 digits with its last bit set if something was lost: rounding that to
/// fewer digits later gives what rounding the integer itself would give.
double odd_rounded(std::uint64_t v, bool negative) {
  std::uint64_t magnitude = negative ? std::uint64_t(0) - v : v;
  const int extra = 11 - std::countl_zero(magnitude);
  if (extra > 0) {
    const std::uint64_t lost = magnitude & ((std::uint64_t(1) << extra) - 1);
    magnitude -= lost;
    if (lost != 0) magnitude |= std::uint64_t(1) << extra;
  }
  const double d = double(magnitude);
  return negative ? -d : d;
}

void integers_to(DType from, DType to, const std::byte* x, std::byte* result, std::int64_t count) {
  std::uint64_t v[kBlock];
  load(from, x, count, v);
  if (domain_of(to) == Domain::integer) return store(to, v, count, result);
  const bool is_signed = is_signed_integer(from);
  const bool exact = real_type(to) == DType::f64;
  double d[kBlock];
  for (std::int64_t i = 0; i < count; ++i) {
    const bool negative = is_signed && std::int64_t(v[i]) < 0;
    if (exact) {
      d[i] = negative ? double(std::int64_t(v[i])) : double(v[i]);
    } else {
      d[i] = odd_rounded(v[i], negative);
    }
  }
  if (!is_complex(to)) return store(to, d, count, result);
  Complex c[kBlock];
  for (std::int64_t i = 0; i < count; ++i) c[i] = d[i];
  store(to, c, count, result);
}

void numbers_to(DType from, DType to, const std::byte* x, std::byte* result, std::int64_t count) {
  Complex c[kBlock];
  load(from, x, count, c);
  if (is_complex(to)) return store(to, c, count, result);
  if (is_floating(to)) {
    double d[kBlock];
    for (std::int64_t i = 0; i < count; ++i) d[i] = c[i].real();
    return store(to, d, count, result);
  }
  std::uint64_t v[kBlock];
  const int width = bit_width(to);
  const bool is_signed = is_signed_integer(to);
  for (std::int64_t i = 0; i < count; ++i) {
    v[i] = to == DType::pred ? std::uint64_t(c[i].real() != 0)
                             : saturated(c[i].real(), width, is_signed);
  }
  store(to, v, count, result);
}

}  // namespace

void apply_convert(DType from, DType to, const std::byte* x, std::byte* result, std::int64_t n) {
  const std::int64_t in = std::int64_t(byte_size(from)), out = std::int64_t(byte_size(to));
  if (from == to) {
    if (n > 0) std::memmove(result, x, std::size_t(n * in));
    return;
  }
  for_each_block(n, [&](std::int64_t begin, std::int64_t count) {
    if (domain_of(from) == Domain::integer) {
      integers_to(from, to, x + begin * in, result + begin * out, count);
    } else {
      numbers_to(from, to, x + begin * in, result + begin * out, count);
    }
  });
}

namespace {

struct FloatForm {
  int exponent, mantissa;
};

FloatForm form_of(DType t) {
  switch (t) {
    case DType::f16:
      return {5, 10};
    case DType::bf16:
      return {8, 7};
    case DType::f32:
      return {8, 23};
    case DType::f64:
      return {11, 52};
    default:
      no_such_op(ir::Opcode::reduce_precision, t);
  }
}

}  // namespace

void apply_reduce_precision(const ir::ReducePrecisionAttrs& attrs, DType t, const std::byte* x,
                            std::byte* result, std::int64_t n) {
  if (is_small_float(t)) {
    float wide[kBlock];
    std::byte* bytes = reinterpret_cast<std::byte*>(wide);
    for_each_block(n, [&](std::int64_t begin, std::int64_t count) {
      apply_convert(t, DType::f32, x + begin, bytes, count);
      apply_reduce_precision(attrs, DType::f32, bytes, bytes, count);
      apply_convert(DType::f32, t, bytes, result + begin, count);
    });
    return;
  }
  const FloatForm form = form_of(t);
  const std::size_t size = byte_size(t);
  const std::uint64_t one = 1;
  const std::uint64_t sign = one << (size * 8 - 1);
  const std::uint64_t exponents = ((one << form.exponent) - 1) << form.mantissa;
  const std::int64_t bias = (std::int64_t(1) << (form.exponent - 1)) - 1;
  const auto reduce = [&](std::uint64_t v) {
    const std::uint64_t before = v & ~sign;
    if (before >= exponents) return v;  // infinity, NaN
    if (attrs.mantissa_bits < form.mantissa) {
      const int cut = form.mantissa - int(attrs.mantissa_bits);
      const std::uint64_t last = one << cut;
      v += (last >> 1) - 1 + ((v & last) != 0 ? 1 : 0);
      v &= ~(last - 1);
    }
    if (attrs.exponent_bits < form.exponent) {
      const std::int64_t small_bias = (std::int64_t(1) << (attrs.exponent_bits - 1)) - 1;
      const std::int64_t e = std::int64_t((v & exponents) >> form.mantissa);
      if (e > bias + small_bias) return (v & sign) | exponents;
      if (e <= bias - small_bias) return v & sign;
    }
    return v;
  };
  std::uint64_t buffer[kBlock];
  for_each_block(n, [&](std::int64_t begin, std::int64_t count) {
    load_bits(size, x + begin * std::int64_t(size), count, buffer);
    for (std::int64_t i = 0; i < count; ++i) buffer[i] = reduce(buffer[i]);
    store_bits(size, buffer, count, result + begin * std::int64_t(size));
  });
}

Literal eval_stochastic_convert(const ir::Instruction& in, Operands xs) {
  const DType to = in.shape.dtype;
  if (!is_integer(to)) {
    throw NotImplementedError(in.describe() + ": stochastic-convert to " + std::string(name(to)) +
                                  " is not supported; valid: integers",
                              in.location());
  }
  std::vector<double> x = load_all<double>(*xs[0]);
  const std::vector<std::uint64_t> random = load_all<std::uint64_t>(*xs[1]);
  const int bits = bit_width(xs[1]->dtype());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double size = std::fabs(x[i]);
    if (!std::isfinite(size)) continue;
    const double integral = std::floor(size);
    // Up with a chance of the fraction.
    const bool up = std::ldexp(size - integral, bits) > double(random[i]);
    x[i] = std::copysign(integral + (up ? 1 : 0), x[i]);
  }
  Literal rounded(Shape(DType::f64, in.shape.dims)), out(Shape(to, in.shape.dims));
  std::copy(x.begin(), x.end(), rounded.mutable_data<double>().begin());
  apply_convert(DType::f64, to, rounded.bytes(), out.mutable_bytes(), out.element_count());
  return out;
}

}  // namespace tessera::evaluator
