// SPDX-License-Identifier: Apache-2.0
// The arithmetic of an instruction: the one place that counts flops.
#pragma once

#include <cstdint>

#include "src/ir/module.h"

namespace tessera::cost {

/// Of all arrays that a shape holds.
double total_elements(const Shape& shape);

/// Flops of one run, without those of computations that run as a part of the program: what the op
/// table's column WORK says. `devices`: of the whole program.
double flops(const ir::Instruction& instruction, std::int64_t devices);
/// Of a dot or a convolution: two for each term of each element of the result.
double contraction_flops(const ir::Instruction& instruction);
/// The same, but 0 for outer products and products of vectors, which are elementwise work to
/// devices.
double dot_flops(const ir::Instruction& instruction);
/// What an op weighs when ways to share it out are compared: its flops, or the elements that it
/// moves, if they are more.
double layout_work(const ir::Instruction& instruction);

}  // namespace tessera::cost
