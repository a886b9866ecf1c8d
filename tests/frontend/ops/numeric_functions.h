// SPDX-License-Identifier: Apache-2.0
// Functions of jax.numpy and jax.scipy.special in terms of the public API, by name.
#pragma once

#include "tests/frontend/ops/fixture_call.h"

namespace tessera::testing {

using FixtureTable = std::map<std::string, FixtureFunction>;

/// The functions of numeric/special.txt.
const FixtureTable& special_functions();
/// Those of numeric/numeric.txt.
const FixtureTable& numeric_functions();
/// Those of numeric/statistics.txt.
const FixtureTable& statistics_functions();
/// Those of numeric/sampled.txt.
const FixtureTable& sampled_functions();
/// Those of numeric/pieces.txt.
const FixtureTable& pieces_functions();
/// Those of numeric/linear_algebra.txt.
const FixtureTable& linear_algebra_functions();

/// The gradient of the sum of all results by one operand.
std::vector<Array> gradient_of(const FixtureFunction& f, const FixtureCall& call, std::size_t by);

}  // namespace tessera::testing
