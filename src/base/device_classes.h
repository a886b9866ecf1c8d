// SPDX-License-Identifier: Apache-2.0
// An equivalence relation on logical devices: devices of one class are known to hold equal bits.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera {

/// Classes are numbered in the order of their first devices, so that equal relations compare equal.
struct DeviceClasses {
  std::vector<std::int32_t> class_of;        ///< device → class
  std::vector<std::int32_t> representative;  ///< class → its first device

  std::int32_t count() const { return std::int32_t(representative.size()); }
  std::int64_t num_devices() const { return std::int64_t(class_of.size()); }
  /// A single class of all devices.
  static DeviceClasses uniform(std::int64_t num_devices);
  /// One class per device.
  static DeviceClasses distinct(std::int64_t num_devices);
  /// Devices with equal keys are in one class.
  static DeviceClasses by_key(const std::vector<std::vector<std::int64_t>>& keys);
  /// The coarsest common refinement of both.
  static DeviceClasses join(const DeviceClasses& a, const DeviceClasses& b);
  /// True if each class of this is part of one class of `other`.
  bool refines(const DeviceClasses& other) const;

  friend bool operator==(const DeviceClasses&, const DeviceClasses&) = default;
};

}  // namespace tessera
