// SPDX-License-Identifier: Apache-2.0
// Converts literals of small float types to f32 and back.
#include "src/base/arrays/widen.h"

#include "src/base/arrays/literal_util.h"
#include "src/base/arrays/small_floats.h"

namespace tessera {

DType wide_dtype(DType dtype) { return is_small_float(dtype) ? DType::f32 : dtype; }

Literal widened(const Literal& literal) {
  const DType t = literal.dtype();
  if (!is_small_float(t)) return literal;
  Literal out(Shape(DType::f32, literal.dims()));
  const auto* from = reinterpret_cast<const std::uint8_t*>(literal.bytes());
  for (float& v : out.mutable_data<float>()) v = float(small_float_value(t, *from++));
  return out;
}

Literal narrowed(const Literal& literal, DType dtype) {
  if (!is_small_float(dtype)) return literal;
  Literal out(Shape(dtype, literal.dims()));
  auto* to = reinterpret_cast<std::uint8_t*>(out.mutable_bytes());
  for (const float v : literal.data<float>()) *to++ = small_float_bits(dtype, double(v));
  return out;
}

}  // namespace tessera
