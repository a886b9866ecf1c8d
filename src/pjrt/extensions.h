// SPDX-License-Identifier: Apache-2.0
// Extensions of the API, to be put into the chain.
#pragma once

#include "src/pjrt/abi/extensions.h"

namespace tessera::pjrt {

/// The orders of the dims of arrays in memory.
PJRT_Extension_Base* layouts_extension();
/// Kinds of memory of devices, told without a client.
PJRT_Extension_Base* memory_descriptions_extension();
/// Which programs that were stored this library loads.
PJRT_Extension_Base* abi_version_extension();
/// What runs and how long, for jax.profiler.
PJRT_Extension_Base* profiler_extension();

}  // namespace tessera::pjrt
