// SPDX-License-Identifier: Apache-2.0
// Adds the user's location to an error that was thrown without one and throws it again.
#include "src/base/at_location.h"

#include <typeinfo>

namespace tessera::internal {

namespace {

/// Only exactly these types are thrown anew: types that users derive from them are kept.
template <class... Types>
void throw_as_one_of(const Error& error, Location location) {
  auto try_one = [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    if (typeid(error) == typeid(T)) throw T(error.message(), location);
  };
  (try_one(static_cast<Types*>(nullptr)), ...);
}

}  // namespace

void throw_at(const Error& error, Location location) {
  if (error.location().known() || !location.known()) return;
  throw_as_one_of<Error, ValueError, TypeError, ShapeError, DTypeError, ShardingError,
                  IndivisibleError, DuplicateSpecError, TracerError, ParseError, CompileError,
                  NotImplementedError, RuntimeError, IoError, InternalError>(error, location);
}

void throw_out_of_memory(Location location) {
  throw RuntimeError("out of memory: this machine can't give what the program asks for", location);
}

}  // namespace tessera::internal
