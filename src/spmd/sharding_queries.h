// SPDX-License-Identifier: Apache-2.0
// Small questions about shardings, and shardings made from others.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/arrays/shape.h"
#include "src/base/contains.h"
#include "src/ir/opcode.h"
#include "src/sharding/axes/tensor_sharding.h"

namespace tessera::spmd {

/// Same axes on the same dims and the same unreduced axes, of the same kind, but for axes of
/// size 1.
bool same_layout(const TensorSharding& a, const TensorSharding& b);
/// Both are partial values, of different kinds: no partial value of one is one of the other.
bool reduced_differently(const TensorSharding& a, const TensorSharding& b);
/// What joins partial values, and what a sharding says of that.
ir::Opcode opcode_of(Reduction reduction);
Reduction reduction_of(ir::Opcode op);
/// The sharding without axes on these dims.
TensorSharding without_dims(TensorSharding s, const Dims& dims);
/// Without partial values.
TensorSharding reduced(TensorSharding s);
std::vector<TensorSharding> reduced(std::vector<TensorSharding> all);
/// Axes of `s` on these dims, one dim after the other.
IndexList axes_on(const TensorSharding& s, const Dims& dims);
/// Among how many devices the array is shared out.
double parts_of(const TensorSharding& s);
/// Bytes of one row of a shard, along that dim.
double row_bytes(const Shape& global, const TensorSharding& s, std::int64_t dim);
/// Axes of `s` on any dim.
IndexList used_axes(const TensorSharding& s);

}  // namespace tessera::spmd
