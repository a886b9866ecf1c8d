// SPDX-License-Identifier: Apache-2.0
// The memory of devices of this process: blocks of host memory, behind opaque handles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "src/base/device_buffer.h"

namespace tessera::runtime {

/// A block of memory, aligned to 64 bytes, counted in memory_stats(). Several devices' buffers may
/// share one (replicated values are stored once).
class Storage final : public DeviceMemory {
 public:
  static std::shared_ptr<Storage> allocate(std::size_t bytes);
  ~Storage() override;
  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }

 private:
  Storage(std::byte* data, std::size_t bytes) : DeviceMemory(bytes), data_(data) {}
  std::byte* data_;
};

/// The block of a handle; RuntimeError if it is empty or belongs to another engine.
std::shared_ptr<Storage> storage_of(DeviceBuffer buffer);
/// Its bytes, readable as long as the handle exists.
const std::byte* bytes_of(const DeviceBuffer& buffer);

MemoryStats memory_stats();
void reset_peak_memory();

}  // namespace tessera::runtime
