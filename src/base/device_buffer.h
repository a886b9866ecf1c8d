// SPDX-License-Identifier: Apache-2.0
// Opaque memory of devices: any layer may hold and pass it on, but only its engine may access it.
#pragma once

#include <cstddef>
#include <memory>

namespace tessera {

/// A block of a device's memory. Each engine derives its own class.
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
/// The contents are immutable while more than one handle exists; passing the last handle to a run
/// donates the memory.
struct DeviceBuffer {
  std::shared_ptr<DeviceMemory> memory;

  explicit operator bool() const { return memory != nullptr; }
  std::size_t bytes() const { return memory ? memory->bytes() : 0; }
};

}  // namespace tessera
