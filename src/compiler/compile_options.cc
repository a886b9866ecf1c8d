// SPDX-License-Identifier: Apache-2.0
// The options of a compilation, requested or by environment variables.
#include "src/compiler/compile_options.h"

#include "src/base/env.h"
#include "src/compiler/read_module.h"
#include "src/cost/machines.h"
#include "src/spmd/collectives/optimize.h"

namespace tessera::compiler {

Network read_network(const std::string& given) {
  if (auto machine = cost::find_machine(given); machine && given.find('/') == std::string::npos) {
    return *machine;
  }
  const bool is_file = given.find('=') == std::string::npos;
  try {
    return Network::parse(is_file ? read_file(given) : given, Location{});
  } catch (const ValueError& e) {
    if (!is_file) throw;
    throw ValueError(given + ": " + e.message(), Location{});
  }
}

namespace {

std::optional<Network> stated_network() {
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

}  // namespace

Options::Options(const Requests& requests)
    : memory_budget(requests.memory_budget), network(requests.network) {
  if (requests.layouts) {
    (void)to_string(*requests.layouts);  // checks it
    layouts = *requests.layouts;
  } else if (const auto text = env_choice("TESSERA_LAYOUTS")) {
    layouts = parse_layouts(*text, Location{});
  }
  if (!memory_budget) memory_budget = env_integer("TESSERA_MEMORY_BUDGET", 1, kMaxBytes);
  if (!network) network = stated_network();
  const std::string policy = env_choice("TESSERA_FULL_GATHER").value_or("warn");
  full_gathers = policy == "error"  ? FullGathers::error
                 : policy == "warn" ? FullGathers::warn
                                    : FullGathers::ignore;
  refuse_evaluator_ops = env_choice("TESSERA_EVALUATOR_OPS").value_or("allow") == "error";
  collective_matmul_from_bytes =
      env_integer("TESSERA_WINDOW_DOTS_FROM", 0, kMaxBytes)
          .value_or(spmd::CollectiveOptions().collective_matmul_from_bytes);
}

}  // namespace tessera::compiler
