// SPDX-License-Identifier: Apache-2.0
// Block functions of elementwise ops on c64 and c128.
#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>

#include "src/codegen/kernels/elementwise/block_loops.h"
#include "src/codegen/kernels/type_dispatch.h"

namespace tessera::codegen {

using ir::Opcode;
namespace {
namespace complex_blocks {

// The textbook product, without the C library's repair of infinities, as HLO has it.
struct Add {
  template <class C>
  C operator()(C a, C b) const {
    return {a.real() + b.real(), a.imag() + b.imag()};
  }
};
struct Subtract {
  template <class C>
  C operator()(C a, C b) const {
    return {a.real() - b.real(), a.imag() - b.imag()};
  }
};
struct Multiply {
  template <class C>
  C operator()(C a, C b) const {
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
  }
};
struct Divide {
  template <class C>
  C operator()(C a, C b) const {
    return a / b;
  }
};
struct Power {
  template <class C>
  C operator()(C a, C b) const {
    if (a == C(0)) return b == C(0) ? C(1) : C(0);
    return std::pow(a, b);
  }
};

#define UNARY(Name, expression) \
  struct Name {                 \
    template <class C>          \
    C operator()(C x) const {   \
      return expression;        \
    }                           \
  };
UNARY(Negate, C(-x.real(), -x.imag()))
UNARY(Acos, std::acos(x))
UNARY(Acosh, std::acosh(x))
UNARY(Asin, std::asin(x))
UNARY(Asinh, std::asinh(x))
UNARY(Atanh, std::atanh(x))
UNARY(Cbrt, x == C(0) ? x : C(std::pow(x, typename C::value_type(1.0 / 3))))
UNARY(Cosh, std::cosh(x))
UNARY(Log, std::log(x))
UNARY(Sqrt, std::sqrt(x))
UNARY(Sinh, std::sinh(x))
UNARY(Rsqrt, C(1) / std::sqrt(x))
UNARY(Tanh, std::tanh(x))
UNARY(Sin, std::sin(x))
UNARY(Cos, std::cos(x))
UNARY(Tan, std::tan(x))
UNARY(Sign, std::abs(x) == 0 ? x : x / std::abs(x))
#undef UNARY

/// Of an infinite number there is no angle, even where the C library has a limit of zero.
struct Exp {
  template <class C>
  C operator()(C x) const {
    constexpr auto nan = std::numeric_limits<typename C::value_type>::quiet_NaN();
    return std::isfinite(x.imag()) ? std::exp(x) : C(nan, nan);
  }
};
/// e^-|x| doesn't overflow.
struct Logistic {
  template <class C>
  C operator()(C x) const {
    if (x.real() >= 0) return C(1) / (C(1) + std::exp(-x));
    const C e = std::exp(x);
    return e / (C(1) + e);
  }
};
struct Expm1 {
  template <class C>
  C operator()(C x) const {
    const auto s = std::sin(x.imag() / 2), grow = std::expm1(x.real());
    return {grow * std::cos(x.imag()) - 2 * s * s, (grow + 1) * std::sin(x.imag())};
  }
};
struct Log1p {
  template <class T>
  std::complex<T> operator()(std::complex<T> z) const {
    const T x = z.real(), y = z.imag(), angle = std::atan2(y, 1 + x);
    if (std::max(std::abs(x), std::abs(y)) > T(0.35)) {
      return {std::log(std::complex<T>(1 + x, y)).real(), angle};
    }
    return {std::log1p(x * (2 + x) + y * y) / 2, angle};
  }
};

struct Abs {
  template <class T>
  T operator()(std::complex<T> x) const {
    return std::hypot(x.real(), x.imag());
  }
};
struct Real {
  template <class T>
  T operator()(std::complex<T> x) const {
    return x.real();
  }
};
struct Imag {
  template <class T>
  T operator()(std::complex<T> x) const {
    return x.imag();
  }
};
/// The operands of `complex` are real.
struct Make {
  template <class T>
  std::complex<T> operator()(T re, T im) const {
    return {re, im};
  }
};

template <class T>
BlockFunction unary(Opcode op) {
  using C = std::complex<T>;
  switch (op) {
#define CASE(opcode, F) \
  case Opcode::opcode:  \
    return unary_loop<C, C, F>;
    CASE(acos, Acos)
    CASE(acosh, Acosh)
    CASE(asin, Asin)
    CASE(asinh, Asinh)
    CASE(atanh, Atanh)
    CASE(cbrt, Cbrt)
    CASE(cosh, Cosh)
    CASE(exponential_minus_one, Expm1)
    CASE(log_plus_one, Log1p)
    CASE(sinh, Sinh)
    CASE(negate, Negate)
    CASE(exponential, Exp)
    CASE(log, Log)
    CASE(sqrt, Sqrt)
    CASE(rsqrt, Rsqrt)
    CASE(tanh, Tanh)
    CASE(sine, Sin)
    CASE(cosine, Cos)
    CASE(tan, Tan)
    CASE(logistic, Logistic)
    CASE(sign, Sign)
#undef CASE
    case Opcode::abs:
      return unary_loop<C, T, Abs>;
    case Opcode::real:
      return unary_loop<C, T, Real>;
    case Opcode::imag:
      return unary_loop<C, T, Imag>;
    default:
      return nullptr;
  }
}

template <class T>
BlockFunction binary(Opcode op) {
  using C = std::complex<T>;
  switch (op) {
    case Opcode::add:
      return binary_loop<C, C, Add>;
    case Opcode::subtract:
      return binary_loop<C, C, Subtract>;
    case Opcode::multiply:
      return binary_loop<C, C, Multiply>;
    case Opcode::divide:
      return binary_loop<C, C, Divide>;
    case Opcode::power:
      return binary_loop<C, C, Power>;
    default:
      return nullptr;
  }
}

}  // namespace complex_blocks
}  // namespace

BlockFunction complex_unary_block(Opcode op, DType t) {
  return for_type(kComplex, t, [&](auto tag) {
    return complex_blocks::unary<typename decltype(tag)::type::value_type>(op);
  });
}
BlockFunction complex_binary_block(Opcode op, DType t) {
  if (op == Opcode::complex) {
    return for_type(kFloats, t, [](auto tag) -> BlockFunction {
      using T = typename decltype(tag)::type;
      return binary_loop<T, std::complex<T>, complex_blocks::Make>;
    });
  }
  return for_type(kComplex, t, [&](auto tag) {
    return complex_blocks::binary<typename decltype(tag)::type::value_type>(op);
  });
}

}  // namespace tessera::codegen
