// SPDX-License-Identifier: Apache-2.0
// parallel_for on a oneTBB task arena.
#if defined(TESSERA_TASK_POOL_TBB)

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <tbb/task_scheduler_observer.h>

#include <algorithm>

#include "src/base/bind_worker.h"
#include "src/base/run_context.h"
#include "src/base/subnormals.h"
#include "src/base/task_pool.h"

namespace tessera {
namespace {

class Binder : public tbb::task_scheduler_observer {
 public:
  explicit Binder(tbb::task_arena& arena) : tbb::task_scheduler_observer(arena) {
    prepare_to_bind_workers();
    observe(true);
  }
  void on_scheduler_entry(bool is_worker) override {
    if (is_worker) bind_worker(tbb::this_task_arena::current_thread_index());
  }
};

tbb::task_arena& arena() {
  static tbb::task_arena& a = *new tbb::task_arena(worker_count());
  static Binder& binder = *new Binder(a);
  (void)binder;
  return a;
}

}  // namespace

void parallel_for(std::int64_t n, void (*f)(void* context, std::int64_t i), void* context) {
  if (n <= 0) return;
  if (n == 1 || worker_count() == 1) {
    for (std::int64_t i = 0; i < n; ++i) f(context, i);
    return;
  }
  const bool flush = flushes_subnormals();
  const void* const run = run_context();
  const std::int64_t grain = std::max<std::int64_t>(1, n / (64 * worker_count()));
  arena().execute([&] {
    leave_bound_cores(tbb::this_task_arena::current_thread_index());
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
