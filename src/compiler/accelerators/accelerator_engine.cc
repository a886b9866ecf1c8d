// SPDX-License-Identifier: Apache-2.0
// Arrays in a plugin's memory: what goes there and comes back, and where it stands.
#include "src/compiler/accelerators/accelerator_engine.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "src/base/processes/processes.h"
#include "src/compiler/accelerators/memory.h"
#include "src/compiler/accelerators/program.h"
#include "src/cost/machines.h"

namespace tessera::compiler::accelerators {
namespace {

using Bytes = std::vector<std::byte>;

std::size_t bytes_of(const Box& part, DType dtype) {
  return std::size_t(part.element_count()) * byte_size(dtype);
}

class AcceleratorEngine final : public Engine {
 public:
  AcceleratorEngine(std::string platform, std::unique_ptr<Client> client)
      : platform_(std::move(platform)),
        client_(std::move(client)),
        target_(platform_, client_.get()),
        transfer_(std::make_shared<Work>(Work{"a transfer on platform '" + platform_ + "'", {}})) {
    for (std::size_t k = 0; k < client_->devices().size(); ++k) {
      const DeviceInfo& d = client_->devices()[k];
      if (d.is_local) here_.push_back(k);
      devices_.push_back(
          Device{std::int64_t(k), d.is_local ? process_index() : d.process, platform_});
    }
  }

  std::string platform() const override { return platform_; }
  const std::vector<Device>& devices() const override { return devices_; }
  std::string device_kind(const Device& device) const override {
    return client_->devices().at(std::size_t(device.id)).kind;
  }
  std::optional<Network> machine() const override {
    return cost::find_machine(client_->devices().front().kind);
  }
  bool compiles_for_devices() const override { return true; }

  std::vector<MemoryKind> memory_kinds() const override {
    std::vector<MemoryKind> out{MemoryKind::device};
    for (const MemoryKind kind : {MemoryKind::pinned_host, MemoryKind::unpinned_host}) {
      if (std::all_of(here_.begin(), here_.end(), [&](std::size_t d) {
            return find_memory(client_->devices()[d], kind) > 0;
          })) {
        out.push_back(kind);
      }
    }
    return out;
  }

  std::shared_ptr<const Executable> compile(std::unique_ptr<ir::Module> module,
                                            const Options& options) const override {
    Options with_machine = options;
    if (!with_machine.network) with_machine.network = machine();
    return compile_for(target_, std::move(module), with_machine);
  }

  std::vector<DeviceBuffer> copy_in(const std::byte* host, const HostLayout& held, const Box& part,
                                    std::span<const Device> devices,
                                    MemoryKind kind) const override {
    if (std::none_of(devices.begin(), devices.end(), is_local)) {
      return std::vector<DeviceBuffer>(devices.size());
    }
    Bytes dense;
    if (!held.is_plain() || !(held.box == part)) {
      dense.resize(bytes_of(part, held.dtype));
      copy_from_host(host, held, dense.data(), part);
      host = dense.data();
    }
    return guarded([&] { return uploaded(host, held.dtype, part, devices, kind); });
  }

  void copy_out(const DeviceBuffer& buffer, const Box& part, std::byte* host,
                const HostLayout& requested) const override {
    if (requested.is_plain() && requested.box == part) {
      read(buffer, host);
      return;
    }
    Bytes dense(buffer.bytes());
    read(buffer, dense.data());
    copy_to_host(dense.data(), part, host, requested);
  }

  std::vector<DeviceBuffer> assemble(std::span<const Piece> pieces, DType dtype, const Box& part,
                                     std::span<const Device> devices,
                                     MemoryKind kind) const override {
    // What one device holds whole goes to the others without the host.
    for (const Piece& p : pieces) {
      if (p.box == part) {
        std::vector<DeviceBuffer> out;
        for (const Device& d : devices) {
          out.push_back(is_local(d) ? copied(p.buffer, d, kind) : DeviceBuffer());
        }
        return out;
      }
    }
    if (std::none_of(devices.begin(), devices.end(), is_local)) {
      return std::vector<DeviceBuffer>(devices.size());
    }
    Bytes all(bytes_of(part, dtype));
    for (const Piece& p : pieces) {
      Bytes bytes(p.buffer.bytes());
      read(p.buffer, bytes.data());
      copy_common(bytes.data(), p.box, all.data(), part, byte_size(dtype));
    }
    return guarded([&] { return uploaded(all.data(), dtype, part, devices, kind); });
  }

  DeviceBuffer on_device(const DeviceBuffer& buffer, const Device& device) const override {
    if (!is_local(device)) return {};
    const Memory& memory = memory_of(buffer);
    if (memory.device == number_of(device)) return buffer;
    return guarded([&] {
      const std::size_t to = number_of(device);
      return wrapped(memory.buffer().copy_to(to, memory.buffer().memory()), buffer.bytes(), to);
    });
  }

