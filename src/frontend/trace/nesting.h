// SPDX-License-Identifier: Apache-2.0
// The depth of nested traces on this thread.
#pragma once

#include <cstddef>
#include <string>

#include <tessera/error.h>

namespace tessera::frontend {

/// Maximum nesting of calls of jitted functions, bodies of loops and branches, and partitioning
/// callbacks. Deeper nests are most likely recursive functions, whose tracing never ends, as it
/// follows all branches.
inline constexpr std::size_t kMaxNested = 200;

/// A function being traced or compiled, while in scope. The constructor throws a TracerError if the
/// nest is too deep or most of this thread's stack is used; it names the function, its line and how
/// often it occurs in the nest.
class Nested {
 public:
  Nested(const std::string& function, Location location);
  ~Nested();
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;
};

}  // namespace tessera::frontend
