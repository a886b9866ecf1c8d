// SPDX-License-Identifier: Apache-2.0
// Memory that each thread keeps for its next use.
#pragma once

#include "src/base/threads/run_memory.h"

namespace tessera {

/// The thread's T, a type of the caller's own: it stays as it was left. When the thread's objects
/// are destroyed, those of the main thread before the static ones, whose destructors may still run
/// programs, it gets another one, which goes with the process. While the thread uses a RunMemory,
/// it is that one's, and goes with it.
template <class T>
T& thread_scratch() {
  if (RunMemory* memory = RunMemory::current()) return memory->scratch<T>();
  static thread_local constinit bool destroyed = false;
  static thread_local constinit T* late = nullptr;
  struct Kept {
    T value;
    ~Kept() { destroyed = true; }
  };
  if (destroyed) {
    if (late == nullptr) late = new T;
    return *late;
  }
  static thread_local Kept kept;
  return kept.value;
}

}  // namespace tessera
