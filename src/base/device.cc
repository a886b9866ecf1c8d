// SPDX-License-Identifier: Apache-2.0
// Devices and their memories.
#include <tessera/device.h>

#include "src/base/platforms.h"

namespace tessera {

std::string Device::to_string() const { return platform + ":" + std::to_string(id); }

std::string Memory::to_string() const { return kind + " of " + device.to_string(); }

std::vector<Memory> Device::addressable_memories() const {
  std::vector<Memory> out;
  for (const MemoryKind kind : memory_kinds_of(platform)) out.push_back({name(kind), *this});
  return out;
}

Memory Device::default_memory() const { return addressable_memories().front(); }

Memory Device::memory(const std::string& kind, Location location) const {
  for (Memory& m : addressable_memories()) {
    if (m.kind == kind) return std::move(m);
  }
  throw ValueError("memory kind '" + kind + "': device " + to_string() +
                       " can address the kinds: " + list_of(memory_kinds_of(platform)),
                   location);
}

}  // namespace tessera
