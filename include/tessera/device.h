// SPDX-License-Identifier: Apache-2.0
// Devices.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <tessera/error.h>

namespace tessera {

/// A device that holds arrays and runs programs (jax.Device). A small value type; devices are equal
/// if platform and id are.
struct Device {
  /// Number of the device, from 0, unique on its platform.
  std::int64_t id = 0;
  /// The process that owns the device.
  std::int64_t process_index = 0;
  /// "cpu" for the virtual devices of this process.
  std::string platform = "cpu";

  /// Returns for example "cpu:3".
  std::string to_string() const;
  friend bool operator==(const Device& a, const Device& b) {
    return a.id == b.id && a.platform == b.platform;
  }
  friend bool operator<(const Device& a, const Device& b) {
    return a.platform != b.platform ? a.platform < b.platform : a.id < b.id;
  }
};

/// Returns all devices (jax.devices): by default 8 virtual CPU devices in this process. The
/// environment variable TESSERA_NUM_DEVICES and `set_num_devices` change their number. The list
/// never changes after the first call.
/// @throws ValueError if TESSERA_NUM_DEVICES isn't a number from 1 to 1048576.
const std::vector<Device>& devices();
/// Returns the devices of this process.
std::vector<Device> local_devices();
/// Returns the number of devices.
std::int64_t device_count();
/// Sets the number of virtual devices, before anything uses devices. Overrides TESSERA_NUM_DEVICES.
/// @throws ValueError if `n` isn't from 1 to 1048576, or a different number of devices is in use
///   already.
void set_num_devices(std::int64_t n, Location location = Location::current());

}  // namespace tessera
