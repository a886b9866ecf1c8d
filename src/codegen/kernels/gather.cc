// SPDX-License-Identifier: Apache-2.0
// Gather and scatter kernels, and gathered rows as an element source for fused loops.
#include "src/codegen/kernels/gather.h"

#include <algorithm>
#include <cstring>

#include "src/base/contains.h"
#include "src/codegen/kernels/copy.h"
#include "src/codegen/kernels/fused_loop.h"
#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/reduce.h"

namespace tessera::codegen {
namespace {

using runtime::KernelCall;

Dims others(std::int64_t rank, const Dims& a, const Dims& b = {}) {
  Dims out;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (!contains(a, d) && !contains(b, d)) out.push_back(d);
  }
  return out;
}

/// Where each index vector's window begins in the indexed array, and in the other one.
struct Windows {
  DType index_type = DType::s32;
  Dims batch_dims;     ///< of the index vectors
  Dims index_strides;  ///< of those dims in the indices, in elements
  Dims batch_strides;  ///< of those dims in the other array, in bytes
  std::int64_t vector_step = 0;
  Dims mapped;                                                 ///< component → dim of the array
  std::vector<std::pair<std::int64_t, std::size_t>> batching;  ///< dim of the array, batch dim
  Dims dims, sizes;                                            ///< of the array, of a window
  Dims strides;                                                ///< of the array, in bytes
  Dims part_strides;  ///< of a window in the other array, in bytes
  std::size_t element = 4;

  std::string key() const {
    return kernel_key("windows", index_type, batch_dims, index_strides, batch_strides, vector_step,
                      mapped, batching, dims, sizes, strides, part_strides, element);
  }

  struct Place {
    Dims start;
    std::int64_t part = 0;  ///< byte offset in the other array
  };
  Place place(std::int64_t n, const std::byte* indices) const {
    Place p;
    p.start.assign(dims.size(), 0);
    std::int64_t at = 0;
    Dims batch(batch_dims.size());
    for (std::size_t d = batch_dims.size(); d-- > 0;) {
      batch[d] = n % batch_dims[d];
      n /= batch_dims[d];
      at += batch[d] * index_strides[d];
      p.part += batch[d] * batch_strides[d];
    }
    const auto size = std::int64_t(byte_size(index_type));
    for (std::size_t i = 0; i < mapped.size(); ++i) {
      p.start[std::size_t(mapped[i])] =
          read_index(indices + (at + std::int64_t(i) * vector_step) * size, index_type);
    }
    for (const auto& [dim, b] : batching) p.start[std::size_t(dim)] = batch[b];
    return p;
  }
};

Windows windows(const Shape& array, const Shape& indices, const Shape& other,
                std::int64_t vector_dim, const Dims& mapped, const Dims& array_batching,
                const Dims& index_batching, const Dims& window_dims_of_other,
                const Dims& dropped_dims) {
  Windows w;
  w.index_type = indices.dtype;
  w.mapped = mapped;
  w.dims = array.dims;
  w.strides = byte_strides(array.dims, byte_size(array.dtype));
  w.element = byte_size(array.dtype);
  const Dims index_strides = row_major_strides(indices.dims);
  const Dims other_strides = byte_strides(other.dims, byte_size(other.dtype));
  const Dims batch_of_other = others(other.rank(), window_dims_of_other);
  for (std::int64_t d = 0; d < indices.rank(); ++d) {
    if (d == vector_dim) {
      w.vector_step = index_strides[std::size_t(d)];
      continue;
    }
    const auto found = std::find(index_batching.begin(), index_batching.end(), d);
    if (found != index_batching.end()) {
      w.batching.emplace_back(array_batching[std::size_t(found - index_batching.begin())],
                              w.batch_dims.size());
    }
    w.batch_strides.push_back(other_strides[std::size_t(batch_of_other[w.batch_dims.size()])]);
    w.batch_dims.push_back(indices.dim(d));
    w.index_strides.push_back(index_strides[std::size_t(d)]);
  }
  w.sizes.assign(array.dims.size(), 1);
  w.part_strides.assign(array.dims.size(), 0);
  const Dims window = others(array.rank(), dropped_dims, array_batching);
  for (std::size_t i = 0; i < window.size(); ++i) {
    const auto d = std::size_t(window[i]), o = std::size_t(window_dims_of_other[i]);
    w.sizes[d] = other.dims[o];
    w.part_strides[d] = other_strides[o];
  }
  return w;
}

std::int64_t offset(const Dims& start, const Dims& strides) {
  std::int64_t out = 0;
  for (std::size_t d = 0; d < start.size(); ++d) out += start[d] * strides[d];
  return out;
}

void run_gather(const KernelCall& call) {
  const auto& w = *static_cast<const Windows*>(call.attributes);
  for (std::int64_t n = call.begin; n < call.end; ++n) {
    Windows::Place p = w.place(n, call.inputs[1]);
    for (std::size_t d = 0; d < p.start.size(); ++d) {
      p.start[d] = std::clamp<std::int64_t>(p.start[d], 0, w.dims[d] - w.sizes[d]);
    }
    copy_box(call.outputs[0] + p.part, call.inputs[0] + offset(p.start, w.strides), w.sizes,
             w.part_strides, w.strides, w.element);
  }
}

class GatheredRows final : public ElementSource {
 public:
  GatheredRows(Windows w, std::int64_t row, std::int64_t vector,
               std::shared_ptr<const FusedLoop> indices)
      : w_(std::move(w)), row_(row), vector_(vector), indices_(std::move(indices)) {}

