// SPDX-License-Identifier: Apache-2.0
// StableHLO text with shardings in the sdy dialect: what `jax.jit(f).lower(...).as_text()` prints.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "src/ir/module.h"
#include "src/text/read/open_types.h"

namespace tessera::text {

/// Reads a module in the pretty or the generic form; StableHLO, chlo, sdy, func. The result means
/// what XLA's conversion to HLO gives: flat parameters, a tuple root for several results, captured
/// values as operands. ParseError names line and column; the module is verified.
/// A program with dims of unknown size (`tensor<?x4xf32>`) is read for certain arguments:
/// `arguments` is asked for them, and if it gives none the result is null. NotImplementedError
/// without it, or if some sizes don't follow from the arguments; ShapeError if the program refuses
/// them (`shape_assertion`). `file`: for messages.
std::unique_ptr<ir::Module> parse_stablehlo(std::string_view text,
                                            const std::string& file = "<stablehlo>",
                                            const Arguments* arguments = nullptr);

/// The module as StableHLO with sdy, as JAX's parser takes it.
std::string to_stablehlo(const ir::Module& module);

}  // namespace tessera::text
