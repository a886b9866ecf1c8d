// SPDX-License-Identifier: Apache-2.0
// Devices.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <tessera/error.h>

namespace tessera {

struct Memory;

/// A device that holds arrays and runs programs (jax.Device). A small value type; devices are equal
/// if platform and id are.
struct Device {
  /// Number of the device, from 0, unique on its platform.
  std::int64_t id = 0;
  /// The process that owns the device.
  std::int64_t process_index = 0;
  /// "cpu" for virtual devices.
  std::string platform = "cpu";

  /// Returns for example "cpu:3".
  std::string to_string() const;
  /// Returns the memories that arrays on this device can be in, the default one first
  /// (jax.Device.addressable_memories): of virtual devices `device`, `pinned_host` and
  /// `unpinned_host`; of other platforms what their engine says.
  std::vector<Memory> addressable_memories() const;
  /// Returns the memory of arrays whose sharding names none: that of kind `device`.
  Memory default_memory() const;
  /// Returns the memory of that kind.
  /// @throws ValueError, which names the kinds that there are, if there is none.
  Memory memory(const std::string& kind, Location location = Location::current()) const;
  friend bool operator==(const Device& a, const Device& b) {
    return a.id == b.id && a.platform == b.platform;
  }
  friend bool operator<(const Device& a, const Device& b) {
    return a.platform != b.platform ? a.platform < b.platform : a.id < b.id;
  }
};

/// A memory that a device can address (jax.Memory). Virtual CPU devices have three that are counted
/// apart: `device` stands for the memory of an accelerator, `pinned_host` and `unpinned_host` for
/// that of its host.
struct Memory {
  /// "device", "pinned_host" or "unpinned_host".
  std::string kind;
  /// The device that it was obtained from.
  Device device;

  /// Returns for example "pinned_host of cpu:3".
  std::string to_string() const;
  friend bool operator==(const Memory& a, const Memory& b) {
    return a.kind == b.kind && a.device == b.device;
  }
};

/// Bytes of the arrays in a memory, and the most at any time since the last `reset_peak_memory`.
struct MemoryStats {
  /// Bytes in use now.
  std::int64_t current = 0;
  /// The most since the last reset.
  std::int64_t peak = 0;
};
/// Returns how much of a memory is in use (jax.Device.memory_stats). Virtual CPU devices share the
/// blocks of replicated arrays, so this counts the memories of this kind of all of them together,
/// a shared block once. Temporary values of running programs are included.
/// @throws ValueError if the device can't address memory of that kind.
/// @throws NotImplementedError if the platform's engine doesn't count memory.
MemoryStats memory_stats(const Memory& memory, Location location = Location::current());
/// The same for `device.default_memory()`.
MemoryStats memory_stats(const Device& device, Location location = Location::current());
/// Begins to look for the most bytes anew, in all memories of the device's platform.
void reset_peak_memory(const Device& device, Location location = Location::current());

/// Returns all devices of the default platform (jax.devices), in the order of the processes that
/// own them: by default 8 virtual CPU devices a process. TESSERA_PLATFORM names another platform.
/// The environment variable TESSERA_NUM_DEVICES and `set_num_devices` change their number. The list
/// never changes after the first call, which connects the processes if there are several (see
/// `init_processes`).
/// @throws ValueError if TESSERA_NUM_DEVICES isn't a number from 1 to 1048576.
/// @throws ValueError if TESSERA_PLATFORM names a platform that isn't there.
/// @throws RuntimeError if there are several processes, and they can't be connected.
const std::vector<Device>& devices();
/// Returns all devices of a platform (jax.devices(backend)), for example `devices("cpu")`.
/// @throws ValueError, which names the platforms that there are, if there is none of that name.
const std::vector<Device>& devices(const std::string& platform,
                                   Location location = Location::current());
/// Returns the devices of the default platform that are of this process (jax.local_devices).
std::vector<Device> local_devices();
/// Returns the number of devices of all processes.
std::int64_t device_count();
/// Returns the number of this process among those that run the program, from 0
/// (jax.process_index).
std::int64_t process_index();
/// Returns how many processes run the program together (jax.process_count): 1, unless mpirun or
/// srun started several.
std::int64_t process_count();
/// Connects the processes that run this program (jax.distributed.initialize). Needed only where
/// nothing shows that there are several: what mpirun or srun starts is connected when it first asks
/// for devices. Does nothing if they are connected, or if devices are in use already.
/// @throws RuntimeError if the processes can't be connected, or Tessera was built without MPI.
void init_processes(Location location = Location::current());
/// Sets the number of virtual devices of this process, before anything uses devices. Overrides
/// TESSERA_NUM_DEVICES.
/// @throws ValueError if `n` isn't from 1 to 1048576, or a different number of devices is in use
///   already.
void set_num_devices(std::int64_t n, Location location = Location::current());

}  // namespace tessera