  void generate(const std::byte* const* inputs, std::int64_t begin, std::int64_t n,
                std::byte* out) const override {
    if (!indices_) return rows(inputs[0], inputs[1], 0, begin, n, out);
    const std::int64_t first = begin / row_ * vector_;
    const std::int64_t last = ((begin + n - 1) / row_ + 1) * vector_;
    const ScratchMemory made(std::size_t(last - first) * byte_size(w_.index_type));
    std::byte* data = made.data();
    indices_->run(inputs + 1, &data, first, last, first);
    rows(inputs[0], data, first, begin, n, out);
  }

 private:
  /// `first`: the element at which the indices' memory begins.
  void rows(const std::byte* array, const std::byte* indices, std::int64_t first,
            std::int64_t begin, std::int64_t n, std::byte* out) const {
    const auto size = std::int64_t(w_.element), index_size = std::int64_t(byte_size(w_.index_type));
    std::int64_t at = begin / row_, skipped = begin % row_;
    while (n > 0) {
      std::int64_t rest = at, index = 0;
      for (std::size_t d = w_.batch_dims.size(); d-- > 0;) {
        index += rest % w_.batch_dims[d] * w_.index_strides[d];
        rest /= w_.batch_dims[d];
      }
      std::int64_t from = skipped * size;
      for (std::size_t i = 0; i < w_.mapped.size(); ++i) {
        const auto d = std::size_t(w_.mapped[i]);
        const std::int64_t start =
            read_index(indices + (index - first + std::int64_t(i) * w_.vector_step) * index_size,
                       w_.index_type);
        from += std::clamp<std::int64_t>(start, 0, w_.dims[d] - w_.sizes[d]) * w_.strides[d];
      }
      const std::int64_t run = std::min(row_ - skipped, n);
      std::memcpy(out, array + from, std::size_t(run * size));
      out += run * size;
      n -= run;
      skipped = 0;
      ++at;
    }
  }

  Windows w_;
  std::int64_t row_, vector_;  ///< elements of a row, and of an index vector
  std::shared_ptr<const FusedLoop> indices_;
};

struct ScatterAttrs {
  Windows windows;
  std::int64_t count = 0;
  bool assigns = false;
  runtime::Combiner combine;
};

void run_scatter(const KernelCall& call) {
  const auto& attrs = *static_cast<const ScatterAttrs*>(call.attributes);
  const Windows& w = attrs.windows;
  const std::int64_t lanes = element_count(w.sizes);
  Dims packed = row_major_strides(w.sizes);
  for (std::int64_t& s : packed) s *= std::int64_t(w.element);
  std::vector<std::byte> old, update;
  old.resize(std::size_t(lanes) * w.element);
  update.resize(old.size());
  for (std::int64_t n = 0; n < attrs.count; ++n) {
    const Windows::Place p = w.place(n, call.inputs[1]);
    // A window that isn't entirely inside is dropped.
    bool inside = true;
    for (std::size_t d = 0; d < p.start.size(); ++d) {
      inside = inside && p.start[d] >= 0 && p.start[d] <= w.dims[d] - w.sizes[d];
    }
    if (!inside) continue;
    std::byte* to = call.outputs[0] + offset(p.start, w.strides);
    const std::byte* from = call.inputs[2] + p.part;
    if (attrs.assigns) {
      copy_box(to, from, w.sizes, w.strides, w.part_strides, w.element);
      continue;
    }
    copy_box(old.data(), to, w.sizes, packed, w.strides, w.element);
    copy_box(update.data(), from, w.sizes, packed, w.part_strides, w.element);
    attrs.combine.function(attrs.combine.attributes.get(), old.data(), update.data(), lanes);
    copy_box(to, old.data(), w.sizes, w.strides, packed, w.element);
  }
}

}  // namespace

