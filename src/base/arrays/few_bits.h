// SPDX-License-Identifier: Apache-2.0
// Integers of fewer than 8 bits, each of which has a byte in arrays.
#pragma once

#include <tessera/dtype.h>

namespace tessera {

/// Of integers of fewer than 8 bits; 0 for other types.
inline int few_bits(DType t) {
  switch (t) {
    case DType::s1:
    case DType::u1:
      return 1;
    case DType::s2:
    case DType::u2:
      return 2;
    case DType::s4:
    case DType::u4:
      return 4;
    default:
      return 0;
  }
}

/// The type of a byte that has such an integer; other types stay.
inline DType byte_of(DType t) {
  if (few_bits(t) == 0) return t;
  return is_signed_integer(t) ? DType::s8 : DType::u8;
}

}  // namespace tessera
