// SPDX-License-Identifier: Apache-2.0
// Which devices surely hold equal bits of each value, and which small values are known.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "src/base/device_classes.h"
#include "src/ir/module.h"

namespace tessera::passes {

using ClassesId = std::int32_t;

/// The relations met in one module, each once.
class ClassesTable {
 public:
  explicit ClassesTable(std::int64_t num_devices);
  ClassesId uniform() const { return 0; }
  ClassesId distinct();
  ClassesId intern(const DeviceClasses& classes);
  ClassesId join(ClassesId a, ClassesId b);
  const DeviceClasses& operator[](ClassesId id) const { return list_[std::size_t(id)]; }
  const std::vector<DeviceClasses>& list() const { return list_; }
  std::int64_t num_devices() const { return num_devices_; }

 private:
  std::int64_t num_devices_;
  std::vector<DeviceClasses> list_;
  std::map<std::vector<std::int32_t>, ClassesId> ids_;
  std::map<std::pair<ClassesId, ClassesId>, ClassesId> joins_;
};

/// One leaf (in pre-order) of a value.
struct LeafFacts {
  ClassesId classes = 0;
  /// Small values that depend on constants and the device's number only: one literal per class.
  std::shared_ptr<const std::vector<Literal>> known;
};

/// One computation as it is run from one place.
struct UniformityFacts {
  /// By instruction index and leaf.
  std::vector<std::vector<LeafFacts>> leaves;
  /// Of instructions that call computations, by instruction index: in the order of `called`.
  std::map<std::int64_t, std::vector<UniformityFacts>> called;
};

/// The module is one device's program. Parameters with the same shard are equal (replicas given as
/// separate buffers are trusted); without a sharding they differ everywhere.
UniformityFacts analyze_uniformity(const ir::Module& module, ClassesTable* table);

}  // namespace tessera::passes
