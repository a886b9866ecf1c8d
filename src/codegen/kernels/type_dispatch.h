// SPDX-License-Identifier: Apache-2.0
// Functions that are instantiated for some element types, found by dtype.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "src/base/arrays/literal_util.h"

namespace tessera::codegen {

/// Types of elements, as a value: `kFloats + kComplex`.
template <class... T>
struct ElementTypes {};
template <class... A, class... B>
constexpr ElementTypes<A..., B...> operator+(ElementTypes<A...>, ElementTypes<B...>) {
  return {};
}

inline constexpr ElementTypes<Pred> kPred;
inline constexpr ElementTypes<std::int8_t, std::int16_t, std::int32_t, std::int64_t> kSigned;
inline constexpr ElementTypes<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t> kUnsigned;
inline constexpr ElementTypes<Half, BFloat16> kHalves;
inline constexpr ElementTypes<float, double> kFloats;
inline constexpr ElementTypes<std::complex<float>, std::complex<double>> kComplex;
/// All that stand in memory as they are computed with, or as half of it.
inline constexpr auto kWholeBytes = kPred + kSigned + kUnsigned + kHalves + kFloats + kComplex;

template <class... T>
constexpr bool is_one_of(ElementTypes<T...>, DType t) {
  return ((t == dtype_of<T>()) || ...);
}

/// f(TypeTag<T>{}) for the type of that dtype; an empty result, as a null function, if it is none
/// of these.
template <class... T, class F>
auto for_type(ElementTypes<T...>, DType t, F&& f) {
  std::common_type_t<decltype(f(TypeTag<T>{}))...> out{};
  (void)((t == dtype_of<T>() && (out = f(TypeTag<T>{}), true)) || ...);
  return out;
}

/// Elements of 16 bytes (c128), for kernels that move elements as they are.
struct Bytes16 {
  std::uint64_t low, high;
};
/// A type for each size of elements, whatever they mean.
inline constexpr auto kOfEachSize = kUnsigned + ElementTypes<Bytes16>{};

/// f(TypeTag<T>{}) for the type of so many bytes; an empty result if it is none of these.
template <class... T, class F>
auto for_size(ElementTypes<T...>, std::size_t bytes, F&& f) {
  std::common_type_t<decltype(f(TypeTag<T>{}))...> out{};
  (void)((bytes == sizeof(T) && (out = f(TypeTag<T>{}), true)) || ...);
  return out;
}

/// f(std::integral_constant<std::size_t, n>{}) if n is one of these; else an empty result.
template <std::size_t... kValues, class F>
auto for_constant(std::size_t n, F&& f) {
  std::common_type_t<decltype(f(std::integral_constant<std::size_t, kValues>{}))...> out{};
  (void)((n == kValues && (out = f(std::integral_constant<std::size_t, kValues>{}), true)) || ...);
  return out;
}

/// Signed integers as the unsigned ones of their width, for arithmetic that wraps and has the same
/// bits for both.
constexpr DType wrapping_type(DType t) {
  return t == DType::s8    ? DType::u8
         : t == DType::s16 ? DType::u16
         : t == DType::s32 ? DType::u32
         : t == DType::s64 ? DType::u64
                           : t;
}

}  // namespace tessera::codegen
