// SPDX-License-Identifier: Apache-2.0
// Every pass by name, and groups of them: stages of the compiler and `tessera opt` run these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "src/ir/module.h"

namespace tessera::compiler {

using ModulePtr = std::unique_ptr<ir::Module>;

struct Pass {
  const char* name;
  const char* help;
  /// Returns how much changed, if the pass counts that. `argument`: see PassCall.
  std::optional<std::size_t> (*run)(ModulePtr& module, std::optional<std::int64_t> argument);
  bool takes_argument = false;
};

/// In the order in which a program meets them.
std::span<const Pass> all_passes();

/// Passes that are run together, as PassPipeline takes them.
struct PassGroup {
  const char* name;
  const char* help;
  const char* passes;
};
std::span<const PassGroup> all_groups();
/// Null if there is none.
const PassGroup* find_group(std::string_view name);

/// A pass as text names it: `expand-collective-matmuls<4096>` is expand-collective-matmuls with the
/// argument 4096.
struct PassCall {
  const Pass* pass = nullptr;
  std::optional<std::int64_t> argument;
};

/// ValueError if there is no such pass, or if it takes no argument and is given one.
PassCall parse_pass(std::string_view text);
/// Runs the pass and, unless told otherwise, verifies the module.
std::optional<std::size_t> run_pass(const PassCall& call, ModulePtr& module, bool verify = true);

}  // namespace tessera::compiler
