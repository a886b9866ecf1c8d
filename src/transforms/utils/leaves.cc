// SPDX-License-Identifier: Apache-2.0
// Values of tuple shape as lists of arrays.
#include "src/transforms/utils/leaves.h"

namespace tessera::transforms {

using ir::Instruction;

namespace {

void collect(ir::Builder& b, Instruction* value, std::vector<Instruction*>* out) {
  if (!value->shape.is_tuple) {
    out->push_back(value);
    return;
  }
  for (Instruction* e : elements_of(b, value)) collect(b, e, out);
}

void collect(const Tangent& t, const Shape& shape, std::vector<Instruction*>* out) {
  if (!shape.is_tuple) {
    out->push_back(t.array);
    return;
  }
  for (std::size_t k = 0; k < shape.elements.size(); ++k) {
    collect(t.element(k), shape.elements[k], out);
  }
}

Instruction* build(ir::Builder& b, const Shape& shape, std::span<Instruction* const>& left) {
  if (!shape.is_tuple) {
    Instruction* first = left.front();
    left = left.subspan(1);
    return first;
  }
  std::vector<Instruction*> elements;
  for (const Shape& s : shape.elements) elements.push_back(build(b, s, left));
  return b.tuple(std::move(elements));
}

Tangent build(const Shape& shape, std::span<Instruction* const>& left) {
  if (!shape.is_tuple) {
    Tangent first = left.front();
    left = left.subspan(1);
    return first;
  }
  std::vector<Tangent> elements;
  for (const Shape& s : shape.elements) elements.push_back(build(s, left));
  return Tangent::tuple(std::move(elements));
}

}  // namespace

std::vector<Instruction*> leaves_of(ir::Builder& b, Instruction* value) {
  std::vector<Instruction*> out;
  collect(b, value, &out);
  return out;
}

Instruction* from_leaves(ir::Builder& b, const Shape& shape, std::span<Instruction* const> leaves) {
  return build(b, shape, leaves);
}

std::vector<Instruction*> leaves_of(const Tangent& tangent, const Shape& shape) {
  std::vector<Instruction*> out;
  collect(tangent, shape, &out);
  return out;
}

Tangent tangent_from_leaves(const Shape& shape, std::span<Instruction* const> leaves) {
  return build(shape, leaves);
}

std::vector<Instruction*> leaves_of(ir::Builder& b, std::span<Instruction* const> values) {
  std::vector<Instruction*> out;
  for (Instruction* v : values) collect(b, v, &out);
  return out;
}

std::vector<Instruction*> present(std::span<Instruction* const> instructions) {
  std::vector<Instruction*> out;
  for (Instruction* i : instructions) {
    if (i != nullptr) out.push_back(i);
  }
  return out;
}

std::vector<bool> presence(std::span<Instruction* const> instructions) {
  std::vector<bool> out;
  for (const Instruction* i : instructions) out.push_back(i != nullptr);
  return out;
}

}  // namespace tessera::transforms
