// SPDX-License-Identifier: Apache-2.0
// The doors between the user's code and ours: what is thrown behind them leaves as an Error that
// names the user's line.
#pragma once

#include <new>
#include <stdexcept>

#include <tessera/error.h>

namespace tessera {

namespace internal {
/// Throws the same kind of error with that location, if it has none; otherwise returns.
void throw_at(const Error& error, Location location);
[[noreturn]] void throw_out_of_memory(Location location);
}  // namespace internal

/// f(), its errors located. Exceptions of others (the user's, thrown in callbacks) pass unchanged.
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
