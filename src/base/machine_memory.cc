// SPDX-License-Identifier: Apache-2.0
// The amount of physical memory, and the error for arrays that exceed it.
#include "src/base/machine_memory.h"

#include <unistd.h>

#include <cstdint>
#include <string>

#include <tessera/error.h>

namespace tessera {

std::size_t machine_memory() {
  static const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? std::size_t(pages) * std::size_t(page) : SIZE_MAX;
}

void refuse_array_of(std::size_t bytes) {
  throw RuntimeError("an array of " + std::to_string(bytes) + " bytes does not fit the memory of " +
                     "this machine (" + std::to_string(machine_memory()) + " bytes)");
}

}  // namespace tessera
