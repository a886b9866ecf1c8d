// SPDX-License-Identifier: Apache-2.0
// The set of devices that execute a block.
// Also called: execution mask.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/runtime/plan.h"

namespace tessera::runtime {

/// The devices that run a block: all of them, unless a loop or a conditional separates them. With
/// several processes it knows of all devices, but lists those of this process.
class ActiveSet {
 public:
  /// `local`: which devices are of this process; null: all.
  explicit ActiveSet(const Plan& plan, const std::vector<std::uint8_t>* local = nullptr);
  ActiveSet(const ActiveSet& outside, std::vector<std::uint8_t> on);

  bool everything() const { return on_.empty(); }
  bool contains(std::int32_t device) const { return on_.empty() || on_[std::size_t(device)] != 0; }
  bool none() const { return count_ == 0; }

  /// The classes with an active device of this process, and one such device of each.
  struct Classes {
    std::span<const std::int32_t> classes, devices;
    std::size_t size() const { return classes.size(); }
  };
  Classes of(ClassesId id) const;
  /// Finds all of these at once: afterwards several threads may ask for them.
  void list_all() const;

 private:
  struct Lists {
    bool filled = false;
    std::vector<std::int32_t> classes, devices;
  };
  const Plan* plan_;
  const std::vector<std::uint8_t>* local_;
  std::vector<std::uint8_t> on_;  ///< empty: all
  std::int64_t count_ = -1;       ///< of all processes
  mutable std::vector<Lists> lists_;
};

}  // namespace tessera::runtime
