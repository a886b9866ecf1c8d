// SPDX-License-Identifier: Apache-2.0
// Loads elements of any dtype as double, 64-bit integer or complex, and stores them back rounded.
#include "src/evaluator/wide.h"

#include <type_traits>

#include "src/base/arrays/small_floats.h"

namespace tessera::evaluator {

Domain domain_of(DType t) {
  if (is_complex(t)) return Domain::complex;
  if (is_floating(t)) return Domain::real;
  return Domain::integer;
}

namespace {

template <class T>
struct IsComplex : std::false_type {};
template <class T>
struct IsComplex<std::complex<T>> : std::true_type {};

template <class T>
constexpr bool is_integer_type = std::is_integral_v<T> || std::is_same_v<T, Pred>;

[[noreturn]] void wrong_domain(DType t) {
  throw DTypeError("elements of type " + std::string(name(t)) + " can't be used by this operation");
}

template <class T, class W>
W widen(const T& v) {
  if constexpr (std::is_same_v<T, Pred>) {
    return W(v.value != 0 ? 1 : 0);
  } else if constexpr (std::is_integral_v<T> && std::is_same_v<W, std::uint64_t>) {
    return std::uint64_t(std::int64_t(v));
  } else if constexpr (IsComplex<T>::value) {
    return W(v.real(), v.imag());
  } else {
    return W(double(v));
  }
}

/// Signed numbers of fewer than 8 bits are kept sign-extended in their byte.
std::uint64_t cut(std::uint64_t v, int width, bool is_signed) {
  if (width >= 64) return v;
  const std::uint64_t mask = (std::uint64_t(1) << width) - 1;
  v &= mask;
  if (is_signed && (v >> (width - 1)) != 0) v |= ~mask;
  return v;
}

template <class W>
void load_as(DType t, const std::byte* from, std::int64_t n, W* to) {
  if (is_small_float(t)) {
    if constexpr (std::is_same_v<W, std::uint64_t>) {
      wrong_domain(t);
    } else {
      for (std::int64_t i = 0; i < n; ++i) to[i] = small_float_value(t, std::uint8_t(from[i]));
      return;
    }
  }
  dispatch_dtype(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<W, std::uint64_t> && !is_integer_type<T>) {
      wrong_domain(t);
    } else if constexpr (std::is_same_v<W, double> && IsComplex<T>::value) {
      wrong_domain(t);
    } else {
      const T* p = reinterpret_cast<const T*>(from);
      for (std::int64_t i = 0; i < n; ++i) to[i] = widen<T, W>(p[i]);
    }
  });
}

template <class U>
void bits_in(const std::byte* from, std::int64_t n, std::uint64_t* to) {
  const U* p = reinterpret_cast<const U*>(from);
  for (std::int64_t i = 0; i < n; ++i) to[i] = p[i];
}
template <class U>
void bits_out(const std::uint64_t* from, std::int64_t n, std::byte* to) {
  U* p = reinterpret_cast<U*>(to);
  for (std::int64_t i = 0; i < n; ++i) p[i] = U(from[i]);
}

}  // namespace

void load(DType t, const std::byte* from, std::int64_t n, std::uint64_t* to) {
  load_as(t, from, n, to);
}
void load(DType t, const std::byte* from, std::int64_t n, double* to) { load_as(t, from, n, to); }
void load(DType t, const std::byte* from, std::int64_t n, Complex* to) { load_as(t, from, n, to); }

void store(DType t, const std::uint64_t* from, std::int64_t n, std::byte* to) {
  if (is_floating(t)) wrong_domain(t);
  const int width = bit_width(t);
  dispatch_dtype(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* p = reinterpret_cast<T*>(to);
    if constexpr (std::is_same_v<T, Pred>) {
      for (std::int64_t i = 0; i < n; ++i) p[i] = Pred(from[i] != 0);
    } else if constexpr (std::is_integral_v<T>) {
      for (std::int64_t i = 0; i < n; ++i) p[i] = T(cut(from[i], width, std::is_signed_v<T>));
    } else {
      wrong_domain(t);
    }
  });
}

void store(DType t, const double* from, std::int64_t n, std::byte* to) {
  if (is_small_float(t)) {
    // By way of f32, as it is computed elsewhere: what is zero there is no power of two.
    const auto narrowed = [&](double v) { return t == DType::f8e8m0fnu ? double(float(v)) : v; };
    for (std::int64_t i = 0; i < n; ++i) to[i] = std::byte(small_float_bits(t, narrowed(from[i])));
    return;
  }
  dispatch_dtype(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (is_integer_type<T> || IsComplex<T>::value) {
      wrong_domain(t);
    } else {
      T* p = reinterpret_cast<T*>(to);
      for (std::int64_t i = 0; i < n; ++i) p[i] = T(from[i]);
    }
  });
}

void store(DType t, const Complex* from, std::int64_t n, std::byte* to) {
  if (!is_complex(t)) wrong_domain(t);
  dispatch_dtype(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (IsComplex<T>::value) {
      using Part = typename T::value_type;
      T* p = reinterpret_cast<T*>(to);
      for (std::int64_t i = 0; i < n; ++i) p[i] = T(Part(from[i].real()), Part(from[i].imag()));
    } else {
      wrong_domain(t);
    }
  });
}

void load_bits(std::size_t size, const std::byte* from, std::int64_t n, std::uint64_t* to) {
  switch (size) {
    case 1:
      return bits_in<std::uint8_t>(from, n, to);
    case 2:
      return bits_in<std::uint16_t>(from, n, to);
    case 4:
      return bits_in<std::uint32_t>(from, n, to);
    default:
      TESSERA_CHECK(size == 8, "elements are too wide to be read as bits");
      return bits_in<std::uint64_t>(from, n, to);
  }
}

void store_bits(std::size_t size, const std::uint64_t* from, std::int64_t n, std::byte* to) {
  switch (size) {
    case 1:
      return bits_out<std::uint8_t>(from, n, to);
    case 2:
      return bits_out<std::uint16_t>(from, n, to);
    case 4:
      return bits_out<std::uint32_t>(from, n, to);
    default:
      TESSERA_CHECK(size == 8, "elements are too wide to be written as bits");
      return bits_out<std::uint64_t>(from, n, to);
  }
}

}  // namespace tessera::evaluator
