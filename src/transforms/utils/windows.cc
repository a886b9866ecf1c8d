// SPDX-License-Identifier: Apache-2.0
// Choices within windows, for derivatives of maxima and minima over windows.
#include "src/transforms/utils/windows.h"

#include <algorithm>
#include <limits>
#include <string>

#include "src/base/arrays/literal_util.h"

namespace tessera::transforms {

using ir::Computation;
using ir::Direction;
using ir::Instruction;
using ir::Opcode;

namespace {

Computation* shared(ir::Module* module, const std::string& name) {
  for (const auto& c : module->computations()) {
    if (c->name() == name) return c.get();
  }
  return nullptr;
}

std::string text_of(Direction d) { return d == Direction::le ? "le" : "ge"; }

/// (key a, value a, key b, value b) -> those of the one whose key is chosen.
Computation* chooser(ir::Module* module, Direction direction, DType key, DType value) {
  const std::string name = "choose_" + text_of(direction) + "_" + std::string(tessera::name(key)) +
                           "_" + std::string(tessera::name(value));
  if (Computation* known = shared(module, name)) return known;
  Computation* c = module->add_computation(name);
  ir::Builder b(c);
  Instruction* a_key = b.parameter(0, Shape(key, {}));
  Instruction* a_value = b.parameter(1, Shape(value, {}));
  Instruction* b_key = b.parameter(2, Shape(key, {}));
  Instruction* b_value = b.parameter(3, Shape(value, {}));
  Instruction* first = b.compare(direction, a_key, b_key);
  c->set_root(b.tuple({b.select(first, a_key, b_key), b.select(first, a_value, b_value)}));
  return c;
}

double worst(Direction direction, DType dtype) {
  if (is_floating(dtype)) {
    const double infinity = std::numeric_limits<double>::infinity();
    return direction == Direction::le ? infinity : -infinity;
  }
  return 0;
}

Literal worst_of(Direction direction, DType dtype) {
  if (is_floating(dtype)) return Literal::scalar(dtype, worst(direction, dtype));
  return *ir::identity_of(direction == Direction::le ? Opcode::minimum : Opcode::maximum, dtype);
}

}  // namespace

Computation* comparison(ir::Module* module, Direction direction, DType dtype) {
  const std::string name = "choose_" + text_of(direction) + "_" + std::string(tessera::name(dtype));
  if (Computation* known = shared(module, name)) return known;
  Computation* c = module->add_computation(name);
  ir::Builder b(c);
  Instruction* x = b.parameter(0, Shape(dtype, {}));
  Instruction* y = b.parameter(1, Shape(dtype, {}));
  c->set_root(b.compare(direction, x, y));
  return c;
}

std::optional<Direction> comparison_direction(const Computation& c) {
  const Instruction* root = c.root();
  if (c.parameters().size() != 2 || !root->is(Opcode::compare)) return {};
  if (root->operand(0) != c.parameter(0) || root->operand(1) != c.parameter(1)) return {};
  switch (root->get<ir::CompareAttrs>().direction) {
    case Direction::ge:
    case Direction::gt:
      return Direction::ge;
    case Direction::le:
    case Direction::lt:
      return Direction::le;
    default:
      return {};
  }
}

Instruction* chosen_in_windows(ir::Builder& b, Instruction* keys, Instruction* values,
                               const ir::WindowAttrs& windows, Direction direction) {
  const DType key = keys->shape.dtype;
  Instruction* both =
      b.emit(Opcode::reduce_window,
             {keys, values, b.constant(worst_of(direction, key)), b.zero(values->shape.dtype)},
             windows, {chooser(b.module(), direction, key, values->shape.dtype)});
  return b.get_tuple_element(both, 1);
}

std::optional<Direction> chosen_tangent_direction(const Instruction& reduce_window) {
  if (reduce_window.operands().size() != 4) return {};
  const Computation& c = *reduce_window.called(0);
  const Instruction* root = c.root();
  if (!root->is(Opcode::tuple) || root->operands().size() != 2) return {};
  const auto picks = [&](std::size_t k) {
    const Instruction* s = root->operand(k);
    return s->is(Opcode::select) && s->operand(0) == root->operand(0)->operand(0) &&
           s->operand(1) == c.parameter(k) && s->operand(2) == c.parameter(k + 2);
  };
  if (!picks(0) || !picks(1)) return {};
  const Instruction* first = root->operand(0)->operand(0);
  if (!first->is(Opcode::compare) || first->operand(0) != c.parameter(0) ||
      first->operand(1) != c.parameter(2)) {
    return {};
  }
  const Direction d = first->get<ir::CompareAttrs>().direction;
  if (d == Direction::ge || d == Direction::le) return d;
  return {};
}

}  // namespace tessera::transforms
