// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iosfwd>

#include <tessera/array.h>

namespace tessera {

/// Draws to standard output how an array of 1 or 2 dimensions lies on its devices
/// (jax.debug.visualize_array_sharding). ValueError for other ranks, TracerError while tracing.
void visualize_array_sharding(const Array& array, Location location = Location::current());
void visualize_array_sharding(const Array& array, std::ostream& out,
                              Location location = Location::current());

}  // namespace tessera
