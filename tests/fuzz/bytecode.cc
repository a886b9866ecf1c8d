// SPDX-License-Identifier: Apache-2.0
// MLIR bytecode: what is accepted is a module that verifies, that HLO text can carry and that is
// the same when it is written and read again.
#include "src/text/bytecode/bytecode.h"

#include "src/ir/hlo/hlo_text.h"
#include "src/ir/shapes/shape_inference.h"
#include "src/text/read/stablehlo.h"
#include "src/text/write/stablehlo.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/open_arguments.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera;
  // A copy of just these bytes, so that none behind them is read unnoticed.
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  std::unique_ptr<ir::Module> module;
  if (!fuzz::accepts(
          [&] { module = text::parse_bytecode(bytes, "<fuzz>", &fuzz::some_arguments); }))
    return 0;
  fuzz::must("an accepted module does not verify", [&] { ir::verify(*module); });
  fuzz::must("the module's HLO text is refused", [&] {
    const std::string printed = ir::to_string(*module);
    fuzz::same_text(printed, ir::to_string(*ir::parse_hlo(printed)), "the text of a module");
  });
  // Not all that HLO has is StableHLO's; what is written is read.
  std::string written;
  if (!fuzz::accepts([&] { written = text::to_bytecode(*module, {}); })) return 0;
  fuzz::must("the bytecode that is written is refused", [&] {
    // One reading settles what the first bytes left open, such as the order of attributes.
    const auto settled = text::parse_bytecode(written);
    const auto again = text::parse_bytecode(text::to_bytecode(*settled, {}));
    fuzz::same_text(text::to_stablehlo(*settled), text::to_stablehlo(*again), "written bytecode");
  });
  return 0;
}
