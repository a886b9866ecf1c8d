// SPDX-License-Identifier: Apache-2.0
// Between stored integers and the numbers that they stand for.
#include "src/ir/formulas/quantization.h"

#include <algorithm>

#include "src/base/arrays/literal_util.h"

namespace tessera::ir {
namespace {

/// A number for all elements, or one for each index of the axis.
Instruction* numbers(Formula& m, const Quantization& q, DType dtype,
                     const std::vector<double>& values) {
  if (!q.axis && dtype == m.dtype()) return m.constant(values[0]).i;
  Dims dims, along;
  if (q.axis) {
    dims = {std::int64_t(values.size())};
    along = {*q.axis};
  }
  Literal literal = make_literal(dtype, dims, values);
  Instruction* line =
      m.make(Opcode::constant, Shape(dtype, dims), {}, ConstantAttrs{std::move(literal)});
  if (m.dims().empty()) return line;
  return m.make(Opcode::broadcast, Shape(dtype, m.dims()), {line}, DimensionsAttrs{along});
}

}  // namespace

bool Quantization::any_zero_point() const {
  return std::any_of(zero_points.begin(), zero_points.end(), [](auto z) { return z != 0; });
}

Instruction* zero_points(Formula& m, const Quantization& q, DType dtype) {
  return numbers(m, q, dtype, {q.zero_points.begin(), q.zero_points.end()});
}

Instruction* dequantize(Formula& m, Instruction* stored, const Quantization& q) {
  Num x = m(stored);
  // Differences of wide integers are exact as integers only.
  const bool wide = byte_size(q.storage) >= 4 && q.any_zero_point();
  if (wide) {
    x = m.convert(x, DType::s64);
    x = x - m(zero_points(m, q, DType::s64));
  }
  x = m.convert(x, q.expressed);
  if (!wide && q.any_zero_point()) x = x - m(zero_points(m, q, q.expressed));
  return (x * m(numbers(m, q, q.expressed, q.scales))).i;
}

Instruction* quantize(Formula& m, Instruction* numbers_given, const Quantization& q) {
  Num x = m(numbers_given) / m(numbers(m, q, q.expressed, q.scales));
  if (q.any_zero_point()) x = x + m(zero_points(m, q, q.expressed));
  const Num least = m.constant(double(q.least)), most = m.constant(double(q.most));
  x = m(m.make(Opcode::clamp, x.i->shape, {least.i, x.i, most.i}));
  x = m.unary(Opcode::round_nearest_even, x);
  return m.convert(x, q.storage).i;
}

}  // namespace tessera::ir
