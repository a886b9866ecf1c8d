// SPDX-License-Identifier: Apache-2.0
// Block functions of elementwise ops on f32 and f64.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "src/codegen/kernels/elementwise/block_loops.h"
#include "src/codegen/kernels/elementwise/float_math.h"
#include "src/codegen/kernels/type_dispatch.h"

namespace tessera::codegen {

using ir::Opcode;
namespace {
namespace float_blocks {

#define UNARY(Name, expression) \
  struct Name {                 \
    template <class T>          \
    T operator()(T x) const {   \
      return T(expression);     \
    }                           \
  };
UNARY(Abs, std::fabs(x))
UNARY(Acos, std::acos(x))
UNARY(Acosh, std::acosh(x))
UNARY(Asin, std::asin(x))
UNARY(Asinh, std::asinh(x))
UNARY(Atanh, std::atanh(x))
UNARY(Cbrt, std::cbrt(x))
UNARY(Ceil, std::ceil(x))
UNARY(Cos, std::cos(x))
UNARY(Cosh, std::cosh(x))
UNARY(Erf, std::erf(x))
UNARY(Expm1, std::expm1(x))
UNARY(Floor, std::floor(x))
UNARY(Log, std::log(x))
UNARY(Log1p, std::log1p(x))
UNARY(Negate, -x)
UNARY(RoundAway, std::round(x))
UNARY(RoundEven, std::nearbyint(x))  // the rounding mode is never changed here
UNARY(Rsqrt, T(1) / std::sqrt(x))
UNARY(Sign, x > T(0) ? T(1) : x < T(0) ? T(-1) : x + x)  // keeps -0 and NaN; flushes, where wanted
UNARY(Sin, std::sin(x))
UNARY(Sinh, std::sinh(x))
UNARY(Sqrt, std::sqrt(x))
UNARY(Tan, std::tan(x))
#undef UNARY

struct Exp {
  double operator()(double x) const { return std::exp(x); }
  float operator()(float x) const { return exp_float(x); }
};
struct Tanh {
  double operator()(double x) const { return std::tanh(x); }
  float operator()(float x) const { return tanh_float(x); }
};
struct Logistic {
  template <class T>
  T operator()(T x) const {
    return T(1) / (T(1) + Exp{}(-x));
  }
};

struct IsFinite {
  template <class T>
  std::uint8_t operator()(T x) const {
    return std::isfinite(x);
  }
};

#define BINARY(Name, expression)   \
  struct Name {                    \
    template <class T>             \
    T operator()(T a, T b) const { \
      return T(expression);        \
    }                              \
  };
BINARY(Add, a + b)
BINARY(Subtract, a - b)
BINARY(Multiply, a* b)
BINARY(Divide, a / b)
BINARY(Remainder, std::fmod(a, b))
// A NaN wins, and of two zeros the positive (negative) one.
BINARY(Maximum, (a == b) ? (std::signbit(a) ? b : a) : ((a > b || a != a) ? a : b))
BINARY(Minimum, (a == b) ? (std::signbit(a) ? a : b) : ((a < b || a != a) ? a : b))
BINARY(Power, std::pow(a, b))
BINARY(Atan2, std::atan2(a, b))
#undef BINARY

template <class T>
BlockFunction unary(Opcode op) {
  switch (op) {
    TESSERA_UNARY_CASE(abs, Abs)
    TESSERA_UNARY_CASE(acos, Acos)
    TESSERA_UNARY_CASE(acosh, Acosh)
    TESSERA_UNARY_CASE(asin, Asin)
    TESSERA_UNARY_CASE(asinh, Asinh)
    TESSERA_UNARY_CASE(atanh, Atanh)
    TESSERA_UNARY_CASE(cbrt, Cbrt)
    TESSERA_UNARY_CASE(ceil, Ceil)
    TESSERA_UNARY_CASE(cosine, Cos)
    TESSERA_UNARY_CASE(cosh, Cosh)
    TESSERA_UNARY_CASE(erf, Erf)
    TESSERA_UNARY_CASE(exponential, Exp)
    TESSERA_UNARY_CASE(exponential_minus_one, Expm1)
    TESSERA_UNARY_CASE(floor, Floor)
    TESSERA_UNARY_CASE(log, Log)
    TESSERA_UNARY_CASE(log_plus_one, Log1p)
    TESSERA_UNARY_CASE(logistic, Logistic)
    TESSERA_UNARY_CASE(negate, Negate)
    TESSERA_UNARY_CASE(round_nearest_afz, RoundAway)
    TESSERA_UNARY_CASE(round_nearest_even, RoundEven)
    TESSERA_UNARY_CASE(rsqrt, Rsqrt)
    TESSERA_UNARY_CASE(sign, Sign)
    TESSERA_UNARY_CASE(sine, Sin)
    TESSERA_UNARY_CASE(sinh, Sinh)
    TESSERA_UNARY_CASE(sqrt, Sqrt)
    TESSERA_UNARY_CASE(tan, Tan)
    TESSERA_UNARY_CASE(tanh, Tanh)
    case Opcode::is_finite:
      return unary_loop<T, std::uint8_t, IsFinite>;
    default:
      return nullptr;
  }
}

template <class T>
BlockFunction binary(Opcode op) {
  switch (op) {
    TESSERA_BINARY_CASE(add, Add)
    TESSERA_BINARY_CASE(subtract, Subtract)
    TESSERA_BINARY_CASE(multiply, Multiply)
    TESSERA_BINARY_CASE(divide, Divide)
    TESSERA_BINARY_CASE(remainder, Remainder)
    TESSERA_BINARY_CASE(maximum, Maximum)
    TESSERA_BINARY_CASE(minimum, Minimum)
    TESSERA_BINARY_CASE(power, Power)
    TESSERA_BINARY_CASE(atan2, Atan2)
    default:
      return nullptr;
  }
}

template <class T>
T larger(T a, T b) {
  if constexpr (std::is_integral_v<T>) return a > b ? a : b;
  return Maximum{}(a, b);
}
template <class T>
T smaller(T a, T b) {
  if constexpr (std::is_integral_v<T>) return a < b ? a : b;
  return Minimum{}(a, b);
}

/// min(max(low, x), high), a NaN anywhere wins.
template <class T>
void clamp(const BlockCall& c) {
  const T* low = reinterpret_cast<const T*>(c.in[0]);
  const T* x = reinterpret_cast<const T*>(c.in[1]);
  const T* high = reinterpret_cast<const T*>(c.in[2]);
  T* out = reinterpret_cast<T*>(c.out);
  const std::int64_t sl = c.scalars & 1u ? 0 : 1, sx = c.scalars & 2u ? 0 : 1,
                     sh = c.scalars & 4u ? 0 : 1;
  for (std::int64_t i = 0; i < c.n; ++i) {
    out[i] = smaller(larger(low[i * sl], x[i * sx]), high[i * sh]);
  }
}

template <class T>
void reduce_precision(const BlockCall& c) {
  using U = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  constexpr int mantissa = sizeof(T) == 4 ? 23 : 52, exponent = sizeof(T) == 4 ? 8 : 11;
  const auto& attrs = *static_cast<const ir::ReducePrecisionAttrs*>(c.attributes);
  const T* in = reinterpret_cast<const T*>(c.in[0]);
  T* out = reinterpret_cast<T*>(c.out);
  const int drop = mantissa - int(std::min<std::int64_t>(attrs.mantissa_bits, mantissa));
  const int bits = int(std::min<std::int64_t>(attrs.exponent_bits, exponent));
  const std::int64_t step = c.scalars & 1u ? 0 : 1;
  const U sign_mask = U(1) << (sizeof(T) * 8 - 1);
  const U exponent_mask = ((U(1) << exponent) - 1) << mantissa;
  for (std::int64_t i = 0; i < c.n; ++i) {
    const T v = in[i * step];
    if (std::isnan(v)) {
      out[i] = v;
      continue;
    }
    U u;
    std::memcpy(&u, &v, sizeof u);
    if (drop > 0) {
      const U last = (u >> drop) & 1;
      u += (U(1) << (drop - 1)) - 1 + last;
      u &= ~((U(1) << drop) - 1);
    }
    if (bits < exponent) {
      const U bias = (U(1) << (exponent - 1)) - 1, reduced = (U(1) << (bits - 1)) - 1;
      const U largest = (bias + reduced) << mantissa, smallest = (bias - reduced) << mantissa;
      const U magnitude = u & exponent_mask;
      const U sign = u & sign_mask;
      if (magnitude > largest) {
        u = sign | exponent_mask;
      } else if (magnitude <= smallest) {
        u = sign;
      }
    }
    std::memcpy(&out[i], &u, sizeof u);
  }
}

}  // namespace float_blocks
}  // namespace

BlockFunction float_unary_block(Opcode op, DType t) {
  return for_type(kFloats, t,
                  [&](auto tag) { return float_blocks::unary<typename decltype(tag)::type>(op); });
}
BlockFunction float_binary_block(Opcode op, DType t) {
  return for_type(kFloats, t,
                  [&](auto tag) { return float_blocks::binary<typename decltype(tag)::type>(op); });
}
BlockFunction reduce_precision_block(DType t) {
  return for_type(kFloats, t, [](auto tag) -> BlockFunction {
    return float_blocks::reduce_precision<typename decltype(tag)::type>;
  });
}
BlockFunction clamp_block(DType t) {
  return for_type(kFloats + kSigned + kUnsigned, t, [](auto tag) -> BlockFunction {
    return float_blocks::clamp<typename decltype(tag)::type>;
  });
}

}  // namespace tessera::codegen
