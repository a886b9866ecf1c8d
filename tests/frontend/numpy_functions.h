// SPDX-License-Identifier: Apache-2.0
// Functions of numpy and JAX in terms of the public API, by name.
#pragma once

#include "tests/frontend/fixture_call.h"

namespace tessera::testing {

/// The functions of numpy_ops.txt that Tessera has, by their names there.
const std::map<std::string, FixtureFunction>& numpy_functions();

}  // namespace tessera::testing
