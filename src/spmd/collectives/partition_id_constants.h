// SPDX-License-Identifier: Apache-2.0
// Constant folding of scalars per device.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "src/ir/module.h"

namespace tessera::spmd {

/// Integers of a device program that follow from the device's number alone.
class PartitionIdConstants {
 public:
  explicit PartitionIdConstants(std::int64_t devices) : devices_(devices) {}

  /// One integer a device; null if it isn't known, or the value is no scalar.
  const std::vector<std::int64_t>* scalar(const ir::Instruction* i);

 private:
  /// A row on all devices, or a row per device: there are thousands.
  struct Known {
    std::size_t rows = 0;  ///< 0: not known
    std::size_t width = 0;
    std::vector<std::int64_t> values;

    std::span<const std::int64_t> row(std::size_t device) const {
      return std::span(values).subspan(rows == 1 ? 0 : device * width, width);
    }
  };
  const Known& known(const ir::Instruction* i, int depth);
  Known compute(const ir::Instruction& i, int depth);

  std::int64_t devices_;
  std::unordered_map<const ir::Instruction*, Known> memo_;
  std::unordered_map<const ir::Instruction*, std::vector<std::int64_t>> scalars_;
};

}  // namespace tessera::spmd
