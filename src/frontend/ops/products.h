// SPDX-License-Identifier: Apache-2.0
// The dot that all products are staged as, and the checks that products share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <tessera/ops/products.h>

#include "src/frontend/ops/internal.h"

namespace tessera::frontend {

/// The dot of two arrays of one dtype; dims must be in range and their sizes must match.
Array dotted(const Array& a, const Array& b, ir::DotAttrs attrs, std::optional<DType> preferred,
             Location location, const std::string& name);

/// Two arrays converted to their promoted dtype.
std::vector<Array> common_dtype(const Array& a, const Array& b, Location location);
/// DTypeError unless products of the dtype can be accumulated in the preferred one.
void check_preferred(const std::string& op, DType dtype, const std::optional<DType>& preferred,
                     Location location);
/// As attributes say it, for both operands; empty for the standard one.
std::vector<std::string> operand_precision(Precision precision);

}  // namespace tessera::frontend
