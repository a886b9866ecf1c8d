// SPDX-License-Identifier: Apache-2.0
// parallel_for on a oneTBB task arena.
#if defined(TESSERA_TASK_POOL_TBB)

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <tbb/task_scheduler_observer.h>

#include <algorithm>
#include <atomic>

#include "src/base/arrays/subnormals.h"
#include "src/base/threads/bind_worker.h"
#include "src/base/threads/run_context.h"
#include "src/base/threads/task_pool.h"

namespace tessera {
namespace {

/// Whether the calling thread works in the arena, as one of its workers or within a call.
thread_local bool in_arena = false;

/// Threads from outside that may be in the arena at a time, each in a place kept for it. They may
/// wait there for others, as functions of the user's that a program calls do; so there are more
/// than the one that usually calls.
int caller_places() { return std::max(4, worker_count()); }

/// Of workers and callers: the number of the core that is theirs. Callers share the first one.
int core_of(int place) { return std::max(0, place - caller_places() + 1); }

class Binder : public tbb::task_scheduler_observer {
 public:
  explicit Binder(tbb::task_arena& arena) : tbb::task_scheduler_observer(arena) {
    prepare_to_bind_workers();
    observe(true);
  }
  void on_scheduler_entry(bool is_worker) override {
    in_arena = true;
    if (is_worker) bind_worker(core_of(tbb::this_task_arena::current_thread_index()));
  }
  void on_scheduler_exit(bool) override { in_arena = false; }
};

tbb::task_arena& arena() {
  static tbb::task_arena& a =
      *new tbb::task_arena(caller_places() + worker_count() - 1, unsigned(caller_places()));
  static Binder& binder = *new Binder(a);
  (void)binder;
  return a;
}

/// A caller from outside, until its call ends.
class Caller {
 public:
  Caller() : outside_(!in_arena), number_(outside_ ? count_.fetch_add(1) : 0) {}
  ~Caller() {
    if (outside_) count_.fetch_sub(1);
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;
  /// Else it would wait for others to leave, who may wait for it.
  bool has_place() const { return number_ < caller_places(); }

 private:
  static inline std::atomic<int> count_{0};
  bool outside_;
  int number_;
};

}  // namespace

void parallel_for(std::int64_t n, void (*f)(void* context, std::int64_t i), void* context) {
  if (n <= 0) return;
  const Caller caller;
  if (n == 1 || worker_count() == 1 || !caller.has_place()) {
    for (std::int64_t i = 0; i < n; ++i) f(context, i);
    return;
  }
  const bool flush = flushes_subnormals();
  const void* const run = run_context();
  const std::int64_t grain = std::max<std::int64_t>(1, n / (64 * worker_count()));
  arena().execute([&] {
    leave_bound_cores(core_of(tbb::this_task_arena::current_thread_index()));
    // Isolated: a worker that waits for its inner call must not pick up another outer task, which
    // might need a lock that the waiting one holds.
    tbb::this_task_arena::isolate([&] {
      tbb::parallel_for(
          tbb::blocked_range<std::int64_t>(0, n, std::size_t(grain)),
          [&](const tbb::blocked_range<std::int64_t>& r) {
            const ScopedSubnormals as_caller(flush);
            const ScopedRunContext for_caller(run);
            for (std::int64_t i = r.begin(); i != r.end(); ++i) f(context, i);
          },
          tbb::simple_partitioner());
    });
  });
}

}  // namespace tessera

#endif
