// SPDX-License-Identifier: Apache-2.0
// What a test was doing, told if it fails: a text that is made only then.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <utility>

namespace tessera::testing {

/// Prints what `text` returns if a check of the test fails in this object's scope. SCOPED_TRACE
/// makes its text each time; that of a module with large constants takes longer than most tests.
template <class Text>
class DescribeFailure {
 public:
  explicit DescribeFailure(Text text) : text_(std::move(text)), before_(failures()) {}
  DescribeFailure(const DescribeFailure&) = delete;
  DescribeFailure& operator=(const DescribeFailure&) = delete;
  ~DescribeFailure() {
    if (failures() == before_) return;
    const std::string text = text_();
    std::printf("The check that failed was of %s\n", text.c_str());
  }

 private:
  static int failures() {
    const ::testing::TestResult* result =
        ::testing::UnitTest::GetInstance()->current_test_info()->result();
    int count = 0;
    for (int i = 0; i < result->total_part_count(); ++i) {
      count += result->GetTestPartResult(i).failed();
    }
    return count;
  }
  Text text_;
  int before_;
};

}  // namespace tessera::testing
