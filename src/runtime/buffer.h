// SPDX-License-Identifier: Apache-2.0
// Device memory: Storage is a block of bytes, Buffer one device's handle on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace tessera::runtime {

/// A block of memory, aligned to 64 bytes, counted in memory_stats(). Several devices' buffers may
/// share one (replicated values are stored once).
class Storage {
 public:
  static std::shared_ptr<Storage> allocate(std::size_t bytes);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  Storage(std::byte* data, std::size_t bytes) : data_(data), bytes_(bytes) {}
  std::byte* data_;
  std::size_t bytes_;
};

/// One device's handle. Contents are immutable while more than one handle exists.
struct Buffer {
  std::shared_ptr<Storage> storage;

  explicit operator bool() const { return storage != nullptr; }
  const std::byte* data() const { return storage->data(); }
  std::size_t bytes() const { return storage ? storage->bytes() : 0; }
};

/// Bytes of all storages alive, and the most there have been since the last reset.
struct MemoryStats {
  std::int64_t current = 0;
  std::int64_t peak = 0;
};
MemoryStats memory_stats();
void reset_peak_memory();

}  // namespace tessera::runtime
