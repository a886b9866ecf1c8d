// SPDX-License-Identifier: Apache-2.0
// How often each computation of a module runs, callers first.
#include "src/cost/executions.h"

#include <algorithm>

#include "src/cost/collectives.h"

namespace tessera::cost {
namespace {

/// Calls f(computation, trips, counts, trips_known) with what one instruction runs.
template <class F>
void each_run(const ir::Instruction& i,
              const std::unordered_map<const ir::Computation*, double>& received, F f) {
  if (!ir::runs_program(i.opcode)) return;
  if (i.is(ir::Opcode::while_)) {
    const auto trips = i.get<ir::WhileAttrs>().known_trip_count;
    for (const ir::Computation* c : i.called()) f(c, double(trips.value_or(1)), true, !!trips);
    return;
  }
  if (!i.is(ir::Opcode::conditional)) {
    for (const ir::Computation* c : i.called()) f(c, 1., true, true);
    return;
  }
  const auto& all = i.called();
  const auto costliest = std::max_element(
      all.begin(), all.end(), [&](auto* a, auto* b) { return received.at(a) < received.at(b); });
  for (auto c = all.begin(); c != all.end(); ++c) {
    // Several branches may be one computation: it counts once.
    if (std::find(all.begin(), c, *c) == c) f(*c, 1., *c == *costliest, true);
  }
}

}  // namespace

std::unordered_map<const ir::Computation*, Executions> executions(const ir::Module& module) {
  const std::int64_t devices =
      std::max<std::int64_t>(1, module.num_partitions * module.replica_count);
  const auto& all = module.computations();  // callees first
  std::unordered_map<const ir::Computation*, double> received;
  for (const auto& c : all) {
    double total = 0;
    for (const auto& i : c->instructions()) {
      total += received_bytes(*i, devices);
      each_run(*i, received, [&](const ir::Computation* callee, double trips, bool counts, bool) {
        if (counts) total += trips * received[callee];
      });
    }
    received[c.get()] = total;
  }
  std::unordered_map<const ir::Computation*, Executions> out;
  out[module.entry()] = {1, 1, true};
  for (auto c = all.rbegin(); c != all.rend(); ++c) {
    const auto it = out.find(c->get());
    if (it == out.end()) continue;
    const Executions here = it->second;
    for (const auto& i : (*c)->instructions()) {
      each_run(*i, received,
               [&](const ir::Computation* callee, double trips, bool counts, bool known) {
                 Executions& e = out[callee];
                 e.times += here.times * trips;
                 if (counts) e.counted += here.counted * trips;
                 e.trips_known = e.trips_known && here.trips_known && known;
               });
    }
  }
  return out;
}

}  // namespace tessera::cost
