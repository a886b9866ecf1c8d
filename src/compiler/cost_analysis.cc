// SPDX-License-Identifier: Apache-2.0
// Flops, bytes and estimated time of a device program, with a timeline that overlaps collectives.
#include "src/compiler/cost_analysis.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "src/cost/collective_axes.h"
#include "src/cost/collectives.h"
#include "src/cost/count.h"
#include "src/cost/executions.h"
#include "src/cost/kernels.h"
#include "src/cost/machine.h"
#include "src/cost/work.h"
#include "src/ir/post_order.h"

namespace tessera::compiler {
namespace {

using ir::Opcode;

/// Of one run of a computation.
struct Totals {
  double flops = 0, transcendentals = 0, bytes_accessed = 0, compute_seconds = 0;
  double overlapped_seconds = 0;

  void add(const Totals& t, double times) {
    flops += t.flops * times;
    transcendentals += t.transcendentals * times;
    bytes_accessed += t.bytes_accessed * times;
    compute_seconds += t.compute_seconds * times;
    overlapped_seconds += t.overlapped_seconds * times;
  }
  void at_least(const Totals& t) {
    flops = std::max(flops, t.flops);
    transcendentals = std::max(transcendentals, t.transcendentals);
    bytes_accessed = std::max(bytes_accessed, t.bytes_accessed);
    compute_seconds = std::max(compute_seconds, t.compute_seconds);
    overlapped_seconds = std::max(overlapped_seconds, t.overlapped_seconds);
  }
};

/// When a device has done each instruction of a computation, if it computes one after the other in
/// the program's order and a collective runs beside that from where it stands until its first use.
class Timeline {
 public:
  explicit Timeline(const ir::Computation& c) : done_(c.instructions().size(), 0) {}

  void compute(const ir::Instruction& i, double seconds) {
    computing_ = std::max(computing_, ready(i)) + seconds;
    done_[std::size_t(i.index)] = computing_;
  }
  /// One collective at a time has the network.
  void communicate(const ir::Instruction& i, double seconds) {
    communicating_ = std::max({communicating_, computing_, ready(i)}) + seconds;
    done_[std::size_t(i.index)] = communicating_;
  }
  /// Part of what uses it, or another name.
  void pass(const ir::Instruction& i) { done_[std::size_t(i.index)] = ready(i); }
  /// A program of its own, with nothing beside it.
  void run(const ir::Instruction& i, double seconds) {
    computing_ = communicating_ = std::max({communicating_, computing_, ready(i)}) + seconds;
    done_[std::size_t(i.index)] = computing_;
  }
  double end() const { return std::max(computing_, communicating_); }

 private:
  double ready(const ir::Instruction& i) const {
    double at = 0;
    for (const ir::Instruction* o : i.operands()) at = std::max(at, done_[std::size_t(o->index)]);
    return at;
  }

  std::vector<double> done_;
  double computing_ = 0, communicating_ = 0;
};

class Analysis {
 public:
  Analysis(const ir::Module& module, const Network& network)
      : module_(module),
        machine_(network),
        devices_(std::max<std::int64_t>(1, module.num_partitions * module.replica_count)),
        axes_(module) {}

  CostAnalysis run() {
    const std::vector<ir::Computation*> order = ir::post_order({module_.entry()});
    for (const ir::Computation* c : order) totals_[c] = totals_of(*c);
    const Totals& all = totals_[module_.entry()];
    out_.flops = all.flops;
    out_.transcendentals = all.transcendentals;
    out_.bytes_accessed = all.bytes_accessed;
    out_.compute_seconds = all.compute_seconds;
    out_.overlapped_seconds = all.overlapped_seconds;
    out_.bytes_received = cost::count_communication(module_).total_bytes;
    const auto executions = cost::executions(module_);
    // Callers first.
    for (auto c = order.rbegin(); c != order.rend(); ++c) {
      const auto runs = executions.find(*c);
      if (runs != executions.end() && runs->second.counted > 0) {
        add_collectives(**c, runs->second.counted);
      }
    }
    std::stable_sort(out_.collectives.begin(), out_.collectives.end(),
                     [](const CollectiveCost& a, const CollectiveCost& b) {
                       return a.seconds * a.times > b.seconds * b.times;
                     });
    return std::move(out_);
  }

 private:
  double trips(const ir::Instruction& i) const {
    return i.is(Opcode::while_) ? double(i.get<ir::WhileAttrs>().known_trip_count.value_or(1)) : 1;
  }

  Totals totals_of(const ir::Computation& c) {
    Totals out;
    const cost::Kernels kernels(c, devices_);
    Timeline line(c);
    for (const auto& i : c.instructions()) {
      out.flops += cost::flops(*i, devices_);
      if (ir::has_trait(i->opcode, ir::traits::transcendental)) {
        out.transcendentals += cost::total_elements(i->shape);
      }
      if (i->is(Opcode::conditional)) {
        Totals costliest;
        for (const ir::Computation* branch : i->called()) costliest.at_least(totals_[branch]);
        out.add(costliest, 1);
        line.run(*i, costliest.overlapped_seconds);
      } else if (ir::runs_program(i->opcode)) {
        double seconds = 0;
        for (const ir::Computation* callee : i->called()) {
          out.add(totals_[callee], trips(*i));
          seconds += totals_[callee].overlapped_seconds * trips(*i);
        }
        line.run(*i, seconds);
      } else if (cost::communicates(*i)) {
        out.bytes_accessed += kernels.traffic(*i);
        line.communicate(*i, costs_.emplace(i.get(), cost_of(*i)).first->second.seconds);
      } else if (kernels.ends(*i)) {
        out.bytes_accessed += kernels.traffic(*i);
        const double seconds = kernels.seconds(*i, machine_);
        out.compute_seconds += seconds;
        line.compute(*i, seconds);
      } else {
        line.pass(*i);
      }
    }
    out.overlapped_seconds = line.end();
    return out;
  }

  /// Of one run of a collective.
  CollectiveCost cost_of(const ir::Instruction& i) const {
    CollectiveCost cost;
    cost.kind = cost::kind_of_collective(i);
    cost.instruction = i.name;
    cost.location = i.location().to_string();
    cost.axes = axes_.of(i);
    cost.group_size = axes_.group_size(i, cost.axes);
    cost.bytes = cost::received_bytes(i, devices_);
    cost.seconds =
        machine_.collective(i.opcode, cost.bytes, axes_.route(i, cost.axes, machine_.network()));
    return cost;
  }

  void add_collectives(const ir::Computation& c, double times) {
    for (const auto& i : c.instructions()) {
      if (!cost::communicates(*i)) continue;
      CollectiveCost cost = costs_.at(i.get());
      cost.times = times;
      CostAnalysis::Kind& kind = out_.kinds[cost.kind];
      ++kind.count;
      kind.bytes += cost.bytes * times;
      kind.seconds += cost.seconds * times;
      out_.collective_seconds += cost.seconds * times;
      out_.collectives.push_back(std::move(cost));
    }
  }

  const ir::Module& module_;
  const cost::Machine machine_;
  std::int64_t devices_;
  cost::CollectiveAxes axes_;
  std::unordered_map<const ir::Computation*, Totals> totals_;
  std::unordered_map<const ir::Instruction*, CollectiveCost> costs_;  ///< of one run
  CostAnalysis out_;
};

}  // namespace

CostAnalysis analyze_cost(const ir::Module& module, const Network& network) {
  return Analysis(module, network).run();
}

}  // namespace tessera::compiler
