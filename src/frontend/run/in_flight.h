// SPDX-License-Identifier: Apache-2.0
// Work that several threads ask for at once and one of them does: tracing, compiling.
#pragma once

#include <memory>
#include <thread>

namespace tessera::frontend {

/// One piece of work, being done by the thread that made the object.
class InFlight {
 public:
  InFlight() : owner_(std::this_thread::get_id()) {}
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

  /// Returns true once the work is over. False, without waiting, if this thread does it, or its
  /// owner waits, through others perhaps, for work of this thread: callbacks that compiling runs
  /// may call other functions, and those compile as well.
  bool wait();
  /// Called by the owner, whether the work succeeded or not.
  void finish();

 private:
  const std::thread::id owner_;
  bool done_ = false;
};

/// Work in flight with its result: empty while it goes on, and if it failed.
template <class Result>
struct Pending {
  InFlight work;
  std::shared_ptr<const Result> result;
};

}  // namespace tessera::frontend
