// SPDX-License-Identifier: Apache-2.0
// The kinds of memory that a device can address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

enum class MemoryKind : std::uint8_t { device, pinned_host, unpinned_host };
inline constexpr std::size_t kMemoryKinds = 3;

constexpr bool is_host(MemoryKind kind) { return kind != MemoryKind::device; }
/// "device", "pinned_host", "unpinned_host"
const char* name(MemoryKind kind);
/// Nothing for any other text.
std::optional<MemoryKind> memory_kind_named(std::string_view text);
/// "device, pinned_host, unpinned_host"
std::string list_of(const std::vector<MemoryKind>& kinds);

}  // namespace tessera
