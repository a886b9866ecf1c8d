// SPDX-License-Identifier: Apache-2.0
// The cases of several processes in each of those that mpirun started.
#include <gtest/gtest.h>
#include <tessera/tessera.h>
#include <unistd.h>

#include <algorithm>

#include "src/base/threads/task_pool.h"
#include "tests/support/process_cases.h"

namespace tessera::testing {
namespace {

class ConnectedByMpi : public ::testing::Test {
 public:
  explicit ConnectedByMpi(const ProcessCase& c) : case_(c) {}
  void TestBody() override { case_.run(); }

 private:
  ProcessCase case_;
};

// All are on this machine.
TEST(Cores, AreSharedByTheProcesses) {
  const auto cores = std::int64_t(sysconf(_SC_NPROCESSORS_ONLN));
  EXPECT_LE(process_count() * worker_count(), std::max(cores, process_count()));
}

}  // namespace
}  // namespace tessera::testing

int main(int argc, char** argv) {
  using namespace tessera::testing;
  ::testing::InitGoogleTest(&argc, argv);
  for (const ProcessCase& c : process_cases()) {
    ::testing::RegisterTest("Mpi", c.name, nullptr, nullptr, __FILE__, __LINE__,
                            [&c]() -> ::testing::Test* { return new ConnectedByMpi(c); });
  }
  return RUN_ALL_TESTS();
}
