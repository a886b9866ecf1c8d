// SPDX-License-Identifier: Apache-2.0
// Pictures of arrays' shardings.
#pragma once

#include <iosfwd>

#include <tessera/array.h>

namespace tessera {

/// Writes a picture of the sharding of an array of one or two dimensions to standard output
/// (jax.debug.visualize_array_sharding).
/// @throws ValueError for other ranks.
/// @throws TracerError for a tracer.
void visualize_array_sharding(const Array& array, Location location = Location::current());
/// The same to a stream.
void visualize_array_sharding(const Array& array, std::ostream& out,
                              Location location = Location::current());

}  // namespace tessera
