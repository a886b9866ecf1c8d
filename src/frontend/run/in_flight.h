// SPDX-License-Identifier: Apache-2.0
// Work that several threads request at once and one of them does: tracing, compiling.
#pragma once

#include <memory>
#include <mutex>
#include <thread>
#include <tuple>
#include <utility>

namespace tessera::frontend {

/// A piece of work that the thread that made the object does.
class InFlight {
 public:
  InFlight() : owner_(std::this_thread::get_id()) {}
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

  /// Waits and returns true when the work is finished. Returns false, without waiting, if this
  /// thread does the work itself, or if its owner waits, perhaps indirectly, for work of this
  /// thread: compilation runs callbacks, which may call and compile other functions.
  bool wait();
  /// Called by the owner, whether the work succeeded or not.
  void finish();

 private:
  const std::thread::id owner_;
  bool done_ = false;
};

/// Work in flight and its result, which is empty until it is finished, and if it failed.
template <class Result>
struct Pending {
  InFlight work;
  std::shared_ptr<const Result> result;
};

/// What one of several threads makes and the others wait for. Under the lock, `find()` gives the
/// result if there is one; `join()` the work in flight and whether it is this thread's, which then
/// calls `make()` and, under the lock again, `leave()`. A thread that may not wait makes its own.
template <class Result, class Find, class Join, class Leave, class Make>
std::shared_ptr<const Result> make_once(std::mutex& mutex, Find&& find, Join&& join, Leave&& leave,
                                        Make&& make) {
  for (;;) {
    std::shared_ptr<Pending<Result>> pending;
    bool mine = false;
    {
      const std::lock_guard lock(mutex);
      if (std::shared_ptr<const Result> found = find()) return found;
      std::tie(pending, mine) = join();
    }
    if (!mine) {
      if (!pending->work.wait()) return make();
      // If the other thread failed, this call tries by itself, so that messages name its line.
      if (pending->result) return pending->result;
      continue;
    }
    const auto over = [&] {
      {
        const std::lock_guard lock(mutex);
        leave();
      }
      pending->work.finish();
    };
    try {
      pending->result = make();
    } catch (...) {
      over();
      throw;
    }
    over();
    return pending->result;
  }
}

}  // namespace tessera::frontend
