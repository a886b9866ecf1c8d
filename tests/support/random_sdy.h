// SPDX-License-Identifier: Apache-2.0
// Random legal modules with every form of sdy, and the same programs without it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/arrays/shape.h"

namespace tessera::testing {

struct RandomSdy {
  std::string annotated;  ///< StableHLO with meshes, shardings and operations of sdy
  std::string plain;      ///< the same program on whole arrays, without any
  /// Of the arguments, all f32. Small whole numbers in them give results that are exact.
  std::vector<Dims> arguments;
};

/// A seed gives the same program on each machine.
RandomSdy random_sdy(std::uint64_t seed);

}  // namespace tessera::testing
