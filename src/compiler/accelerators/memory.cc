// SPDX-License-Identifier: Apache-2.0
// Events of buffers, and errors that come late.
#include "src/compiler/accelerators/memory.h"

namespace tessera::compiler::accelerators {

std::exception_ptr error_of(const PluginFailure& failure, const Work& work) {
  const std::string message = work.what + ": " + failure.function + ": " + failure.what();
  if (failure.code == PluginFailure::kUnimplemented) {
    return std::make_exception_ptr(NotImplementedError(message, work.location));
  }
  return std::make_exception_ptr(RuntimeError(message, work.location));
}

void throw_error(const PluginFailure& failure, const Work& work) {
  std::rethrow_exception(error_of(failure, work));
}

std::shared_ptr<Event> Memory::ready() const {
  std::shared_ptr<Event> event;
  {
    const std::lock_guard lock(mutex_);
    if (ready_) return ready_;
    event = ready_ = std::make_shared<Event>();
  }
  // Without the lock: it may be called back at once.
  try {
    buffer_->when_ready([event, work = made_by_](const PluginFailure* failure) {
      if (failure == nullptr) {
        event->complete();
      } else {
        event->fail(error_of(*failure, *work));
      }
    });
  } catch (const PluginFailure& failure) {
    event->fail(error_of(failure, *made_by_));
  }
  return event;
}

}  // namespace tessera::compiler::accelerators
