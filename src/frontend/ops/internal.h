// SPDX-License-Identifier: Apache-2.0
// Helpers that operations share: promotion, broadcasting, axes.
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

/// A node of JAX's promotion lattice: a dtype, possibly weak.
struct TypeNode {
  DType dtype = DType::f32;
  bool weak = false;
};
TypeNode promote(const std::vector<Array>& arrays, Location location);
/// The dtype in which functions that produce real numbers compute: f32 for integers and pred, other
/// dtypes are kept.
DType to_inexact(DType dtype);

/// The array converted to a dtype; itself if it has that dtype already.
Array converted(const Array& x, DType dtype, Location location, bool weak = false);
/// The broadcast shape by numpy's rules; ShapeError naming the operation and both shapes.
Dims broadcast_shapes(const std::string& op, const Dims& a, const Dims& b, Location location);
Array broadcasted(const Array& x, const Dims& dims, Location location);
/// The operands promoted to one dtype and broadcast to one shape.
std::vector<Array> promoted(const std::string& op, const std::vector<Array>& operands,
                            Location location);

Array unary(ir::Opcode op, const Array& x, Location location, const std::string& name);
Array binary(ir::Opcode op, const Array& a, const Array& b, Location location,
             const std::string& name);
/// A scalar constant.
Array constant(DType dtype, double value);
Array constant(const Literal& value);

/// The axis in [0, rank); ValueError naming the operation and the valid range.
std::int64_t normalize_axis(const std::string& op, std::int64_t axis, std::int64_t rank,
                            Location location);
/// The axes sorted, or all dims if none were given; ValueError for repeated axes.
Dims normalize_axes(const std::string& op, const Axes& axes, std::int64_t rank, Location location);
/// ShapeError naming the operation and the shape if its size in bytes doesn't fit into 64 bits.
void check_size(const std::string& op, const Shape& shape, Location location);
/// The product of two sizes; ShapeError naming the operation on overflow.
std::int64_t multiply_sizes(const std::string& op, std::int64_t a, std::int64_t b,
                            Location location);
Array reshaped(const Array& x, const Dims& dims, Location location);
/// Reduces over dims by a binary opcode.
Array reduce_dims(ir::Opcode reducer, const Array& x, const Dims& dims, const Literal& init,
                  Location location, const std::string& name);

inline const Shape& shape_of(const Operand& x) {
  return tessera::internal::impl_of(x.array, x.location).shape;
}
/// The user's line of two operands.
inline Location where_of(const Operand& a, const Operand& b) {
  return a.location.known() ? a.location : b.location;
}

/// Runs several operations as one program with one result.
template <class F>
Array composed(const std::string& name, Location location, F f) {
  return as_one_program(name, location, [&] { return std::vector<Array>{f()}; })[0];
}
/// A constant that is part of the program, inside a trace. (In programs of single eager operations
/// plain scalars are parameters.)
Array program_constant(const Literal& value, bool weak = false);
Array program_constant(DType dtype, double value);

}  // namespace tessera::frontend
