// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of checkpoints: folders, trees, and system calls that fail.
#pragma once

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include <tessera/checkpoint.h>
#include <tessera/safetensors.h>

#include "src/base/file_io.h"
#include "src/base/log.h"
#include "src/frontend/trace/trace.h"
#include "tests/frontend/frontend_testing.h"

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
  ~FolderTest() override {
    set_file_faults(nullptr);
    fs::remove_all(folder_);
  }

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

/// Calls a function before each system call, with its name, its path and what it writes at most.
class Faults : public FileFaults {
 public:
  using Before = std::function<int(std::string_view, const std::string&, std::size_t*)>;
  explicit Faults(Before before) : before_(std::move(before)) { set_file_faults(this); }
  ~Faults() override { set_file_faults(nullptr); }
  int before(std::string_view call, const std::string& path, std::size_t* bytes) override {
    return before_(call, path, bytes);
  }

 private:
  Before before_;
};

inline Literal bits_of(const Array& a) { return frontend::to_literal(a, {}); }
/// Equal shape, dtype and bits.
inline void expect_same(const Array& have, const Array& want) {
  EXPECT_EQ(have.dtype(), want.dtype());
  EXPECT_EQ(have.shape(), want.shape());
  EXPECT_TRUE(bits_of(have) == bits_of(want));
}

}  // namespace tessera::testing
