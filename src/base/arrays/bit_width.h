// SPDX-License-Identifier: Apache-2.0
// How many bits of an element carry its value: elements of fewer than 8 have a byte each in arrays.
#pragma once

#include <tessera/dtype.h>

namespace tessera {

/// Bits that carry the value: 1 for pred, 4 for s4.
inline int bit_width(DType t) {
  switch (t) {
    case DType::pred:
    case DType::s1:
    case DType::u1:
      return 1;
    case DType::s2:
    case DType::u2:
      return 2;
    case DType::s4:
    case DType::u4:
    case DType::f4e2m1fn:
      return 4;
    case DType::f6e2m3fn:
    case DType::f6e3m2fn:
      return 6;
    default:
      return int(byte_size(t)) * 8;
  }
}

/// Of integers of fewer than 8 bits; 0 for other types.
inline int few_bits(DType t) { return is_integer(t) && bit_width(t) < 8 ? bit_width(t) : 0; }

/// The type of a byte that has such an integer; other types stay.
inline DType byte_of(DType t) {
  if (few_bits(t) == 0) return t;
  return is_signed_integer(t) ? DType::s8 : DType::u8;
}

}  // namespace tessera
