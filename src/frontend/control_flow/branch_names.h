// SPDX-License-Identifier: Apache-2.0
// Names of branches and of their results, for messages.
#pragma once

#include <string>
#include <vector>

#include <tessera/control_flow.h>

namespace tessera::internal {

struct BranchNames {
  std::string api;
  bool is_predicate = false;
  std::vector<std::string> paths;  ///< of the results
  Location location;

  /// "the true branch", "branch 2".
  std::string branch(std::size_t b) const { return branch_name(b, is_predicate); }
  /// "result['a']".
  std::string result(std::size_t r) const { return "result" + paths[r]; }
};

}  // namespace tessera::internal
