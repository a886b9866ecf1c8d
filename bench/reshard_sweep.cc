// SPDX-License-Identifier: Apache-2.0
// Every reshard of a 64×64 array between the shardings of a 2×2×2 mesh, partitioned: the elements
// that one device receives, beside XLA's figure, and the elements held at once beside source +
// target shard. A line a case, then the totals; fails if a case is above XLA or holds too much.
#include <algorithm>
#include <unordered_map>

#include "bench/sweep.h"

namespace tessera::bench {
namespace {

/// Most elements of floating type that are alive at once, each until its last use. Reshapes hold
/// nothing of their own; the argument and the result are values like others. `joint`: gathers of
/// several dims in a row count as one, from the first one's operand to the last one's result, as
/// the executor does them.
double peak_elements(const ir::Module& module, bool joint) {
  const ir::Computation& entry = *module.entry();
  std::unordered_map<const ir::Instruction*, const ir::Instruction*> storage;
  std::unordered_map<const ir::Instruction*, std::int64_t> last_use;
  for (const auto& i : entry.instructions()) {
    bool alias = i->is(ir::Opcode::reshape) || i->is(ir::Opcode::bitcast);
    storage[i.get()] = alias ? storage[i->operand(0)] : i.get();
    last_use[storage[i.get()]] = i->index;
    for (const ir::Instruction* o : i->operands()) last_use[storage[o]] = i->index;
  }
  last_use[storage[entry.root()]] = std::int64_t(entry.instructions().size());
  std::unordered_map<const ir::Instruction*, bool> between;
  for (const auto& i : entry.instructions()) {
    if (!joint || !i->is(ir::Opcode::all_gather)) continue;
    const ir::Instruction* o = storage[i->operand(0)];
    if (!o->is(ir::Opcode::all_gather) || last_use[o] != i->index) continue;
    between[o] = true;
    std::int64_t& source = last_use[storage[o->operand(0)]];
    source = std::max(source, i->index);
  }
  auto size = [&](const ir::Instruction* i) {
    if (between.count(i)) return 0.0;
    if (!i->shape.is_array() || i->shape.dtype != DType::f32) return 0.0;
    return double(i->shape.element_count());
  };
  double live = 0, peak = 0;
  std::vector<const ir::Instruction*> alive;
  for (const auto& i : entry.instructions()) {
    if (storage[i.get()] == i.get()) {
      live += size(i.get());
      alive.push_back(i.get());
    }
    peak = std::max(peak, live);
    for (auto it = alive.begin(); it != alive.end();) {
      if (last_use[*it] <= i->index) {
        live -= size(*it);
        it = alive.erase(it);
      } else {
        ++it;
      }
    }
  }
  return peak;
}

int run(const SweepOptions& options) {
  int cases = 0, above = 0, over = 0, rows = 0;
  std::int64_t collectives = 0;
  double total = 0, xla_total = 0, bound_total = 0, worst = 0, ms = 0, slowest = 0;
  bool read = for_each_case(options.file, [&](SweepCase& c) {
    const ir::Instruction &from = *c.global->entry()->parameter(0),
                          &to = *c.global->entry()->root();
    double got = c.count.total_bytes / 4, xla = c.line["xla"].get<double>();
    const double ends = shard_elements(from) + shard_elements(to);
    const double peak = peak_elements(*c.device, true) / ends;
    rows += peak_elements(*c.device, false) > ends;
    std::string how;
    for (const auto& [name, kind] : c.count.kinds) {
      how += " " + std::to_string(kind.count) + " " + name;
      collectives += kind.count;
    }
    const bool is_above = got > xla + 1e-6, is_over = peak > 1 + 1e-9;
    if (!options.quiet || is_above || is_over) {
      std::printf("%-22s -> %-22s received %5.0f xla %5.0f peak %.2f%s%s%s\n",
                  spec_of(from).c_str(), spec_of(to).c_str(), got, xla, peak, how.c_str(),
                  is_above ? " ABOVE XLA" : "", is_over ? " OVER SOURCE + TARGET" : "");
    }
    ++cases;
    above += is_above;
    over += is_over;
    total += got;
    xla_total += xla;
    bound_total += c.line.value("bound", 0.0);
    worst = std::max(worst, peak);
    ms += c.ms;
    slowest = std::max(slowest, c.ms);
  });
  if (!read || cases == 0) return 2;
  std::printf(
      "%d reshards: received %.0f elements, xla %.0f, ratio %.3f, lower bound %.0f; %lld "
      "collectives\n%d above xla; %d hold more than source + target shard (most: %.2f of it); %d "
      "would if gathers in a row were done one by one\n"
      "partitioning %.3f ms each, at most %.3f ms\n",
      cases, total, xla_total, total / xla_total, bound_total, static_cast<long long>(collectives),
      above, over, worst, rows, ms / cases, slowest);
  return above > 0 || over > 0;
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  using namespace tessera::bench;
  return run(sweep_options(argc, argv, "reshard_64x64.jsonl"));
}
