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
    if (!(std::abs(x) <= T(0.35) && std::abs(y) <= T(0.35))) {
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
  using Part = typename T::value_type;
  switch (op) {
    TESSERA_UNARY_CASE(acos, Acos)
    TESSERA_UNARY_CASE(acosh, Acosh)
    TESSERA_UNARY_CASE(asin, Asin)
    TESSERA_UNARY_CASE(asinh, Asinh)
    TESSERA_UNARY_CASE(atanh, Atanh)
    TESSERA_UNARY_CASE(cosh, Cosh)
    TESSERA_UNARY_CASE(exponential_minus_one, Expm1)
    TESSERA_UNARY_CASE(log_plus_one, Log1p)
    TESSERA_UNARY_CASE(sinh, Sinh)
    TESSERA_UNARY_CASE(negate, Negate)
    TESSERA_UNARY_CASE(exponential, Exp)
    TESSERA_UNARY_CASE(log, Log)
    TESSERA_UNARY_CASE(sqrt, Sqrt)
    TESSERA_UNARY_CASE(rsqrt, Rsqrt)
    TESSERA_UNARY_CASE(tanh, Tanh)
    TESSERA_UNARY_CASE(sine, Sin)
    TESSERA_UNARY_CASE(cosine, Cos)
    TESSERA_UNARY_CASE(tan, Tan)
    TESSERA_UNARY_CASE(logistic, Logistic)
    TESSERA_UNARY_CASE(sign, Sign)
    case Opcode::abs:
      return unary_loop<T, Part, Abs>;
    case Opcode::real:
      return unary_loop<T, Part, Real>;
    case Opcode::imag:
      return unary_loop<T, Part, Imag>;
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
    TESSERA_BINARY_CASE(power, Power)
    default:
      return nullptr;
  }
}

}  // namespace complex_blocks
}  // namespace

BlockFunction complex_unary_block(Opcode op, DType t) {
  return for_type(kComplex, t, [&](auto tag) {
    return complex_blocks::unary<typename decltype(tag)::type>(op);
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
    return complex_blocks::binary<typename decltype(tag)::type>(op);
  });
}

}  // namespace tessera::codegen
