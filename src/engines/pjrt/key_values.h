// SPDX-License-Identifier: Apache-2.0
// What processes tell each other, as the callbacks by which a plugin asks for it.
#pragma once

#include "src/engines/pjrt/api.h"

namespace tessera::engines::pjrt {

/// `shared` must stay for as long as the plugin.
void give_key_values(compiler::accelerators::KeyValues* shared, PJRT_Client_Create_Args* args);

}  // namespace tessera::engines::pjrt
