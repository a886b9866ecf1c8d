// SPDX-License-Identifier: Apache-2.0
// What holds of programs in several processes: each case is run by all of them at once, which are
// threads in the tests of the front end, and processes that MPI connects in tests/processes.
#pragma once

#include <vector>

namespace tessera::testing {

struct ProcessCase {
  const char* name;
  void (*run)();
};
/// For two processes or more, with as many devices each, four or more in all. Later cases don't
/// depend on earlier ones.
const std::vector<ProcessCase>& process_cases();

// Cases of process_checkpoints.cc.
void checkpoints_of_all_processes();
void checkpoints_while_programs_run();
void checkpoints_that_fail();
// Of process_safetensors.cc.
void safetensors_of_all_processes();
void safetensors_that_are_refused();
void npy_files_of_all_processes();

}  // namespace tessera::testing