  std::vector<DeviceBuffer> copy(std::span<const DeviceBuffer> buffers,
                                 MemoryKind kind) const override {
    std::vector<DeviceBuffer> out;
    for (const DeviceBuffer& b : buffers) {
      out.push_back(b ? copied(b, devices_.at(memory_of(b).device), kind) : DeviceBuffer());
    }
    return out;
  }

  MemoryStats memory_stats(MemoryKind kind) const override {
    if (kind != MemoryKind::device) return Engine::memory_stats(kind);
    MemoryStats out;
    for (const std::size_t d : here_) {
      const auto use = guarded([&] { return client_->memory_in_use(d); });
      if (!use) return Engine::memory_stats(kind);
      out.current += use->bytes;
      out.peak += use->peak.value_or(use->bytes);
    }
    return out;
  }

 private:
  template <class F>
  std::invoke_result_t<const F&> guarded(const F& f) const {
    try {
      return f();
    } catch (const PluginFailure& failure) {
      throw_error(failure, *transfer_);
    }
  }

  std::size_t number_of(const Device& device) const {
    if (device.platform != platform_ || device.id < 0 ||
        device.id >= std::int64_t(devices_.size())) {
      throw ValueError(device.to_string() + " is no device of platform '" + platform_ + "'");
    }
    return std::size_t(device.id);
  }

  /// 0 if the device has no memory of that kind but the default one.
  static std::size_t find_memory(const DeviceInfo& device, MemoryKind kind) {
    if (kind == MemoryKind::device) return 0;
    const auto at = std::find(device.memories.begin(), device.memories.end(), name(kind));
    return at == device.memories.end() ? 0 : std::size_t(at - device.memories.begin());
  }
  std::size_t kind_on(std::size_t device, MemoryKind kind) const {
    const DeviceInfo& info = client_->devices()[device];
    const std::size_t at = find_memory(info, kind);
    if (at > 0 || kind == MemoryKind::device) return at;
    throw ValueError("platform '" + platform_ + "' has no memory of kind " + name(kind));
  }

  const Memory& memory_of(const DeviceBuffer& buffer) const {
    const auto* memory = dynamic_cast<const Memory*>(buffer.memory.get());
    if (memory == nullptr || memory->client != client_.get()) {
      throw RuntimeError("a buffer isn't in memory of platform '" + platform_ + "'");
    }
    return *memory;
  }

  DeviceBuffer wrapped(std::unique_ptr<ClientBuffer> buffer, std::size_t bytes,
                       std::size_t device) const {
    return {std::make_shared<Memory>(bytes, std::move(buffer), client_.get(), device, transfer_)};
  }

  std::vector<DeviceBuffer> uploaded(const std::byte* dense, DType dtype, const Box& part,
                                     std::span<const Device> devices, MemoryKind kind) const {
    const std::vector<std::int64_t> dims(part.size.begin(), part.size.end());
    std::vector<DeviceBuffer> out;
    for (const Device& d : devices) {
      const std::size_t device = number_of(d);
      if (!is_local(d)) {
        out.emplace_back();
        continue;
      }
      const std::size_t memory = kind_on(device, kind);
      out.push_back(wrapped(client_->copy_in(dense, dtype, dims, device, memory),
                            bytes_of(part, dtype), device));
    }
    return out;
  }

  /// What failed before says so itself.
  void read(const DeviceBuffer& buffer, std::byte* to) const {
    const Memory& memory = memory_of(buffer);
    try {
      memory.buffer().read(to, buffer.bytes());
    } catch (const PluginFailure& failure) {
      buffer.wait();
      throw_error(failure, *transfer_);
    }
  }

  /// A block of its own.
  DeviceBuffer copied(const DeviceBuffer& buffer, const Device& target, MemoryKind kind) const {
    const Memory& memory = memory_of(buffer);
    const std::size_t device = number_of(target);
    const std::size_t to = kind_on(device, kind);
    return guarded([&] {
      const bool stays = memory.device == device && memory.buffer().memory() == to;
      return wrapped(stays ? memory.buffer().duplicate() : memory.buffer().copy_to(device, to),
                     buffer.bytes(), device);
    });
  }

  std::string platform_;
  std::unique_ptr<Client> client_;
  AcceleratorTarget target_;
  std::shared_ptr<const Work> transfer_;
  std::vector<Device> devices_;
  std::vector<std::size_t> here_;  ///< those of this process
};

}  // namespace

std::shared_ptr<const Engine> accelerator_engine(const std::string& platform,
                                                 std::unique_ptr<Client> client) {
  return std::make_shared<AcceleratorEngine>(platform, std::move(client));
}

}  // namespace tessera::compiler::accelerators
