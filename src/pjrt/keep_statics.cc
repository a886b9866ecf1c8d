// SPDX-License-Identifier: Apache-2.0
// Keeps the plugin's static objects until the very end of the process. They are younger than what
// the program that loads the plugin has, whose own functions at the end may still run programs.
#include <dlfcn.h>

/// Takes the place of the C library's in this plugin alone. What std::atexit registers, which has
/// no object, goes on to that one; destructors of static objects don't.
extern "C" __attribute__((visibility("hidden"))) int __cxa_atexit(void (*function)(void*),
                                                                  void* object, void* library) {
  if (object != nullptr) return 0;
  using Register = int(void (*)(void*), void*, void*);
  static Register* const next = reinterpret_cast<Register*>(dlsym(RTLD_NEXT, "__cxa_atexit"));
  return next == nullptr ? 0 : next(function, object, library);
}
