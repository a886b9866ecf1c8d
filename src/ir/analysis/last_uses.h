// SPDX-License-Identifier: Apache-2.0
// Until when the values of a computation are needed, in the order in which its instructions stand.
#pragma once

#include <cstdint>
#include <vector>

#include "src/ir/module.h"

namespace tessera::ir {

/// By instruction, the index of the last one that reads it: its own if none does, the number of
/// instructions if the computation returns it.
std::vector<std::int64_t> last_uses(const Computation& computation);
/// The same of the array that it makes, which lives as long as any name of it is read. A name of
/// several arrays keeps all of them, whatever element is read of it: few tuples live long.
std::vector<std::int64_t> last_uses_of_arrays(const Computation& computation);

}  // namespace tessera::ir
