// SPDX-License-Identifier: Apache-2.0
// Floats of one byte, which C++ has no type for, as f32 and back: for what looks at single numbers.
#pragma once

#include "src/base/literal.h"

namespace tessera {

/// The same numbers as f32 if the type is a float of one byte or less; else the literal itself.
Literal widened(const Literal& literal);
/// Numbers of f32, rounded to a float of one byte or less; the literal itself if `dtype` is another
/// type.
Literal narrowed(const Literal& literal, DType dtype);
/// f32 for floats of one byte or less; else the type itself.
DType wide_dtype(DType dtype);

}  // namespace tessera