namespace {

Windows gather_windows(const ir::Instruction& gather) {
  const auto& g = gather.get<ir::GatherAttrs>();
  Windows w = windows(gather.operand(0)->shape, gather.operand(1)->shape, gather.shape,
                      g.index_vector_dim, g.start_index_map, g.operand_batching_dims,
                      g.start_indices_batching_dims, g.offset_dims, g.collapsed_slice_dims);
  w.sizes = g.slice_sizes;
  return w;
}

}  // namespace

KernelDescriptor gather_kernel(const ir::Instruction& gather) {
  Windows w = gather_windows(gather);
  KernelDescriptor kernel;
  kernel.units = gather.shape.element_count() == 0 ? 0 : element_count(w.batch_dims);
  kernel.nanoseconds = 20 + 100 * double(kernel.units) + 0.3 * double(gather.shape.byte_count());
  kernel.key = kernel_key("gather", w.key());
  kernel.make = kernel_maker(run_gather, std::move(w));
  return kernel;
}

SourceDescriptor gathered_rows(const ir::Instruction& gather) {
  return gathered_rows(gather, nullptr);
}

bool indices_in_order(const ir::Instruction& gather) {
  return gather.get<ir::GatherAttrs>().index_vector_dim >= gather.operand(1)->shape.rank() - 1 &&
         bool(gathered_rows(gather));
}

SourceDescriptor gathered_rows(const ir::Instruction& gather,
                               std::shared_ptr<const LoopExpr> indices) {
  const auto& g = gather.get<ir::GatherAttrs>();
  const Shape& array = gather.operand(0)->shape;
  if (gather.shape.element_count() == 0 || !g.operand_batching_dims.empty()) return {};
  // The windows' dims come last in the result, and are one run of the array.
  for (std::size_t k = 0; k < g.offset_dims.size(); ++k) {
    if (g.offset_dims[k] != gather.shape.rank() - std::int64_t(g.offset_dims.size() - k)) {
      return {};
    }
  }
  bool inside = false;
  for (std::size_t d = 0; d < g.slice_sizes.size(); ++d) {
    if (inside && g.slice_sizes[d] != array.dims[d]) return {};
    inside = inside || g.slice_sizes[d] != 1;
  }
  Windows w = gather_windows(gather);
  const std::int64_t row = element_count(g.slice_sizes);
  const auto vector = std::int64_t(g.start_index_map.size());
  std::string key =
      kernel_key("gathered-rows", w.key(), row, vector, indices ? indices->key() : std::string());
  return {std::move(key), [w = std::move(w), row, vector, indices = std::move(indices)] {
            return std::make_shared<const GatheredRows>(w, row, vector, make_loop(indices));
          }};
}

KernelDescriptor scatter_kernel(const ir::Instruction& scatter) {
  KernelDescriptor kernel;
  if (scatter.operands().size() != 3) return kernel;
  const auto& s = scatter.get<ir::ScatterAttrs>();
  const Shape& updates = scatter.operand(2)->shape;
  ScatterAttrs attrs;
  attrs.windows =
      windows(scatter.operand(0)->shape, scatter.operand(1)->shape, updates, s.index_vector_dim,
              s.scatter_dims_to_operand_dims, s.input_batching_dims,
              s.scatter_indices_batching_dims, s.update_window_dims, s.inserted_window_dims);
  const ir::Computation& combiner = *scatter.called().at(0);
  attrs.assigns = combiner.root() == combiner.parameter(1);
  const CombineDescriptor combine = combine_function(combiner);
  if (!attrs.assigns && !combine) return kernel;
  attrs.count = updates.element_count() == 0 ? 0 : element_count(attrs.windows.batch_dims);
  kernel.nanoseconds = 50 + 200 * double(attrs.count) + double(updates.byte_count());
  kernel.key = kernel_key("scatter", attrs.windows.key(), attrs.assigns, combine.key, attrs.count);
  kernel.make = [attrs = std::move(attrs), combine] {
    auto made = std::make_shared<ScatterAttrs>(attrs);
    if (combine) made->combine = combine.make();
    return runtime::Kernel{run_scatter, std::move(made)};
  };
  return kernel;
}

}  // namespace tessera::codegen
