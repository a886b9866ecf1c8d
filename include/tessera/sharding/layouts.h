// SPDX-License-Identifier: Apache-2.0
// How the compiler chooses the shardings of intermediate arrays.
#pragma once

#include <cstdint>
#include <string>

#include <tessera/error.h>

namespace tessera {

/// How the shardings of intermediate arrays, and of results without a requested sharding, are
/// chosen. Either way, shardings that the program states (of arguments, results and constraints)
/// are kept, and results are the same up to the order in which floats are summed.
enum class Layouts : std::uint8_t {
  /// The default. Starting from propagation, the compiler solves for the shardings with which the
  /// program costs least: bytes received, collectives started and work, by one price for all. The
  /// propagated program stays if it is cheaper, or if the other needs much more memory.
  solved,
  /// Shardings are propagated from the annotations with Shardy's semantics, and nothing else is
  /// done. Programs compile somewhat faster, and their shardings are predictable.
  propagated,
};

/// Returns "solved" or "propagated".
/// @throws ValueError if `layouts` isn't one of the enumerators.
std::string to_string(Layouts layouts);
/// Returns the policy of that name, as `to_string` prints it.
/// @throws ValueError, which lists the valid names, for any other text.
Layouts parse_layouts(const std::string& text, Location location = Location::current());

}  // namespace tessera
