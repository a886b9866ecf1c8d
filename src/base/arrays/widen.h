// SPDX-License-Identifier: Apache-2.0
// Conversion of one-byte floats, for which C++ has no type, to f32 and back, for code that handles
// single numbers.
#pragma once

#include "src/base/arrays/literal.h"

namespace tessera {

/// The literal converted to f32 if its type is a float of one byte or less; otherwise the literal
/// itself.
Literal widened(const Literal& literal);
/// An f32 literal rounded to `dtype` if that is a float of one byte or less; otherwise the literal
/// itself.
Literal narrowed(const Literal& literal, DType dtype);
/// f32 for floats of one byte or less; otherwise the type itself.
DType wide_dtype(DType dtype);

}  // namespace tessera
