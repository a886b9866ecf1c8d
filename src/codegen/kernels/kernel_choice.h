// SPDX-License-Identifier: Apache-2.0
// How the kernel of an operation is chosen among those of its family: by one table, read from first
// to last.
// Also called: implementation list, as oneDNN has it.
#pragma once

#include <cstddef>
#include <vector>

#include "src/base/check.h"
#include "src/runtime/plan.h"

namespace tessera::codegen {

using runtime::KernelLabel;

/// A line of a table: a kernel, when it is taken, and what its family has to know of it. Tables are
/// constants: plans keep pointers to their labels. Conditions may take for granted that those of
/// earlier lines don't hold.
template <class Operation, class How>
struct KernelLine {
  KernelLabel label;
  bool (*applies)(const Operation&);
  How how;
};

/// The condition of a table's last line.
template <class Operation>
bool always(const Operation&) {
  return true;
}

/// The label of the lines for what no kernel computes.
inline constexpr KernelLabel kOnEvaluator = {"evaluator",
                                             "no kernel has these types and attributes"};

/// The first line that applies.
template <class Operation, class How, std::size_t n>
const KernelLine<Operation, How>& choose(const KernelLine<Operation, How> (&table)[n],
                                         const Operation& operation) {
  for (const KernelLine<Operation, How>& line : table) {
    if (line.applies(operation)) return line;
  }
  TESSERA_CHECK(false, "no line of a table of kernels applies");
  return table[n - 1];
}

/// A table, as tests see it.
struct KernelFamily {
  const char* name = "";
  std::vector<KernelLabel> kernels;
  bool ends = false;  ///< in a line that always applies
};
template <class Operation, class How, std::size_t n>
KernelFamily family_of(const char* name, const KernelLine<Operation, How> (&table)[n]) {
  KernelFamily out{name, {}, table[n - 1].applies == &always<Operation>};
  for (const KernelLine<Operation, How>& line : table) out.kernels.push_back(line.label);
  return out;
}

}  // namespace tessera::codegen
