// SPDX-License-Identifier: Apache-2.0
// Waiting for events, and what is called at them.
#include "src/base/threads/event.h"

#include "src/base/check.h"

namespace tessera {

bool Event::is_complete() const {
  const std::lock_guard lock(mutex_);
  return complete_;
}

void Event::wait() const {
  std::unique_lock lock(mutex_);
  happened_.wait(lock, [&] { return complete_; });
  if (error_) std::rethrow_exception(error_);
}

void Event::when_complete(Callback f) {
  {
    const std::lock_guard lock(mutex_);
    if (!complete_) {
      callbacks_.push_back(std::move(f));
      return;
    }
  }
  f(error_);  // constant from here on
}

void Event::finish(std::exception_ptr error) {
  std::vector<Callback> callbacks;
  {
    const std::lock_guard lock(mutex_);
    TESSERA_CHECK(!complete_, "an event happens once");
    complete_ = true;
    error_ = std::move(error);
    callbacks.swap(callbacks_);
  }
  happened_.notify_all();
  for (const Callback& f : callbacks) f(error_);
}

}  // namespace tessera
