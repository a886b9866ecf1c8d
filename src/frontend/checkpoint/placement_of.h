// SPDX-License-Identifier: Apache-2.0
// Where arrays that are read from files are placed, and what they must be.
#pragma once

#include <optional>
#include <string>

#include "src/frontend/arrays/array_impl.h"

namespace tessera::frontend {

/// Where to place an array like this one; nothing if it doesn't say. TracerError, ValueError.
std::optional<Sharding> placement_of(const Array& like, const std::string& who, Location location);
/// Errors of a sharding that names devices which aren't there or doesn't fit the shape.
void check_placement(const Sharding& sharding, const Shape& shape, const std::string& who,
                     Location location);
/// ShapeError or DTypeError if what was saved isn't like the array that is requested.
void check_like(const Shape& saved, const Array& like, const std::string& who, Location location);

}  // namespace tessera::frontend
