// SPDX-License-Identifier: Apache-2.0
// Indices of any integer type, as 64-bit ones.
#include "src/codegen/kernels/read_index.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "src/codegen/kernels/type_dispatch.h"

namespace tessera::codegen {

std::int64_t read_index(const std::byte* scalar, DType dtype) {
  if (dtype == DType::s32) {
    std::int32_t v;
    std::memcpy(&v, scalar, sizeof v);
    return v;
  }
  return dispatch_dtype(dtype, [&](auto tag) -> std::int64_t {
    using T = typename decltype(tag)::type;
    T v;
    std::memcpy(&v, scalar, sizeof v);
    if constexpr (std::is_same_v<T, std::uint64_t>) {
      return std::int64_t(std::min<std::uint64_t>(v, std::uint64_t(INT64_MAX)));
    }
    return convert_element<std::int64_t>(v);
  });
}

}  // namespace tessera::codegen
