// SPDX-License-Identifier: Apache-2.0
// The FFI extension of PJRT.
#pragma once

#include "src/pjrt/abi/extensions.h"

namespace tessera::pjrt::ffi {

/// To be put into the chain of extensions. Registers Tessera's own handlers.
PJRT_FFI_Extension* extension();

}  // namespace tessera::pjrt::ffi
