// SPDX-License-Identifier: Apache-2.0
// What launchers tell the processes that they start, by environment variables.
#include "src/base/processes/local_processes.h"

#include <charconv>
#include <cstdlib>
#include <string>

namespace tessera {
namespace {

constexpr int kMost = 4096;

/// 0 if it is no number from 1 to kMost.
int number_of(const char* name) {
  const char* text = std::getenv(name);
  const long n = text == nullptr ? 0 : std::strtol(text, nullptr, 10);
  return n >= 1 && n <= kMost ? int(n) : 0;
}

/// Takes a number off the text; -1 if it doesn't begin with one.
int take_number(std::string_view* text) {
  int n = -1;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), n);
  if (error != std::errc()) return -1;
  text->remove_prefix(std::size_t(end - text->data()));
  return n;
}

bool in_step_of_slurm() {
  return std::getenv("SLURM_STEP_ID") != nullptr && std::getenv("SLURM_PROCID") != nullptr;
}

}  // namespace

int tasks_of_machine(std::string_view list, int machine) {
  while (!list.empty()) {
    const int tasks = take_number(&list);
    if (tasks < 0) return 0;
    int times = 1;
    if (list.substr(0, 2) == "(x") {
      list.remove_prefix(2);
      times = take_number(&list);
      if (times < 0 || list.substr(0, 1) != ")") return 0;
      list.remove_prefix(1);
    }
    if (machine < times) return tasks;
    machine -= times;
    if (list.substr(0, 1) != ",") return 0;
    list.remove_prefix(1);
  }
  return 0;
}

int local_processes() {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}) {
    if (const int n = number_of(name); n > 1) return n;
  }
  // srun without mpirun.
  const char* tasks = std::getenv("SLURM_STEP_TASKS_PER_NODE");
  const char* node = std::getenv("SLURM_NODEID");
  if (in_step_of_slurm() && tasks != nullptr && node != nullptr) {
    const int n = tasks_of_machine(tasks, int(std::strtol(node, nullptr, 10)));
    if (n > 1 && n <= kMost) return n;
  }
  return 1;
}

int cpus_of_slurm() { return in_step_of_slurm() ? number_of("SLURM_CPUS_ON_NODE") : 0; }

}  // namespace tessera
