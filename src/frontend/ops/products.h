// SPDX-License-Identifier: Apache-2.0
// The dot that all products are staged as.
#pragma once

#include <string>

#include <tessera/ops/products.h>

#include "src/frontend/ops/internal.h"

namespace tessera::frontend {

/// The dot of two arrays of one dtype; dims must be in range and their sizes must match.
Array dotted(const Array& a, const Array& b, ir::DotAttrs attrs, std::optional<DType> preferred,
             Location location, const std::string& name);

}  // namespace tessera::frontend
