// SPDX-License-Identifier: Apache-2.0
// Evaluates unary elementwise ops.
#include <bit>
#include <cmath>
#include <limits>

#include "src/base/arrays/small_floats.h"
#include "src/evaluator/elementwise.h"

namespace tessera::evaluator {
namespace {

using ir::Opcode;

template <class W, class F>
void each(W* x, std::int64_t n, F f) {
  for (std::int64_t i = 0; i < n; ++i) x[i] = f(x[i]);
}

double logistic(double x) {
  if (x >= 0) return 1 / (1 + std::exp(-x));
  const double e = std::exp(x);  // keeps the digits of small results
  return e / (1 + e);
}

double sign(double x) {
  if (x == 0 || std::isnan(x)) return x;
  return std::copysign(1.0, x);
}

/// Half to even, whatever the rounding mode of the process.
double round_even(double x) {
  if (!(std::fabs(x) < 4503599627370496.0)) return x;
  double r = std::floor(x);
  const double rest = x - r;
  if (rest > 0.5 || (rest == 0.5 && std::fmod(r, 2) != 0)) r += 1;
  return std::copysign(r, x);
}

using RealFunction = double (*)(double);

// Null if there is no such op.
RealFunction real_function(Opcode op) {
  switch (op) {
    case Opcode::sqrt:
      return [](double v) { return std::sqrt(v); };
    case Opcode::rsqrt:
      return [](double v) { return 1 / std::sqrt(v); };
    case Opcode::cbrt:
      return [](double v) { return std::cbrt(v); };
    case Opcode::exponential:
      return [](double v) { return std::exp(v); };
    case Opcode::exponential_minus_one:
      return [](double v) { return std::expm1(v); };
    case Opcode::log:
      return [](double v) { return std::log(v); };
    case Opcode::log_plus_one:
      return [](double v) { return std::log1p(v); };
    case Opcode::logistic:
      return logistic;
    case Opcode::sine:
      return [](double v) { return std::sin(v); };
    case Opcode::cosine:
      return [](double v) { return std::cos(v); };
    case Opcode::tan:
      return [](double v) { return std::tan(v); };
    case Opcode::tanh:
      return [](double v) { return std::tanh(v); };
    case Opcode::sinh:
      return [](double v) { return std::sinh(v); };
    case Opcode::cosh:
      return [](double v) { return std::cosh(v); };
    case Opcode::asin:
      return [](double v) { return std::asin(v); };
    case Opcode::acos:
      return [](double v) { return std::acos(v); };
    case Opcode::asinh:
      return [](double v) { return std::asinh(v); };
    case Opcode::acosh:
      return [](double v) { return std::acosh(v); };
    case Opcode::atanh:
      return [](double v) { return std::atanh(v); };
    case Opcode::erf:
      return [](double v) { return std::erf(v); };
    case Opcode::ceil:
      return [](double v) { return std::ceil(v); };
    case Opcode::floor:
      return [](double v) { return std::floor(v); };
    case Opcode::round_nearest_afz:
      return [](double v) { return std::round(v); };
    case Opcode::round_nearest_even:
      return round_even;
    case Opcode::sign:
      return sign;
    case Opcode::abs:
      return [](double v) { return std::fabs(v); };
    case Opcode::negate:
      return [](double v) { return -v; };
    default:
      return nullptr;
  }
}

// Of an infinite number there is no angle, even where the C library has a limit of zero: as in XLA.
Complex complex_exp(const Complex& z) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  return std::isfinite(z.imag()) ? std::exp(z) : Complex(nan, nan);
}

Complex complex_expm1(const Complex& z) {
  const double s = std::sin(z.imag() / 2);
  const double grow = std::expm1(z.real());
  return {grow * std::cos(z.imag()) - 2 * s * s, (grow + 1) * std::sin(z.imag())};
}

Complex complex_log1p(const Complex& z) {
  const double x = z.real(), y = z.imag();
  const double angle = std::atan2(y, 1 + x);
  const double most = std::max(std::abs(x), std::abs(y));
  if (most > 1e150 && std::isfinite(most)) {
    // The length itself may be more than a number holds.
    const double ratio = std::min(std::abs(x), std::abs(y)) / most;
    return {std::log(most) + 0.5 * std::log1p(ratio * ratio), angle};
  }
  if (std::hypot(x, y) > 0.5) return {std::log(std::hypot(1 + x, y)), angle};
  return {0.5 * std::log1p(x * (2 + x) + y * y), angle};
}

Complex complex_logistic(const Complex& z) {
  if (z.real() >= 0) return 1.0 / (1.0 + std::exp(-z));
  const Complex e = std::exp(z);
  return e / (1.0 + e);
}

using ComplexFunction = Complex (*)(const Complex&);

// Null if there is no such op.
ComplexFunction complex_function(Opcode op) {
  using C = const Complex&;
  switch (op) {
    case Opcode::sqrt:
      return [](C v) { return std::sqrt(v); };
    case Opcode::rsqrt:
      return [](C v) { return 1.0 / std::sqrt(v); };
    case Opcode::exponential:
      return complex_exp;
    case Opcode::exponential_minus_one:
      return complex_expm1;
    case Opcode::log:
      return [](C v) { return std::log(v); };
    case Opcode::log_plus_one:
      return complex_log1p;
    case Opcode::logistic:
      return complex_logistic;
    case Opcode::sine:
      return [](C v) { return std::sin(v); };
    case Opcode::cosine:
      return [](C v) { return std::cos(v); };
    case Opcode::tan:
      return [](C v) { return std::tan(v); };
    case Opcode::tanh:
      return [](C v) { return std::tanh(v); };
    case Opcode::sinh:
      return [](C v) { return std::sinh(v); };
    case Opcode::cosh:
      return [](C v) { return std::cosh(v); };
    case Opcode::asin:
      return [](C v) { return std::asin(v); };
    case Opcode::acos:
      return [](C v) { return std::acos(v); };
    case Opcode::asinh:
      return [](C v) { return std::asinh(v); };
    case Opcode::acosh:
      return [](C v) { return std::acosh(v); };
    case Opcode::atanh:
      return [](C v) { return std::atanh(v); };
    case Opcode::negate:
      return [](C v) { return Complex(-v.real(), -v.imag()); };
    case Opcode::sign:
      return [](C v) { return v == Complex(0) ? v : v / std::abs(v); };
    default:
      return nullptr;
  }
}

template <class W, class F>
bool apply_each(F function, W* x, std::int64_t n) {
  if (function != nullptr) each(x, n, function);
  return function != nullptr;
}

bool integer_unary(Opcode op, std::uint64_t* x, std::int64_t n, DType t) {
  const int width = bit_width(t);
  const std::uint64_t mask = width >= 64 ? ~std::uint64_t(0) : (std::uint64_t(1) << width) - 1;
  const bool negatives = is_signed_integer(t);
  switch (op) {
    case Opcode::negate:
      each(x, n, [](std::uint64_t v) { return std::uint64_t(0) - v; });
      return true;
    case Opcode::abs:
      if (negatives) {
        each(x, n, [](std::uint64_t v) { return std::int64_t(v) < 0 ? std::uint64_t(0) - v : v; });
      }
      return true;
    case Opcode::sign:
      each(x, n, [=](std::uint64_t v) {
        return v == 0 ? std::uint64_t(0)
                      : (negatives && std::int64_t(v) < 0 ? ~std::uint64_t(0) : std::uint64_t(1));
      });
      return true;
    case Opcode::not_:
      if (t == DType::pred) {
        each(x, n, [](std::uint64_t v) { return std::uint64_t(v == 0); });
      } else {
        each(x, n, [](std::uint64_t v) { return ~v; });
      }
      return true;
    case Opcode::popcnt:
      each(x, n, [=](std::uint64_t v) { return std::uint64_t(std::popcount(v & mask)); });
      return true;
    case Opcode::count_leading_zeros:
      each(x, n, [=](std::uint64_t v) {
        return std::uint64_t(std::countl_zero(v & mask) - (64 - width));
      });
      return true;
    case Opcode::ceil:
    case Opcode::floor:
    case Opcode::round_nearest_afz:
    case Opcode::round_nearest_even:
      return true;
    default:
      return false;
  }
}

/// abs and negate of floats touch the sign bit only, so that a NaN keeps its other bits.
void sign_bit(Opcode op, DType t, const std::byte* x, std::byte* result, std::int64_t n) {
  const std::size_t size = byte_size(t);
  const std::uint64_t bit = std::uint64_t(1) << (size * 8 - 1);
  std::uint64_t buffer[kBlock];
  for_each_block(n, [&](std::int64_t begin, std::int64_t count) {
    load_bits(size, x + begin * std::int64_t(size), count, buffer);
    each(buffer, count, [&](std::uint64_t v) { return op == Opcode::abs ? v & ~bit : v ^ bit; });
    store_bits(size, buffer, count, result + begin * std::int64_t(size));
  });
}

/// Real results of floats and complex numbers: is-finite, real, imag, abs of complex numbers.
bool to_real(Opcode op, DType in, DType out, const std::byte* x, std::byte* result,
             std::int64_t n) {
  const bool complex_abs = op == Opcode::abs && is_complex(in);
  if (op != Opcode::is_finite && op != Opcode::real && op != Opcode::imag && !complex_abs) {
    return false;
  }
  if (domain_of(in) == Domain::integer) no_such_op(op, in);
  const std::int64_t in_size = std::int64_t(byte_size(in)), out_size = std::int64_t(byte_size(out));
  Complex buffer[kBlock];
  double part[kBlock];
  for_each_block(n, [&](std::int64_t begin, std::int64_t count) {
    load(in, x + begin * in_size, count, buffer);
    if (op == Opcode::is_finite) {
      for (std::int64_t i = 0; i < count; ++i) {
        const bool finite = std::isfinite(buffer[i].real()) && std::isfinite(buffer[i].imag());
        result[begin + i] = std::byte(finite ? 1 : 0);
      }
      return;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      part[i] = op == Opcode::real   ? buffer[i].real()
                : op == Opcode::imag ? buffer[i].imag()
                                     : std::hypot(buffer[i].real(), buffer[i].imag());
    }
    store(out, part, count, result + begin * out_size);
  });
  return true;
}

}  // namespace

