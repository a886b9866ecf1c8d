// SPDX-License-Identifier: Apache-2.0
// Operators for composite operations, which attach the user's line to the instructions that they
// stage.
#pragma once

#include <tessera/ops/elementwise.h>

#include "src/frontend/ops/internal.h"

namespace tessera::frontend {

/// An array and the user's line. Numbers combined with it become constants of its dtype in the
/// program.
struct Located {
  Array array;
  Location location;

  operator Operand() const { return {array, location}; }  // NOLINT: implicit by design
  DType dtype() const { return array.dtype(); }
  Located with(Array other) const { return {std::move(other), location}; }
  Located constant(double value) const { return with(program_constant(dtype(), value)); }
};

#define TESSERA_LOCATED(symbol, function)                                                       \
  inline Located operator symbol(const Located& a, const Located& b) {                          \
    return a.with(function(Operand(a), Operand(b)));                                            \
  }                                                                                             \
  inline Located operator symbol(const Located& a, double b) { return a symbol a.constant(b); } \
  inline Located operator symbol(double a, const Located& b) { return b.constant(a) symbol b; }
TESSERA_LOCATED(+, add)
TESSERA_LOCATED(-, subtract)
TESSERA_LOCATED(*, multiply)
TESSERA_LOCATED(/, divide)
TESSERA_LOCATED(<, less)
TESSERA_LOCATED(<=, less_equal)
TESSERA_LOCATED(>, greater)
TESSERA_LOCATED(>=, greater_equal)
TESSERA_LOCATED(==, equal)
TESSERA_LOCATED(!=, not_equal)
TESSERA_LOCATED(&, bitwise_and)
TESSERA_LOCATED(|, bitwise_or)
TESSERA_LOCATED(^, bitwise_xor)
#undef TESSERA_LOCATED
inline Located operator-(const Located& a) { return a.with(negative(Operand(a))); }

inline Located choose(const Located& condition, const Located& a, const Located& b) {
  return a.with(where(Operand(condition), Operand(a), Operand(b)));
}
inline Located shifted_left(const Located& a, std::uint32_t bits) {
  return a.with(left_shift(Operand(a), Operand(a.constant(bits))));
}
inline Located shifted_right(const Located& a, std::uint32_t bits) {
  return a.with(right_shift(Operand(a), Operand(a.constant(bits))));
}
inline Located as_type(const Located& a, DType dtype) {
  return a.with(converted(a.array, dtype, a.location));
}
inline Located same_bits(const Located& a, DType dtype) {
  return a.with(bitcast_convert(Operand(a), dtype));
}

}  // namespace tessera::frontend
