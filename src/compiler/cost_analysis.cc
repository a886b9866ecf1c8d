// SPDX-License-Identifier: Apache-2.0
// Flops, bytes and estimated time of a device program, with a timeline that overlaps collectives.
#include "src/compiler/cost_analysis.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "src/compiler/collective_time.h"
#include "src/ir/analysis/cost.h"
#include "src/ir/post_order.h"
#include "src/spmd/collectives/count.h"

namespace tessera::compiler {
namespace {

using ir::Opcode;

double bytes_of(const Shape& s) {
  double n = 0;
  for (const Shape& leaf : flatten(s)) n += leaf.is_array() ? double(leaf.byte_count()) : 0;
  return n;
}

/// Can be computed where it is used, element by element.
bool is_made_on_the_way(Opcode op) {
  return (ir::has_trait(op, ir::traits::elementwise | ir::traits::repeats) ||
          ir::is_generated(op)) &&
         !ir::is_alias(op);
}

/// Of one run of a computation.
struct Totals {
  double flops = 0, transcendentals = 0, bytes_accessed = 0, compute_seconds = 0;
  double communicated = 0;
  double overlapped_seconds = 0;

  void add(const Totals& t, double times) {
    flops += t.flops * times;
    transcendentals += t.transcendentals * times;
    bytes_accessed += t.bytes_accessed * times;
    compute_seconds += t.compute_seconds * times;
    communicated += t.communicated * times;
    overlapped_seconds += t.overlapped_seconds * times;
  }
  void at_least(const Totals& t) {
    flops = std::max(flops, t.flops);
    transcendentals = std::max(transcendentals, t.transcendentals);
    bytes_accessed = std::max(bytes_accessed, t.bytes_accessed);
    compute_seconds = std::max(compute_seconds, t.compute_seconds);
    communicated = std::max(communicated, t.communicated);
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
        network_(network),
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
    out_.bytes_received = spmd::count_communication(module_).total_bytes;
    times_[module_.entry()] = 1;
    // Callers first.
    for (auto c = order.rbegin(); c != order.rend(); ++c) {
      const double times = times_[*c];
      if (times > 0) visit_collectives(**c, times);
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
    std::vector<bool> on_the_way(c.instructions().size());
    for (const auto& i : c.instructions()) {
      const ir::UserList mine = i->users();
      on_the_way[std::size_t(i->index)] =
          is_made_on_the_way(i->opcode) && i.get() != c.root() && !mine.empty() &&
          std::all_of(mine.begin(), mine.end(), [](const ir::Instruction* user) {
            return is_made_on_the_way(user->opcode) || user->is(Opcode::reduce);
          });
    }
    Timeline line(c);
    for (const auto& i : c.instructions()) {
      out.flops += ir::flops(*i, devices_);
      if (ir::has_trait(i->opcode, ir::traits::transcendental)) {
        out.transcendentals += ir::total_elements(i->shape);
      }
      out.communicated += ir::received_bytes(*i, devices_);
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
      } else if (communicates(*i)) {
        out.bytes_accessed += traffic(*i, on_the_way);
        line.communicate(*i, costs_.emplace(i.get(), cost_of(*i)).first->second.seconds);
      } else if (!on_the_way[std::size_t(i->index)] && !ir::is_alias(i->opcode)) {
        const double bytes = traffic(*i, on_the_way);
        out.bytes_accessed += bytes;
        const double seconds = std::max(kernel_flops(*i, on_the_way) / network_.flops_per_second,
                                        bytes / network_.memory_bytes_per_second);
        out.compute_seconds += seconds;
        line.compute(*i, seconds);
      } else {
        line.pass(*i);
      }
    }
    out.overlapped_seconds = line.end();
    return out;
  }

  static bool communicates(const ir::Instruction& i) {
    return ir::is_collective(i.opcode) || i.is(Opcode::recv);
  }