void apply_unary(const ir::Instruction& instruction, DType in, DType out, const std::byte* x,
                 std::byte* result, std::int64_t n) {
  const Opcode op = instruction.opcode;
  if (to_real(op, in, out, x, result, n)) return;
  if (in != out) no_such_op(op, in);
  // Of some small floats -0 is NaN, and some have no sign.
  if ((op == Opcode::abs || op == Opcode::negate) && is_floating(in) && !is_small_float(in)) {
    return sign_bit(op, in, x, result, n);
  }
  const std::int64_t size = std::int64_t(byte_size(in));
  dispatch_domain(in, [&](auto tag) {
    using W = typename decltype(tag)::type;
    W buffer[kBlock];
    for_each_block(n, [&](std::int64_t begin, std::int64_t count) {
      load(in, x + begin * size, count, buffer);
      bool known = false;
      if constexpr (std::is_same_v<W, double>) {
        known = apply_each(real_function(op), buffer, count);
      } else if constexpr (std::is_same_v<W, Complex>) {
        known = apply_each(complex_function(op), buffer, count);
      } else {
        known = integer_unary(op, buffer, count, in);
      }
      if (!known) no_such_op(op, in);
      store(out, buffer, count, result + begin * size);
    });
  });
}

}  // namespace tessera::evaluator
