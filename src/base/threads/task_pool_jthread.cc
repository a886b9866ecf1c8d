// SPDX-License-Identifier: Apache-2.0
// The pool without TBB: simpler, and compiled with the library, as the thread sanitizer requires.
#if !defined(TESSERA_TASK_POOL_TBB)

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "src/base/arrays/subnormals.h"
#include "src/base/threads/bind_worker.h"
#include "src/base/threads/run_context.h"
#include "src/base/threads/task_pool.h"

namespace tessera {
namespace {

/// One call of parallel_for. Workers and the caller take indices and run them, so a call ends even
/// if no worker is free: nested calls can't deadlock.
struct Job {
  std::int64_t n = 0;
  void (*f)(void*, std::int64_t) = nullptr;
  void* context = nullptr;
  bool flush = false;         ///< subnormal numbers, as the caller does
  const void* run = nullptr;  ///< what the caller works for
  std::atomic<std::int64_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::condition_variable finished;
  std::int64_t done = 0;
  std::exception_ptr error;

  /// Takes and runs indices until none are left.
  void work() {
    const ScopedSubnormals as_caller(flush);
    const ScopedRunContext for_caller(run);
    std::int64_t mine = 0;
    std::exception_ptr caught;
    for (;;) {
      const std::int64_t i = next.fetch_add(1, std::memory_order_relaxed);
      if (i >= n) break;
      ++mine;
      if (failed.load(std::memory_order_relaxed)) continue;
      try {
        f(context, i);
      } catch (...) {
        failed.store(true, std::memory_order_relaxed);
        if (!caught) caught = std::current_exception();
      }
    }
    if (mine == 0) return;
    std::lock_guard lock(mutex);
    done += mine;
    if (caught && !error) error = std::move(caught);
    if (done == n) finished.notify_all();
  }
};

class Pool {
 public:
  Pool() {
    prepare_to_bind_workers();
    for (int i = 1; i < worker_count(); ++i) {
      threads_.emplace_back([this, i](std::stop_token stop) {
        bind_worker(i);
        run(stop);
      });
    }
  }
  ~Pool() {
    for (auto& t : threads_) t.request_stop();
    threads_.clear();  // joins, while the members above still live
  }

  void submit(const std::shared_ptr<Job>& job) {
    {
      std::lock_guard lock(mutex_);
      jobs_.push_back(job);
    }
    wake_.notify_all();
    job->work();
    {
      std::lock_guard lock(mutex_);
      std::erase(jobs_, job);
    }
    std::unique_lock lock(job->mutex);
    job->finished.wait(lock, [&] { return job->done == job->n; });
    // Workers may hold the job for longer, but not the error: the thread sanitizer doesn't see how
    // exceptions are counted.
    if (const std::exception_ptr error = std::move(job->error)) std::rethrow_exception(error);
  }

 private:
  void run(std::stop_token stop) {
    for (;;) {
      std::shared_ptr<Job> job;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, stop, [&] { return !jobs_.empty(); });
        if (stop.stop_requested()) return;
        job = jobs_.back();  // the innermost call first: others wait for it
      }
      job->work();
      std::lock_guard lock(mutex_);
      std::erase(jobs_, job);
    }
  }

  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<std::shared_ptr<Job>> jobs_;
  std::vector<std::jthread> threads_;
};

Pool& pool() {
  static Pool p;
  return p;
}

}  // namespace

void parallel_for(std::int64_t n, void (*f)(void* context, std::int64_t i), void* context) {
  if (n <= 0) return;
  if (n == 1 || worker_count() == 1) {
    for (std::int64_t i = 0; i < n; ++i) f(context, i);
    return;
  }
  leave_bound_cores(0);
  auto job = std::make_shared<Job>();
  job->n = n;
  job->f = f;
  job->context = context;
  job->flush = flushes_subnormals();
  job->run = run_context();
  pool().submit(job);
}

}  // namespace tessera

#endif
