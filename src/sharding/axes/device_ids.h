// SPDX-License-Identifier: Apache-2.0
// The order of a mesh's devices: a list that all copies of a mesh share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace tessera {

/// An immutable list of device numbers. Meshes are copied and compared for every op of a program,
/// and a list may name 65,536 devices: copies are the same list, which is compared by looking at
/// where it is.
class DeviceIds {
 public:
  using value_type = std::int64_t;
  using const_iterator = const std::int64_t*;
  using iterator = const_iterator;

  DeviceIds() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): the same list, made to be shared
  DeviceIds(std::vector<std::int64_t> ids);
  DeviceIds(std::initializer_list<std::int64_t> ids) : DeviceIds(std::vector<std::int64_t>(ids)) {}

  bool empty() const { return list_ == nullptr; }
  std::size_t size() const { return list_ ? list_->ids.size() : 0; }
  std::int64_t operator[](std::size_t i) const { return list_->ids[i]; }
  const_iterator begin() const { return list_ ? list_->ids.data() : nullptr; }
  const_iterator end() const { return begin() + size(); }
  const std::vector<std::int64_t>& ids() const;
  // NOLINTNEXTLINE(google-explicit-constructor): reading it as what it is
  operator const std::vector<std::int64_t>&() const { return ids(); }

  /// Where a device stands first; -1 if it doesn't.
  std::int64_t position_of(std::int64_t id) const;

  friend bool operator==(const DeviceIds& a, const DeviceIds& b) {
    return a.list_ == b.list_ || (a.size() == b.size() && a.ids() == b.ids());
  }

 private:
  struct List {
    explicit List(std::vector<std::int64_t> list) : ids(std::move(list)) {}
    void fill_positions() const;

    const std::vector<std::int64_t> ids;
    mutable std::once_flag once;
    /// By device, -1 for those that aren't there. Made by the first search; stays empty where
    /// numbers are so far apart that it would be much longer than the list.
    mutable std::vector<std::int32_t> positions;
  };

  std::shared_ptr<const List> list_;  ///< null: no devices
};

}  // namespace tessera
