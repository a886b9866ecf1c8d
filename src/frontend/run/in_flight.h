// SPDX-License-Identifier: Apache-2.0
// Work that several threads request at once and one of them does: tracing, compiling.
#pragma once

#include <memory>
#include <thread>

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

}  // namespace tessera::frontend
