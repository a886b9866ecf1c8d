// SPDX-License-Identifier: Apache-2.0
// A dot whose result is only sent or returned transposed (gradients of weights) is the dot of its
// operands the other way round, if that is the order asked for: no array is moved. What is computed
// from it reads it transposed as it is.
#include <algorithm>
#include <unordered_map>

#include "src/ir/builder.h"
#include "src/passes/simplify.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

/// Batch dims as they are, then the second operand's dims, then the first's.
Dims swapped_order(const Instruction& dot) {
  const auto& attrs = dot.get<ir::DotAttrs>();
  const auto batch = std::int64_t(attrs.lhs_batch.size());
  const std::int64_t own =
      dot.operand(0)->shape.rank() - batch - std::int64_t(attrs.lhs_contracting.size());
  Dims out;
  for (std::int64_t d = 0; d < batch; ++d) out.push_back(d);
  for (std::int64_t d = batch + own; d < dot.shape.rank(); ++d) out.push_back(d);
  for (std::int64_t d = batch; d < batch + own; ++d) out.push_back(d);
  return out;
}

/// Whether what is made of it is needed as it is: by collectives, or as a result.
bool leaves(const Instruction& array, std::span<Instruction* const> users) {
  const bool out = std::all_of(users.begin(), users.end(), [](const Instruction* u) {
    return ir::is_collective(u->opcode) || u->is(Opcode::tuple);
  });
  return out && (!users.empty() || array.parent->root() == &array);
}

std::size_t swap_in(ir::Computation* c) {
  const ir::Users users = ir::users_of(*c);
  std::vector<Instruction*> dots;
  for (const auto& i : c->instructions()) {
    const bool free = i->control_predecessors.empty() && c->root() != i.get();
    if (i->is(Opcode::dot) && free && !users[std::size_t(i->index)].empty()) {
      dots.push_back(i.get());
    }
  }
  std::size_t count = 0;
  std::unordered_map<Instruction*, Instruction*> replaced;
  ir::Builder builder(c);
  for (Instruction* dot : dots) {
    const auto& transposes = users[std::size_t(dot->index)];
    const Dims order = swapped_order(*dot);
    const bool only = std::all_of(transposes.begin(), transposes.end(), [&](const Instruction* u) {
      return u->is(Opcode::transpose) && u->control_predecessors.empty() &&
             u->get<ir::DimensionsAttrs>().dims == order &&
             leaves(*u, users[std::size_t(u->index)]);
    });
    if (!only || std::is_sorted(order.begin(), order.end())) continue;
    ir::DotAttrs attrs = dot->get<ir::DotAttrs>();
    std::swap(attrs.lhs_batch, attrs.rhs_batch);
    std::swap(attrs.lhs_contracting, attrs.rhs_contracting);
    std::reverse(attrs.operand_precision.begin(), attrs.operand_precision.end());
    builder.metadata = dot->metadata;
    Instruction* other = builder.emit_shaped(Opcode::dot, transposes.front()->shape,
                                             {dot->operand(1), dot->operand(0)}, attrs);
    other->sharding = transposes.front()->sharding;
    for (Instruction* t : transposes) replaced[t] = other;
    ++count;
  }
  if (count == 0) return 0;
  c->replace_all_uses(replaced);
  c->sort_topologically();
  c->remove_dead();
  return count;
}

}  // namespace

std::size_t swap_transposed_dots(ir::Module* module) {
  std::size_t n = 0;
  for (const auto& c : module->computations()) n += swap_in(c.get());
  return n;
}

}  // namespace tessera::passes
