// SPDX-License-Identifier: Apache-2.0
// What the rules of shape inference share: one operation to infer, and its messages.
#pragma once

#include <span>
#include <string>

#include "src/ir/module.h"

namespace tessera::ir::inference {

/// One operation whose shape is asked for.
struct Site {
  Opcode op;
  std::span<Instruction* const> operands;
  const Attributes& attrs;
  std::span<Computation* const> called;
  const Shape* declared;
  Location where;
  ProcessGrid grid;

  const Shape& shape(std::size_t i) const { return operands[i]->shape; }
  template <class A>
  const A& get() const {
    const A* a = attrs.get_if<A>();
    if (!a) foreign_attributes();
    return *a;
  }

  [[noreturn]] void foreign_attributes() const;
  /// "dot(f32[8,16], f32[4]): what".
  [[noreturn]] void shape_error(const std::string& what) const;
  [[noreturn]] void dtype_error(const std::string& what) const;

  void need_operands(std::size_t n) const;
  void need_operands_at_least(std::size_t n) const;
  void need_called(std::size_t n) const;
  /// The declared shape; ShapeError if none was given.
  const Shape& need_declared() const;
  /// Operand i, which must be an array (no tuple, no token).
  const Shape& array(std::size_t i) const;
  /// Operands i and j must have the same element type.
  void same_dtype(std::size_t i, std::size_t j) const;
  void same_dims(std::size_t i, std::size_t j) const;
  /// `dim` must be in [0, rank).
  void check_dim(std::int64_t dim, std::int64_t rank, const char* what) const;
  /// Each in [0, rank), none twice.
  void check_dims(const Dims& dims, std::int64_t rank, const char* what) const;
  /// The shape of a callee's result; checks that it has a root.
  const Shape& result_of(std::size_t callee) const;
  /// Callee's parameters must have exactly these shapes.
  void check_parameters(std::size_t callee, std::span<const Shape> expected,
                        const char* role) const;
};

/// Output size of one windowed dim; ShapeError for strides and dilations below 1, negative sizes.
std::int64_t windowed_size(const Site&, std::int64_t input, const WindowDim&, std::size_t dim);
/// A lone shape as it is, several as a tuple.
Shape one_or_tuple(std::vector<Shape> shapes);
/// "1 operand", "2 operands".
std::string plural(std::size_t n, const char* noun);

// The rules that the op table names. Each returns the shape without a layout.
#define OP(enumerator, text, operands, attributes, types, rule, ...) Shape rule(const Site&);
#include "src/ir/opcode_list.inc"

}  // namespace tessera::ir::inference
