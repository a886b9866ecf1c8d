// SPDX-License-Identifier: Apache-2.0
// What the operations share: promotion, broadcasting, axes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <tessera/array.h>
#include <tessera/ops/reductions.h>

#include "src/frontend/arrays/array_impl.h"
#include "src/frontend/trace/trace.h"
#include "src/ir/opcode.h"

namespace tessera::frontend {

/// A dtype with weakness: a node of JAX's promotion lattice.
struct TypeNode {
  DType dtype = DType::f32;
  bool weak = false;
};
TypeNode promote(const std::vector<Array>& arrays, Location location);
/// s8 and pred to f32, s64 to f32, f16 stays: what makes real numbers works on.
DType to_inexact(DType dtype);

/// The array as that dtype; itself if it is one already.
Array converted(const Array& x, DType dtype, Location location, bool weak = false);
/// numpy's rule; ShapeError naming the operation and both shapes.
Dims broadcast_shapes(const std::string& op, const Dims& a, const Dims& b, Location location);
Array broadcasted(const Array& x, const Dims& dims, Location location);
/// Promoted to one dtype and broadcast to one shape.
std::vector<Array> promoted(const std::string& op, const std::vector<Array>& operands,
                            Location location);

Array unary(ir::Opcode op, const Array& x, Location location, const std::string& name);
Array binary(ir::Opcode op, const Array& a, const Array& b, Location location,
             const std::string& name);
/// A scalar constant of that dtype.
Array constant(DType dtype, double value);
Array constant(const Literal& value);

/// 0 <= axis < rank; ValueError naming the operation and the valid range.
std::int64_t normalize_axis(const std::string& op, std::int64_t axis, std::int64_t rank,
                            Location location);
/// Sorted, without repeats (ValueError); all dims if none were given.
Dims normalize_axes(const std::string& op, const Axes& axes, std::int64_t rank, Location location);
/// ShapeError naming the operation and the shape if a 64-bit number can't hold its bytes.
void check_size(const std::string& op, const Shape& shape, Location location);
/// a * b, of sizes; ShapeError naming the operation.
std::int64_t multiplied(const std::string& op, std::int64_t a, std::int64_t b, Location location);
Array reshaped(const Array& x, const Dims& dims, Location location);
/// The reduction by a binary opcode over dims.
Array reduce_dims(ir::Opcode reducer, const Array& x, const Dims& dims, const Literal& init,
                  Location location, const std::string& name);

/// Several operations as one program with one result.
template <class F>
Array composed(const std::string& name, Location location, F f) {
  return as_one_program(name, location, [&] { return std::vector<Array>{f()}; })[0];
}
/// Inside a trace: a constant that is part of the program, also of an eager one (where plain
/// scalars are parameters).
Array fixed(const Literal& value, bool weak = false);
Array fixed(DType dtype, double value);

}  // namespace tessera::frontend
