// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of checkpoints: bits, and system calls that fail.
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

#include "src/base/files/file_io.h"
#include "src/base/log.h"
#include "src/frontend/trace/trace.h"
#include "tests/frontend/checkpoint/folder_test.h"
#include "tests/frontend/frontend_testing.h"

namespace tessera::testing {

namespace fs = std::filesystem;

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
