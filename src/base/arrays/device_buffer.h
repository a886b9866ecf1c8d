// SPDX-License-Identifier: Apache-2.0
// Opaque memory of devices: any layer may hold and pass it on, but only its engine may access it.
#pragma once

#include <cstddef>
#include <memory>

#include "src/base/threads/event.h"

namespace tessera {

/// A block of a device's memory. Each engine derives its own class.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  std::size_t bytes() const { return bytes_; }
  /// Completes when the contents are there; null: they are.
  virtual std::shared_ptr<Event> ready() const { return nullptr; }

 protected:
  explicit DeviceMemory(std::size_t bytes) : bytes_(bytes) {}

 private:
  std::size_t bytes_;
};

/// One device's handle on the memory of its part of an array. Several devices may share one block.
/// The contents are immutable while more than one handle exists; passing the last handle to a run
/// donates the memory. They may come later than the handle, and an engine that reads them waits.
struct DeviceBuffer {
  std::shared_ptr<DeviceMemory> memory;

  explicit operator bool() const { return memory != nullptr; }
  std::size_t bytes() const { return memory ? memory->bytes() : 0; }
  /// Whether the contents are there, or will never be. True for an empty handle.
  bool is_ready() const {
    const std::shared_ptr<Event> event = memory ? memory->ready() : nullptr;
    return event == nullptr || event->is_complete();
  }
  /// Waits for the contents; throws what happened if they will never be there.
  void wait() const {
    if (const std::shared_ptr<Event> event = memory ? memory->ready() : nullptr) event->wait();
  }
};

}  // namespace tessera
