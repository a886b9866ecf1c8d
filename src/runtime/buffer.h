// SPDX-License-Identifier: Apache-2.0
// The memory of devices of this process: blocks of host memory, behind opaque handles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <tessera/device.h>

#include "src/base/device_buffer.h"
#include "src/base/memory_kind.h"

namespace tessera::runtime {

/// A block of memory, aligned to 64 bytes, from the pool of its kind, where it is counted. Several
/// devices' buffers may share one (replicated values are stored once).
class Storage final : public DeviceMemory {
  struct Token {};

 public:
  static std::shared_ptr<Storage> allocate(std::size_t bytes, MemoryKind kind = MemoryKind::device);
  ~Storage() override;
  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  MemoryKind kind() const { return kind_; }

  /// For allocate().
  Storage(Token, std::byte* data, std::size_t bytes, MemoryKind kind)
      : DeviceMemory(bytes), data_(data), kind_(kind) {}

 private:
  std::byte* data_;
  MemoryKind kind_;
};

/// The block of a handle; RuntimeError if it is empty or belongs to another engine.
std::shared_ptr<Storage> storage_of(DeviceBuffer buffer);
/// Its bytes, readable as long as the handle exists.
const std::byte* bytes_of(const DeviceBuffer& buffer);

/// Of the live blocks of one kind.
MemoryStats memory_stats(MemoryKind kind = MemoryKind::device);
/// Of all kinds.
void reset_peak_memory();

}  // namespace tessera::runtime
