// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <tessera/error.h>

namespace tessera {

/// One device that arrays can live on. A small value: copy it freely. Devices of one platform are
/// numbered from 0 over all processes.
struct Device {
  std::int64_t id = 0;
  /// The process that owns the device.
  std::int64_t process_index = 0;
  /// "cpu" for the virtual devices of this process.
  std::string platform = "cpu";

  /// For example "cpu:3".
  std::string to_string() const;
  friend bool operator==(const Device& a, const Device& b) {
    return a.id == b.id && a.platform == b.platform;
  }
  friend bool operator<(const Device& a, const Device& b) {
    return a.platform != b.platform ? a.platform < b.platform : a.id < b.id;
  }
};

/// All devices: by default 8 virtual CPU devices in this process; `TESSERA_NUM_DEVICES` or
/// `set_num_devices` say otherwise.
const std::vector<Device>& devices();
/// The devices of this process.
std::vector<Device> local_devices();
std::int64_t device_count();
/// Sets the number of virtual devices. Must come before the first use of `devices()`; a later call
/// with another number is a ValueError.
void set_num_devices(std::int64_t n, Location location = Location::current());

}  // namespace tessera
