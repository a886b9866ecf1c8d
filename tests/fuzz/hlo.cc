// SPDX-License-Identifier: Apache-2.0
// HLO text: what is accepted prints, and the printed text reads back to the same.
#include "src/ir/hlo_text.h"

#include "src/ir/shape_inference.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::unique_ptr<ir::Module> module;
  if (!fuzz::accepts([&] {
        module = ir::parse_hlo(text);
        ir::verify(*module);
      })) {
    return 0;
  }
  fuzz::must("printed text is refused", [&] {
    const std::string printed = ir::to_string(*module);
    fuzz::same_text(printed, ir::to_string(*ir::parse_hlo(printed)), "the text of a module");
  });
  return 0;
}
