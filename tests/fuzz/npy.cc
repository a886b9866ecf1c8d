// SPDX-License-Identifier: Apache-2.0
// numpy's files: what is accepted is written and read back to the same array.
#include "src/base/files/npy.h"

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (std::optional<DType> as : {std::optional<DType>(), std::optional(DType::bf16),
                                  std::optional(DType::f8e4m3fn), std::optional(DType::s4)}) {
    Literal value;
    if (!fuzz::accepts([&] { value = parse_npy(bytes, "input", as); })) continue;
    fuzz::must("a written array is refused", [&] {
      if (!(parse_npy(to_npy(value), "written", value.dtype()) == value)) {
        throw RuntimeError("the array changed: " + value.shape().to_string());
      }
    });
  }
  return 0;
}
