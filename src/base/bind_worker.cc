// SPDX-License-Identifier: Apache-2.0
// Binds workers to cores.
#include "src/base/bind_worker.h"

#include <sched.h>

#include <cstddef>
#include <vector>

#include "src/base/env.h"
#include "src/base/task_pool.h"

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

}  // namespace tessera
