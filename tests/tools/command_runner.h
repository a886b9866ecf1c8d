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
/// A file or folder of the corpus.
inline std::string of_case(const std::string& name) { return (corpus_dir() / name).string(); }

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A module that adds two arrays.
inline constexpr const char* kAddModule = R"(HloModule add

ENTRY main {
  a = f32[8]{0} parameter(0)
  b = f32[8]{0} parameter(1)
  ROOT sum = f32[8]{0} add(a, b)
}
)";

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
