// SPDX-License-Identifier: Apache-2.0
// Which result takes the memory of which donated argument, where the user leaves results open.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "src/ir/module.h"

namespace tessera::frontend {

/// For each result the donated parameter of its type that it is the successor of, if there is one;
/// each parameter has one successor. Nearest is what fewest ops by elements make of it, so that of
/// a training step's state each part has its own; what is left goes in order.
///
/// Example: of f(w, m, g), both w and m donated, `m2 = m * 0.9 + g` follows m, and `w2 = w - m2`
/// follows w, though all are of one type.
///
/// `open`: results that may take one. `donors`: parameters that may be taken.
std::vector<std::optional<std::size_t>> donors_of_results(const ir::Module& module,
                                                          const std::vector<bool>& open,
                                                          const std::vector<bool>& donors);

}  // namespace tessera::frontend
