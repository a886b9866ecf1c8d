// SPDX-License-Identifier: Apache-2.0
// What a caller of Execute gives to the handlers of custom calls in that run.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "src/base/run_context.h"

namespace tessera::pjrt::ffi {

/// Pointers by the number of their type, as a PJRT_ExecuteContext holds them.
using UserData = std::vector<std::pair<std::int64_t, void*>>;
/// Null if there is none of that type.
void* find(const UserData& data, std::int64_t type_id);

/// Handlers that this thread calls, and workers that work for it, see `data` while this lives.
/// Null: there is none.
class ScopedRun {
 public:
  explicit ScopedRun(const UserData* data);

 private:
  friend const UserData* user_data_of_run();
  friend std::int64_t id_of_run();
  struct Run {
    const UserData* data;
    std::int64_t id;
  } run_;
  ScopedRunContext context_{&run_};
};

/// Of the run that this thread works for.
const UserData* user_data_of_run();
std::int64_t id_of_run();

}  // namespace tessera::pjrt::ffi
