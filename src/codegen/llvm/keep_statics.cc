// SPDX-License-Identifier: Apache-2.0
// Keeps LLVM's static objects until the very end of the process: kernels may be compiled in the
// background while it ends, or for destructors that run programs.

/// Takes the place of the C++ library's in this module alone, all of whose static objects are
/// registered here for destruction.
extern "C" __attribute__((visibility("hidden"))) int __cxa_atexit(void (*)(void*), void*, void*) {
  return 0;
}
