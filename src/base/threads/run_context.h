// SPDX-License-Identifier: Apache-2.0
// What a thread works for: whoever runs a program may leave a pointer for functions that it calls.
// Workers of the pool have that of the thread that they work for.
#pragma once

namespace tessera {

const void* run_context();
void set_run_context(const void* context);

/// Sets it while it lives.
class ScopedRunContext {
 public:
  explicit ScopedRunContext(const void* context) : before_(run_context()) {
    set_run_context(context);
  }
  ~ScopedRunContext() { set_run_context(before_); }
  ScopedRunContext(const ScopedRunContext&) = delete;
  ScopedRunContext& operator=(const ScopedRunContext&) = delete;

 private:
  const void* before_;
};

}  // namespace tessera
