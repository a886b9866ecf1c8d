// SPDX-License-Identifier: Apache-2.0
// The table of element types.
#include "src/pjrt/dtypes.h"

#include <string>

#include "src/pjrt/status.h"

namespace tessera::pjrt {
namespace {

struct Row {
  DType dtype;
  PJRT_Buffer_Type type;
  std::uint32_t primitive;
};

constexpr Row kRows[] = {
    {DType::pred, PJRT_Buffer_Type_PRED, 1},
    {DType::s2, PJRT_Buffer_Type_S2, 26},
    {DType::s4, PJRT_Buffer_Type_S4, 21},
    {DType::s8, PJRT_Buffer_Type_S8, 2},
    {DType::s16, PJRT_Buffer_Type_S16, 3},
    {DType::s32, PJRT_Buffer_Type_S32, 4},
    {DType::s64, PJRT_Buffer_Type_S64, 5},
    {DType::u2, PJRT_Buffer_Type_U2, 27},
    {DType::u4, PJRT_Buffer_Type_U4, 22},
    {DType::u8, PJRT_Buffer_Type_U8, 6},
    {DType::u16, PJRT_Buffer_Type_U16, 7},
    {DType::u32, PJRT_Buffer_Type_U32, 8},
    {DType::u64, PJRT_Buffer_Type_U64, 9},
    {DType::f16, PJRT_Buffer_Type_F16, 10},
    {DType::bf16, PJRT_Buffer_Type_BF16, 16},
    {DType::f32, PJRT_Buffer_Type_F32, 11},
    {DType::f64, PJRT_Buffer_Type_F64, 12},
    {DType::c64, PJRT_Buffer_Type_C64, 15},
    {DType::c128, PJRT_Buffer_Type_C128, 18},
    {DType::f8e5m2, PJRT_Buffer_Type_F8E5M2, 19},
    {DType::f8e4m3fn, PJRT_Buffer_Type_F8E4M3FN, 20},
    {DType::f8e4m3b11fnuz, PJRT_Buffer_Type_F8E4M3B11FNUZ, 23},
    {DType::f8e5m2fnuz, PJRT_Buffer_Type_F8E5M2FNUZ, 24},
    {DType::f8e4m3fnuz, PJRT_Buffer_Type_F8E4M3FNUZ, 25},
    {DType::f8e4m3, PJRT_Buffer_Type_F8E4M3, 28},
    {DType::f8e3m4, PJRT_Buffer_Type_F8E3M4, 29},
    {DType::f8e8m0fnu, PJRT_Buffer_Type_F8E8M0FNU, 33},
    {DType::f4e2m1fn, PJRT_Buffer_Type_F4E2M1FN, 32},
    {DType::s1, PJRT_Buffer_Type_S1, 30},
    {DType::u1, PJRT_Buffer_Type_U1, 31},
    {DType::f6e2m3fn, PJRT_Buffer_Type_F6E2M3FN, 34},
    {DType::f6e3m2fn, PJRT_Buffer_Type_F6E3M2FN, 35},
    {DType::token, PJRT_Buffer_Type_TOKEN, 17},
};

const Row& row_of(DType dtype) {
  for (const Row& r : kRows) {
    if (r.dtype == dtype) return r;
  }
  throw Failure(PJRT_Error_Code_UNIMPLEMENTED,
                "arrays of " + std::string(tessera::name(dtype)) + " have no type in the PJRT API");
}

}  // namespace

DType dtype_of(std::uint32_t type) {
  for (const Row& r : kRows) {
    if (r.type == type) return r.dtype;
  }
  throw Failure(PJRT_Error_Code_UNIMPLEMENTED,
                "element type " + std::to_string(type) + " of the PJRT API is not known");
}

std::uint32_t type_of(DType dtype) { return row_of(dtype).type; }

std::optional<DType> dtype_of_primitive(std::uint32_t type) {
  for (const Row& r : kRows) {
    if (r.primitive == type) return r.dtype;
  }
  return std::nullopt;
}

std::uint32_t primitive_type(DType dtype) { return row_of(dtype).primitive; }

}  // namespace tessera::pjrt
