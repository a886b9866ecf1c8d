// SPDX-License-Identifier: Apache-2.0
// Opaque memory of devices: what every layer may hold and pass on, and only its engine may look
// into.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace tessera {

/// A block of a device's memory. The engine that made it derives its own kind.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  std::size_t bytes() const { return bytes_; }

 protected:
  explicit DeviceMemory(std::size_t bytes) : bytes_(bytes) {}

 private:
  std::size_t bytes_;
};

/// One device's handle on the memory of its part of an array. Several devices may share one block.
/// Contents are immutable while more than one handle exists; who gives the last one to a run has
/// donated it.
struct DeviceBuffer {
  std::shared_ptr<DeviceMemory> memory;

  explicit operator bool() const { return memory != nullptr; }
  std::size_t bytes() const { return memory ? memory->bytes() : 0; }
};

/// Bytes of all blocks of an engine that are alive, and the most there have been since the last
/// reset.
struct MemoryStats {
  std::int64_t current = 0;
  std::int64_t peak = 0;
};

}  // namespace tessera
