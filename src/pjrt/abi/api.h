// SPDX-License-Identifier: Apache-2.0
// The table of functions that a PJRT plugin gives to its clients.
#pragma once

#include "src/pjrt/abi/buffer.h"
#include "src/pjrt/abi/client.h"
#include "src/pjrt/abi/device.h"
#include "src/pjrt/abi/event.h"
#include "src/pjrt/abi/executable.h"
#include "src/pjrt/abi/types.h"

/// All but three return an error, null if there is none, which the caller destroys. (Destroying and
/// reading errors can't fail: those return nothing, declared as the same here: callers ignore it.)
struct PJRT_Api {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Api_Version pjrt_api_version;
#define FUNCTION(name) PJRT_Error* (*PJRT_##name)(PJRT_##name##_Args*);
#define OPAQUE_FUNCTION(name) PJRT_Error* (*PJRT_##name)(void*);
#include "src/pjrt/abi/functions.inc"
#undef FUNCTION
#undef OPAQUE_FUNCTION
};
