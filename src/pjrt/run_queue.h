// SPDX-License-Identifier: Apache-2.0
// Runs that wait for their turn: in order on each device, by threads of the client's own.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "src/base/threads/event.h"
#include "src/pjrt/ffi/user_data.h"

namespace tessera::pjrt {

/// What runs on a device, or talks to other processes, waits for what was added before on the same:
/// its line. A run that calls a function of the host lets those behind it on its devices go ahead,
/// as that function may wait for one of them; never on the line to other processes, where the
/// order is that of all processes. Safe to use from several threads.
class RunQueue {
 public:
  /// `lines`: one for each device; the last one is that to other processes.
  explicit RunQueue(std::size_t lines);
  /// Waits until all is done.
  ~RunQueue();
  RunQueue(const RunQueue&) = delete;
  RunQueue& operator=(const RunQueue&) = delete;

  /// Waits until no thread of any queue has anything to do: the process is about to end.
  static void wait_for_all() noexcept;

  /// What is to be done. It may not throw.
  using Work = std::function<void(ffi::HostCallObserver* observer)>;

  /// Whether a run on these lines would have nothing to wait for.
  bool is_free(const std::vector<std::size_t>& lines) const;
  /// Waits while many runs wait on one of the lines, so that memory is bounded.
  void wait_for_room(const std::vector<std::size_t>& lines) const;
  /// When a run that calls functions of the host, and is `done` then (null: it is), has ended with
  /// all others before it on these lines. It may be done before these, and clients that want to
  /// know whether all functions have returned ask the last run alone. Null: it has.
  std::shared_ptr<Event> end_of_host_run(const std::vector<std::size_t>& lines,
                                         std::shared_ptr<Event> done);
  /// Does the work in its turn, once all events have happened or failed.
  void add(const std::vector<std::size_t>& lines, const std::vector<std::shared_ptr<Event>>& after,
           Work work);

 private:
  struct Task;
  bool out_of_the_way(const Task& task, std::size_t line) const;
  void met(const std::shared_ptr<Task>& task);
  void ready(const std::shared_ptr<Task>& task);
  void pass_on(std::vector<std::shared_ptr<Task>>* waiting);
  void let_go(Task* task);
  void finish(const std::shared_ptr<Task>& task);
  void serve();
  void wait_until_idle();

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;  ///< there is room, or nothing is left
  std::condition_variable work_;
  std::vector<std::shared_ptr<Task>> last_;        ///< of each line
  std::vector<int> depth_;                         ///< of each line: tasks that aren't done
  std::vector<std::shared_ptr<Event>> host_runs_;  ///< of each line: the end of the last one
  std::deque<std::shared_ptr<Task>> ready_;
  std::vector<std::thread> workers_;
  std::size_t idle_ = 0;
  int in_host_calls_ = 0;
  bool closed_ = false;
  std::atomic<std::size_t> outstanding_ = 0;
};

}  // namespace tessera::pjrt
