// SPDX-License-Identifier: Apache-2.0
// Names of the kinds of memory, and which ones there are.
#include "src/base/arrays/memory_kind.h"

namespace tessera {

const char* name(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::device:
      return "device";
    case MemoryKind::pinned_host:
      return "pinned_host";
    case MemoryKind::unpinned_host:
      return "unpinned_host";
  }
  return "?";
}

std::optional<MemoryKind> memory_kind_named(std::string_view text) {
  for (std::size_t k = 0; k < kMemoryKinds; ++k) {
    if (text == name(MemoryKind(k))) return MemoryKind(k);
  }
  return std::nullopt;
}

std::string list_of(const std::vector<MemoryKind>& kinds) {
  std::string out;
  for (const MemoryKind k : kinds) out += (out.empty() ? "" : ", ") + std::string(name(k));
  return out;
}

}  // namespace tessera
