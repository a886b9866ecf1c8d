// SPDX-License-Identifier: Apache-2.0
// Literals from and to C++ numbers. Include it only where numbers are converted: it is expensive to
// compile.
#pragma once

#include <cmath>
#include <complex>
#include <initializer_list>
#include <limits>
#include <type_traits>
#include <vector>

#include "src/base/arrays/literal.h"

namespace tessera {

template <class T>
inline constexpr bool is_complex_v = false;
template <class T>
inline constexpr bool is_complex_v<std::complex<T>> = true;
template <class T>
inline constexpr bool is_small_float_v = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

/// Converts an element to another storage type. Floats to integers: toward zero, saturating, NaN to
/// 0. Integers wrap. Complex to real drops the imaginary part. To Pred: whether it is nonzero.
template <class To, class From>
To convert_element(From v) {
  if constexpr (std::is_same_v<To, From>) {
    return v;
  } else if constexpr (std::is_same_v<From, bool>) {
    return convert_element<To>(std::uint8_t(v));
  } else if constexpr (std::is_same_v<From, Pred>) {
    return convert_element<To>(std::uint8_t(v.value != 0));
  } else if constexpr (is_small_float_v<From>) {
    return convert_element<To>(float(v));
  } else if constexpr (std::is_same_v<To, Pred>) {
    return Pred(v != From(0));
  } else if constexpr (std::is_same_v<To, bool>) {
    return v != From(0);
  } else if constexpr (is_complex_v<From>) {
    if constexpr (is_complex_v<To>) {
      return To(typename To::value_type(v.real()), typename To::value_type(v.imag()));
    } else {
      return convert_element<To>(v.real());
    }
  } else if constexpr (is_complex_v<To>) {
    return To(static_cast<typename To::value_type>(v), 0);
  } else if constexpr (is_small_float_v<To>) {
    if constexpr (std::is_same_v<From, float>) {
      return To(v);
    } else {
      return To(double(v));
    }
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    if (std::isnan(v)) return To(0);
    // Both bounds are exact as powers of two in any From.
    const From above = std::ldexp(From(1), std::numeric_limits<To>::digits);
    if (v >= above) return std::numeric_limits<To>::max();
    if (v <= (std::is_signed_v<To> ? -above : From(0))) return std::numeric_limits<To>::min();
    return static_cast<To>(v);
  } else {
    return static_cast<To>(v);
  }
}

/// Wraps the value of an integer type of fewer than 8 bits into its range (two's complement).
template <class T>
T wrap_to_dtype(DType t, T v) {
  if constexpr (std::is_same_v<T, std::int8_t> || std::is_same_v<T, std::uint8_t>) {
    int bits = 8;
    if (t == DType::s1 || t == DType::u1) bits = 1;
    if (t == DType::s2 || t == DType::u2) bits = 2;
    if (t == DType::s4 || t == DType::u4) bits = 4;
    if (bits == 8) return v;
    const int low = int(v) & ((1 << bits) - 1);
    const bool negative = is_signed_integer(t) && (low >> (bits - 1)) != 0;
    return T(negative ? low - (1 << bits) : low);
  } else {
    (void)t;
    return v;
  }
}

/// The dtype whose storage type is T.
template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, Pred>) return DType::pred;
  if constexpr (std::is_same_v<T, Half>) return DType::f16;
  if constexpr (std::is_same_v<T, BFloat16>) return DType::bf16;
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  if constexpr (std::is_same_v<T, double>) return DType::f64;
  if constexpr (std::is_same_v<T, std::complex<float>>) return DType::c64;
  if constexpr (std::is_same_v<T, std::complex<double>>) return DType::c128;
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    constexpr bool s = std::is_signed_v<T>;
    if constexpr (sizeof(T) == 1) return s ? DType::s8 : DType::u8;
    if constexpr (sizeof(T) == 2) return s ? DType::s16 : DType::u16;
    if constexpr (sizeof(T) == 4) return s ? DType::s32 : DType::u32;
    if constexpr (sizeof(T) == 8) return s ? DType::s64 : DType::u64;
  }
}

template <class T>
Literal Literal::scalar(DType dtype, T value) {
  Literal out(Shape(dtype, {}));
  dispatch_dtype(dtype, [&](auto tag) {
    using S = typename decltype(tag)::type;
    out.mutable_data<S>()[0] = wrap_to_dtype(dtype, convert_element<S>(value));
  });
  return out;
}

/// Row-major values, converted to the dtype. ValueError if the counts differ.
template <class T>
Literal make_literal(DType dtype, Dims dims, const std::vector<T>& values) {
  Literal out(Shape(dtype, std::move(dims)));
  if (std::int64_t(values.size()) != out.element_count()) {
    throw ValueError(std::to_string(values.size()) + " values given for " +
                     out.shape().to_string());
  }
  dispatch_dtype(dtype, [&](auto tag) {
    using S = typename decltype(tag)::type;
    auto data = out.mutable_data<S>();
    std::size_t i = 0;
    for (auto&& v : values) data[i++] = wrap_to_dtype(dtype, convert_element<S>(T(v)));
  });
  return out;
}

/// A 1-d literal of the values' own type.
template <class T>
Literal make_literal(const std::vector<T>& values) {
  return make_literal(dtype_of<T>(), {std::int64_t(values.size())}, values);
}

/// All elements in row-major order, converted to T.
template <class T>
std::vector<T> to_vector(const Literal& literal) {
  std::vector<T> out;
  out.reserve(std::size_t(literal.element_count()));
  dispatch_dtype(literal.dtype(), [&](auto tag) {
    using S = typename decltype(tag)::type;
    for (const S& v : literal.data<S>()) out.push_back(convert_element<T>(v));
  });
  return out;
}

/// The element of a literal with one element, converted to T.
template <class T>
T to_scalar(const Literal& literal) {
  TESSERA_CHECK(literal.element_count() == 1, literal.shape().to_string() + " is no scalar");
  return to_vector<T>(literal)[0];
}

}  // namespace tessera
