// SPDX-License-Identifier: Apache-2.0
// The order of runs, and the threads that do them.
#include "src/pjrt/run_queue.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

#include "src/pjrt/ffi/python_lock.h"

namespace tessera::pjrt {
namespace {

/// As many runs may wait on a line; XLA's client has the same bound.
constexpr int kDeepest = 32;
/// Threads are made when something is ready and all others are busy: one is usual, and more than
/// the devices only where functions of the host wait for each other.
constexpr std::size_t kMostWorkers = 256;

/// All that there are. A forked process has none of their threads.
struct Queues {
  std::mutex mutex;
  std::set<RunQueue*> all;
  const pid_t process = getpid();
};

Queues& queues() {
  static Queues* const instance = [] {
    // Before the objects that runs use are gone: these are older than the first queue.
    std::atexit([] { RunQueue::wait_for_all(); });
    return new Queues();
  }();
  return *instance;
}

/// Happens, or fails, as `done` does, once the others have ended, too.
std::shared_ptr<Event> after_all(const std::shared_ptr<Event>& done,
                                 const std::vector<std::shared_ptr<Event>>& others) {
  struct Join {
    std::atomic<std::size_t> left;
    std::exception_ptr error;
  };
  const auto end = std::make_shared<Event>();
  const auto join = std::make_shared<Join>();
  join->left = others.size() + 1;
  const auto met = [end, join] {
    if (--join->left > 0) return;
    join->error ? end->fail(join->error) : end->complete();
  };
  for (const auto& e : others) e->when_complete([met](const std::exception_ptr&) { met(); });
  done->when_complete([met, join](const std::exception_ptr& error) {
    join->error = error;
    met();
  });
  return end;
}

}  // namespace

struct RunQueue::Task final : ffi::HostCallObserver {
  explicit Task(RunQueue* q) : queue(q) {}
  void calls_host() override { queue->let_go(this); }

  RunQueue* queue;
  Work work;
  std::vector<std::size_t> lines;
  /// Behind this one on a device, and to other processes.
  std::vector<std::shared_ptr<Task>> next, next_to_others;
  /// Tasks before it and events that haven't happened, and one while it is being added.
  int waits = 1;
  bool let_go = false, done = false;
  /// So that further calls of the host cost nothing.
  std::atomic<bool> told = false;
};

RunQueue::RunQueue(std::size_t lines) : last_(lines), depth_(lines, 0), host_runs_(lines) {
  Queues& q = queues();
  const std::lock_guard lock(q.mutex);
  q.all.insert(this);
}

void RunQueue::wait_for_all() noexcept {
  Queues& q = queues();
  if (q.process != getpid()) return;
  const ffi::WithoutPythonLock without;
  const std::lock_guard lock(q.mutex);
  for (RunQueue* one : q.all) one->wait_until_idle();
}

void RunQueue::wait_until_idle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ready_.empty() && idle_ == workers_.size(); });
}

RunQueue::~RunQueue() {
  {
    Queues& q = queues();
    const std::lock_guard lock(q.mutex);
    q.all.erase(this);
  }
  // Functions of Python need its lock to return.
  const ffi::WithoutPythonLock without;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return outstanding_ == 0; });
    closed_ = true;
  }
  work_.notify_all();
  for (std::thread& t : workers_) t.join();
}

bool RunQueue::out_of_the_way(const Task& task, std::size_t line) const {
  return task.done || (task.let_go && line + 1 < last_.size());
}

bool RunQueue::is_free(const std::vector<std::size_t>& lines) const {
  if (outstanding_.load(std::memory_order_acquire) == 0) return true;
  const std::lock_guard lock(mutex_);
  return std::all_of(lines.begin(), lines.end(), [&](std::size_t l) {
    return last_[l] == nullptr || out_of_the_way(*last_[l], l);
  });
}

