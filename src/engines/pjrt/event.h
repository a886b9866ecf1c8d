// SPDX-License-Identifier: Apache-2.0
// Events of a plugin.
#pragma once

#include "src/engines/pjrt/api.h"

namespace tessera::engines::pjrt {

/// Waits for the event, and destroys it. Throws what `name`, the function that gave it, failed of.
void wait_for(const Api& api, PJRT_Event* event, const char* name);
/// Has `done` called when it has happened, and destroys it then.
void when_done(const Api* api, PJRT_Event* event, const char* name,
               compiler::accelerators::Done done);
void destroy(const Api& api, PJRT_Event* event) noexcept;

}  // namespace tessera::engines::pjrt
