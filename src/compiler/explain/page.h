// SPDX-License-Identifier: Apache-2.0
// The report's page: what it shows of the program as a graph, and where.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <tessera/explain.h>

namespace tessera::compiler::explain {

/// One computation as a drawing: layer by layer from the top, operands above their users.
struct Drawing {
  struct Node {
    std::int64_t value = 0;  ///< index into Explanation::values()
    double x = 0, y = 0;     ///< of the centre
  };
  std::string computation;
  std::size_t all = 0;  ///< operations that it has to show; `nodes` has fewer beyond kMaxNodes
  std::vector<Node> nodes;
  std::vector<std::pair<int, int>> edges;  ///< from operand to user, indices into nodes
};

/// Beyond this many operations of a computation only those near a movement or an annotation are
/// drawn.
inline constexpr std::size_t kMaxNodes = 4000;
inline constexpr double kNodeWidth = 168, kNodeHeight = 44, kColumn = 188, kLayer = 84;

/// The entry first. Constants, and tuples that only pass arrays on, are left out.
std::vector<Drawing> draw(const Explanation& e);

/// The page, with "@@TITLE@@" and "@@DATA@@" to be replaced.
extern const char* const kPage;

}  // namespace tessera::compiler::explain
