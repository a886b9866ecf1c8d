// SPDX-License-Identifier: Apache-2.0
// Elementwise operations on short blocks of elements: the instructions of fused loops.
#pragma once

#include <cstddef>
#include <cstdint>

#include <tessera/dtype.h>

#include "src/ir/attributes.h"
#include "src/ir/opcode.h"

namespace tessera::codegen {

/// out[i] = op(in[0][i], in[1][i], ...) for i < n. If bit k of `scalars` is set, in[k] is one
/// element that stands for all. `out` may be the same memory as an input.
struct BlockCall {
  const void* attributes;
  std::byte* out;
  const std::byte* const* in;
  unsigned scalars;
  std::int64_t n;
};
using BlockFunction = void (*)(const BlockCall&);

// Each returns null if there is no such kernel. f16, bf16 and floats of a byte have none of their
// own: fused loops hold them as f32 and round after each op.
BlockFunction unary_block(ir::Opcode op, DType operand);
BlockFunction binary_block(ir::Opcode op, DType operand);
BlockFunction clamp_block(DType operand);
BlockFunction compare_block(ir::Direction direction, ir::ComparisonType type, DType operand);
/// From any type that isn't held as f32 to any type; to floats of a byte only from f32, f64 and
/// integers that f64 has.
BlockFunction convert_block(DType from, DType to);
/// f32 holding values of smaller floats: load, and rounding after an op.
BlockFunction lift_block(DType small);
BlockFunction round_block(DType small);
/// By size of an element: select(pred, a, b), and a copy.
BlockFunction select_block(std::size_t element_bytes);
BlockFunction copy_block(std::size_t element_bytes);
/// in[0] is an array; out[i] = in[0][clamp(in[1][i], 0, last)], indices and the last one of s32;
/// that is the attribute.
BlockFunction take_block(std::size_t element_bytes);
/// ir::ReducePrecisionAttrs are the attributes.
BlockFunction reduce_precision_block(DType operand);

/// An instruction of a fused loop, as data: what it is, and of which types.
struct BlockOp {
  enum class Kind : std::uint8_t {
    unary,
    binary,
    clamp,
    compare,
    convert,
    lift,
    round,
    select,
    copy,
    take,  ///< elements of an array, the first operand, by index
    reduce_precision
  };
  Kind kind = Kind::unary;
  ir::Opcode opcode = ir::Opcode::copy;         ///< of unary and binary
  DType type = DType::f32, to = DType::f32;     ///< of the operands; `to` is for conversions
  ir::Direction direction = ir::Direction::eq;  ///< of compare, as the next
  ir::ComparisonType comparison = {};
  std::int32_t element_bytes = 0;  ///< of select, copy and take
  std::int32_t last = 0;           ///< of take: the largest index
  ir::ReducePrecisionAttrs precision = {};
};
/// Null if there is none.
BlockFunction block_function(const BlockOp& op);

// By family of types, used by the functions above.
BlockFunction float_unary_block(ir::Opcode op, DType operand);
BlockFunction float_binary_block(ir::Opcode op, DType operand);
BlockFunction integer_unary_block(ir::Opcode op, DType operand);
BlockFunction integer_binary_block(ir::Opcode op, DType operand);
BlockFunction complex_unary_block(ir::Opcode op, DType operand);
BlockFunction complex_binary_block(ir::Opcode op, DType operand);

}  // namespace tessera::codegen
