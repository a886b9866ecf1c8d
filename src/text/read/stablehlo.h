// SPDX-License-Identifier: Apache-2.0
// StableHLO text with shardings in the sdy dialect: what `jax.jit(f).lower(...).as_text()` prints.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "src/ir/module.h"

namespace tessera::text {

/// Reads a module in the pretty or the generic form; StableHLO, chlo, sdy, func. The result means
/// what XLA's conversion to HLO gives: flat parameters, a tuple root for several results, captured
/// values as operands. ParseError names line and column; the module is verified.
/// `file`: for messages.
std::unique_ptr<ir::Module> parse_stablehlo(std::string_view text,
                                            const std::string& file = "<stablehlo>");

/// The module as StableHLO with sdy, as JAX's parser takes it.
std::string to_stablehlo(const ir::Module& module);

}  // namespace tessera::text
