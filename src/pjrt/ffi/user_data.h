// SPDX-License-Identifier: Apache-2.0
// What a caller of Execute gives to the handlers of custom calls in that run.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace tessera::pjrt::ffi {

/// Pointers by the number of their type. A PJRT_ExecuteContext holds one of these.
class UserData {
 public:
  /// False if there is one of that type.
  bool add(std::int64_t type_id, void* data) {
    if (find(type_id) != nullptr) return false;
    entries_.emplace_back(type_id, data);
    return true;
  }
  void* find(std::int64_t type_id) const {
    for (const auto& [id, data] : entries_) {
      if (id == type_id) return data;
    }
    return nullptr;
  }
  /// The first that was added; null if there is none.
  void* first() const { return entries_.empty() ? nullptr : entries_.front().second; }

 private:
  std::vector<std::pair<std::int64_t, void*>> entries_;
};

/// Handlers that this thread calls, and workers that work for it, see `data` while this lives.
/// Null: there is none.
class ScopedRun {
 public:
  explicit ScopedRun(const UserData* data);
  ~ScopedRun();
  ScopedRun(const ScopedRun&) = delete;
  ScopedRun& operator=(const ScopedRun&) = delete;

 private:
  const void* before_;
  struct Run {
    const UserData* data;
    std::int64_t id;
  } run_;
  friend const UserData* user_data_of_run();
  friend std::int64_t id_of_run();
};

/// Of the run that this thread works for.
const UserData* user_data_of_run();
std::int64_t id_of_run();

}  // namespace tessera::pjrt::ffi
