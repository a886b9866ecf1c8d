// SPDX-License-Identifier: Apache-2.0
// The processes that a launcher has started on this machine.
#pragma once

#include <string_view>

namespace tessera {

/// How many they are, this one included; 1 if no launcher says so.
int local_processes();
/// The CPUs of this machine that Slurm gave them together; 0 if it didn't start them.
int cpus_of_slurm();

/// The number for one machine, counted from 0, in Slurm's list of tasks by machine: "4(x2),3". 0 if
/// it isn't in the list.
int tasks_of_machine(std::string_view list, int machine);

}  // namespace tessera
