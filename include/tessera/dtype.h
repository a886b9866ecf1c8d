// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tessera {

/// Element types, with HLO's names. Types of fewer than 8 bits are stored one per byte.
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

/// Short names, so that code reads `array({1, 2}, f32)`.
inline constexpr DType pred = DType::pred, s8 = DType::s8, s16 = DType::s16, s32 = DType::s32,
                       s64 = DType::s64, u8 = DType::u8, u16 = DType::u16, u32 = DType::u32,
                       u64 = DType::u64, f16 = DType::f16, bf16 = DType::bf16, f32 = DType::f32,
                       f64 = DType::f64, c64 = DType::c64, c128 = DType::c128;

/// Bytes that one element occupies in memory (1 for types below 8 bits, 0 for tokens).
std::size_t byte_size(DType);
/// HLO's name, for example "bf16".
std::string_view name(DType);
/// The type of that HLO name; empty if there is none.
std::optional<DType> dtype_from_name(std::string_view);

bool is_signed_integer(DType);
bool is_unsigned_integer(DType);
/// Signed or unsigned integer; false for pred.
bool is_integer(DType);
/// Real floating point of any width.
bool is_floating(DType);
bool is_complex(DType);
/// f32 for c64, f64 for c128, else the type itself.
DType real_type(DType);

}  // namespace tessera
