// SPDX-License-Identifier: Apache-2.0
// For tests of files.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "src/base/files/file_io.h"

namespace tessera::testing {

namespace fs = std::filesystem;

/// An empty folder for one test.
class FolderTest : public ::testing::Test {
 protected:
  FolderTest()
      : folder_(fs::temp_directory_path() /
                ("tessera_" + std::to_string(getpid()) + "_" +
                 ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::create_directories(folder_);
  }
  ~FolderTest() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  static std::string contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream out;
    out << file.rdbuf();
    return out.str();
  }
  static void write(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }
  /// The names in a folder, hidden ones too.
  static std::vector<std::string> names(const std::string& path) {
    return folder_names(path).value_or(std::vector<std::string>());
  }

  fs::path folder_;
};

}  // namespace tessera::testing
