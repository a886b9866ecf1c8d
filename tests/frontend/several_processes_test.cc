// SPDX-License-Identifier: Apache-2.0
// The cases of several processes in threads, each of which is a process with devices of its own.
#include <gtest/gtest.h>

#include "tests/support/memory_transport.h"
#include "tests/support/process_cases.h"

namespace tessera::testing {
namespace {

class Simulated : public ::testing::TestWithParam<std::size_t> {};

TEST_P(Simulated, InTwoAndFourProcesses) {
  const ProcessCase& c = process_cases()[GetParam()];
  for (const auto& [processes, devices] : {std::pair(2, 2), {4, 1}, {2, 4}}) {
    SCOPED_TRACE(std::to_string(processes) + " processes");
    for (const std::string& error : run_processes(processes, devices, [&](int) { c.run(); })) {
      EXPECT_EQ(error, "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Processes, Simulated,
                         ::testing::Range(std::size_t(0), process_cases().size()),
                         [](const auto& info) { return process_cases()[info.param].name; });

}  // namespace
}  // namespace tessera::testing
