// SPDX-License-Identifier: Apache-2.0
// Binds workers to cores.
#include "src/base/threads/bind_worker.h"

#include <sched.h>

#include <chrono>
#include <cstddef>
#include <vector>

#include "src/base/env.h"
#include "src/base/threads/task_pool.h"

namespace tessera {
namespace {

/// The cores that the process may use, one for each worker; none if workers aren't bound.
std::vector<int> cores() {
  std::vector<int> out;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (!env_flag("TESSERA_BIND_WORKERS", true) || sched_getaffinity(0, sizeof set, &set) != 0 ||
      CPU_COUNT(&set) != worker_count()) {
    return out;
  }
  for (int c = 0; c < CPU_SETSIZE; ++c) {
    if (CPU_ISSET(c, &set)) out.push_back(c);
  }
  return out;
}

/// Never destroyed.
const std::vector<int>& all_cores() {
  static const std::vector<int>& all = *new std::vector<int>(cores());
  return all;
}

}  // namespace

void prepare_to_bind_workers() { all_cores(); }

void bind_worker(int index) {
  const std::vector<int>& all = all_cores();
  thread_local int bound = -1;
  if (index < 0 || std::size_t(index) >= all.size() || index == bound) return;
  bound = index;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(all[std::size_t(index)], &one);
  sched_setaffinity(0, sizeof one, &one);  // it works unbound, too
}

void leave_own_core() {
  const std::vector<int>& all = all_cores();
  if (all.empty()) return;
  cpu_set_t any;
  CPU_ZERO(&any);
  for (const int c : all) CPU_SET(c, &any);
  sched_setaffinity(0, sizeof any, &any);
}

void leave_bound_cores(int index) {
  const std::vector<int>& all = all_cores();
  if (index < 0 || std::size_t(index) >= all.size()) return;
  const int core = all[std::size_t(index)];
  if (sched_getcpu() == core) return;
  // Not too often: the system may have good reasons to move it away again.
  using Clock = std::chrono::steady_clock;
  constexpr auto kRest = std::chrono::milliseconds(20);
  thread_local Clock::time_point last;
  const auto now = Clock::now();
  if (last != Clock::time_point() && now - last < kRest) return;
  last = now;
  cpu_set_t before, one;
  if (sched_getaffinity(0, sizeof before, &before) != 0 || !CPU_ISSET(core, &before)) return;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  if (sched_setaffinity(0, sizeof one, &one) == 0) sched_setaffinity(0, sizeof before, &before);
}

}  // namespace tessera
