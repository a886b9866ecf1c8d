// SPDX-License-Identifier: Apache-2.0
// Estimates the peak memory of a device program in its instruction order.
#include "src/cost/peak_memory.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "src/ir/analysis/last_uses.h"

namespace tessera::cost {
namespace {

using ir::Instruction;
using ir::Opcode;

using BytesOf = std::function<double(const Instruction&)>;

class PeakMemory {
 public:
  explicit PeakMemory(BytesOf bytes_of) : bytes_of_(std::move(bytes_of)) {}

  double of(const ir::Computation& c) {
    if (auto it = done_.find(&c); it != done_.end()) return it->second;
    const std::vector<double> all = profile(c);
    return done_[&c] = all.empty() ? 0 : *std::max_element(all.begin(), all.end());
  }

  std::vector<double> profile(const ir::Computation& c) {
    const auto& all = c.instructions();
    const std::vector<std::int64_t> last = ir::last_uses_of_arrays(c);
    std::vector<double> freed(all.size() + 1, 0);
    std::vector<double> out;
    out.reserve(all.size());
    double now = 0;
    for (std::size_t n = 0; n < all.size(); ++n) {
      const Instruction& i = *all[n];
      if (holds(i)) {
        const double bytes = bytes_of_(i);
        now += bytes;
        freed[std::size_t(std::min<std::int64_t>(last[n], std::int64_t(all.size())))] += bytes;
      }
      out.push_back(now + inside(i));
      now -= freed[n];
    }
    return out;
  }

  /// What is live where a computation has more than `limit`.
  void live_above(double limit, const ir::Computation& c, std::vector<const Instruction*>* to) {
    const auto& all = c.instructions();
    const std::vector<double> live = profile(c);
    const std::vector<std::int64_t> last = ir::last_uses_of_arrays(c);
    std::vector<int> above{0};  // how often before each
    for (const double bytes : live) above.push_back(above.back() + (bytes > limit ? 1 : 0));
    for (std::size_t n = 0; n < all.size(); ++n) {
      const std::size_t end = std::min(std::size_t(last[n]) + 1, all.size());
      if (above[end] > above[n]) to->push_back(all[n].get());
      if (live[n] <= limit || !ir::runs_program(all[n]->opcode)) continue;
      double around = live[n] - inside(*all[n]);
      for (const Instruction* o : all[n]->operands()) around -= bytes_of_(*o);
      for (const ir::Computation* callee : all[n]->called()) {
        live_above(limit - around, *callee, to);
      }
    }
  }

 private:
  static bool holds(const Instruction& i) {
    // Results of loops take the place of what they carry.
    return !ir::needs_no_storage(i.opcode) && !i.is(Opcode::while_);
  }

  /// What runs within an instruction besides what goes in, which is there already.
  double inside(const Instruction& i) {
    if (!ir::runs_program(i.opcode)) return 0;
    double most = 0;
    for (const ir::Computation* callee : i.called()) most = std::max(most, of(*callee));
    for (const Instruction* o : i.operands()) most -= bytes_of_(*o);
    return std::max(0.0, most);
  }

  const BytesOf bytes_of_;
  std::unordered_map<const ir::Computation*, double> done_;
};

double bytes_of_shape(const Instruction& i) { return double(i.shape.byte_count()); }

}  // namespace

std::vector<double> live_bytes(const ir::Computation& computation) {
  return PeakMemory(bytes_of_shape).profile(computation);
}

double estimated_peak_bytes(const ir::Module& module) {
  return peak_bytes_where(module, bytes_of_shape);
}

double peak_bytes_where(const ir::Module& module, const BytesOf& bytes_of) {
  return PeakMemory(bytes_of).of(*module.entry());
}

std::vector<const Instruction*> live_above(const ir::Module& module, double bytes,
                                           const BytesOf& bytes_of) {
  std::vector<const Instruction*> out;
  PeakMemory(bytes_of).live_above(bytes, *module.entry(), &out);
  return out;
}

}  // namespace tessera::cost
