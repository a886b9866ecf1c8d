// SPDX-License-Identifier: Apache-2.0
// Every dot of two 64×64 arrays whose operands and result are sharded on a 2×4 mesh, partitioned:
// the elements that one device receives and the operations that it executes, beside XLA's figures.
// A line a case, then the totals; fails if a case is above XLA in either.
#include <algorithm>

#include "bench/sweep.h"

namespace tessera::bench {
namespace {

int run(const SweepOptions& options) {
  int cases = 0, above = 0, more = 0;
  double total = 0, xla_total = 0, planner_total = 0, flops = 0, xla_flops = 0, ms = 0, slowest = 0;
  bool read = for_each_case(options.file, [&](SweepCase& c) {
    const ir::Computation& entry = *c.global->entry();
    double got = c.count.total_bytes / 4, xla = c.line["xla"].get<double>();
    double work = c.count.dot_flops, xla_work = c.line["xla_dot_flops"].get<double>();
    std::string how;
    for (const auto& [name, kind] : c.count.kinds) {
      how += " " + std::to_string(kind.count) + " " + name;
    }
    const bool is_above = got > xla + 1e-6, is_more = work > xla_work + 1e-6;
    if (!options.quiet || is_above || is_more) {
      std::printf("%-16s x %-16s -> %-16s received %5.0f xla %5.0f flops %7.0f xla %7.0f%s%s%s\n",
                  spec_of(*entry.parameter(0)).c_str(), spec_of(*entry.parameter(1)).c_str(),
                  spec_of(*entry.root()).c_str(), got, xla, work, xla_work, how.c_str(),
                  is_above ? " ABOVE XLA" : "", is_more ? " MORE WORK THAN XLA" : "");
    }
    ++cases;
    above += is_above;
    more += is_more;
    total += got;
    xla_total += xla;
    planner_total += c.line.value("planner", 0.0);
    flops += work;
    xla_flops += xla_work;
    ms += c.ms;
    slowest = std::max(slowest, c.ms);
  });
  if (!read || cases == 0) return 2;
  std::printf(
      "%d dots: received %.0f elements, xla %.0f, ratio %.3f, shortest paths %.0f\n"
      "operations of one device %.0f, xla %.0f, ratio %.3f\n"
      "%d above xla; %d with more work than xla\npartitioning %.3f ms each, at most %.3f ms\n",
      cases, total, xla_total, total / xla_total, planner_total, flops, xla_flops,
      flops / xla_flops, above, more, ms / cases, slowest);
  return above > 0 || more > 0;
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  using namespace tessera::bench;
  return run(sweep_options(argc, argv, "dot_64.jsonl"));
}
