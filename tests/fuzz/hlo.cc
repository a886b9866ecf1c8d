// SPDX-License-Identifier: Apache-2.0
// HLO text: what is accepted verifies and prints, and the printed text reads back to the same; what
// StableHLO can say of it is read back too.
#include "src/ir/hlo/hlo_text.h"

#include "src/ir/shapes/shape_inference.h"
#include "src/text/read/stablehlo.h"
#include "tests/fuzz/text_mutator.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::unique_ptr<ir::Module> module;
  if (!fuzz::accepts([&] { module = ir::parse_hlo(text); })) return 0;
  fuzz::must("an accepted module does not verify", [&] { ir::verify(*module); });
  fuzz::must("printed text is refused", [&] {
    const std::string printed = ir::to_string(*module);
    fuzz::same_text(printed, ir::to_string(*ir::parse_hlo(printed)), "the text of a module");
  });
  std::string written;
  if (!fuzz::accepts([&] { written = text::to_stablehlo(*module); })) return 0;
  fuzz::must("written StableHLO is refused", [&] { text::parse_stablehlo(written); });
  return 0;
}
