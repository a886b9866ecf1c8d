// SPDX-License-Identifier: Apache-2.0
// What all processes do together with files: each its share, and if one fails all do.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <tessera/error.h>

#include "src/base/processes/mailbox.h"

namespace tessera::frontend {

/// Made by all processes in the same order, and used by one thread at a time, which may be another
/// one than that which runs programs. With one process there is nobody to wait for.
class CollectiveIo {
 public:
  /// `api`: "save_checkpoint", which must be the same in all processes.
  CollectiveIo(std::string api, Location location);

  int index() const { return index_; }
  bool alone() const { return count_ == 1; }
  /// Runs `mine` and returns what those of all processes return, by process. If one throws, that
  /// error is thrown in its process, and in the others an IoError, ValueError or RuntimeError that
  /// has its message. RuntimeError as well if a process ends, does something else, or isn't heard
  /// of for as long as exchanges may take; how long `mine` takes doesn't matter.
  std::vector<std::string> all(const std::function<std::string()>& mine);
  /// The same where only the first process has something to say, which is returned.
  std::string first(const std::function<std::string()>& its) {
    return all([&] { return index_ == 0 ? its() : std::string(); })[0];
  }

 private:
  std::string heard_from(int process);
  /// What the first process answers.
  std::string hear_all(const std::string& mine);

  std::string api_;
  Location location_;
  int index_ = 0, count_ = 1;
  std::unique_ptr<Mailbox> mail_;               ///< null: there is one process
  std::vector<std::deque<std::string>> early_;  ///< by process: letters not yet waited for
  std::vector<std::chrono::steady_clock::time_point> heard_;
};

}  // namespace tessera::frontend
