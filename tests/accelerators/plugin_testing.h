// SPDX-License-Identifier: Apache-2.0
// A plugin under test, one that fails on purpose, and comparisons.
#pragma once

#include <tessera/accelerators.h>
#include <tessera/tessera.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

namespace tessera::testing {

using P = PartitionSpec;

/// Our own plugin, or the one that PJRT_TEST_PLUGIN names.
inline std::string plugin_file() {
  const char* given = std::getenv("PJRT_TEST_PLUGIN");
  return given == nullptr || *given == 0 ? TESSERA_PJRT_LIBRARY : given;
}

inline const std::vector<Device>& plugin_devices() {
  static const std::vector<Device>& all = load_pjrt_plugin(
      plugin_file(), {.platform = "xpu", .values = {{"cpu_device_count", std::int64_t(8)}}});
  return all;
}

inline Array counting(const std::vector<std::int64_t>& dims, float scale = 1) {
  std::int64_t count = 1;
  for (const std::int64_t d : dims) count *= d;
  return reshape(arange(float(count)) * scale, dims);
}

inline std::vector<float> floats(const Array& a) { return a.to_vector<float>(); }

inline void expect_close(const Array& got, const Array& want, float tolerance = 1e-5f) {
  const std::vector<float> a = floats(got), b = floats(want);
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a[i], b[i], tolerance * (1 + std::abs(b[i]))) << "element " << i;
  }
}

template <class E, class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  } catch (const std::exception& e) {
    return std::string("another error: ") + e.what();
  }
  return "no error";
}
inline void expect_has(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& p : parts)
    EXPECT_NE(text.find(p), std::string::npos) << p << ": " << text;
}

/// Plugins that are no plugins, or fail.
class FaultyPlugins : public ::testing::Test {
 protected:
  void SetUp() override {
    before_ = std::getenv("PJRT_TEST_PLUGIN") ? std::getenv("PJRT_TEST_PLUGIN") : "";
    setenv("PJRT_TEST_PLUGIN", plugin_file().c_str(), 1);
  }
  void TearDown() override {
    setenv("PJRT_TEST_PLUGIN", before_.c_str(), 1);
    unsetenv("PJRT_TEST_FAULT");
  }
  static const std::vector<Device>& load(const std::string& fault) {
    static int count = 0;
    setenv("PJRT_TEST_FAULT", fault.c_str(), 1);
    return load_pjrt_plugin(TESSERA_FAILING_PLUGIN,
                            {.platform = "failing" + std::to_string(count++)});
  }
  std::string before_;
};

}  // namespace tessera::testing
