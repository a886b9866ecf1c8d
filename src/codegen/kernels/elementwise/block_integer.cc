// SPDX-License-Identifier: Apache-2.0
// Block functions of elementwise ops on integers and pred, with wrapping arithmetic.
#include <bit>
#include <limits>
#include <type_traits>

#include "src/codegen/kernels/elementwise/block_loops.h"
#include "src/codegen/kernels/type_dispatch.h"

namespace tessera::codegen {

using ir::Opcode;
namespace {
namespace integer_blocks {

/// Arithmetic that wraps: signed overflow has no meaning in C++, and products of small unsigned
/// types are computed as int.
template <class T>
using Wide = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

#define UNARY(Name, expression) \
  struct Name {                 \
    template <class T>          \
    T operator()(T x) const {   \
      using W = Wide<T>;        \
      (void)sizeof(W);          \
      return T(expression);     \
    }                           \
  };
UNARY(Abs, x < T(0) ? T(W(0) - W(x)) : x)
UNARY(Negate, W(0) - W(x))
UNARY(Not, ~x)
UNARY(Sign, T(x > T(0)) - T(x < T(0)))
UNARY(PopCount, std::popcount(std::make_unsigned_t<T>(x)))
UNARY(LeadingZeros, std::countl_zero(std::make_unsigned_t<T>(x)))
#undef UNARY

#define BINARY(Name, expression)   \
  struct Name {                    \
    template <class T>             \
    T operator()(T a, T b) const { \
      using W = Wide<T>;           \
      (void)sizeof(W);             \
      return T(expression);        \
    }                              \
  };
BINARY(Add, W(a) + W(b))
BINARY(Subtract, W(a) - W(b))
BINARY(Multiply, W(a) * W(b))
BINARY(Maximum, a > b ? a : b)
BINARY(Minimum, a < b ? a : b)
BINARY(And, a& b)
BINARY(Or, a | b)
BINARY(Xor, a ^ b)
#undef BINARY

/// By zero: all ones (-1). The lowest number by -1: itself.
struct Divide {
  template <class T>
  T operator()(T a, T b) const {
    if (b == T(0)) return T(-1);
    if constexpr (std::is_signed_v<T>) {
      if (b == T(-1)) return T(Wide<T>(0) - Wide<T>(a));
    }
    return T(a / b);
  }
};
/// By zero: the dividend.
struct Remainder {
  template <class T>
  T operator()(T a, T b) const {
    if (b == T(0)) return a;
    if constexpr (std::is_signed_v<T>) {
      if (b == T(-1)) return T(0);
    }
    return T(a % b);
  }
};
/// A negative exponent: 0, but for a base of 1 or -1.
struct Power {
  template <class T>
  T operator()(T base, T exponent) const {
    if constexpr (std::is_signed_v<T>) {
      if (exponent < T(0)) {
        if (base == T(1)) return T(1);
        if (base == T(-1)) return (exponent & 1) != 0 ? T(-1) : T(1);
        return T(0);
      }
    }
    Wide<T> result = 1, factor = Wide<T>(base);
    for (auto e = std::make_unsigned_t<T>(exponent); e != 0; e = std::make_unsigned_t<T>(e >> 1)) {
      if ((e & 1) != 0) result *= factor;
      factor *= factor;
    }
    return T(result);
  }
};
/// Shifts by the width or more leave zeros (or sign bits).
template <class T>
constexpr std::make_unsigned_t<T> kWidth = std::make_unsigned_t<T>(sizeof(T) * 8);
struct ShiftLeft {
  template <class T>
  T operator()(T a, T b) const {
    using U = std::make_unsigned_t<T>;
    return U(b) >= kWidth<T> ? T(0) : T(U(Wide<T>(U(a)) << (U(b) % kWidth<T>)));
  }
};
struct ShiftRightLogical {
  template <class T>
  T operator()(T a, T b) const {
    using U = std::make_unsigned_t<T>;
    return U(b) >= kWidth<T> ? T(0) : T(U(U(a) >> (U(b) % kWidth<T>)));
  }
};
struct ShiftRightArithmetic {
  template <class T>
  T operator()(T a, T b) const {
    using U = std::make_unsigned_t<T>;
    using S = std::make_signed_t<T>;
    const U by = U(b) >= kWidth<T> ? U(kWidth<T> - 1) : U(b);
    return T(S(a) >> by);
  }
};

template <class T>
BlockFunction unary(Opcode op) {
  switch (op) {
    TESSERA_UNARY_CASE(abs, Abs)
    TESSERA_UNARY_CASE(negate, Negate)
    TESSERA_UNARY_CASE(not_, Not)
    TESSERA_UNARY_CASE(sign, Sign)
    TESSERA_UNARY_CASE(popcnt, PopCount)
    TESSERA_UNARY_CASE(count_leading_zeros, LeadingZeros)
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
    TESSERA_BINARY_CASE(and_, And)
    TESSERA_BINARY_CASE(or_, Or)
    TESSERA_BINARY_CASE(xor_, Xor)
    TESSERA_BINARY_CASE(shift_left, ShiftLeft)
    TESSERA_BINARY_CASE(shift_right_logical, ShiftRightLogical)
    TESSERA_BINARY_CASE(shift_right_arithmetic, ShiftRightArithmetic)
    default:
      return nullptr;
  }
}

struct PredNot {
  std::uint8_t operator()(std::uint8_t x) const { return std::uint8_t(x == 0); }
};

}  // namespace integer_blocks
}  // namespace

BlockFunction integer_unary_block(Opcode op, DType t) {
  if (t == DType::pred) {
    return op == Opcode::not_ ? unary_loop<std::uint8_t, std::uint8_t, integer_blocks::PredNot>
                              : nullptr;
  }
  return for_type(kSigned + kUnsigned, t, [&](auto tag) {
    return integer_blocks::unary<typename decltype(tag)::type>(op);
  });
}

BlockFunction integer_binary_block(Opcode op, DType t) {
  if (t == DType::pred) {
    switch (op) {
      // Numbers of one bit, but for a sum: that is "or".
      case Opcode::add:
        return integer_blocks::binary<std::uint8_t>(Opcode::or_);
      case Opcode::subtract:
        return integer_blocks::binary<std::uint8_t>(Opcode::xor_);
      case Opcode::multiply:
        return integer_blocks::binary<std::uint8_t>(Opcode::and_);
      case Opcode::and_:
      case Opcode::or_:
      case Opcode::xor_:
      case Opcode::maximum:
      case Opcode::minimum:
        return integer_blocks::binary<std::uint8_t>(op);
      default:
        return nullptr;
    }
  }
  return for_type(kSigned + kUnsigned, t, [&](auto tag) {
    return integer_blocks::binary<typename decltype(tag)::type>(op);
  });
}

}  // namespace tessera::codegen
