// SPDX-License-Identifier: Apache-2.0
// Tangents and cotangents of values, zeros known.
#include "src/transforms/utils/tangent.h"

#include <algorithm>

namespace tessera::transforms {

using ir::Instruction;
using ir::Opcode;

Tangent Tangent::tuple(std::vector<Tangent> elements) {
  Tangent out;
  const auto zero = [](const Tangent& t) { return t.is_zero(); };
  if (!std::all_of(elements.begin(), elements.end(), zero)) out.elements = std::move(elements);
  return out;
}

Instruction* zeros(ir::Builder& b, const Shape& shape) { return full(b, shape, 0); }

Instruction* full(ir::Builder& b, const Shape& shape, double value) {
  return b.splat(b.scalar(shape.dtype, value), shape.dims);
}

bool is_zero(const Instruction& i) {
  if (i.is(Opcode::broadcast) || i.is(Opcode::reshape)) return is_zero(*i.operand(0));
  if (!i.is(Opcode::constant) || i.get<ir::ConstantAttrs>().elided) return false;
  const Literal& value = i.get<ir::ConstantAttrs>().value;
  const std::span<const std::byte> bytes(value.bytes(), std::size_t(i.shape.byte_count()));
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte(0); });
}

Instruction* materialize(ir::Builder& b, const Tangent& t, const Shape& shape) {
  if (!shape.is_tuple) return t.array ? t.array : zeros(b, shape);
  std::vector<Instruction*> elements;
  for (std::size_t k = 0; k < shape.elements.size(); ++k) {
    elements.push_back(materialize(b, t.element(k), shape.elements[k]));
  }
  return b.tuple(std::move(elements));
}

Tangent sum(ir::Builder& b, const Tangent& x, const Tangent& y) {
  if (x.is_zero()) return y;
  if (y.is_zero()) return x;
  if (x.array != nullptr) return b.binary(Opcode::add, x.array, y.array);
  std::vector<Tangent> elements;
  for (std::size_t k = 0; k < std::max(x.elements.size(), y.elements.size()); ++k) {
    elements.push_back(sum(b, x.element(k), y.element(k)));
  }
  return Tangent::tuple(std::move(elements));
}

std::vector<Instruction*> elements_of(ir::Builder& b, Instruction* value) {
  if (!value->shape.is_tuple) return {value};
  if (value->is(Opcode::tuple)) return value->operands();
  std::vector<Instruction*> out;
  for (std::size_t k = 0; k < value->shape.elements.size(); ++k) {
    out.push_back(b.get_tuple_element(value, std::int64_t(k)));
  }
  return out;
}

std::vector<Shape> element_shapes(const Shape& shape) {
  return shape.is_tuple ? shape.elements : std::vector<Shape>{shape};
}

}  // namespace tessera::transforms
