// SPDX-License-Identifier: Apache-2.0
// Runs the tessera command as users do, in a separate process.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tessera::testing {

using Json = nlohmann::ordered_json;

struct Ran {
  int code = -1;  ///< 128 + signal if it was killed
  std::string out, err;
  double cpu_seconds = 0;
  double megabytes = 0;  ///< of memory, at most
  /// Of `out`; fails the test if it is none.
  Json json() const;
};

Ran run_tool(const std::vector<std::string>& arguments, const std::string& input = "");

std::filesystem::path source_dir();
std::filesystem::path corpus_dir();

/// A new folder, removed when the test is over.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

void write_file(const std::string& path, const std::string& text);
std::string read_file(const std::string& path);

}  // namespace tessera::testing
