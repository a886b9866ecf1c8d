// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include <tessera/error.h>
#include <tessera/sharding.h>

namespace tessera {

/// How `sharding_picture` draws.
struct PictureOptions {
  bool color = false;   ///< ANSI colours (of 256) behind the cells
  int width = 80;       ///< no line is wider; at least 20
  bool unicode = true;  ///< box-drawing characters; otherwise ASCII
};

/// A picture of an array of 1 or 2 dimensions, cut into its parts; each shows the devices that hold
/// it. Long lists of devices and big grids are shortened.
/// @code
/// ┌──────────┬──────────┐
/// │ CPU 0,1  │ CPU 2,3  │
/// └──────────┴──────────┘
/// @endcode
/// ValueError for other ranks; IndivisibleError if the sharding doesn't divide the shape.
std::string sharding_picture(const Sharding& sharding, const std::vector<std::int64_t>& shape,
                             const PictureOptions& options = {},
                             Location location = Location::current());

/// Writes the picture, in colours if `out` is standard output or error on a terminal and the
/// environment doesn't say NO_COLOR (jax.debug.visualize_sharding).
void visualize_sharding(const std::vector<std::int64_t>& shape, const Sharding& sharding,
                        std::ostream& out, Location location = Location::current());
/// To standard output.
void visualize_sharding(const std::vector<std::int64_t>& shape, const Sharding& sharding,
                        Location location = Location::current());

}  // namespace tessera
