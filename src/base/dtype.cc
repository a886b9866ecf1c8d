// SPDX-License-Identifier: Apache-2.0
// The table of element types: names, sizes and families.
#include <tessera/dtype.h>

#include <array>

namespace tessera {
namespace {

enum class Family : std::uint8_t { predicate, signed_int, unsigned_int, floating, complex, other };

struct Row {
  DType type;
  std::string_view name;
  std::size_t bytes;
  Family family;
};

constexpr std::array kRows = {
    Row{DType::pred, "pred", 1, Family::predicate},
    Row{DType::s1, "s1", 1, Family::signed_int},
    Row{DType::s2, "s2", 1, Family::signed_int},
    Row{DType::s4, "s4", 1, Family::signed_int},
    Row{DType::s8, "s8", 1, Family::signed_int},
    Row{DType::s16, "s16", 2, Family::signed_int},
    Row{DType::s32, "s32", 4, Family::signed_int},
    Row{DType::s64, "s64", 8, Family::signed_int},
    Row{DType::u1, "u1", 1, Family::unsigned_int},
    Row{DType::u2, "u2", 1, Family::unsigned_int},
    Row{DType::u4, "u4", 1, Family::unsigned_int},
    Row{DType::u8, "u8", 1, Family::unsigned_int},
    Row{DType::u16, "u16", 2, Family::unsigned_int},
    Row{DType::u32, "u32", 4, Family::unsigned_int},
    Row{DType::u64, "u64", 8, Family::unsigned_int},
    Row{DType::f4e2m1fn, "f4e2m1fn", 1, Family::floating},
    Row{DType::f6e2m3fn, "f6e2m3fn", 1, Family::floating},
    Row{DType::f6e3m2fn, "f6e3m2fn", 1, Family::floating},
    Row{DType::f8e3m4, "f8e3m4", 1, Family::floating},
    Row{DType::f8e4m3, "f8e4m3", 1, Family::floating},
    Row{DType::f8e4m3b11fnuz, "f8e4m3b11fnuz", 1, Family::floating},
    Row{DType::f8e4m3fn, "f8e4m3fn", 1, Family::floating},
    Row{DType::f8e4m3fnuz, "f8e4m3fnuz", 1, Family::floating},
    Row{DType::f8e5m2, "f8e5m2", 1, Family::floating},
    Row{DType::f8e5m2fnuz, "f8e5m2fnuz", 1, Family::floating},
    Row{DType::f8e8m0fnu, "f8e8m0fnu", 1, Family::floating},
    Row{DType::f16, "f16", 2, Family::floating},
    Row{DType::bf16, "bf16", 2, Family::floating},
    Row{DType::f32, "f32", 4, Family::floating},
    Row{DType::f64, "f64", 8, Family::floating},
    Row{DType::c64, "c64", 8, Family::complex},
    Row{DType::c128, "c128", 16, Family::complex},
    Row{DType::token, "token", 0, Family::other},
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
