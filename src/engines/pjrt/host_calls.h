// SPDX-License-Identifier: Apache-2.0
// Functions of this process that programs of a plugin call, through XLA's foreign function
// interface.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "src/engines/pjrt/api.h"

namespace tessera::engines::pjrt {

using compiler::accelerators::HostCall;
using compiler::accelerators::HostCallNumber;

/// Makes the handler of all such calls known to the plugin. False if it takes none, or if its
/// devices' memory isn't the host's.
bool take_host_calls(const Api& api, const std::string& platform);
/// The function has that number in programs, until the last copy is gone.
HostCallNumber add_host_call(HostCall call);

}  // namespace tessera::engines::pjrt
