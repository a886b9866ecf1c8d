// SPDX-License-Identifier: Apache-2.0
// The memory of devices of this process: blocks of host memory, behind opaque handles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <tessera/device.h>

#include "src/base/arrays/device_buffer.h"
#include "src/base/arrays/memory_kind.h"

namespace tessera::runtime {

/// A block of memory, aligned to 64 bytes, from the pool of its kind, where it is counted. Several
/// devices' buffers may share one (replicated values are stored once).
class Storage : public DeviceMemory {
 protected:
  struct Token {};

 public:
  static std::shared_ptr<Storage> allocate(std::size_t bytes, MemoryKind kind = MemoryKind::device);
  /// Memory that somebody else owns, who is let go of when no handle is left. Results may take it
  /// if it is writable. Null if it isn't aligned to 64 bytes.
  static std::shared_ptr<Storage> adopt(std::byte* data, std::size_t bytes,
                                        std::shared_ptr<const void> owner, bool writable,
                                        MemoryKind kind = MemoryKind::device);
  ~Storage() override;
  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  MemoryKind kind() const { return kind_; }
  /// Whether who holds the only handle may change the contents.
  bool is_writable() const { return origin_ != Origin::read_only; }

  /// For allocate() and adopt().
  enum class Origin : std::uint8_t { pool, adopted, read_only };
  Storage(Token, std::byte* data, std::size_t bytes, MemoryKind kind, Origin origin = Origin::pool)
      : DeviceMemory(bytes), data_(data), kind_(kind), origin_(origin) {}

 private:
  std::byte* data_;
  MemoryKind kind_;
  Origin origin_;
};

/// The block of a handle; RuntimeError if it is empty or belongs to another engine.
std::shared_ptr<Storage> storage_of(DeviceBuffer buffer);
/// The same of a handle that stays.
Storage& storage_of_kept(const DeviceBuffer& buffer);
/// Its bytes, readable as long as the handle exists.
const std::byte* bytes_of(const DeviceBuffer& buffer);

/// Whether who holds the only handle may change the contents. False for another engine's.
bool is_writable(const DeviceBuffer& buffer);

/// Of the live blocks of one kind.
MemoryStats memory_stats(MemoryKind kind = MemoryKind::device);
/// Of all kinds.
void reset_peak_memory();

}  // namespace tessera::runtime
