// SPDX-License-Identifier: Apache-2.0
// Estimates the peak memory of a device program in its instruction order.
#include "src/cost/peak_memory.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

namespace tessera::cost {
namespace {

using ir::Instruction;
using ir::Opcode;

class PeakMemory {
 public:
  double of(const ir::Computation& c) {
    if (auto it = done_.find(&c); it != done_.end()) return it->second;
    const std::vector<double> all = profile(c);
    return done_[&c] = all.empty() ? 0 : *std::max_element(all.begin(), all.end());
  }

  std::vector<double> profile(const ir::Computation& c) {
    const auto& all = c.instructions();
    // A name lives as long as what it names is read through it, whatever element that is: good
    // enough for a comparison, and few tuples live long.
    std::vector<std::int64_t> last(all.size());
    for (std::size_t n = all.size(); n-- > 0;) {
      const Instruction& i = *all[n];
      if (&i == c.root()) last[n] = std::int64_t(all.size());
      last[n] = std::max(last[n], std::int64_t(n));
      for (const Instruction* o : i.operands()) {
        // Several names of one array: the array lives to the last use of any.
        const std::int64_t until = ir::needs_no_storage(i.opcode) ? last[n] : std::int64_t(n);
        auto& l = last[std::size_t(o->index)];
        l = std::max(l, until);
      }
    }
    std::vector<double> freed(all.size() + 1, 0);
    std::vector<double> out;
    out.reserve(all.size());
    double now = 0;
    for (std::size_t n = 0; n < all.size(); ++n) {
      const Instruction& i = *all[n];
      double inside = 0;
      if (ir::runs_program(i.opcode)) {
        for (const ir::Computation* callee : i.called()) inside = std::max(inside, of(*callee));
        // What goes in is there already.
        for (const Instruction* o : i.operands()) inside -= double(o->shape.byte_count());
        inside = std::max(0.0, inside);
      }
      // Results of loops take the place of what they carry.
      if (!ir::needs_no_storage(i.opcode) && !i.is(Opcode::while_)) {
        const double bytes = double(i.shape.byte_count());
        now += bytes;
        freed[std::size_t(std::min<std::int64_t>(last[n], std::int64_t(all.size())))] += bytes;
      }
      out.push_back(now + inside);
      now -= freed[n];
    }
    return out;
  }

 private:
  std::unordered_map<const ir::Computation*, double> done_;
};

}  // namespace

std::vector<double> live_bytes(const ir::Computation& computation) {
  return PeakMemory().profile(computation);
}

double estimated_peak_bytes(const ir::Module& module) { return PeakMemory().of(*module.entry()); }

}  // namespace tessera::cost
