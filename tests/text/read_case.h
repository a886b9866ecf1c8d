// SPDX-License-Identifier: Apache-2.0
// Short programs of StableHLO: reads, verifies and evaluates them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/ir/hooks.h"
#include "tests/text/programs.h"

namespace tessera::text {

/// Text that is right.
inline std::unique_ptr<ir::Module> read_verified(const std::string& text) {
  auto module = parse_stablehlo(text, "t.mlir");
  ir::verify(*module);
  return module;
}

/// The same of a function of that signature.
inline std::unique_ptr<ir::Module> read_main(const std::string& signature,
                                             const std::string& operations) {
  return read_verified("func.func @main" + signature + " {\n" + operations + "\n}\n");
}

/// The only instruction of an opcode in the entry.
inline const ir::Instruction* only(const ir::Module& m, ir::Opcode op) {
  const ir::Instruction* found = nullptr;
  for (const auto& i : m.entry()->instructions()) {
    if (!i->is(op)) continue;
    EXPECT_EQ(found, nullptr) << ir::name(op) << " stands twice";
    found = i.get();
  }
  EXPECT_NE(found, nullptr) << "no " << ir::name(op);
  return found;
}

template <class T>
std::vector<T> evaluated(const ir::Module& m, std::vector<Literal> arguments = {}) {
  return to_vector<T>(evaluator::evaluate(m, arguments));
}

}  // namespace tessera::text
