// SPDX-License-Identifier: Apache-2.0
// Values as their bits, which sums with zeros leave as they are.
#pragma once

#include "src/ir/rewrite/builder.h"

namespace tessera::spmd {

/// A value that holds zeros wherever another device's part is, so that partial sums move it
/// exactly: floats as integers of the same bits. `from_bits` brings the sum back.
ir::Instruction* as_bits(ir::Builder& b, ir::Instruction* x);
ir::Instruction* from_bits(ir::Builder& b, ir::Instruction* x, DType dtype);
/// The type that as_bits gives.
DType bits_type(DType dtype);

}  // namespace tessera::spmd
