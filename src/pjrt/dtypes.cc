// SPDX-License-Identifier: Apache-2.0
// Element types of the API.
#include <array>
#include <utility>

#include "src/pjrt/objects.h"

namespace tessera::pjrt {
namespace {

constexpr std::array<std::pair<PJRT_Buffer_Type, DType>, 33> kTypes{{
    {PJRT_Buffer_Type_PRED, DType::pred},
    {PJRT_Buffer_Type_S2, DType::s2},
    {PJRT_Buffer_Type_S4, DType::s4},
    {PJRT_Buffer_Type_S8, DType::s8},
    {PJRT_Buffer_Type_S16, DType::s16},
    {PJRT_Buffer_Type_S32, DType::s32},
    {PJRT_Buffer_Type_S64, DType::s64},
    {PJRT_Buffer_Type_U2, DType::u2},
    {PJRT_Buffer_Type_U4, DType::u4},
    {PJRT_Buffer_Type_U8, DType::u8},
    {PJRT_Buffer_Type_U16, DType::u16},
    {PJRT_Buffer_Type_U32, DType::u32},
    {PJRT_Buffer_Type_U64, DType::u64},
    {PJRT_Buffer_Type_F16, DType::f16},
    {PJRT_Buffer_Type_BF16, DType::bf16},
    {PJRT_Buffer_Type_F32, DType::f32},
    {PJRT_Buffer_Type_F64, DType::f64},
    {PJRT_Buffer_Type_C64, DType::c64},
    {PJRT_Buffer_Type_C128, DType::c128},
    {PJRT_Buffer_Type_F8E5M2, DType::f8e5m2},
    {PJRT_Buffer_Type_F8E4M3FN, DType::f8e4m3fn},
    {PJRT_Buffer_Type_F8E4M3B11FNUZ, DType::f8e4m3b11fnuz},
    {PJRT_Buffer_Type_F8E5M2FNUZ, DType::f8e5m2fnuz},
    {PJRT_Buffer_Type_F8E4M3FNUZ, DType::f8e4m3fnuz},
    {PJRT_Buffer_Type_F8E4M3, DType::f8e4m3},
    {PJRT_Buffer_Type_F8E3M4, DType::f8e3m4},
    {PJRT_Buffer_Type_F8E8M0FNU, DType::f8e8m0fnu},
    {PJRT_Buffer_Type_F4E2M1FN, DType::f4e2m1fn},
    {PJRT_Buffer_Type_S1, DType::s1},
    {PJRT_Buffer_Type_U1, DType::u1},
    {PJRT_Buffer_Type_F6E2M3FN, DType::f6e2m3fn},
    {PJRT_Buffer_Type_F6E3M2FN, DType::f6e3m2fn},
    {PJRT_Buffer_Type_TOKEN, DType::token},
}};

}  // namespace

DType dtype_of(std::uint32_t type) {
  for (const auto& [number, dtype] : kTypes) {
    if (number == type) return dtype;
  }
  throw Failure(PJRT_Error_Code_UNIMPLEMENTED,
                "element type " + std::to_string(type) + " of the PJRT API is not known");
}

std::uint32_t type_of(DType dtype) {
  for (const auto& [number, known] : kTypes) {
    if (known == dtype) return number;
  }
  throw Failure(PJRT_Error_Code_UNIMPLEMENTED,
                "arrays of " + std::string(tessera::name(dtype)) + " have no type in the PJRT API");
}

}  // namespace tessera::pjrt
