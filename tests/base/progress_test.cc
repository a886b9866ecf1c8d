// SPDX-License-Identifier: Apache-2.0
// What takes long tells how far it is; what doesn't says nothing.
#include "src/base/progress.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/support/with_variable.h"

namespace tessera::testing {
namespace {

std::string told(const char* choice, int milliseconds) {
  const WithVariable variable("TESSERA_PROGRESS", choice);
  ::testing::internal::CaptureStderr();
  {
    const Progress outer("compiling 'f'", [] { return std::string("propagate"); });
    const Progress inner("saving", [] { return std::string("0 of 1 MB"); });
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  }
  return ::testing::internal::GetCapturedStderr();
}

TEST(Progress, TellsAfterAWhile) {
  EXPECT_EQ(told("on", 50), "");
  const std::string line = "compiling 'f': propagate, 2 s";
  const std::string text = told("on", 2300);
  EXPECT_EQ(text.find("\r" + line), 0u) << text;
  EXPECT_EQ(text.find("saving"), std::string::npos);
  // It is gone in the end.
  EXPECT_EQ(text.substr(text.size() - line.size() - 2),
            "\r" + std::string(line.size(), ' ') + "\r");
  EXPECT_EQ(told("off", 2300), "");
}

}  // namespace
}  // namespace tessera::testing
