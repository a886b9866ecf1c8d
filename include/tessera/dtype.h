// SPDX-License-Identifier: Apache-2.0
// Element types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tessera {

/// Element types (dtypes), under HLO's names: pred (booleans), signed (s) and unsigned (u)
/// integers, floats (f, bf) and complex numbers (c) of so many bits. Elements of fewer than 8 bits
/// occupy one byte each. `token` is the type of HLO's tokens, which have no elements.
enum class DType : std::uint8_t {
  pred,
  s1,
  s2,
  s4,
  s8,
  s16,
  s32,
  s64,
  u1,
  u2,
  u4,
  u8,
  u16,
  u32,
  u64,
  f4e2m1fn,
  f6e2m3fn,
  f6e3m2fn,
  f8e3m4,
  f8e4m3,
  f8e4m3b11fnuz,
  f8e4m3fn,
  f8e4m3fnuz,
  f8e5m2,
  f8e5m2fnuz,
  f8e8m0fnu,
  f16,
  bf16,
  f32,
  f64,
  c64,
  c128,
  token,
};

/// Short names: `array({1, 2}, f32)`.
inline constexpr DType pred = DType::pred, s8 = DType::s8, s16 = DType::s16, s32 = DType::s32,
                       s64 = DType::s64, u8 = DType::u8, u16 = DType::u16, u32 = DType::u32,
                       u64 = DType::u64, f16 = DType::f16, bf16 = DType::bf16, f32 = DType::f32,
                       f64 = DType::f64, c64 = DType::c64, c128 = DType::c128;

/// Returns the number of bytes that one element occupies: 1 for types of fewer than 8 bits, 0 for
/// token.
std::size_t byte_size(DType);
/// Returns HLO's name of a dtype, for example "bf16".
std::string_view name(DType);
/// Returns the dtype of an HLO name, or nothing if there is none.
std::optional<DType> dtype_from_name(std::string_view);

/// True for signed integers of any width.
bool is_signed_integer(DType);
/// True for unsigned integers of any width; false for pred.
bool is_unsigned_integer(DType);
/// True for signed and unsigned integers; false for pred.
bool is_integer(DType);
/// True for real floating-point types of any width; false for complex types.
bool is_floating(DType);
/// True for c64 and c128.
bool is_complex(DType);
/// Returns the dtype of the real part: f32 for c64, f64 for c128, and any other dtype itself.
DType real_type(DType);

}  // namespace tessera
