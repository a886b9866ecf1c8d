// SPDX-License-Identifier: Apache-2.0
// Counts collectives, received bytes and dot flops of a device program.
#include "src/cost/count.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "src/cost/collective_axes.h"
#include "src/cost/work.h"

namespace tessera::cost {
namespace {

using ir::Instruction;
using ir::Opcode;

void add(CommunicationCount* to, const CommunicationCount& part, double times) {
  for (const auto& [name, kind] : part.kinds) {
    to->kinds[name].count += kind.count;
    to->kinds[name].bytes += kind.bytes * times;
  }
  to->total_bytes += part.total_bytes * times;
  to->executed += part.executed * times;
  to->seconds += part.seconds * times;
  to->dot_flops += part.dot_flops * times;
  to->unknown_trip_counts += part.unknown_trip_counts;
}

class Counter {
 public:
  Counter(const ir::Module& module, const Machine& machine)
      : everyone_(std::max<std::int64_t>(1, module.num_partitions * module.replica_count)),
        machine_(machine) {
    if (!machine.is_uniform()) axes_.emplace(module);
  }

  const CommunicationCount& visit(const ir::Computation& computation) {
    auto it = done_.find(&computation);
    if (it != done_.end()) return it->second;
    CommunicationCount total;
    for (const auto& i : computation.instructions()) count(*i, &total);
    return done_.emplace(&computation, std::move(total)).first->second;
  }

 private:
  void count(const Instruction& i, CommunicationCount* total) {
    switch (i.opcode) {
      case Opcode::dot:
      case Opcode::convolution:
        total->dot_flops += dot_flops(i);
        return;
      case Opcode::while_: {
        CommunicationCount once;
        for (const ir::Computation* c : i.called()) add(&once, visit(*c), 1);
        auto trips = i.get<ir::WhileAttrs>().known_trip_count;
        add(total, once, trips ? double(*trips) : 1);
        if (!trips && once.total_bytes > 0) ++total->unknown_trip_counts;
        return;
      }
      case Opcode::conditional: {
        // What is received, in the branch that receives most; of work the most that a branch has.
        CommunicationCount worst;
        double flops = 0;
        for (const ir::Computation* c : i.called()) {
          const CommunicationCount& branch = visit(*c);
          if (c == i.called(0) || branch.total_bytes > worst.total_bytes) worst = branch;
          flops = std::max(flops, branch.dot_flops);
        }
        worst.dot_flops = flops;
        add(total, worst, 1);
        return;
      }
      default:
        break;
    }
    if (ir::runs_program(i.opcode)) {
      for (const ir::Computation* c : i.called()) add(total, visit(*c), 1);
      return;
    }
    if (communicates(i)) collective(i, total);
  }

  void collective(const Instruction& i, CommunicationCount* total) {
    CommunicationCount::Kind& entry = total->kinds[kind_of_collective(i)];
    const double bytes = received_bytes(i, everyone_);
    ++entry.count;
    entry.bytes += bytes;
    total->total_bytes += bytes;
    total->executed += bytes > 0;
    Route route;
    if (axes_) route = axes_->route(i, axes_->of(i), machine_.network());
    total->seconds += machine_.collective(i.opcode, bytes, route);
  }

  std::int64_t everyone_;
  const Machine& machine_;
  std::optional<CollectiveAxes> axes_;
  std::unordered_map<const ir::Computation*, CommunicationCount> done_;
};

}  // namespace

CommunicationCount count_communication(const ir::Module& module, const Machine& machine) {
  if (!module.entry()) return {};
  return Counter(module, machine).visit(*module.entry());
}

}  // namespace tessera::cost
