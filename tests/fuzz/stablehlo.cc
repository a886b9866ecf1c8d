// SPDX-License-Identifier: Apache-2.0
// StableHLO text: what is accepted is a module that verifies and that HLO text can carry; what is
// written of it reads back to a module that is written the same.
#include "src/text/read/stablehlo.h"

#include "src/ir/hlo/hlo_text.h"
#include "src/ir/shapes/shape_inference.h"
#include "tests/fuzz/open_arguments.h"
#include "tests/fuzz/text_mutator.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::unique_ptr<ir::Module> module;
  if (!fuzz::accepts(
          [&] { module = text::parse_stablehlo(text, "<fuzz>", &fuzz::some_arguments); }))
    return 0;
  fuzz::must("an accepted module does not verify", [&] { ir::verify(*module); });
  fuzz::must("the module's HLO text is refused", [&] {
    const std::string printed = ir::to_string(*module);
    fuzz::same_text(printed, ir::to_string(*ir::parse_hlo(printed)), "the text of a module");
  });
  std::string written;
  if (!fuzz::accepts([&] { written = text::to_stablehlo(*module); })) return 0;
  fuzz::must("written StableHLO is refused", [&] {
    // One reading settles what the first text left open, names above all.
    const std::string settled = text::to_stablehlo(*text::parse_stablehlo(written));
    fuzz::same_text(settled, text::to_stablehlo(*text::parse_stablehlo(settled)),
                    "written StableHLO");
  });
  return 0;
}
