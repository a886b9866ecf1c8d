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
#define ELEMENT_TYPE(dtype, type, primitive) {DType::dtype, PJRT_Buffer_Type_##type, primitive},
#include "src/pjrt/abi/element_types.inc"
#undef ELEMENT_TYPE
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
