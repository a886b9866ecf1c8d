// SPDX-License-Identifier: Apache-2.0
// Random gathers and scatters of any form.
#include <algorithm>

#include "tests/support/random_scope.h"

namespace tessera::testing {

using ir::Opcode;

namespace {

/// Shared by gathers and scatters: the positions of slices of an operand in an array of slices.
struct Indexing {
  Dims operand_batching, index_batching;  ///< dims of the operand and of the indices
  Dims collapsed;                         ///< operand dims that slices don't have
  Dims map;                               ///< part of an index → operand dim
  Dims sizes;                             ///< of slices
  Dims index_dims;                        ///< with the dim of the index vector, if it is there
  std::int64_t vector_dim = 0;
  Dims slices;       ///< the array of slices
  Dims offset_dims;  ///< its dims that are within a slice
};

bool holds(const Dims& list, std::int64_t d) {
  return std::find(list.begin(), list.end(), d) != list.end();
}

Indexing random_indexing(Dice& dice, const Dims& operand) {
  Indexing x;
  const std::int64_t rank = std::int64_t(operand.size());
  x.sizes = operand;
  Dims batch;  // dims of the indices
  for (std::int64_t d = 0; d < rank; ++d) {
    if (rank > 1 && dice.chance(0.25)) {
      x.operand_batching.push_back(d);
      x.index_batching.push_back(std::int64_t(batch.size()));
      batch.push_back(operand[std::size_t(d)]);
      x.sizes[std::size_t(d)] = 1;
    } else if (dice.chance(0.6)) {
      x.map.push_back(d);
      if (dice.chance(0.6)) {
        x.collapsed.push_back(d);
        x.sizes[std::size_t(d)] = 1;
      } else {
        x.sizes[std::size_t(d)] = dice.between(1, operand[std::size_t(d)]);
      }
    }
  }
  if (x.map.size() == 2 && dice.chance(0.5)) std::swap(x.map[0], x.map[1]);
  for (std::int64_t n = dice.between(0, 2); n > 0; --n) batch.push_back(dice.between(1, 6));
  // The index vector stands anywhere, or nowhere if it has one part.
  x.index_dims = batch;
  x.vector_dim = std::int64_t(batch.size());
  if (x.map.size() != 1 || dice.chance(0.5)) {
    x.vector_dim = dice.below(std::int64_t(batch.size()) + 1);
    x.index_dims.insert(x.index_dims.begin() + std::ptrdiff_t(x.vector_dim),
                        std::int64_t(x.map.size()));
    for (std::int64_t& d : x.index_batching) d += d >= x.vector_dim ? 1 : 0;
  }
  // Dims of the batch and dims within slices, interleaved, each in order.
  Dims within;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (!holds(x.collapsed, d) && !holds(x.operand_batching, d)) {
      within.push_back(x.sizes[std::size_t(d)]);
    }
  }
  for (std::size_t b = 0, w = 0; b < batch.size() || w < within.size();) {
    const bool take = w < within.size() && (b == batch.size() || dice.chance(0.5));
    if (take) x.offset_dims.push_back(std::int64_t(x.slices.size()));
    x.slices.push_back(take ? within[w++] : batch[b++]);
  }
  return x;
}

}  // namespace

void RandomScope::gather() {
  if (!exact()) return;
  Known k = any_float();
  if (k.x->shape.rank() == 0) return;
  const Indexing x = random_indexing(dice_, k.x->shape.dims);
  if (x.map.empty() || element_count(x.slices) > 1024 || element_count(x.index_dims) > 512) return;
  Known at = as_shape(any(), x.index_dims);
  ir::GatherAttrs g;
  g.offset_dims = x.offset_dims;
  g.collapsed_slice_dims = x.collapsed;
  g.start_index_map = x.map;
  g.slice_sizes = x.sizes;
  g.operand_batching_dims = x.operand_batching;
  g.start_indices_batching_dims = x.index_batching;
  g.index_vector_dim = x.vector_dim;
  add({b_.emit(Opcode::gather, {k.x, b_.convert(at.x, s32)}, g), k.bound});
}

void RandomScope::scatter() {
  if (!exact()) return;
  Known k = any_float();
  if (k.x->shape.rank() == 0) return;
  const Indexing x = random_indexing(dice_, k.x->shape.dims);
  if (x.map.empty() || element_count(x.slices) > 1024 || element_count(x.index_dims) > 512) return;
  Known at = as_shape(any(), x.index_dims), u = as_shape(any(), x.slices);
  ir::ScatterAttrs s;
  s.update_window_dims = x.offset_dims;
  s.inserted_window_dims = x.collapsed;
  s.scatter_dims_to_operand_dims = x.map;
  s.input_batching_dims = x.operand_batching;
  s.scatter_indices_batching_dims = x.index_batching;
  s.index_vector_dim = x.vector_dim;
  const DType t = k.x->shape.dtype;
  static const std::vector<Opcode> ops = {Opcode::add, Opcode::add, Opcode::maximum,
                                          Opcode::minimum};
  const Opcode op = dice_.pick(ops);
  const double bound = op == Opcode::add ? k.bound + u.bound * double(element_count(x.slices))
                                         : std::max(k.bound, u.bound);
  add(small(
      no_negative_zero({b_.emit(Opcode::scatter, {k.x, b_.convert(at.x, s32), b_.convert(u.x, t)},
                                s, {ir::scalar_computation(b_.module(), op, t)}),
                        bound})));
}

}  // namespace tessera::testing
