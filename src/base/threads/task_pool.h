// SPDX-License-Identifier: Apache-2.0
// parallel_for over the process's worker threads.
#pragma once

#include <cstdint>
#include <functional>

namespace tessera {

/// Calls `f(context, i)` once for each i in [0, n), distributed over the process's pool of workers,
/// and returns when all are done. Calls may nest. Subnormal numbers
/// are treated as the caller treats them. The first exception thrown is rethrown here.
void parallel_for(std::int64_t n, void (*f)(void* context, std::int64_t i), void* context);

template <class F>
void parallel_for(std::int64_t n, F&& f) {
  parallel_for(
      n, [](void* c, std::int64_t i) { (*static_cast<std::remove_reference_t<F>*>(c))(i); },
      const_cast<void*>(static_cast<const void*>(&f)));
}

/// Number of workers: `TESSERA_NUM_THREADS`, or else the number of cores that this process may use.
int worker_count();

}  // namespace tessera
