// SPDX-License-Identifier: Apache-2.0
// Partitions of the devices into classes: construction, join and refinement.
#include "src/base/device_classes.h"

#include <map>
#include <unordered_map>

#include "src/base/check.h"

namespace tessera {

DeviceClasses DeviceClasses::uniform(std::int64_t num_devices) {
  DeviceClasses out;
  out.class_of.assign(std::size_t(num_devices), 0);
  if (num_devices > 0) out.representative = {0};
  return out;
}

DeviceClasses DeviceClasses::distinct(std::int64_t num_devices) {
  DeviceClasses out;
  for (std::int64_t d = 0; d < num_devices; ++d) {
    out.class_of.push_back(std::int32_t(d));
    out.representative.push_back(std::int32_t(d));
  }
  return out;
}

DeviceClasses DeviceClasses::by_key(const std::vector<std::vector<std::int64_t>>& keys) {
  DeviceClasses out;
  std::map<std::vector<std::int64_t>, std::int32_t> seen;
  for (std::size_t d = 0; d < keys.size(); ++d) {
    auto [it, added] = seen.try_emplace(keys[d], std::int32_t(seen.size()));
    if (added) out.representative.push_back(std::int32_t(d));
    out.class_of.push_back(it->second);
  }
  return out;
}

DeviceClasses DeviceClasses::join(const DeviceClasses& a, const DeviceClasses& b) {
  TESSERA_CHECK(a.class_of.size() == b.class_of.size(), "relations on different devices");
  const auto n = std::int32_t(a.class_of.size());
  if (a.count() <= 1 || b.count() == n) return b;
  if (b.count() <= 1 || a.count() == n) return a;
  DeviceClasses out;
  std::unordered_map<std::int64_t, std::int32_t> seen;
  for (std::size_t d = 0; d < a.class_of.size(); ++d) {
    const std::int64_t both = std::int64_t(a.class_of[d]) * n + b.class_of[d];
    const auto [it, added] = seen.try_emplace(both, std::int32_t(seen.size()));
    if (added) out.representative.push_back(std::int32_t(d));
    out.class_of.push_back(it->second);
  }
  return out;
}

bool DeviceClasses::refines(const DeviceClasses& other) const {
  if (this == &other || other.count() <= 1 || count() == num_devices()) return true;
  for (std::size_t d = 0; d < class_of.size(); ++d) {
    const auto first = std::size_t(representative[std::size_t(class_of[d])]);
    if (other.class_of[d] != other.class_of[first]) return false;
  }
  return true;
}

}  // namespace tessera
