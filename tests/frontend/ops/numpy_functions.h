// SPDX-License-Identifier: Apache-2.0
// Functions of numpy and JAX in terms of the public API, by name.
#pragma once

#include "tests/frontend/ops/fixture_call.h"

namespace tessera::testing {

/// The entry `at`, numpy's text of an index: "[1:3,None,...,-1,a0]".
std::vector<IndexItem> index_items(const FixtureCall& c);

/// The functions of numpy_ops.txt that Tessera has, by their names there.
const std::map<std::string, FixtureFunction>& numpy_functions();

}  // namespace tessera::testing
