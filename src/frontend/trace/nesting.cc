// SPDX-License-Identifier: Apache-2.0
// Guards nested traces against stack overflow.
#include "src/frontend/trace/nesting.h"

#include <pthread.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "src/base/threads/thread_scratch.h"

namespace tessera::frontend {

namespace {

struct Level {
  std::string function;
  Location location;
};

/// Of this thread's traces.
std::vector<Level>& levels() {
  struct Nest {
    std::vector<Level> levels;
  };
  return thread_scratch<Nest>().levels;
}

/// Stack reserved for compilation and for the user's functions.
constexpr std::size_t kReserve = std::size_t(1) << 20;

/// The lowest stack address that a nested trace may reach on this thread; 0 if unknown.
std::uintptr_t lowest_place() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 0;
  void* lowest = nullptr;
  std::size_t size = 0;
  const bool known = pthread_attr_getstack(&attributes, &lowest, &size) == 0;
  pthread_attr_destroy(&attributes);
  if (!known) return 0;
  return reinterpret_cast<std::uintptr_t>(lowest) + std::min(kReserve, size / 4);
}

bool stack_is_short() {
  thread_local const std::uintptr_t lowest = lowest_place();
  // Not the address of a variable: sanitizers may allocate variables elsewhere.
  return reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) < lowest;
}

[[noreturn]] void too_deep(const std::string& function, Location location) {
  const auto same = std::count_if(levels().begin(), levels().end(), [&](const Level& l) {
    return l.function == function && l.location.file == location.file &&
           l.location.line == location.line;
  });
  std::string text = "traces nest deeper than " + std::to_string(levels().size());
  if (levels().size() < kMaxNested) text += ", which is all that this thread's stack holds";
  text += ": '" + function + "'";
  if (same > 0) {
    text += " calls itself" + (location.known() ? " at " + location.to_string() : std::string()) +
            " (it stands " + std::to_string(same + 1) + " times in the nest)";
  }
  throw TracerError(text +
                        "; while a function is traced all branches are, so that a recursion never "
                        "ends: use while_loop, fori_loop or scan",
                    location);
}

}  // namespace

Nested::Nested(const std::string& function, Location location) {
  if (levels().size() >= kMaxNested || stack_is_short()) too_deep(function, location);
  levels().push_back({function, location});
}
Nested::~Nested() { levels().pop_back(); }

}  // namespace tessera::frontend
