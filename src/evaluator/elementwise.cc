// SPDX-License-Identifier: Apache-2.0
// Evaluates elementwise ops on packed elements by their number of operands.
#include "src/evaluator/elementwise.h"

namespace tessera::evaluator {

using ir::Opcode;

bool is_lane_op(Opcode op) {
  return ir::is_elementwise(op) && op != Opcode::stochastic_convert &&
         op != Opcode::bitcast_convert;
}

void apply_elementwise(const ir::Instruction& in, const std::byte* const* operands, std::byte* out,
                       std::int64_t n) {
  const DType to = in.shape.dtype;
  const DType from = in.operands()[0]->shape.dtype;
  switch (in.opcode) {
    case Opcode::copy:
      return apply_convert(from, from, operands[0], out, n);
    case Opcode::convert:
      return apply_convert(from, to, operands[0], out, n);
    case Opcode::reduce_precision:
      return apply_reduce_precision(in.get<ir::ReducePrecisionAttrs>(), from, operands[0], out, n);
    case Opcode::compare:
      return apply_compare(in.get<ir::CompareAttrs>(), from, operands[0], operands[1], out, n);
    case Opcode::select:
      return apply_select(to, operands[0], operands[1], operands[2], out, n);
    case Opcode::clamp:
      return apply_clamp(to, operands[0], operands[1], operands[2], out, n);
    case Opcode::complex: {
      const std::int64_t part = std::int64_t(byte_size(from));
      for (std::int64_t i = 0; i < n; ++i) {
        std::byte both[16];
        std::memcpy(both, operands[0] + i * part, std::size_t(part));
        std::memcpy(both + part, operands[1] + i * part, std::size_t(part));
        std::memcpy(out + 2 * i * part, both, std::size_t(2 * part));
      }
      return;
    }
    default:
      if (ir::info(in.opcode).operands == 2) {
        return apply_binary(in.opcode, to, operands[0], operands[1], out, n);
      }
      return apply_unary(in, from, to, operands[0], out, n);
  }
}

}  // namespace tessera::evaluator
