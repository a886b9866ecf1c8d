// SPDX-License-Identifier: Apache-2.0
// What holds arrays and runs programs: devices, their memory, executables. One engine a platform.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <tessera/device.h>

#include "src/base/box.h"
#include "src/base/device_buffer.h"
#include "src/base/memory_kind.h"
#include "src/compiler/compile.h"

namespace tessera::compiler {

/// Parts of arrays are dense and row-major, on the host as on devices; a Box says which part of the
/// whole array one is. All functions are safe to call from several threads, and synchronous.
/// Buffers must be of the same engine; whoever reads one keeps a handle on it meanwhile.
class Engine {
 public:
  virtual ~Engine() = default;

  /// As Device::platform has it: "cpu". Its devices have the memories of memory_kinds_of(platform).
  virtual std::string platform() const = 0;
  /// Device k has id k.
  virtual const std::vector<Device>& devices() const = 0;
  /// As compiler::compile. Logical device d of the executable is the d-th of the devices on which
  /// its arguments' buffers were made.
  virtual std::shared_ptr<const Executable> compile(std::unique_ptr<ir::Module> module,
                                                    const Options& options) const = 0;

  /// Memory of that kind for `part`, a handle for each device: one block for all of them where they
  /// can share. `host` holds the elements of `held`; those of `part` that it lacks are 0.
  virtual std::vector<DeviceBuffer> copy_in(const std::byte* host, const Box& held, const Box& part,
                                            std::size_t element_bytes,
                                            std::span<const Device> devices,
                                            MemoryKind kind) const = 0;
  /// Writes the elements of `part`, in `buffer`, that are in `requested` to `host`, which holds
  /// `requested`.
  virtual void copy_out(const DeviceBuffer& buffer, const Box& part, std::byte* host,
                        const Box& requested, std::size_t element_bytes) const = 0;

  struct Piece {
    Box box;
    DeviceBuffer buffer;
  };
  /// As copy_in, from parts that devices hold: together they hold all of `part`.
  virtual std::vector<DeviceBuffer> assemble(std::span<const Piece> pieces, const Box& part,
                                             std::size_t element_bytes,
                                             std::span<const Device> devices,
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

/// Makes it known under its platform; it stays for the life of the process. ValueError if there is
/// one for that platform.
void register_engine(std::shared_ptr<const Engine> engine);
/// Null if there is none. The engine of "cpu", inside this process, is always there.
const Engine* find_engine(const std::string& platform);
/// ValueError that names the platforms that there are.
const Engine& engine_of(const Device& device);
/// Of all of a list; ValueError if they are of several platforms.
const Engine& engine_of(std::span<const Device> devices);

}  // namespace tessera::compiler
