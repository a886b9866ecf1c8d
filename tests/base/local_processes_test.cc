// SPDX-License-Identifier: Apache-2.0
// What launchers say of the processes that they start.
#include "src/base/processes/local_processes.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace tessera {
namespace {

/// A variable as it is in the scope of this.
class LauncherVariable {
 public:
  LauncherVariable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before, was_set_ = true;
    value == nullptr ? unsetenv(name) : setenv(name, value, 1);
  }
  ~LauncherVariable() { was_set_ ? setenv(name_, before_.c_str(), 1) : unsetenv(name_); }
  LauncherVariable(const LauncherVariable&) = delete;
  LauncherVariable& operator=(const LauncherVariable&) = delete;

 private:
  const char* name_;
  std::string before_;
  bool was_set_ = false;
};

TEST(LocalProcesses, AreReadFromSlurmsList) {
  EXPECT_EQ(tasks_of_machine("3", 0), 3);
  EXPECT_EQ(tasks_of_machine("3", 1), 0);
  EXPECT_EQ(tasks_of_machine("4(x2),3", 0), 4);
  EXPECT_EQ(tasks_of_machine("4(x2),3", 1), 4);
  EXPECT_EQ(tasks_of_machine("4(x2),3", 2), 3);
  EXPECT_EQ(tasks_of_machine("1,16(x3),2", 3), 16);
  EXPECT_EQ(tasks_of_machine("1,16(x3),2", 4), 2);
  for (const char* no : {"", "x", "(x2)", "4(x", "4(x2", "4(x2)3", "4;3", "-4", "99999999999"}) {
    EXPECT_EQ(tasks_of_machine(no, 3), 0) << no;
  }
}

TEST(LocalProcesses, AreThoseOfTheLauncher) {
  const LauncherVariable no_mpirun("OMPI_COMM_WORLD_LOCAL_SIZE", nullptr),
      no_mpich("MPI_LOCALNRANKS", nullptr);
  const LauncherVariable no_step("SLURM_STEP_ID", nullptr), rank("SLURM_PROCID", "5");
  const LauncherVariable tasks("SLURM_STEP_TASKS_PER_NODE", "4(x2),3"), node("SLURM_NODEID", "2");
  const LauncherVariable cpus("SLURM_CPUS_ON_NODE", "12");
  EXPECT_EQ(local_processes(), 1);  // a batch script is no process of a step
  EXPECT_EQ(cpus_of_slurm(), 0);
  const LauncherVariable step("SLURM_STEP_ID", "0");
  EXPECT_EQ(local_processes(), 3);
  EXPECT_EQ(cpus_of_slurm(), 12);
  const LauncherVariable of_mpirun("OMPI_COMM_WORLD_LOCAL_SIZE", "2");
  EXPECT_EQ(local_processes(), 2);
  const LauncherVariable wrong("OMPI_COMM_WORLD_LOCAL_SIZE", "many");
  EXPECT_EQ(local_processes(), 3);
}

}  // namespace
}  // namespace tessera
