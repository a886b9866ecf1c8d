// SPDX-License-Identifier: Apache-2.0
// Work that nobody waits for, on a thread of its own.
#pragma once

#include <functional>

namespace tessera {

/// Runs jobs one after the other, in the order in which they were added. The thread is there only
/// as long as there are jobs. A job waits for a while at first, as what the process does meanwhile
/// comes before, and may be all there is to do. What hasn't begun when the process ends isn't run
/// any more.
void run_in_background(std::function<void()> job);

/// Returns when there are no more jobs, or throws what the first one threw. None waits meanwhile.
void wait_for_background();
}  // namespace tessera
