// SPDX-License-Identifier: Apache-2.0
// What processes tell each other for plugins: no key has two values, and nobody waits for ever.
#include "src/compiler/accelerators/shared_values.h"

#include <gtest/gtest.h>

#include <atomic>

#include "tests/support/memory_transport.h"

namespace tessera::compiler::accelerators {
namespace {

using namespace std::chrono_literals;
using Put = KeyValues::Put;

void expect_none(const std::vector<std::string>& errors) {
  for (const std::string& e : errors) EXPECT_EQ(e, "");
}

TEST(SharedValues, TheFirstOneCountsEverywhere) {
  constexpr int kProcesses = 3, kKeys = 50;
  std::atomic<int> done[kKeys] = {};
  std::string values[kKeys][kProcesses];
  expect_none(testing::run_processes(kProcesses, 1, [&](int p) {
    SharedKeyValues shared(processes());
    for (int k = 0; k < kKeys; ++k) {
      const std::string key = "key " + std::to_string(k), mine = "of " + std::to_string(p);
      const Put put = shared.put(key, mine);
      const auto got = shared.get(key, 10s);
      ASSERT_TRUE(got);
      EXPECT_EQ(put, *got == mine ? Put::done : Put::taken);
      done[k] += put == Put::done;
      values[k][p] = *got;
      // The same again is no other value.
      EXPECT_EQ(shared.put(key, *got), Put::done);
      EXPECT_EQ(shared.try_get(key), got);
    }
    // Until all have said what they have, as a plugin would.
    (void)shared.put("end of " + std::to_string(p), "");
    for (int q = 0; q < kProcesses; ++q) {
      EXPECT_TRUE(shared.get("end of " + std::to_string(q), 10s));
    }
  }));
  for (int k = 0; k < kKeys; ++k) {
    EXPECT_EQ(done[k], 1) << k;
    for (const std::string& v : values[k]) EXPECT_EQ(v, values[k][0]) << k;
  }
}

TEST(SharedValues, NobodyWaitsForThoseThatHaveEnded) {
  expect_none(testing::run_processes(2, 1, [](int p) {
    SharedKeyValues shared(processes());
    if (p == 0) {
      EXPECT_EQ(shared.put("said", "in time"), Put::done);
      EXPECT_TRUE(shared.get("heard", 10s));
      shared.end();
      EXPECT_EQ(shared.put("late", "too"), Put::undecided);
      EXPECT_EQ(shared.get("said", 0ms), "in time");
      return;
    }
    EXPECT_EQ(shared.get("said", 10s), "in time");
    EXPECT_EQ(shared.put("heard", ""), Put::done);
    const auto begin = std::chrono::steady_clock::now();
    Put late = Put::done;
    for (int k = 0; k < 1000 && late == Put::done; ++k) {
      late = shared.put("late " + std::to_string(k), "");
    }
    EXPECT_EQ(late, Put::undecided);
    EXPECT_EQ(shared.get("never", 30s), std::nullopt);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
    EXPECT_EQ(shared.get("said", 0ms), "in time");
  }));
}

}  // namespace
}  // namespace tessera::compiler::accelerators
