// SPDX-License-Identifier: Apache-2.0
// What a caller of Execute gives to the handlers of custom calls in that run.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "src/base/threads/run_context.h"

namespace tessera::pjrt::ffi {

/// Pointers by the number of their type, as a PJRT_ExecuteContext holds them.
using UserData = std::vector<std::pair<std::int64_t, void*>>;
/// Null if there is none of that type.
void* find(const UserData& data, std::int64_t type_id);

/// Told when a run calls a function of the host, which may wait for anything.
class HostCallObserver {
 public:
  virtual void calls_host() = 0;

 protected:
  ~HostCallObserver() = default;
};

/// Handlers that this thread calls, and workers that work for it, see `data` while this lives.
/// Null: there is none.
class ScopedRun {
 public:
  explicit ScopedRun(const UserData* data, HostCallObserver* observer = nullptr);

 private:
  friend const UserData* user_data_of_run();
  friend std::int64_t id_of_run();
  friend void tell_of_host_call();
  struct Run {
    const UserData* data;
    std::int64_t id;
    HostCallObserver* observer;
  } run_;
  ScopedRunContext context_{&run_};
};

/// Of the run that this thread works for.
const UserData* user_data_of_run();
std::int64_t id_of_run();
/// Tells the run that this thread works for of a call of a function of the host.
void tell_of_host_call();
/// Whether this thread works for a run: whatever it calls the plugin for can't wait for that.
inline bool is_in_run() { return run_context() != nullptr; }

}  // namespace tessera::pjrt::ffi
