// SPDX-License-Identifier: Apache-2.0
// Waiting while other threads run Python.
#pragma once

namespace tessera::pjrt::ffi {

/// Lets go of the interpreter's lock, if this thread has it, while this lives: what is waited for
/// may be a function of Python.
class WithoutPythonLock {
 public:
  WithoutPythonLock();
  ~WithoutPythonLock();
  WithoutPythonLock(const WithoutPythonLock&) = delete;
  WithoutPythonLock& operator=(const WithoutPythonLock&) = delete;

 private:
  void* state_ = nullptr;
};

/// Whether this process has an interpreter that runs, and isn't about to end: later its lock can't
/// be had.
bool python_runs();

}  // namespace tessera::pjrt::ffi
