// SPDX-License-Identifier: Apache-2.0
// How deep functions are traced within one another on this thread.
#pragma once

#include <cstddef>
#include <string>

#include <tessera/error.h>

namespace tessera::frontend {

/// Calls of jitted functions, bodies of loops and branches, and partitioning callbacks may nest so
/// deep. Beyond it stands a function that calls itself: tracing follows all branches, so it never
/// ends.
inline constexpr std::size_t kMaxNested = 200;

/// One function being traced or compiled, while in scope. TracerError naming the function, its
/// place and how often it stands in the nest if that is too deep, or if it has used up most of
/// this thread's stack.
class Nested {
 public:
  Nested(const std::string& function, Location location);
  ~Nested();
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;
};

}  // namespace tessera::frontend
