// SPDX-License-Identifier: Apache-2.0
// The table of errors, tests/errors/errors.txt: what each test of a behaviour is told.
#pragma once

#include <tessera/error.h>

namespace tessera::testing {

/// Called by the helpers of tests with each error that was expected. If the running test is one of
/// a behaviour (its name has "Behaviour_" and a number), the table must have a row with this class
/// and exactly this message, lines of tests apart; and once the test is over, all of its rows must
/// have been met. scripts/errors --record writes the table anew.
void note_error(const Error& error);

}  // namespace tessera::testing
