// SPDX-License-Identifier: Apache-2.0
// The thread that runs jobs in the background.
#include "src/base/threads/background.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "src/base/threads/bind_worker.h"

namespace tessera {
namespace {

class Background {
 public:
  void add(std::function<void()> job) {
    std::unique_lock lock(mutex_);
    if (is_closed_ || !is_mine()) return;
    jobs_.push_back({std::move(job), Clock::now() + kWait});
    if (is_running_) return;
    if (thread_.joinable()) thread_.join();  // it has nothing more to do
    try {
      thread_ = std::thread([this] { run(); });
      is_running_ = true;
    } catch (const std::system_error&) {  // the system has no more threads
      jobs_.clear();
    }
  }

  void wait() {
    if (!is_mine()) return;
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !is_running_; });
    --waiting_;
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

  void close() {
    if (!is_mine()) return;
    std::deque<Job> dropped;
    {
      std::unique_lock lock(mutex_);
      is_closed_ = true;
      jobs_.swap(dropped);
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Job {
    std::function<void()> run;
    Clock::time_point from;
  };
  static constexpr auto kWait = std::chrono::milliseconds(50);

  /// A child of this process has no thread, and maybe a lock that nobody gives back.
  bool is_mine() const { return getpid() == process_; }

  void run() {
    leave_own_core();
    // Of this thread alone, on Linux: what is waited for goes before.
    constexpr int kNice = 5;
    (void)setpriority(PRIO_PROCESS, 0, kNice);
    for (;;) {
      std::function<void()> job;
      {
        std::unique_lock lock(mutex_);
        if (!jobs_.empty()) {
          // They are in the order of their times.
          changed_.wait_until(lock, jobs_.front().from, [&] { return is_closed_ || waiting_ > 0; });
        }
        if (jobs_.empty()) {
          is_running_ = false;
          changed_.notify_all();
          return;
        }
        job = std::move(jobs_.front().run);
        jobs_.pop_front();
      }
      try {
        job();
      } catch (...) {
        const std::unique_lock lock(mutex_);
        if (!error_) error_ = std::current_exception();
      }
    }
  }

  const pid_t process_ = getpid();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  int waiting_ = 0;  ///< threads that want all to be done
  std::exception_ptr error_;
  bool is_running_ = false, is_closed_ = false;
  std::thread thread_;
};

Background& background() {
  static Background* const all = [] {
    auto* made = new Background;  // used until the very end
    (void)std::atexit([] { background().close(); });
    return made;
  }();
  return *all;
}

}  // namespace

void run_in_background(std::function<void()> job) { background().add(std::move(job)); }
void wait_for_background() { background().wait(); }

}  // namespace tessera
