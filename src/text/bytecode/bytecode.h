// SPDX-License-Identifier: Apache-2.0
// StableHLO as MLIR bytecode: portable artifacts (VHLO), as `jax.export` and PJRT clients write
// them, and StableHLO's own encoding.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "src/ir/module.h"
#include "src/text/read/open_types.h"

namespace tessera::text {

/// Whether it begins as MLIR bytecode does.
bool is_bytecode(std::string_view bytes);

/// Reads a module in versions 0 to 6 of MLIR's bytecode: vhlo of StableHLO 0.9 and later, or
/// stablehlo and chlo, both with sdy and func. The result is what `parse_stablehlo` gives for the
/// same module as text, but that values without a name in their locations have other names.
/// ParseError names the byte, the operation, and the line of the user's program if it is known; the
/// module is verified. `arguments`: as for `parse_stablehlo`. `file`: for messages.
std::unique_ptr<ir::Module> parse_bytecode(std::string_view bytes,
                                           const std::string& file = "<bytecode>",
                                           const Arguments* arguments = nullptr);

struct WriteOptions;

/// Writes a module as a portable artifact of StableHLO 1.10 (vhlo, with sdy, chlo and mhlo as they
/// are), which JAX since 0.7, StableHLO's tools and PJRT clients read. What is written is what
/// `to_stablehlo` writes as text; its errors are those. Equal modules give equal bytes.
std::string to_bytecode(const ir::Module& module, const WriteOptions& options);

}  // namespace tessera::text
