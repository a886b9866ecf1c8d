// SPDX-License-Identifier: Apache-2.0
// Tangents and cotangents of values, zeros known.
#pragma once

#include <vector>

#include "src/ir/rewrite/builder.h"

namespace tessera::transforms {

/// The tangent, or cotangent, of a value: an array like it; null if it is known to be zero, as it
/// always is of integers and predicates. Of a tuple: one per element, or none if all are zero.
struct Tangent {
  ir::Instruction* array = nullptr;
  std::vector<Tangent> elements;

  Tangent() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): an array is its own tangent's form
  Tangent(ir::Instruction* a) : array(a) {}
  static Tangent tuple(std::vector<Tangent> elements);

  bool is_zero() const { return array == nullptr && elements.empty(); }
  Tangent element(std::size_t k) const { return k < elements.size() ? elements[k] : Tangent(); }
};

/// Whether arrays of this shape have tangents: of floating-point and complex numbers.
inline bool has_tangent(const Shape& shape) {
  return shape.is_array() && (is_floating(shape.dtype) || is_complex(shape.dtype));
}

/// Zeros of an array's shape.
ir::Instruction* zeros(ir::Builder& b, const Shape& shape);
/// A number in every element of such an array.
ir::Instruction* full(ir::Builder& b, const Shape& shape, double value);
/// Whether zeros() made it, or something like it.
bool is_zero(const ir::Instruction& i);
/// The array itself, zeros where there is none.
ir::Instruction* materialize(ir::Builder& b, const Tangent& t, const Shape& shape);
/// The sum; zeros cost nothing.
Tangent sum(ir::Builder& b, const Tangent& x, const Tangent& y);

/// The elements of what a computation returns, or of a value: a lone array is one.
std::vector<ir::Instruction*> elements_of(ir::Builder& b, ir::Instruction* value);
/// The shapes of a tuple's elements; a lone shape is one.
std::vector<Shape> element_shapes(const Shape& shape);

}  // namespace tessera::transforms
