// SPDX-License-Identifier: Apache-2.0
// Environment variables, the log, and the devices that they set up.
#include <gtest/gtest.h>

#include <cstdlib>

#include <tessera/device.h>

#include "src/base/env.h"
#include "src/base/log.h"
#include "tests/support/with_variable.h"

namespace tessera {
namespace {

using Variable = testing::WithVariable;

std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const ValueError& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Environment, ValuesAreReadAtEachCall) {
  {
    Variable v("TESSERA_NUM_DEVICES", "12");
    EXPECT_EQ(env_integer("TESSERA_NUM_DEVICES", 1, 100), 12);
  }
  Variable v("TESSERA_NUM_DEVICES", "");
  EXPECT_EQ(env_integer("TESSERA_NUM_DEVICES", 1, 100), std::nullopt);
  EXPECT_THROW(env_integer("TESSERA_NO_SUCH", 1, 2), InternalError);
}

TEST(Environment, BadValuesNameVariableValueAndWhatIsValid) {
  for (const char* bad : {"x", "0", "101", "3.5", " 4", "99999999999999999999"}) {
    Variable v("TESSERA_NUM_DEVICES", bad);
    EXPECT_EQ(refusal([] { env_integer("TESSERA_NUM_DEVICES", 1, 100); }),
              "environment variable TESSERA_NUM_DEVICES is '" + std::string(bad) +
                  "'; valid: an integer from 1 to 100");
  }
  Variable flag("TESSERA_CHECK_REPLICAS", "maybe");
  EXPECT_EQ(refusal([] { env_flag("TESSERA_CHECK_REPLICAS", false); }),
            "environment variable TESSERA_CHECK_REPLICAS is 'maybe'; valid: 0 or 1");
  Variable choice("TESSERA_FULL_GATHER", "panic");
  EXPECT_EQ(refusal([] { env_choice("TESSERA_FULL_GATHER"); }),
            "environment variable TESSERA_FULL_GATHER is 'panic'; valid: warn, error, off, allow");
  EXPECT_NE(refusal([] { check_environment(); }).find("TESSERA_"), std::string::npos);
}

TEST(Environment, FlagsAndChoices) {
  EXPECT_TRUE(env_flag("TESSERA_CHECK_REPLICAS", true));
  for (const char* yes : {"1", "true", "ON", "yes"}) {
    Variable v("TESSERA_CHECK_REPLICAS", yes);
    EXPECT_TRUE(env_flag("TESSERA_CHECK_REPLICAS", false));
  }
  Variable no("TESSERA_CHECK_REPLICAS", "0");
  EXPECT_FALSE(env_flag("TESSERA_CHECK_REPLICAS", true));
  Variable choice("TESSERA_FULL_GATHER", "error");
  EXPECT_EQ(env_choice("TESSERA_FULL_GATHER"), "error");
}

TEST(Environment, AnUnknownVariableIsWarnedAboutOnce) {
  std::vector<std::string> lines;
  set_log_sink([&](LogLevel level, const std::string& m) {
    if (level == LogLevel::warning) lines.push_back(m);
  });
  Variable v("TESSERA_NUM_DEVICE", "4");
  check_environment();
  check_environment();
  set_log_sink({});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0],
            "unknown environment variable TESSERA_NUM_DEVICE is ignored; did you mean "
            "TESSERA_NUM_DEVICES?");
}

TEST(Log, OnlyWhatTheThresholdAllows) {
  std::vector<std::string> lines;
  set_log_sink([&](LogLevel, const std::string& m) { lines.push_back(m); });
  {
    Variable v("TESSERA_LOG", "info");
    log(LogLevel::debug, "a");
    log_info("b");
  }
  {
    Variable v("TESSERA_LOG", "off");
    log(LogLevel::error, "c");
  }
  {
    Variable v("TESSERA_LOG", "warning");
    log_info("d");
    log_warning("e");
  }
  set_log_sink({});
  EXPECT_EQ(lines, (std::vector<std::string>{"b", "e"}));
}

// One test: the devices are fixed at their first use in the process.
TEST(Devices, NumberIsSetBeforeTheFirstUseOnly) {
  EXPECT_NE(refusal([] { set_num_devices(0); }).find("environment_test.cc:"), std::string::npos);
  set_num_devices(6);
  set_num_devices(5);
  EXPECT_EQ(device_count(), 5);
  EXPECT_EQ(devices()[3].to_string(), "cpu:3");
  EXPECT_EQ(local_devices().size(), 5u);
  EXPECT_EQ(&devices(), &devices());
  EXPECT_NO_THROW(set_num_devices(5));
  const std::string late = refusal([] { set_num_devices(6); });
  EXPECT_NE(late.find("set_num_devices(6) comes too late: the 5 devices"), std::string::npos)
      << late;
  EXPECT_EQ(device_count(), 5);
  Device a, b;
  b.id = 1;
  EXPECT_TRUE(a < b);
  EXPECT_FALSE(a == b);
}

TEST(Environment, OnlyCloseNamesAreSuggested) {
  std::string said;
  set_log_sink([&](LogLevel, const std::string& m) { said += m + "\n"; });
  {
    Variable near("TESSERA_NUM_DEVISES", "3"), far("TESSERA_FOO", "1");
    check_environment();
  }
  set_log_sink({});
  EXPECT_NE(said.find("TESSERA_NUM_DEVISES is ignored; did you mean TESSERA_NUM_DEVICES?"),
            std::string::npos)
      << said;
  EXPECT_NE(said.find("TESSERA_FOO is ignored; there are TESSERA_NUM_DEVICES, "), std::string::npos)
      << said;
}

TEST(Environment, TheCheckKnowsEachVariablesBounds) {
  Variable v("TESSERA_NUM_THREADS", "4097");
  EXPECT_NE(refusal([] { check_environment(); }).find("an integer from 1 to 4096"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera
