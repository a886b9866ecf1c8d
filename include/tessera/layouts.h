// SPDX-License-Identifier: Apache-2.0
// How the compiler chooses the shardings of intermediate arrays.
#pragma once

#include <cstdint>
#include <string>

#include <tessera/error.h>

namespace tessera {

/// Who decides how intermediate arrays, and results that are left open, are sharded. What the
/// program states (arguments, constraints, stated results) holds in either case, and so do the
/// values that it computes.
enum class Layouts : std::uint8_t {
  /// Propagation is where the compiler starts from. It then looks for shardings with which each
  /// device receives less and computes no more, by compiling the program in many ways: the default.
  searched,
  /// What the annotations imply by propagation, with the semantics of Shardy, and nothing else.
  /// Programs compile several times faster, and lie as their annotations say, for better or worse.
  propagated,
};

/// "searched", "propagated".
/// @throws ValueError if it is neither, which takes a cast.
std::string to_string(Layouts layouts);
/// The other way round.
/// @throws ValueError that lists what is valid.
Layouts parse_layouts(const std::string& text, Location location = Location::current());

}  // namespace tessera
