// SPDX-License-Identifier: Apache-2.0
// How much of the devices' memories is in use.
#include <tessera/device.h>

#include "src/base/at_location.h"
#include "src/compiler/engine.h"

namespace tessera {

MemoryStats memory_stats(const Memory& memory, Location location) {
  const Memory known = memory.device.memory(memory.kind, location);
  return at_location(location, [&] {
    return compiler::engine_of(known.device).memory_stats(*memory_kind_named(known.kind));
  });
}

MemoryStats memory_stats(const Device& device, Location location) {
  return memory_stats(device.default_memory(), location);
}

void reset_peak_memory(const Device& device, Location location) {
  at_location(location, [&] { compiler::engine_of(device).reset_peak_memory(); });
}

}  // namespace tessera
