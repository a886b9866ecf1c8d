// SPDX-License-Identifier: Apache-2.0
// Values as their bits.
#include "src/spmd/bits.h"

#include "src/base/arrays/small_floats.h"

namespace tessera::spmd {

namespace {

/// Floats of less than 8 bits, which integers of a byte can't be made of. bf16 holds them exactly.
bool is_narrow_float(DType t) { return is_small_float(t) && small_float_width(t) < 8; }

}  // namespace

DType bits_type(DType dtype) {
  if (is_complex(dtype)) return dtype;
  if (is_narrow_float(dtype)) return u16;
  switch (byte_size(dtype)) {
    case 1:
      return is_floating(dtype) || dtype == DType::pred ? u8 : dtype;
    case 2:
      return u16;
    case 4:
      return u32;
    default:
      return u64;
  }
}

ir::Instruction* as_bits(ir::Builder& b, ir::Instruction* x) {
  const DType from = x->shape.dtype, to = bits_type(from);
  if (from == to) return x;
  if (from == DType::pred) return b.convert(x, to);
  if (is_narrow_float(from)) x = b.convert(x, bf16);
  return b.emit_shaped(ir::Opcode::bitcast_convert, Shape(to, x->shape.dims), {x});
}

ir::Instruction* from_bits(ir::Builder& b, ir::Instruction* x, DType dtype) {
  if (x->shape.dtype == dtype) return x;
  if (dtype == DType::pred) return b.convert(x, dtype);
  if (is_narrow_float(dtype)) return b.convert(from_bits(b, x, bf16), dtype);
  return b.emit_shaped(ir::Opcode::bitcast_convert, Shape(dtype, x->shape.dims), {x});
}

}  // namespace tessera::spmd
