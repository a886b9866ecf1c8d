// SPDX-License-Identifier: Apache-2.0
// Memory traffic and arithmetic of kernels, with elementwise work fused into its readers.
#include "src/cost/kernels.h"

#include <algorithm>

#include "src/cost/work.h"
#include "src/ir/analysis/element_source.h"

namespace tessera::cost {
namespace {

using ir::Opcode;

double bytes_of(const Shape& s) {
  double n = 0;
  for (const Shape& leaf : flatten(s)) n += leaf.is_array() ? double(leaf.byte_count()) : 0;
  return n;
}

/// Can be computed where it is used, element by element. Fusion does more: it reads through what
/// moves elements, too (codegen::is_view).
bool can_be_fused(Opcode op) {
  const ir::ElementSource source = ir::element_source(op);
  return source == ir::ElementSource::computed || source == ir::ElementSource::repeated;
}

}  // namespace

Kernels::Kernels(const ir::Computation& c, std::int64_t devices)
    : computation_(c), devices_(devices), made_on_the_way_(c.instructions().size()) {
  for (const auto& i : c.instructions()) {
    const ir::UserList users = i->users();
    made_on_the_way_[std::size_t(i->index)] =
        can_be_fused(i->opcode) && i.get() != c.root() && !users.empty() &&
        std::all_of(users.begin(), users.end(), [](const ir::Instruction* user) {
          return can_be_fused(user->opcode) || user->is(Opcode::reduce);
        });
  }
}

bool Kernels::ends(const ir::Instruction& i) const {
  return !made_on_the_way_[std::size_t(i.index)] && !ir::is_alias(i.opcode);
}

void Kernels::add_inputs(const ir::Instruction& i, Inputs* inputs) const {
  for (const ir::Instruction* o : i.operands()) {
    const ir::Instruction* s = o;
    while (ir::is_alias(s->opcode) && !s->is(Opcode::tuple) && !s->is(Opcode::get_tuple_element) &&
           !s->operands().empty()) {
      s = s->operand(0);
    }
    if (made_on_the_way_[std::size_t(s->index)]) {
      if (inputs->made.insert(s->index).second) add_inputs(*s, inputs);
    } else {
      inputs->read[s->index] = bytes_of(o->shape);
    }
  }
}

double Kernels::traffic(const ir::Instruction& i) const {
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
  Inputs inputs;
  add_inputs(i, &inputs);
  double bytes = result;
  for (const auto& [index, size] : inputs.read) bytes += size;
  return bytes;
}

double Kernels::flops(const ir::Instruction& i) const {
  Inputs inputs;
  add_inputs(i, &inputs);
  double sum = cost::flops(i, devices_);
  for (const std::int64_t m : inputs.made) {
    sum += cost::flops(*computation_.instructions()[std::size_t(m)], devices_);
  }
  return sum;
}

double Kernels::seconds(const ir::Instruction& i, const Machine& machine) const {
  return std::max(machine.work(flops(i)), machine.pass(traffic(i)));
}

}  // namespace tessera::cost