void RunQueue::wait_for_room(const std::vector<std::size_t>& lines) const {
  const auto room = [&] {
    return in_host_calls_ > 0 || std::all_of(lines.begin(), lines.end(),
                                             [&](std::size_t l) { return depth_[l] < kDeepest; });
  };
  {
    const std::lock_guard lock(mutex_);
    if (room()) return;
  }
  const ffi::WithoutPythonLock without;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, room);
}

std::shared_ptr<Event> RunQueue::end_of_host_run(const std::vector<std::size_t>& lines,
                                                 std::shared_ptr<Event> done) {
  std::vector<std::shared_ptr<Event>> before;
  const std::lock_guard lock(mutex_);
  for (const std::size_t l : lines) {
    const std::shared_ptr<Event>& e = host_runs_[l];
    if (e == nullptr || e->is_complete()) continue;
    if (std::find(before.begin(), before.end(), e) == before.end()) before.push_back(e);
  }
  if (before.empty() && done == nullptr) return nullptr;
  if (done == nullptr) {
    done = std::make_shared<Event>();
    done->complete();
  }
  if (!before.empty()) done = after_all(done, before);
  for (const std::size_t l : lines) host_runs_[l] = done;
  return done;
}

void RunQueue::add(const std::vector<std::size_t>& lines,
                   const std::vector<std::shared_ptr<Event>>& after, Work work) {
  const auto task = std::make_shared<Task>(this);
  task->work = std::move(work);
  task->lines = lines;
  {
    const std::lock_guard lock(mutex_);
    ++outstanding_;
    task->waits += int(after.size());
    for (const std::size_t l : lines) {
      std::shared_ptr<Task>& last = last_[l];
      if (last != nullptr && !out_of_the_way(*last, l)) {
        (l + 1 < last_.size() ? last->next : last->next_to_others).push_back(task);
        ++task->waits;
      }
      last = task;
      ++depth_[l];
    }
  }
  for (const std::shared_ptr<Event>& e : after) {
    e->when_complete([this, task](const std::exception_ptr&) { met(task); });
  }
  met(task);
}

void RunQueue::met(const std::shared_ptr<Task>& task) {
  const std::lock_guard lock(mutex_);
  if (--task->waits == 0) ready(task);
}

void RunQueue::ready(const std::shared_ptr<Task>& task) {
  ready_.push_back(task);
  if (idle_ < ready_.size() && workers_.size() < kMostWorkers) {
    workers_.emplace_back([this] { serve(); });
  }
  work_.notify_one();
}

void RunQueue::pass_on(std::vector<std::shared_ptr<Task>>* waiting) {
  for (const std::shared_ptr<Task>& t : std::exchange(*waiting, {})) {
    if (--t->waits == 0) ready(t);
  }
}

void RunQueue::let_go(Task* task) {
  if (task->told.load(std::memory_order_relaxed) || task->told.exchange(true)) return;
  const std::lock_guard lock(mutex_);
  task->let_go = true;
  ++in_host_calls_;
  pass_on(&task->next);
  changed_.notify_all();
}

void RunQueue::finish(const std::shared_ptr<Task>& task) {
  const std::lock_guard lock(mutex_);
  task->done = true;
  if (task->let_go) --in_host_calls_;
  for (const std::size_t l : task->lines) {
    --depth_[l];
    if (last_[l] == task) last_[l] = nullptr;
  }
  pass_on(&task->next);
  pass_on(&task->next_to_others);
  --outstanding_;
  changed_.notify_all();
}

void RunQueue::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    changed_.notify_all();
    work_.wait(lock, [&] { return closed_ || !ready_.empty(); });
    --idle_;
    if (ready_.empty()) return;
    std::shared_ptr<Task> task = std::move(ready_.front());
    ready_.pop_front();
    lock.unlock();
    std::exchange(task->work, nullptr)(task.get());
    finish(task);
    task.reset();
    lock.lock();
  }
}

}  // namespace tessera::pjrt
