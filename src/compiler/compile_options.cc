// SPDX-License-Identifier: Apache-2.0
// The options that environment variables set.
#include "src/base/env.h"
#include "src/compiler/compile.h"
#include "src/spmd/collectives/optimize.h"

namespace tessera::compiler {

FullGathers full_gathers_of_environment() {
  const std::string policy = env_choice("TESSERA_FULL_GATHER").value_or("warn");
  if (policy == "error") return FullGathers::error;
  return policy == "warn" ? FullGathers::warn : FullGathers::ignore;
}

std::int64_t collective_matmul_bytes_of_environment() {
  return env_integer("TESSERA_WINDOW_DOTS_FROM", 0, kMaxBytes)
      .value_or(spmd::CollectiveOptions().collective_matmul_from_bytes);
}

std::optional<std::int64_t> memory_budget_of_environment() {
  return env_integer("TESSERA_MEMORY_BUDGET", 1, kMaxBytes);
}

}  // namespace tessera::compiler