  /// Of one run of a collective.
  CollectiveCost cost_of(const ir::Instruction& i) const {
    CollectiveCost cost;
    cost.kind = std::string(ir::name(i.opcode));
    if (cost.kind.ends_with("-start")) cost.kind.resize(cost.kind.size() - 6);
    cost.instruction = i.name;
    cost.location = i.location().to_string();
    cost.axes = axes_.of(i);
    cost.group_size = devices_;
    if (const auto* attrs = i.attrs.get_if<ir::CollectiveAttrs>()) {
      cost.group_size = attrs->groups.group_size(devices_);
    } else {
      cost.group_size = 1;
      for (const auto& [name, size] : cost.axes) cost.group_size *= size;
    }
    cost.bytes = ir::received_bytes(i, devices_);
    cost.seconds = collective_seconds(cost.kind, cost.bytes, cost.group_size, cost.axes, network_);
    return cost;
  }

  /// What a kernel reads, through names and what is made on the way.
  void sources(const ir::Instruction& i, const std::vector<bool>& on_the_way,
               std::set<std::int64_t>* made, std::map<std::int64_t, double>* read) const {
    for (const ir::Instruction* o : i.operands()) {
      const ir::Instruction* s = o;
      while (ir::is_alias(s->opcode) && !s->is(Opcode::tuple) &&
             !s->is(Opcode::get_tuple_element) && !s->operands().empty()) {
        s = s->operand(0);
      }
      if (on_the_way[std::size_t(s->index)]) {
        if (made->insert(s->index).second) sources(*s, on_the_way, made, read);
      } else {
        (*read)[s->index] = bytes_of(o->shape);
      }
    }
  }

  /// Bytes read and written by the kernel that an instruction ends.
  double traffic(const ir::Instruction& i, const std::vector<bool>& on_the_way) const {
    const double result = bytes_of(i.shape);
    // These touch the part of an operand that they show or change.
    if (ir::has_trait(i.opcode, ir::traits::selects | ir::traits::looks_up)) return 2 * result;
    switch (i.opcode) {
      case Opcode::parameter:
      case Opcode::constant:
        return 0;
      case Opcode::dynamic_update_slice:
        return 2 * bytes_of(i.operand(1)->shape);
      case Opcode::scatter:
        return 3 * bytes_of(i.operands().back()->shape);
      default:
        break;
    }
    if (ir::is_alias(i.opcode)) return 0;
    std::set<std::int64_t> made;
    std::map<std::int64_t, double> read;
    sources(i, on_the_way, &made, &read);
    double bytes = result;
    for (const auto& [index, size] : read) bytes += size;
    return bytes;
  }

  double kernel_flops(const ir::Instruction& i, const std::vector<bool>& on_the_way) const {
    std::set<std::int64_t> made;
    std::map<std::int64_t, double> read;
    sources(i, on_the_way, &made, &read);
    double flops = ir::flops(i, devices_);
    for (const std::int64_t m : made) {
      flops += ir::flops(*i.parent->instructions()[std::size_t(m)], devices_);
    }
    return flops;
  }

  void visit_collectives(const ir::Computation& c, double times) {
    for (const auto& i : c.instructions()) {
      if (i->is(Opcode::conditional)) {
        // As the count does: the branch that communicates most.
        const ir::Computation* costliest = nullptr;
        for (const ir::Computation* branch : i->called()) {
          if (!costliest || totals_[branch].communicated > totals_[costliest].communicated) {
            costliest = branch;
          }
        }
        if (costliest) times_[costliest] += times;
      } else if (ir::runs_program(i->opcode)) {
        for (const ir::Computation* callee : i->called()) times_[callee] += times * trips(*i);
      }
      if (!communicates(*i)) continue;
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
  const Network& network_;
  std::int64_t devices_;
  CollectiveAxes axes_;
  std::unordered_map<const ir::Computation*, Totals> totals_;
  std::unordered_map<const ir::Instruction*, CollectiveCost> costs_;  ///< of one run
  std::unordered_map<const ir::Computation*, double> times_;
  CostAnalysis out_;
};

}  // namespace

CostAnalysis analyze_cost(const ir::Module& module, const Network& network) {
  return Analysis(module, network).run();
}

}  // namespace tessera::compiler
