// SPDX-License-Identifier: Apache-2.0
// What rules of functions with rules of their own use from outside.
#pragma once

#include <tessera/error.h>

namespace tessera::frontend {

/// Thrown where a rule uses an array from outside of which its call knew nothing.
class UnknownCapture : public TracerError {
 public:
  using TracerError::TracerError;
};

/// While in scope, calls of functions with rules find out when they are staged what these use.
class SeekCaptures {
 public:
  SeekCaptures();
  ~SeekCaptures();
  SeekCaptures(const SeekCaptures&) = delete;
  SeekCaptures& operator=(const SeekCaptures&) = delete;
  static bool active();
};

/// Runs `f`, which traces a function and then rules of calls within. If one uses arrays from
/// outside, `f` is run again, and the calls take these as operands.
template <class F>
auto with_captures_of_rules(F&& f) {
  if (!SeekCaptures::active()) {
    try {
      return f();
    } catch (const UnknownCapture&) {
      // Once more, below.
    }
  }
  const SeekCaptures scope;
  return f();
}

}  // namespace tessera::frontend
