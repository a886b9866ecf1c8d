// SPDX-License-Identifier: Apache-2.0
// Adds the user's line to errors where the user's code calls the library.
#pragma once

#include <new>
#include <stdexcept>

#include <tessera/error.h>

namespace tessera {

namespace internal {
/// If the error has no location, throws an error of the same type that has this one; otherwise
/// returns.
void throw_at(const Error& error, Location location);
[[noreturn]] void throw_out_of_memory(Location location);
}  // namespace internal

/// Returns f(), adding the location to its errors. Other exceptions (thrown by the user's
/// callbacks) pass through unchanged.
template <class F>
decltype(auto) at_location(Location location, F&& f) {
  try {
    return f();
  } catch (const Error& e) {
    internal::throw_at(e, location);
    throw;
  } catch (const std::bad_alloc&) {
    internal::throw_out_of_memory(location);
  } catch (const std::length_error&) {
    internal::throw_out_of_memory(location);
  }
}

}  // namespace tessera
