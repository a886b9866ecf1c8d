// SPDX-License-Identifier: Apache-2.0
// What takes long tells on a terminal how far it is.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace tessera {

/// A line on stderr that is written over again, "compiling 'step': propagate, 12 s", if stderr is a
/// terminal, from two seconds on, until it is destroyed. TESSERA_PROGRESS says otherwise. Of what
/// goes on at the same time one tells, in one of several processes.
class Progress {
 public:
  /// `how_far` is called by another thread, while this lives.
  Progress(std::string what, std::function<std::string()> how_far);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  struct Line;
  std::unique_ptr<Line> line_;  ///< null: nothing is told
};

}  // namespace tessera
