// SPDX-License-Identifier: Apache-2.0
// Functions of the API as clients of all versions call them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include "src/pjrt/status.h"

namespace tessera::pjrt {

/// Calls a function with the client's arguments. Clients of older versions have shorter structs: to
/// the function, what they lack is zero, and nothing is written behind their ends. Null pointers
/// and structs that can't be of any version are errors.
template <class Args>
PJRT_Error* call_entry(PJRT_Error* (*function)(Args*), const char* name, Args* args) noexcept {
  // The size itself, the extensions and a handle: all versions have these.
  constexpr std::size_t kLeast = std::min(sizeof(Args), 3 * sizeof(void*));
  if (args != nullptr && args->struct_size >= sizeof(Args)) return function(args);
  if (args == nullptr || args->struct_size < kLeast) {
    return guarded([&] {
      const std::string who = "arguments of PJRT_" + std::string(name);
      throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                    args == nullptr
                        ? who + ": a null pointer"
                        : who + ": struct_size is " + std::to_string(args->struct_size) +
                              "; valid: " + std::to_string(kLeast) + " at least");
    });
  }
  const std::size_t size = args->struct_size;
  Args whole{};
  std::memcpy(&whole, args, size);
  PJRT_Error* const error = function(&whole);
  std::memcpy(args, &whole, size);
  return error;
}

template <class Function>
struct ArgsOf;
template <class Args>
struct ArgsOf<PJRT_Error* (*)(Args*)> {
  using Type = Args;
};

/// The function, to be called by clients: one of an extension, whose name is told in errors.
template <auto function>
PJRT_Error* entry(typename ArgsOf<decltype(function)>::Type* args) noexcept {
  return call_entry(function, "extension", args);
}

/// The same where clients leave struct_size unset, so that it says nothing: in XLA's own client,
/// the structs of the profiler.
template <auto function>
PJRT_Error* unsized_entry(typename ArgsOf<decltype(function)>::Type* args) noexcept {
  if (args != nullptr) return function(args);
  return guarded([] {
    throw Failure(PJRT_Error_Code_INVALID_ARGUMENT, "arguments of an extension: a null pointer");
  });
}

}  // namespace tessera::pjrt
