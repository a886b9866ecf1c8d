// SPDX-License-Identifier: Apache-2.0
// The interpreter's lock, by functions that are looked up in the process.
#include "src/pjrt/ffi/python_lock.h"

#include <dlfcn.h>

#include <cstring>

namespace tessera::pjrt::ffi {
namespace {

struct Lock {
  int (*initialized)() = nullptr;
  int (*finalizing)() = nullptr;
  int (*held)() = nullptr;
  void* (*save)() = nullptr;
  void (*restore)(void*) = nullptr;

  Lock() {
    find(&initialized, "Py_IsInitialized");
    find(&finalizing, "Py_IsFinalizing");
    if (finalizing == nullptr) find(&finalizing, "_Py_IsFinalizing");  // before Python 3.13
    find(&held, "PyGILState_Check");
    find(&save, "PyEval_SaveThread");
    find(&restore, "PyEval_RestoreThread");
  }
  template <class F>
  static void find(F* function, const char* name) {
    void* const symbol = dlsym(RTLD_DEFAULT, name);
    std::memcpy(function, &symbol, sizeof(symbol));
  }
  bool runs() const {
    return initialized != nullptr && initialized() != 0 &&
           (finalizing == nullptr || finalizing() == 0);
  }
};

const Lock& python() {
  static const Lock lock;
  return lock;
}

}  // namespace

WithoutPythonLock::WithoutPythonLock() {
  const Lock& p = python();
  if (p.runs() && p.held != nullptr && p.save != nullptr && p.restore != nullptr && p.held() == 1) {
    state_ = p.save();
  }
}

WithoutPythonLock::~WithoutPythonLock() {
  if (state_ != nullptr) python().restore(state_);
}

bool python_runs() { return python().runs(); }

}  // namespace tessera::pjrt::ffi
