// SPDX-License-Identifier: Apache-2.0
// One walk over the instructions, from the last one back.
#include "src/ir/analysis/last_uses.h"

#include <algorithm>

namespace tessera::ir {
namespace {

std::vector<std::int64_t> find(const Computation& c, bool through_names) {
  const auto& all = c.instructions();
  std::vector<std::int64_t> last(all.size());
  for (std::size_t n = all.size(); n-- > 0;) {
    const Instruction& i = *all[n];
    if (&i == c.root()) last[n] = std::int64_t(all.size());
    last[n] = std::max(last[n], std::int64_t(n));
    const bool names = through_names && needs_no_storage(i.opcode);
    for (const Instruction* o : i.operands()) {
      std::int64_t& l = last[std::size_t(o->index)];
      l = std::max(l, names ? last[n] : std::int64_t(n));
    }
  }
  return last;
}

}  // namespace

std::vector<std::int64_t> last_uses(const Computation& computation) {
  return find(computation, false);
}

std::vector<std::int64_t> last_uses_of_arrays(const Computation& computation) {
  return find(computation, true);
}

}  // namespace tessera::ir
