// SPDX-License-Identifier: Apache-2.0
// What stays the same while a loop runs: moving it is paid for once, before the loop.
#include <algorithm>

#include "src/ir/analysis/loop_invariance.h"
#include "src/ir/rewrite/while_view.h"
#include "src/spmd/partitioner/layout_chooser.h"
#include "src/spmd/partitioner/module_partitioner.h"

namespace tessera::spmd {
namespace {

using ir::Instruction;
using ir::Opcode;

/// A carry that the body hands on unchanged.
bool is_invariant_carry(const ir::Computation& body, std::size_t carry) {
  const Instruction& root = *body.root();
  return root.is(Opcode::tuple) && ir::WhileView::carry_of(*root.operand(carry)) == carry;
}

/// By instruction of a loop's body: whether it has the same value in all trips.
std::vector<char> loop_invariant_values(const ir::Computation& body) {
  std::vector<char> invariant(body.instructions().size(), 0);
  for (const auto& i : body.instructions()) {
    if (!i->shape.is_array()) continue;
    const auto carry = ir::WhileView::carry_of(*i);
    bool same = carry ? is_invariant_carry(body, *carry) : ir::may_stand_outside(*i);
    for (const Instruction* o : i->operands()) {
      same = same && (carry || invariant[std::size_t(o->index)] != 0);
    }
    invariant[std::size_t(i->index)] = same;
  }
  return invariant;
}

}  // namespace

void ModulePartitioner::find_trip_counts() {
  for (const auto& c : source_.computations()) {
    for (const auto& i : c->instructions()) {
      if (!i->is(Opcode::while_)) continue;
      trips_[i->called()[1]] = i->get<ir::WhileAttrs>().known_trip_count.value_or(1);
    }
  }
}

std::int64_t ModulePartitioner::trips_of(const ir::Computation& source) const {
  auto it = trips_.find(&source);
  return it == trips_.end() ? 1 : std::max<std::int64_t>(it->second, 1);
}

std::vector<double> LayoutChooser::operand_shares(const Instruction& source) {
  const std::int64_t trips = source_.trips();
  if (trips < 2 || !module_.cost().steady_moves_once) return {};
  if (loop_invariant_.empty()) loop_invariant_ = loop_invariant_values(source_.computation());
  std::vector<double> shares;
  bool any = false;
  for (const Instruction* o : source.operands()) {
    const bool invariant = loop_invariant_[std::size_t(o->index)] != 0;
    any = any || invariant;
    shares.push_back(invariant ? 1 / double(trips) : 1);
  }
  return any ? shares : std::vector<double>();
}

}  // namespace tessera::spmd
