// SPDX-License-Identifier: Apache-2.0
// The process's virtual devices; their number is fixed at the first use.
#include <tessera/device.h>

#include <mutex>

#include "src/base/env.h"
#include "src/base/memory_kind.h"

namespace tessera {

std::string Device::to_string() const { return platform + ":" + std::to_string(id); }

std::string Memory::to_string() const { return kind + " of " + device.to_string(); }

std::vector<Memory> Device::addressable_memories() const {
  std::vector<Memory> out;
  for (const MemoryKind kind : memory_kinds_of(platform)) out.push_back({name(kind), *this});
  return out;
}

Memory Device::default_memory() const { return addressable_memories().front(); }

Memory Device::memory(const std::string& kind, Location location) const {
  for (Memory& m : addressable_memories()) {
    if (m.kind == kind) return std::move(m);
  }
  throw ValueError("memory kind '" + kind + "': device " + to_string() +
                       " can address the kinds: " + list_of(memory_kinds_of(platform)),
                   location);
}

namespace {

constexpr std::int64_t kDefaultDevices = 8;

struct DeviceTable {
  std::mutex mutex;
  std::int64_t requested = 0;  // 0: set_num_devices wasn't called
  std::vector<Device> devices;
};
DeviceTable& device_table() {
  static DeviceTable& s = *new DeviceTable;
  return s;
}

}  // namespace

const std::vector<Device>& devices() {
  DeviceTable& s = device_table();
  std::lock_guard lock(s.mutex);
  if (s.devices.empty()) {
    check_environment();
    std::int64_t n = s.requested;
    if (n == 0) n = env_integer("TESSERA_NUM_DEVICES", 1, kMaxDevices).value_or(kDefaultDevices);
    s.devices.resize(std::size_t(n));
    for (std::int64_t i = 0; i < n; ++i) s.devices[std::size_t(i)].id = i;
  }
  return s.devices;  // never changes afterwards
}

std::vector<Device> local_devices() { return devices(); }

std::int64_t device_count() { return std::int64_t(devices().size()); }

void set_num_devices(std::int64_t n, Location location) {
  if (n < 1 || n > kMaxDevices) {
    throw ValueError("set_num_devices(" + std::to_string(n) +
                         "): the number of devices must be from 1 to " +
                         std::to_string(kMaxDevices),
                     location);
  }
  DeviceTable& s = device_table();
  std::lock_guard lock(s.mutex);
  if (!s.devices.empty() && std::int64_t(s.devices.size()) != n) {
    throw ValueError("set_num_devices(" + std::to_string(n) + ") comes too late: the " +
                         std::to_string(s.devices.size()) +
                         " devices are in use already; call it before anything that needs devices",
                     location);
  }
  s.requested = n;
}

}  // namespace tessera
