// SPDX-License-Identifier: Apache-2.0
// The options that environment variables set.
#include "src/base/env.h"
#include "src/compiler/compile.h"
#include "src/compiler/read_module.h"
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

Network read_network(const std::string& given) {
  const bool is_file = given.find('=') == std::string::npos;
  try {
    return Network::parse(is_file ? read_file(given) : given, Location{});
  } catch (const ValueError& e) {
    if (!is_file) throw;
    throw ValueError(given + ": " + e.message(), Location{});
  }
}

std::optional<Network> network_of_environment() {
  const std::optional<std::string> given = env_text("TESSERA_NETWORK");
  if (!given || given->empty()) return std::nullopt;
  try {
    return read_network(*given);
  } catch (const ValueError& e) {
    throw ValueError("TESSERA_NETWORK: " + e.message(), Location{});
  } catch (const IoError& e) {
    throw ValueError(
        "TESSERA_NETWORK has neither a description of a machine nor the name of a "
        "file with one: " +
            e.message(),
        Location{});
  }
}

}  // namespace tessera::compiler
