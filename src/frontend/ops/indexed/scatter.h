// SPDX-License-Identifier: Apache-2.0
// Scatters at computed positions, for other ops to build on.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <tessera/ops/gather_scatter.h>

#include "src/frontend/ops/internal.h"

namespace tessera::frontend {

/// How a scatter combines elements and updates. `add`, `multiply` of pred are or, and.
enum class Combine : std::uint8_t { replace, add, multiply, minimum, maximum };
/// The opcode for a dtype; none for `replace`.
std::optional<ir::Opcode> opcode_of(Combine combine, DType t);

/// A scatter as HLO has it; all in order, nothing is checked but what shape inference checks.
Array scattered(const Array& x, const Array& indices, const Array& updates, ir::ScatterAttrs attrs,
                Combine combine, Location location, const std::string& name);
/// The same with f(element) in place of a combination.
Array scattered(const Array& x, const Array& indices, const Array& updates, ir::ScatterAttrs attrs,
                const std::function<Array(Array)>& f, Location location, const std::string& name);
/// Several arrays of positions as one of index vectors, in a new last dim.
Array index_vectors(const std::vector<Array>& positions, Location location,
                    const std::string& name);
/// DTypeError if a combination doesn't exist for a dtype.
void need_combinable(const std::string& op, Combine combine, DType t, Location location);

}  // namespace tessera::frontend
