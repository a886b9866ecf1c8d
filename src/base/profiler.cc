// SPDX-License-Identifier: Apache-2.0
// Events of all threads, each in a list of its thread.
#include "src/base/profiler.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <mutex>
#include <set>
#include <tuple>

#include "src/base/threads/thread_scratch.h"

namespace tessera::profiler {

namespace internal {
std::atomic<int> sessions{0};
}

namespace {

struct ThreadEvents {
  std::mutex mutex;
  std::vector<Event> events;
  std::int32_t number = 0;
};

struct Recorder {
  std::mutex mutex;
  std::vector<std::shared_ptr<ThreadEvents>> threads;  ///< those that ended too
  std::multiset<std::int64_t> limits;                  ///< of the sessions
  std::atomic<std::int64_t> limit{0}, count{0}, dropped{0};
};
/// Never destroyed: threads may record until the process ends.
Recorder& recorder() {
  static Recorder& r = *new Recorder;
  return r;
}

ThreadEvents& events_of_thread() {
  struct Mine {
    std::shared_ptr<ThreadEvents> events = std::make_shared<ThreadEvents>();
    Mine() {
      Recorder& r = recorder();
      const std::lock_guard lock(r.mutex);
      events->number = std::int32_t(r.threads.size());
      r.threads.push_back(events);
    }
  };
  return *thread_scratch<Mine>().events;
}

std::atomic<std::uint64_t> calls{1};

}  // namespace

std::uint64_t next_call() { return calls.fetch_add(1, std::memory_order_relaxed); }

void record(Event event) {
  Recorder& r = recorder();
  if (r.count.fetch_add(1, std::memory_order_relaxed) >= r.limit.load(std::memory_order_relaxed)) {
    r.count.fetch_sub(1, std::memory_order_relaxed);
    r.dropped.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  ThreadEvents& mine = events_of_thread();
  event.thread = mine.number;
  const std::lock_guard lock(mine.mutex);
  mine.events.push_back(std::move(event));
}

Session::Session(std::int64_t max_events) : begin_(now()), max_events_(max_events) {
  Recorder& r = recorder();
  const std::lock_guard lock(r.mutex);
  r.limits.insert(max_events_);
  r.limit = *r.limits.rbegin();
  dropped_before_ = r.dropped;
  internal::sessions.fetch_add(1);
}

std::vector<Event> Session::events() const {
  if (ended_) return kept_;
  std::vector<Event> out;
  Recorder& r = recorder();
  const std::lock_guard lock(r.mutex);
  for (const auto& thread : r.threads) {
    const std::lock_guard its(thread->mutex);
    std::copy_if(thread->events.begin(), thread->events.end(), std::back_inserter(out),
                 [&](const Event& e) { return e.begin >= begin_; });
  }
  // What contains others comes before them.
  std::stable_sort(out.begin(), out.end(), [](const Event& a, const Event& b) {
    return std::tie(a.begin, b.end) < std::tie(b.begin, a.end);
  });
  return out;
}

std::int64_t Session::dropped() const {
  return ended_ ? dropped_ : recorder().dropped - dropped_before_;
}

void Session::end() {
  if (ended_) return;
  kept_ = events();
  dropped_ = dropped();
  ended_ = true;
  Recorder& r = recorder();
  const std::lock_guard lock(r.mutex);
  r.limits.erase(r.limits.find(max_events_));
  r.limit = r.limits.empty() ? 0 : *r.limits.rbegin();
  if (internal::sessions.fetch_sub(1) > 1) return;
  for (const auto& thread : r.threads) {
    const std::lock_guard its(thread->mutex);
    thread->events = {};
  }
  r.count = 0;
}

}  // namespace tessera::profiler
