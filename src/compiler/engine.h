// SPDX-License-Identifier: Apache-2.0
// What holds arrays and runs programs: devices, their memory, executables. One engine a platform.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tessera/device.h>

#include "src/base/arrays/device_buffer.h"
#include "src/base/arrays/host_layout.h"
#include "src/base/arrays/memory_kind.h"
#include "src/base/box.h"
#include "src/compiler/compile.h"

namespace tessera::compiler {

/// Memory of the host that somebody else owns.
struct HostMemory {
  std::byte* bytes = nullptr;
  std::size_t size = 0;
  /// Keeps it as it is, and its contents; let go of when no handle is left.
  std::shared_ptr<const void> owner;
  /// Whether a program that it is donated to may write results there.
  bool writable = false;
};

/// On devices parts of arrays are dense and row-major; a Box says which part of the whole array one
/// is. All functions are safe to call from several threads. Buffers must be of the same engine;
/// whoever reads one keeps a handle on it meanwhile. What a function makes may become ready later
/// (DeviceBuffer::wait); copy_out waits for what it reads. Errors that come later than the call are
/// those of the buffers' events, and of what is made of these buffers.
class Engine {
 public:
  virtual ~Engine() = default;

  /// As Device::platform has it: "cpu".
  virtual std::string platform() const = 0;
  /// Device k has id k.
  virtual const std::vector<Device>& devices() const = 0;
  /// Those that its devices can address, the default one first.
  virtual std::vector<MemoryKind> memory_kinds() const { return {MemoryKind::device}; }
  /// What devices it has, as the maker names it: "NVIDIA H100 80GB HBM3".
  virtual std::string device_kind(const Device& device) const { return device.platform; }
  /// What machine they are, if that is known: programs are compiled for it unless Options say
  /// otherwise.
  virtual std::optional<Network> machine() const { return std::nullopt; }
  /// Whether an executable is for certain devices, which Options::assignment then has to name.
  virtual bool compiles_for_devices() const { return false; }
  /// As compiler::compile. Logical device d of the executable is the d-th of the devices on which
  /// its arguments' buffers were made.
  virtual std::shared_ptr<const Executable> compile(std::unique_ptr<ir::Module> module,
                                                    const Options& options) const = 0;

  /// Memory of that kind for `part`, a handle for each device: one block for all of them where they
  /// can share. `host` holds the elements of `held`, and has been read on return; those of `part`
  /// that it lacks are 0.
  virtual std::vector<DeviceBuffer> copy_in(const std::byte* host, const HostLayout& held,
                                            const Box& part, std::span<const Device> devices,
                                            MemoryKind kind) const = 0;
  /// The host's memory, which holds an array of that shape as devices have it, as the memory of a
  /// device: what is written there later shows, until no handle is left. An empty handle if the
  /// engine can't, say because it isn't aligned to 64 bytes: then it is to be copied in.
  virtual DeviceBuffer adopt(const HostMemory& host, const Shape& shape, const Device& device,
                             MemoryKind kind) const;
  /// Waits for the buffer and writes the elements of `part`, which it holds, that are in
  /// `requested` to `host`.
  virtual void copy_out(const DeviceBuffer& buffer, const Box& part, std::byte* host,
                        const HostLayout& requested) const = 0;

  /// Where the host can read what the device holds, as it stands there; null if it can't. The
  /// address is good for as long as a handle is there; what isn't ready isn't to be read.
  virtual std::byte* host_address(const DeviceBuffer& buffer) const {
    static_cast<void>(buffer);
    return nullptr;
  }

  struct Piece {
    Box box;
    DeviceBuffer buffer;
  };
  /// As copy_in, from parts that devices hold: together they hold all of `part`.
  virtual std::vector<DeviceBuffer> assemble(std::span<const Piece> pieces, DType dtype,
                                             const Box& part, std::span<const Device> devices,
                                             MemoryKind kind) const = 0;
  /// The same contents for another device: the same block if the devices can share it. The buffer
  /// is in memory of that kind, too.
  virtual DeviceBuffer on_device(const DeviceBuffer& buffer, const Device& device) const = 0;
  /// Blocks of their own with the same contents, in memory of that kind; buffers that share one
  /// share its copy.
  virtual std::vector<DeviceBuffer> copy(std::span<const DeviceBuffer> buffers,
                                         MemoryKind kind) const = 0;

  /// Of one kind, of all this engine's devices together. NotImplementedError if it doesn't count.
  virtual MemoryStats memory_stats(MemoryKind kind = MemoryKind::device) const;
  virtual void reset_peak_memory() const;
};

/// Makes it and its platform known; both stay for the life of the process. ValueError if there is
/// one for that platform.
void register_engine(std::shared_ptr<const Engine> engine);
/// Null if there is none. The engine of "cpu", inside this process, is always there.
const Engine* find_engine(const std::string& platform);
/// ValueError that names the platforms that there are.
const Engine& engine_of(const Device& device);
/// Of all of a list; ValueError if they are of several platforms.
const Engine& engine_of(std::span<const Device> devices);

}  // namespace tessera::compiler
