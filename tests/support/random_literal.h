// SPDX-License-Identifier: Apache-2.0
// Random arrays for tests. Compiled with optimisation: some have a million elements.
#pragma once

#include <random>

#include "src/base/arrays/literal_util.h"

namespace tessera::testing {

/// A small number of the type, as a double. `special`: now and then an extreme one, an infinity or
/// a NaN.
double random_number(std::mt19937_64* engine, DType type, bool special = false);

/// An array of such numbers. `special`: integers of all bits, too.
Literal random_literal(std::mt19937_64* engine, DType type, const Dims& dims, bool special = false);

}  // namespace tessera::testing
