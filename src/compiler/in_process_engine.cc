// SPDX-License-Identifier: Apache-2.0
// Buffers in this process's memory, shared by all of its devices that hold the same.
#include "src/compiler/in_process_engine.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "src/base/check.h"
#include "src/base/platforms.h"
#include "src/base/processes/processes.h"
#include "src/base/threads/task_pool.h"
#include "src/runtime/buffer.h"

namespace tessera::compiler {
namespace {

std::shared_ptr<runtime::Storage> allocate(const Box& part, DType dtype, MemoryKind kind) {
  return runtime::Storage::allocate(std::size_t(part.element_count()) * byte_size(dtype), kind);
}

/// A handle for each device; none for those of other processes, whose memory isn't here.
std::vector<DeviceBuffer> handles(const std::shared_ptr<runtime::Storage>& storage,
                                  std::span<const Device> devices) {
  std::vector<DeviceBuffer> out;
  out.reserve(devices.size());
  for (const Device& d : devices) {
    out.push_back(is_local(d) ? DeviceBuffer{storage} : DeviceBuffer{});
  }
  return out;
}

bool none_local(std::span<const Device> devices) {
  return std::none_of(devices.begin(), devices.end(), is_local);
}

class InProcessEngine final : public Engine {
 public:
  /// Its workers are there from now on: they take a millisecond to come.
  InProcessEngine() {
    parallel_for(worker_count(), [](std::int64_t) {});
  }
  std::string platform() const override { return virtual_platform(); }
  const std::vector<Device>& devices() const override { return virtual_devices(); }
  std::vector<MemoryKind> memory_kinds() const override { return memory_kinds_of(platform()); }

  std::shared_ptr<const Executable> compile(std::unique_ptr<ir::Module> module,
                                            const Options& options) const override {
    return compiler::compile(std::move(module), options);
  }

  std::vector<DeviceBuffer> copy_in(const std::byte* host, const HostLayout& held, const Box& part,
                                    std::span<const Device> devices,
                                    MemoryKind kind) const override {
    if (none_local(devices)) return handles(nullptr, devices);
    const auto storage = allocate(part, held.dtype, kind);
    if (storage->bytes() > 0) {
      if (!covers(held.box, part)) std::memset(storage->data(), 0, storage->bytes());
      copy_from_host(host, held, storage->data(), part);
    }
    return handles(storage, devices);
  }

  DeviceBuffer adopt(const HostMemory& host, const Shape& shape, const Device& device,
                     MemoryKind kind) const override {
    TESSERA_CHECK(host.size == std::size_t(shape.byte_count()),
                  "adopted memory is of another size than its array");
    if (!is_local(device)) return {};
    return {runtime::Storage::adopt(host.bytes, host.size, host.owner, host.writable, kind)};
  }

  void copy_out(const DeviceBuffer& buffer, const Box& part, std::byte* host,
                const HostLayout& requested) const override {
    const std::byte* bytes = runtime::bytes_of(buffer);
    TESSERA_CHECK(buffer.bytes() == std::size_t(part.element_count()) * byte_size(requested.dtype),
                  "a buffer is of another size than its part");
    if (buffer.bytes() > 0) copy_to_host(bytes, part, host, requested);
  }

  std::byte* host_address(const DeviceBuffer& buffer) const override {
    return buffer ? const_cast<std::byte*>(runtime::bytes_of(buffer)) : nullptr;
  }

  std::vector<DeviceBuffer> assemble(std::span<const Piece> pieces, DType dtype, const Box& part,
                                     std::span<const Device> devices,
                                     MemoryKind kind) const override {
    if (none_local(devices)) return handles(nullptr, devices);
    const auto storage = allocate(part, dtype, kind);
    for (const Piece& piece : pieces) {
      copy_common(runtime::bytes_of(piece.buffer), piece.box, storage->data(), part,
                  byte_size(dtype));
    }
    return handles(storage, devices);
  }

  DeviceBuffer on_device(const DeviceBuffer& buffer, const Device& device) const override {
    return is_local(device) ? buffer : DeviceBuffer{};
  }

  std::vector<DeviceBuffer> copy(std::span<const DeviceBuffer> buffers,
                                 MemoryKind kind) const override {
    std::map<const DeviceMemory*, DeviceBuffer> copies;  // looked up only
    std::vector<DeviceBuffer> out;
    out.reserve(buffers.size());
    for (const DeviceBuffer& b : buffers) {
      if (!b) {
        out.emplace_back();
        continue;
      }
      DeviceBuffer& made = copies[b.memory.get()];
      if (!made) {
        const std::byte* bytes = runtime::bytes_of(b);
        const auto storage = runtime::Storage::allocate(b.bytes(), kind);
        if (b.bytes() > 0) std::memcpy(storage->data(), bytes, b.bytes());
        made.memory = storage;
      }
      out.push_back(made);
    }
    return out;
  }

  MemoryStats memory_stats(MemoryKind kind) const override { return runtime::memory_stats(kind); }
  void reset_peak_memory() const override { runtime::reset_peak_memory(); }
};

}  // namespace

std::shared_ptr<const Engine> in_process_engine() { return std::make_shared<InProcessEngine>(); }

}  // namespace tessera::compiler
