// SPDX-License-Identifier: Apache-2.0
// Pictures of shardings.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include <tessera/error.h>
#include <tessera/sharding.h>

namespace tessera {

/// Options of `sharding_picture`.
struct PictureOptions {
  bool color = false;   ///< colour the cells, by ANSI escapes
  int width = 80;       ///< maximum width of a line, at least 20
  bool unicode = true;  ///< draw with box-drawing characters; otherwise with ASCII
};

/// Returns a picture of the parts of an array of one or two dimensions, each with the devices that
/// hold it. Long lists of devices and large grids are abridged.
/// @code
/// ┌──────────┬──────────┐
/// │ CPU 0,1  │ CPU 2,3  │
/// └──────────┴──────────┘
/// @endcode
/// @throws ValueError for other ranks.
/// @throws IndivisibleError if a dimension can't be split evenly.
std::string sharding_picture(const Sharding& sharding, const std::vector<std::int64_t>& shape,
                             const PictureOptions& options = {},
                             Location location = Location::current());

/// Writes the picture to a stream (jax.debug.visualize_sharding), in colours if it is standard
/// output or error on a terminal and the environment variable NO_COLOR isn't set. Errors are those
/// of `sharding_picture`.
void visualize_sharding(const std::vector<std::int64_t>& shape, const Sharding& sharding,
                        std::ostream& out, Location location = Location::current());
/// The same to standard output.
void visualize_sharding(const std::vector<std::int64_t>& shape, const Sharding& sharding,
                        Location location = Location::current());

}  // namespace tessera
