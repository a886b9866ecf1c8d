// SPDX-License-Identifier: Apache-2.0
// Counts collectives, received bytes, dot flops and other work of a device program.
#include "src/spmd/collectives/count.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "src/ir/dot_kind.h"

namespace tessera::spmd {
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
  to->dot_flops += part.dot_flops * times;
  to->elements += part.elements * times;
  to->unknown_trip_counts += part.unknown_trip_counts;
}

double product(const Dims& dims) {
  double n = 1;
  for (std::int64_t d : dims) n *= double(d);
  return n;
}

}  // namespace

double dot_flops(const Instruction& i) {
  double flops = 2 * product(i.shape.dims);
  if (i.is(Opcode::dot)) {
    // Outer products and products of vectors are to be elementwise work.
    if (ir::kind_of_dot(i) != ir::DotKind::general) return 0;
    for (std::int64_t d : i.get<ir::DotAttrs>().lhs_contracting) {
      flops *= double(i.operand(0)->shape.dim(d));
    }
    return flops;
  }
  const std::int64_t out = i.get<ir::ConvolutionAttrs>().kernel_output_feature;
  for (std::int64_t d = 0; d < i.operand(1)->shape.rank(); ++d) {
    if (d != out) flops *= double(i.operand(1)->shape.dim(d));
  }
  return flops;
}

namespace {

/// Work, rather than a name or a view of something, or a constant that a kernel takes in.
bool computes(const Instruction& i) {
  switch (i.opcode) {
    case Opcode::parameter:
    case Opcode::constant:
    case Opcode::iota:
    case Opcode::broadcast:
    case Opcode::reshape:
    case Opcode::bitcast:
    case Opcode::get_tuple_element:
    case Opcode::opt_barrier:
      return false;
    default:
      return i.shape.is_array();
  }
}

class Counter {
 public:
  explicit Counter(std::int64_t everyone) : everyone_(everyone) {}

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
        total->elements += product(i.shape.dims);
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
        double flops = 0, elements = 0;
        for (const ir::Computation* c : i.called()) {
          const CommunicationCount& branch = visit(*c);
          if (c == i.called(0) || branch.total_bytes > worst.total_bytes) worst = branch;
          flops = std::max(flops, branch.dot_flops);
          elements = std::max(elements, branch.elements);
        }
        worst.dot_flops = flops;
        worst.elements = elements;
        add(total, worst, 1);
        return;
      }
      case Opcode::call:
      case Opcode::fusion:
      case Opcode::async_start:
        for (const ir::Computation* c : i.called()) add(total, visit(*c), 1);
        return;
      default:
        break;
    }
    if (ir::is_collective(i.opcode) || i.is(Opcode::recv)) return collective(i, total);
    if (computes(i)) total->elements += product(i.shape.dims);
  }

  void collective(const Instruction& i, CommunicationCount* total) {
    std::string kind(ir::name(i.opcode));
    if (kind.ends_with("-start")) kind.resize(kind.size() - 6);
    CommunicationCount::Kind& entry = total->kinds[kind];
    const double bytes = collective_bytes(i, everyone_);
    ++entry.count;
    entry.bytes += bytes;
    total->total_bytes += bytes;
    total->executed += bytes > 0;
  }

  std::int64_t everyone_;
  std::unordered_map<const ir::Computation*, CommunicationCount> done_;
};

}  // namespace

double collective_bytes(const Instruction& i, std::int64_t devices) {
  if (!ir::is_collective(i.opcode) && !i.is(Opcode::recv)) return 0;
  std::string kind(ir::name(i.opcode));
  const bool start = kind.ends_with("-start");
  if (start) kind.resize(kind.size() - 6);
  const Shape* shape = &i.shape;
  // Starts of these give (operand, result).
  if (start && kind != "all-reduce") shape = &i.shape.elements.at(1);
  if (i.is(Opcode::recv)) shape = &i.shape.elements.at(0);
  double bytes = double(shape->byte_count());
  if (kind == "collective-permute") {
    const auto& pairs = i.get<ir::PermuteAttrs>().source_target_pairs;
    const bool moves =
        std::any_of(pairs.begin(), pairs.end(), [](auto& p) { return p.first != p.second; });
    return moves ? bytes : 0;
  }
  if (const auto* attrs = i.attrs.get_if<ir::CollectiveAttrs>()) {
    const double n = double(std::max<std::int64_t>(1, attrs->groups.group_size(devices)));
    if (kind == "all-gather" || kind == "all-to-all") bytes *= (n - 1) / n;
    if (kind == "all-reduce") bytes *= 2 * (n - 1) / n;
    if (kind == "reduce-scatter") bytes *= n - 1;
  }
  return bytes;
}

CommunicationCount count_communication(const ir::Module& module) {
  if (!module.entry()) return {};
  Counter counter(std::max<std::int64_t>(1, module.num_partitions * module.replica_count));
  return counter.visit(*module.entry());
}

}  // namespace tessera::spmd
