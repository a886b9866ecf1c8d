// SPDX-License-Identifier: Apache-2.0
// Older names: what jax.experimental.pjit and jax.experimental.global_device_array called things.
#pragma once

#include <tessera/array.h>
#include <tessera/jit.h>
#include <tessera/sharding/parsed_spec.h>

namespace tessera {

/// Older name of Array: an array on the devices of a mesh
/// (jax.experimental.global_device_array.GlobalDeviceArray). Its `mesh_axes` are
/// `NamedSharding(array.sharding()).spec()`.
using GlobalDeviceArray = Array;
/// Short name of GlobalDeviceArray.
using GDA = GlobalDeviceArray;

/// Returns the parsed spec of an array on the devices of a mesh (pjit's
/// gsda_mesh_axes_to_parsed_pspec of its mesh_axes).
/// @throws ValueError if the array isn't placed on a mesh.
/// @throws TracerError for a tracer.
inline ParsedPartitionSpec parsed_pspec_of(const GlobalDeviceArray& array,
                                           Location location = Location::current()) {
  const Sharding sharding = array.sharding(location);
  if (!NamedSharding::is(sharding)) {
    throw ValueError(
        array.type_string() + " isn't placed on a mesh: it is sharded as " + sharding.to_string(),
        location);
  }
  return ParsedPartitionSpec::from_user_input(NamedSharding(sharding).spec(), "GDA mesh_axes",
                                              false, location);
}

}  // namespace tessera
