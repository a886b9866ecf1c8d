// SPDX-License-Identifier: Apache-2.0
// Shared by the fuzz targets: reads an input; an Error is an accepted outcome, any other exception
// a failure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include <tessera/error.h>

namespace tessera::fuzz {

/// Stops the run with both texts if they differ.
inline void same_text(const std::string& first, const std::string& second, const char* what) {
  if (first == second) return;
  std::fprintf(stderr, "%s changed\n--- first\n%s\n--- second\n%s\n", what, first.c_str(),
               second.c_str());
  std::abort();
}

[[noreturn]] inline void broken(const char* what, const std::exception& e) {
  std::fprintf(stderr, "%s: %s\n", what, e.what());
  std::abort();
}

/// Runs f. Errors of the input are fine; a broken invariant of ours is not.
template <class F>
bool accepts(F&& f) {
  try {
    f();
    return true;
  } catch (const InternalError& e) {
    broken("internal error", e);
  } catch (const Error&) {
    return false;
  }
}

/// Runs f, which must not throw.
template <class F>
void must(const char* what, F&& f) {
  try {
    f();
  } catch (const std::exception& e) {
    broken(what, e);
  }
}

}  // namespace tessera::fuzz
