// SPDX-License-Identifier: Apache-2.0
// The folders of a checkpoint directory: one for each step, which appears when it is complete.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/files/file_io.h"

namespace tessera::frontend {

/// "DIR/step_00000012"
std::string step_path(const std::string& directory, std::int64_t step);
/// The steps that are there, in order; none if there is no such directory.
std::vector<std::int64_t> steps_in(const std::string& directory);

/// A step that is being written, in a folder aside. What a saver leaves that ends before its time
/// is such a folder, locked by nobody, which the next saver removes.
///
/// Every change of what readers see is one system call on a folder whose contents are on the disk:
/// the new step is renamed, or exchanged with the one that it replaces, and old ones are renamed
/// away before they are removed.
class StepFolder {
 public:
  /// IoError if the directory can't be used, ValueError if the step is there and isn't replaced.
  StepFolder(std::string directory, std::int64_t step, bool replace);
  StepFolder(const StepFolder&) = delete;
  StepFolder& operator=(const StepFolder&) = delete;
  /// Removes what isn't committed.
  ~StepFolder();

  /// Where to write.
  const std::string& path() const { return aside_; }
  /// Its name within the directory.
  std::string name() const { return aside_.substr(directory_.size() + 1); }
  /// Shows the step, whose files are on the disk, and then removes the oldest ones so that `keep`
  /// are left, this one among them.
  void commit(std::optional<std::int64_t> keep);

 private:
  void prune(std::int64_t keep);
  [[noreturn]] void exists() const;

  std::string directory_, target_, aside_;
  std::int64_t step_;
  bool replace_;
  FolderLock lock_;  ///< says that the saver lives
};

}  // namespace tessera::frontend
