// SPDX-License-Identifier: Apache-2.0
// Batched: what stands for a value of the source when it is computed for a batch.
#pragma once

#include <span>
#include <vector>

#include "src/transforms/batching/batch.h"

namespace tessera::transforms::batching {

/// An array (or token) and the dim along which it is batched; of a tuple, its elements.
struct Batched {
  ir::Instruction* array = nullptr;
  std::int64_t dim = kNotBatched;
  bool is_tuple = false;
  std::vector<Batched> elements;

  bool batched() const { return dim != kNotBatched; }
};

/// The leaves in pre-order.
std::vector<Batched> leaves(const Batched& value);
/// The dims of the leaves.
Dims dims_of(const Batched& value);
bool any_batched(const Batched& value);
/// The value of that shape with these leaves, of which it takes as many as it has from the front.
Batched from_leaves(const Shape& shape, std::span<const Batched>* leaves);
Batched from_leaves(const Shape& shape, std::span<const Batched> leaves);

/// As one instruction: the array itself, or a tuple.
ir::Instruction* packed(ir::Builder& b, const Batched& value);
/// An instruction as a value whose leaves are batched on these dims.
Batched unpacked(ir::Builder& b, ir::Instruction* instruction, std::span<const std::int64_t> dims);

/// The dim of the batched array that dim `d` of an entry is. `batch`: where the batch dim was put.
inline std::int64_t shifted(std::int64_t d, std::int64_t batch) {
  return batch != kNotBatched && d >= batch ? d + 1 : d;
}
Dims shifted(Dims dims, std::int64_t batch);
/// `dims` with `value` put in front of position `at`.
Dims inserted(Dims dims, std::int64_t at, std::int64_t value);
/// The shape of an array of `size` entries; with the layout of an entry, entries apart.
Shape batched_shape(const Shape& entry, std::int64_t dim, std::int64_t size);
/// The shape of a value whose leaves are batched on these dims.
Shape batched_shape(const Shape& entry, std::span<const std::int64_t> dims, std::int64_t size);
/// An entry's sharding with a dim that propagation may split.
TensorSharding batched_sharding(TensorSharding entry, std::int64_t dim, const MeshRef& mesh);

}  // namespace tessera::transforms::batching
