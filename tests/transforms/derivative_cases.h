// SPDX-License-Identifier: Apache-2.0
// Programs with each op that has a derivative.
#pragma once

#include <string>
#include <vector>

namespace tessera::testing {

/// An entry computation in f64, and what its arguments are drawn from.
struct DerivativeCase {
  const char* name;
  std::string entry;
  double low = -1, high = 1;
  bool forward_only = false;
};

/// The module with that entry computation, and the computations that entries call.
std::string f64_program(const std::string& entry);

std::vector<DerivativeCase> all_derivatives();

}  // namespace tessera::testing
