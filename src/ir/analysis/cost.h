// SPDX-License-Identifier: Apache-2.0
// What an instruction costs by itself: the one place that counts flops and bytes of collectives.
#pragma once

#include <cstdint>

#include "src/ir/module.h"

namespace tessera::ir {

/// Of all arrays that a shape holds.
double total_elements(const Shape& shape);

/// Flops of one run, without those of computations that run as a part of the program: what the op
/// table's column WORK says. `devices`: of the whole program.
double flops(const Instruction& instruction, std::int64_t devices);
/// Of a dot or a convolution: two for each term of each element of the result.
double contraction_flops(const Instruction& instruction);

/// What one of the `n` devices of a group receives, given the bytes b of its result: all-gather and
/// all-to-all b(n-1)/n, all-reduce 2b(n-1)/n, reduce-scatter b(n-1), all others b.
inline double received_bytes(Opcode collective, double result_bytes, double n) {
  switch (collective) {
    case Opcode::all_gather:
    case Opcode::all_gather_start:
    case Opcode::all_to_all:
      return result_bytes * (n - 1) / n;
    case Opcode::all_reduce:
    case Opcode::all_reduce_start:
      return 2 * result_bytes * (n - 1) / n;
    case Opcode::reduce_scatter:
      return result_bytes * (n - 1);
    default:
      return result_bytes;
  }
}
/// Of one run of a collective or its start; of a permute 0 if no shard moves; of recv what comes.
/// 0 for any other instruction. `devices`: of the whole program.
double received_bytes(const Instruction& instruction, std::int64_t devices);

}  // namespace tessera::ir
