// SPDX-License-Identifier: Apache-2.0
// Compiled kernels on disk, by what they compute and the machine and compiler they are for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace tessera::codegen {

/// Files in the folder that TESSERA_CACHE_DIR names. Any number of processes may share it: a file
/// is written aside and renamed, and one that is cut or damaged is as good as none. Failures of the
/// file system are never errors.
class CodeCache {
 public:
  /// Of code for one target. Where files hold about `max_bytes` in all, those are removed that
  /// weren't used for longest.
  explicit CodeCache(std::string target, std::uintmax_t max_bytes = std::uintmax_t(256) << 20);
  std::optional<std::string> find(const std::string& key) const;
  void add(const std::string& key, const std::string& code) const;

 private:
  /// By the target and the key.
  std::filesystem::path file(const std::string& full) const;

  std::string target_;
  std::uintmax_t max_bytes_;
  std::filesystem::path folder_;  ///< empty: there is no cache
};

}  // namespace tessera::codegen
