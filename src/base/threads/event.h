// SPDX-License-Identifier: Apache-2.0
// Something that happens once, and may fail: the contents of memory are there.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace tessera {

/// Safe to use from several threads.
class Event {
 public:
  using Callback = std::function<void(const std::exception_ptr& error)>;

  /// It has happened. Whoever waits goes on; what was given to when_complete is called.
  void complete() { finish(nullptr); }
  /// It will never happen; `error` says why.
  void fail(std::exception_ptr error) { finish(std::move(error)); }

  /// Whether it has happened or failed.
  bool is_complete() const;
  /// Waits until it has happened; throws the error if it failed.
  void wait() const;
  /// Calls `f` once, by the thread that completes it, or at once if that is past. `f` may not
  /// throw.
  void when_complete(Callback f);

 private:
  void finish(std::exception_ptr error);

  mutable std::mutex mutex_;
  mutable std::condition_variable happened_;
  bool complete_ = false;
  std::exception_ptr error_;
  std::vector<Callback> callbacks_;
};

}  // namespace tessera
