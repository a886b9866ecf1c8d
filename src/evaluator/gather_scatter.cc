// SPDX-License-Identifier: Apache-2.0
// Evaluates gather and scatter from their definitions.
#include <algorithm>

#include "src/evaluator/ops.h"
#include "src/evaluator/scalar_function.h"
#include "src/evaluator/strided.h"

namespace tessera::evaluator {
namespace {

bool contains(const Dims& list, std::int64_t d) {
  return std::find(list.begin(), list.end(), d) != list.end();
}

/// The dims 0 .. rank - 1 that are not in the lists.
Dims others(std::size_t rank, const Dims& a, const Dims& b = {}) {
  Dims out;
  for (std::int64_t d = 0; d < std::int64_t(rank); ++d) {
    if (!contains(a, d) && !contains(b, d)) out.push_back(d);
  }
  return out;
}

/// Reads the index vectors: one for each position in the dims of `indices` but the vector's own.
class IndexVectors {
 public:
  IndexVectors(const Literal& indices, std::int64_t vector_dim, const Dims& to_operand,
               const Dims& operand_batching, const Dims& indices_batching)
      : indices_(indices),
        vector_dim_(vector_dim),
        to_operand_(to_operand),
        operand_batching_(operand_batching),
        strides_(row_major_strides(indices.dims())) {
    for (std::int64_t d = 0; d < std::int64_t(indices.dims().size()); ++d) {
      if (d == vector_dim) continue;
      if (contains(indices_batching, d)) batching_from_.emplace_back(d, batch_dims_.size());
      batch_dims_.push_back(indices.dims()[std::size_t(d)]);
    }
    for (std::int64_t d : indices_batching) {
      for (const auto& [dim, position] : batching_from_) {
        if (dim == d) batching_positions_.push_back(position);
      }
    }
  }

  const Dims& batch_dims() const { return batch_dims_; }

  /// Start in the operand, not clamped.
  Dims start(const Dims& batch, std::size_t operand_rank) const {
    std::int64_t base = 0;
    std::size_t b = 0;
    for (std::int64_t d = 0; d < std::int64_t(strides_.size()); ++d) {
      if (d != vector_dim_) base += batch[b++] * strides_[std::size_t(d)];
    }
    const bool own_dim = vector_dim_ < std::int64_t(strides_.size());
    const std::int64_t step = own_dim ? strides_[std::size_t(vector_dim_)] : 0;
    Dims out(operand_rank, 0);
    for (std::size_t i = 0; i < to_operand_.size(); ++i) {
      out[std::size_t(to_operand_[i])] = index_at(indices_, base + std::int64_t(i) * step);
    }
    for (std::size_t i = 0; i < operand_batching_.size(); ++i) {
      out[std::size_t(operand_batching_[i])] = batch[batching_positions_[i]];
    }
    return out;
  }

 private:
  const Literal& indices_;
  std::int64_t vector_dim_;
  const Dims &to_operand_, &operand_batching_;
  Dims strides_, batch_dims_;
  std::vector<std::pair<std::int64_t, std::size_t>> batching_from_;
  std::vector<std::size_t> batching_positions_;
};

}  // namespace

Literal eval_gather(const ir::Instruction& in, Operands xs) {
  const Literal &x = *xs[0], &indices = *xs[1];
  const auto& g = in.get<ir::GatherAttrs>();
  const std::size_t rank = x.dims().size();
  const IndexVectors vectors(indices, g.index_vector_dim, g.start_index_map,
                             g.operand_batching_dims, g.start_indices_batching_dims);
  const Dims out_strides = row_major_strides(in.shape.dims), strides = row_major_strides(x.dims());
  const Dims batch_out = others(in.shape.dims.size(), g.offset_dims);
  const Dims window = others(rank, g.collapsed_slice_dims, g.operand_batching_dims);
  Side to{0, Dims(rank, 0)};
  for (std::size_t i = 0; i < window.size(); ++i) {
    to.strides[std::size_t(window[i])] = out_strides[std::size_t(g.offset_dims[i])];
  }
  Literal out(Shape(in.shape.dtype, in.shape.dims));
  std::byte* bytes = out.mutable_bytes();
  for_each_index(vectors.batch_dims(), [&](const Dims& batch) {
    Dims start = vectors.start(batch, rank);
    for (std::size_t d = 0; d < rank; ++d) {
      start[d] = std::clamp<std::int64_t>(start[d], 0, x.dims()[d] - g.slice_sizes[d]);
    }
    to.offset = 0;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      to.offset += batch[i] * out_strides[std::size_t(batch_out[i])];
    }
    strided_copy(byte_size(x.dtype()), g.slice_sizes, bytes, to, x.bytes(),
                 {dot_product(start, strides), strides});
  });
  return out;
}

