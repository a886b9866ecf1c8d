// SPDX-License-Identifier: Apache-2.0
// Waiting for work of other threads, without deadlocks.
#include "src/frontend/run/in_flight.h"

#include <condition_variable>
#include <map>
#include <mutex>

namespace tessera::frontend {

namespace {

/// Which thread waits for which work. Threads seldom wait, so one lock and one condition variable
/// are enough.
struct Waits {
  std::mutex mutex;
  std::condition_variable finished;
  std::map<std::thread::id, const InFlight*> by_thread;
};
Waits& waits() {
  static Waits& w = *new Waits;
  return w;
}

}  // namespace

bool InFlight::wait() {
  const std::thread::id self = std::this_thread::get_id();
  Waits& all = waits();
  std::unique_lock lock(all.mutex);
  // Each thread waits for at most one piece of work, so this is a chain.
  for (const InFlight* next = this; !next->done_;) {
    if (next->owner_ == self) return false;
    const auto waiting = all.by_thread.find(next->owner_);
    if (waiting == all.by_thread.end()) break;
    next = waiting->second;
  }
  all.by_thread[self] = this;
  all.finished.wait(lock, [&] { return done_; });
  all.by_thread.erase(self);
  return true;
}

void InFlight::finish() {
  Waits& all = waits();
  {
    const std::lock_guard lock(all.mutex);
    done_ = true;
  }
  all.finished.notify_all();
}

}  // namespace tessera::frontend
