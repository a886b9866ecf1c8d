// SPDX-License-Identifier: Apache-2.0
// Says which arrays are gathered in full, and what would avoid it.
#include "src/compiler/execution/full_gathers.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "src/compiler/explain/explain.h"

namespace tessera::compiler {

void refuse_full_gathers(const Compilation& c) {
  const auto& records = c.report.records;
  const auto first = std::find_if(records.begin(), records.end(),
                                  [](const spmd::CommunicationRecord& r) { return r.full_gather; });
  if (first == records.end()) return;
  std::string message = "an entire array is gathered on each device without need";
  if (c.input) {
    for (const ExplainEntry& e : explain_module(*c.input, c.options).full_gathers()) {
      message += "\n" + e.to_text();
    }
  } else {
    message +=
        fmt::format(": {} from {} to {} for {} ({}), {:.0f} bytes received", first->kind,
                    first->from, first->to, first->for_op, first->reason, first->bytes_received);
  }
  throw CompileError(
      message + "\n(because of TESSERA_FULL_GATHER=error; warn and off are valid, too)",
      first->location);
}

}  // namespace tessera::compiler
