// SPDX-License-Identifier: Apache-2.0
// That something is refused, and what the message says.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace tessera::testing {

/// `f` throws an E whose message has all these parts.
template <class E>
void refused(const std::function<void()>& f, const std::vector<std::string>& parts) {
  try {
    f();
    ADD_FAILURE() << "no error with " << parts[0];
  } catch (const E& e) {
    for (const std::string& part : parts) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  }
}

}  // namespace tessera::testing
