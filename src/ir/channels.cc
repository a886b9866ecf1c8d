// SPDX-License-Identifier: Apache-2.0
// Channel ids of collectives.
#include "src/ir/channels.h"

namespace tessera::ir {

std::int64_t next_channel_id(Module* module) { return ++module->last_channel_id; }

void give_fresh_channel(Attributes* attrs, Module* module) {
  const auto* collective = attrs->get_if<CollectiveAttrs>();
  if (collective && collective->channel_id) {
    attrs->edit_if<CollectiveAttrs>()->channel_id = next_channel_id(module);
  }
  const auto* permute = attrs->get_if<PermuteAttrs>();
  if (permute && permute->channel_id) {
    attrs->edit_if<PermuteAttrs>()->channel_id = next_channel_id(module);
  }
}

}  // namespace tessera::ir
