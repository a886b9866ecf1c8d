// SPDX-License-Identifier: Apache-2.0
// The pointer of each thread.
#include "src/base/threads/run_context.h"

namespace tessera {
namespace {
thread_local const void* current = nullptr;
}  // namespace

const void* run_context() { return current; }
void set_run_context(const void* context) { current = context; }

}  // namespace tessera
