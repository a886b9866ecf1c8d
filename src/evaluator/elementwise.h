// SPDX-License-Identifier: Apache-2.0
// Operations on elements, over n of them at once: used for arrays and, with all lanes of
// scalars, for reducers and comparators.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/evaluator/wide.h"
#include "src/ir/module.h"

namespace tessera::evaluator {

/// Whether apply_elementwise knows the opcode.
bool is_lane_op(ir::Opcode);

/// out[i] = op(operands[0][i], ...) for n elements; the types are those of the instruction and its
/// operands. `out` may be one of the operands.
void apply_elementwise(const ir::Instruction& instruction, const std::byte* const* operands,
                       std::byte* out, std::int64_t n);

// The families behind it. `in` and `out` are element types.
void apply_unary(const ir::Instruction& instruction, DType in, DType out, const std::byte* x,
                 std::byte* result, std::int64_t n);
/// Both operands and the result have type `t`.
void apply_binary(ir::Opcode op, DType t, const std::byte* a, const std::byte* b, std::byte* result,
                  std::int64_t n);
void apply_compare(const ir::CompareAttrs& attrs, DType t, const std::byte* a, const std::byte* b,
                   std::byte* result, std::int64_t n);
void apply_clamp(DType t, const std::byte* low, const std::byte* x, const std::byte* high,
                 std::byte* result, std::int64_t n);
void apply_select(DType t, const std::byte* pred, const std::byte* on_true,
                  const std::byte* on_false, std::byte* result, std::int64_t n);
void apply_convert(DType from, DType to, const std::byte* x, std::byte* result, std::int64_t n);
void apply_reduce_precision(const ir::ReducePrecisionAttrs& attrs, DType t, const std::byte* x,
                            std::byte* result, std::int64_t n);

// Operations on the wide forms, not yet rounded to a type. `width` and `is_signed` describe the
// element type.
double combine(ir::Opcode op, double a, double b);
std::uint64_t combine(ir::Opcode op, std::uint64_t a, std::uint64_t b, int width, bool is_signed);
Complex combine(ir::Opcode op, const Complex& a, const Complex& b);

[[noreturn]] void no_such_op(ir::Opcode op, DType t);

}  // namespace tessera::evaluator
