// SPDX-License-Identifier: Apache-2.0
// Workers stay on a core of their own.
#pragma once

namespace tessera {

/// Binds the calling thread, which is worker `index` of the pool, to the core of that number among
/// those that the process may use. Without it the system may wake a worker on the core of the
/// thread that waits for it, and take tens of milliseconds to part them. Does nothing if the pool
/// hasn't one worker for each of these cores (others may use the rest), or if
/// `TESSERA_BIND_WORKERS` is 0.
void bind_worker(int index);
/// Moves the calling thread, which works at place `index` of the pool until its call ends, to the
/// core of that number if it runs on another one: that one may have a worker bound to it. It stays
/// free to move.
void leave_bound_cores(int index);
/// Lets the calling thread, which a worker may have started, run on all cores again.
void leave_own_core();
/// To be called before workers are made: they may come while the process ends, when the environment
/// can't be asked any more.
void prepare_to_bind_workers();

}  // namespace tessera