Literal eval_scatter(const ir::Instruction& in, Operands xs) {
  const auto& s = in.get<ir::ScatterAttrs>();
  const std::size_t k = (xs.size() - 1) / 2;
  const Literal& indices = *xs[k];
  const Dims& dims = xs[0]->dims();
  const Dims& update_dims = xs[k + 1]->dims();
  const std::size_t rank = dims.size();
  const IndexVectors vectors(indices, s.index_vector_dim, s.scatter_dims_to_operand_dims,
                             s.input_batching_dims, s.scatter_indices_batching_dims);
  const Dims strides = row_major_strides(dims), update_strides = row_major_strides(update_dims);
  const Dims batch_dims = others(update_dims.size(), s.update_window_dims);
  const Dims window = others(rank, s.inserted_window_dims, s.input_batching_dims);
  Dims sizes(rank, 1);
  Side from{0, Dims(rank, 0)};
  for (std::size_t i = 0; i < window.size(); ++i) {
    const std::size_t d = std::size_t(window[i]), u = std::size_t(s.update_window_dims[i]);
    sizes[d] = update_dims[u];
    from.strides[d] = update_strides[u];
  }
  const std::int64_t lanes = element_count(sizes);
  const Dims packed = row_major_strides(sizes);
  ScalarFunction f(*in.called()[0]);
  std::vector<Literal> results;
  for (std::size_t i = 0; i < k; ++i) results.push_back(*xs[i]);
  std::vector<std::vector<std::byte>> buffers(2 * k);
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;
  for (std::size_t i = 0; i < 2 * k; ++i) {
    buffers[i].resize(std::size_t(lanes) * byte_size(xs[i % k]->dtype()));
    inputs.push_back(buffers[i].data());
    if (i < k) outputs.push_back(buffers[i].data());
  }
  for_each_index(vectors.batch_dims(), [&](const Dims& batch) {
    const Dims start = vectors.start(batch, rank);
    for (std::size_t d = 0; d < rank; ++d) {
      // A window that isn't entirely inside is dropped.
      if (start[d] < 0 || start[d] > dims[d] - sizes[d]) return;
    }
    from.offset = 0;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      from.offset += batch[i] * update_strides[std::size_t(batch_dims[i])];
    }
    const Side box{dot_product(start, strides), strides};
    for (std::size_t i = 0; i < k; ++i) {
      const std::size_t size = byte_size(xs[i]->dtype());
      strided_copy(size, sizes, buffers[i].data(), {0, packed}, results[i].bytes(), box);
      strided_copy(size, sizes, buffers[k + i].data(), {0, packed}, xs[k + 1 + i]->bytes(), from);
    }
    f.run(inputs.data(), outputs.data(), lanes);
    for (std::size_t i = 0; i < k; ++i) {
      strided_copy(byte_size(xs[i]->dtype()), sizes, results[i].mutable_bytes(), box,
                   buffers[i].data(), {0, packed});
    }
  });
  if (in.shape.is_tuple) return Literal::tuple(std::move(results));
  return results[0];
}

}  // namespace tessera::evaluator
