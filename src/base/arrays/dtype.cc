// SPDX-License-Identifier: Apache-2.0
// The table of element types: names here and in files and texts of others, sizes and families.
#include <tessera/dtype.h>

#include <array>

#include "src/base/arrays/dtype_names.h"

namespace tessera {
namespace {

enum class Family : std::uint8_t { predicate, signed_int, unsigned_int, floating, complex, other };

struct Row {
  DType type;
  std::string_view name;
  std::size_t bytes;
  Family family;
  /// See dtype_names.h; "" where there is none.
  std::string_view mlir, npy, safetensors;
};

constexpr std::array kRows = {
    Row{DType::pred, "pred", 1, Family::predicate, "i1", "|b1", "BOOL"},
    Row{DType::s1, "s1", 1, Family::signed_int, "", "<V1", ""},
    Row{DType::s2, "s2", 1, Family::signed_int, "i2", "<V1", ""},
    Row{DType::s4, "s4", 1, Family::signed_int, "i4", "<V1", ""},
    Row{DType::s8, "s8", 1, Family::signed_int, "i8", "|i1", "I8"},
    Row{DType::s16, "s16", 2, Family::signed_int, "i16", "<i2", "I16"},
    Row{DType::s32, "s32", 4, Family::signed_int, "i32", "<i4", "I32"},
    Row{DType::s64, "s64", 8, Family::signed_int, "i64", "<i8", "I64"},
    Row{DType::u1, "u1", 1, Family::unsigned_int, "ui1", "<V1", ""},
    Row{DType::u2, "u2", 1, Family::unsigned_int, "ui2", "<V1", ""},
    Row{DType::u4, "u4", 1, Family::unsigned_int, "ui4", "<V1", ""},
    Row{DType::u8, "u8", 1, Family::unsigned_int, "ui8", "|u1", "U8"},
    Row{DType::u16, "u16", 2, Family::unsigned_int, "ui16", "<u2", "U16"},
    Row{DType::u32, "u32", 4, Family::unsigned_int, "ui32", "<u4", "U32"},
    Row{DType::u64, "u64", 8, Family::unsigned_int, "ui64", "<u8", "U64"},
    Row{DType::f4e2m1fn, "f4e2m1fn", 1, Family::floating, "f4E2M1FN", "<V1", ""},
    Row{DType::f6e2m3fn, "f6e2m3fn", 1, Family::floating, "f6E2M3FN", "<V1", ""},
    Row{DType::f6e3m2fn, "f6e3m2fn", 1, Family::floating, "f6E3M2FN", "<V1", ""},
    Row{DType::f8e3m4, "f8e3m4", 1, Family::floating, "f8E3M4", "<V1", ""},
    Row{DType::f8e4m3, "f8e4m3", 1, Family::floating, "f8E4M3", "<V1", ""},
    Row{DType::f8e4m3b11fnuz, "f8e4m3b11fnuz", 1, Family::floating, "f8E4M3B11FNUZ", "<V1", ""},
    Row{DType::f8e4m3fn, "f8e4m3fn", 1, Family::floating, "f8E4M3FN", "<V1", "F8_E4M3"},
    Row{DType::f8e4m3fnuz, "f8e4m3fnuz", 1, Family::floating, "f8E4M3FNUZ", "<V1", "F8_E4M3FNUZ"},
    Row{DType::f8e5m2, "f8e5m2", 1, Family::floating, "f8E5M2", "<V1", "F8_E5M2"},
    Row{DType::f8e5m2fnuz, "f8e5m2fnuz", 1, Family::floating, "f8E5M2FNUZ", "<V1", "F8_E5M2FNUZ"},
    Row{DType::f8e8m0fnu, "f8e8m0fnu", 1, Family::floating, "f8E8M0FNU", "<V1", "F8_E8M0"},
    Row{DType::f16, "f16", 2, Family::floating, "f16", "<f2", "F16"},
    Row{DType::bf16, "bf16", 2, Family::floating, "bf16", "<V2", "BF16"},
    Row{DType::f32, "f32", 4, Family::floating, "f32", "<f4", "F32"},
    Row{DType::f64, "f64", 8, Family::floating, "f64", "<f8", "F64"},
    Row{DType::c64, "c64", 8, Family::complex, "complex<f32>", "<c8", "C64"},
    Row{DType::c128, "c128", 16, Family::complex, "complex<f64>", "<c16", ""},
    Row{DType::token, "token", 0, Family::other, "", "", ""},
};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (std::size_t(kRows[i].type) != i) return false;
  }
  return kRows.size() == std::size_t(DType::token) + 1;
}
static_assert(in_order(), "the table is indexed by the enumerator");

const Row& row(DType t) { return kRows[std::size_t(t)]; }

}  // namespace

std::size_t byte_size(DType t) { return row(t).bytes; }
std::string_view name(DType t) { return row(t).name; }

std::optional<DType> dtype_from_name(std::string_view text) {
  for (const Row& r : kRows) {
    if (r.name == text) return r.type;
  }
  return std::nullopt;
}

std::string_view mlir_name(DType t) { return row(t).mlir; }
std::string_view npy_name(DType t) { return row(t).npy; }
std::string_view safetensors_name(DType t) { return row(t).safetensors; }

namespace {
std::optional<DType> named(std::string_view Row::*column, std::string_view text) {
  for (const Row& r : kRows) {
    if (!text.empty() && r.*column == text) return r.type;
  }
  return std::nullopt;
}
}  // namespace

std::optional<DType> dtype_from_mlir(std::string_view text) {
  // Signed integers are signless in StableHLO, and `index` has 64 bits in all of its programs.
  if (text == "index") return DType::s64;
  if (text.substr(0, 2) == "si") {
    const std::optional<DType> signless = named(&Row::mlir, text.substr(1));
    return signless && is_signed_integer(*signless) ? signless : std::nullopt;
  }
  return named(&Row::mlir, text);
}

std::optional<DType> dtype_from_npy(std::string_view text) {
  const std::optional<DType> dtype = named(&Row::npy, text);
  return dtype && text != "<V1" ? dtype : std::nullopt;
}

std::optional<DType> dtype_from_safetensors(std::string_view text) {
  return named(&Row::safetensors, text);
}

bool is_signed_integer(DType t) { return row(t).family == Family::signed_int; }
bool is_unsigned_integer(DType t) { return row(t).family == Family::unsigned_int; }
bool is_integer(DType t) { return is_signed_integer(t) || is_unsigned_integer(t); }
bool is_floating(DType t) { return row(t).family == Family::floating; }
bool is_complex(DType t) { return row(t).family == Family::complex; }

DType real_type(DType t) {
  if (t == DType::c64) return DType::f32;
  if (t == DType::c128) return DType::f64;
  return t;
}

}  // namespace tessera
