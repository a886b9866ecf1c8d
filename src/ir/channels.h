// SPDX-License-Identifier: Apache-2.0
// Channel ids of collectives: each collective of a module has its own.
#pragma once

#include <cstdint>

#include "src/ir/module.h"

namespace tessera::ir {

/// A fresh channel id, unique in the module.
std::int64_t next_channel_id(Module* module);
/// Gives attributes that name a channel a fresh one.
void give_fresh_channel(Attributes* attrs, Module* module);

}  // namespace tessera::ir
