// SPDX-License-Identifier: Apache-2.0
// Functions of the client that partition custom calls: jax.custom_partitioning and
// jax.debug.inspect_array_sharding.
#pragma once

#include "src/ir/module.h"
#include "src/pjrt/abi/extensions.h"

namespace tessera::pjrt {

/// The Custom_Partitioner extension, to be put into the chain.
PJRT_Custom_Partitioner_Extension* custom_partitioner_extension();

/// Gives the calls of registered targets to the functions that partition them. To be called on a
/// program that was read, before it is compiled.
void attach_custom_partitioners(ir::Module* module);

}  // namespace tessera::pjrt
