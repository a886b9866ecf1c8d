// SPDX-License-Identifier: Apache-2.0
// How many worker threads to use: affinity mask, cgroup quota, the processes beside this one,
// TESSERA_NUM_THREADS.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>

#include "src/base/env.h"
#include "src/base/processes/local_processes.h"
#include "src/base/threads/core_quota.h"
#include "src/base/threads/task_pool.h"

namespace tessera {
namespace {

int count_workers() {
  if (auto n = env_integer("TESSERA_NUM_THREADS", 1, kMaxThreads)) return int(*n);
  int cores = 0;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) cores = CPU_COUNT(&set);
  if (cores < 1) cores = int(std::thread::hardware_concurrency());
  if (cores < 1) cores = 1;
  // Processes that wait for each other mustn't keep each other from running.
  const int sharers = local_processes();
  if (sharers > 1) {
    int all = int(sysconf(_SC_NPROCESSORS_ONLN));
    if (const int given = cpus_of_slurm(); given > 0) all = std::min(all, given);
    cores = std::min(cores, std::max(1, all / sharers));
  }
  if (const int quota = core_quota(); quota > 0) {
    cores = std::min(cores, std::max(1, quota / sharers));
  }
  return cores;
}

}  // namespace

int core_quota() {
  auto rounded_up = [](std::int64_t quota, std::int64_t period) {
    return quota > 0 && period > 0 ? int((quota + period - 1) / period) : 0;
  };
  // Version 2: the tightest quota between this process's group and the root.
  std::string path;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (line.rfind("0::", 0) == 0) path = line.substr(3);
  }
  int least = 0;
  for (;;) {
    std::ifstream file("/sys/fs/cgroup" + path + "/cpu.max");
    std::string quota;
    std::int64_t period = 0;
    if (file >> quota >> period && quota != "max") {
      std::int64_t q = 0;
      try {
        q = std::stoll(quota);
      } catch (const std::logic_error&) {
        q = 0;
      }
      const int n = rounded_up(q, period);
      if (n > 0) least = least == 0 ? n : std::min(least, n);
    }
    if (path.empty()) break;
    path = path.substr(0, path.rfind('/'));
  }
  if (least > 0) return least;
  std::ifstream quota_file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  std::ifstream period_file("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  std::int64_t quota = 0, period = 0;
  if (quota_file >> quota && period_file >> period) return rounded_up(quota, period);
  return 0;
}

int worker_count() {
  // The pool is made once, so the number must not change.
  static const int count = count_workers();
  return count;
}

}  // namespace tessera
