// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of shardings.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <tessera/sharding.h>

#include "tests/support/error_table.h"

namespace tessera::test {

/// Devices made by hand: ids 0..n-1, or those given.
inline std::vector<Device> some_devices(std::int64_t n) {
  std::vector<Device> out(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) out[std::size_t(i)].id = i;
  return out;
}
inline std::vector<Device> devices_of(const std::vector<std::int64_t>& ids) {
  std::vector<Device> out(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) out[i].id = ids[i];
  return out;
}

/// The message of the error of exactly that class; the test fails if there is none. In a test of a
/// behaviour the table of errors must have it.
template <class E, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& e) {
    EXPECT_TRUE(typeid(e) == typeid(E)) << "another class: " << e.what();
    tessera::testing::note_error(e);
    return e.what();
  } catch (const std::exception& e) {
    ADD_FAILURE() << "another class: " << e.what();
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

/// Each part must stand in the text.
inline void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& p : parts) {
    EXPECT_NE(text.find(p), std::string::npos) << "missing: " << p << "\n in: " << text;
  }
}

}  // namespace tessera::test
