// SPDX-License-Identifier: Apache-2.0
// Gather kernels, and gathered rows as an element source for fused loops.
#include "src/codegen/kernels/indexed/gather.h"

#include <algorithm>
#include <cstring>

#include "src/codegen/kernels/indexed/index_windows.h"
#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/loops/fused_loop.h"
#include "src/codegen/kernels/moves/copy.h"
#include "src/codegen/kernels/prices.h"
#include "src/codegen/kernels/read_index.h"
#include "src/codegen/kernels/type_dispatch.h"
#include "src/codegen/kernels/vectors.h"

namespace tessera::codegen {
namespace {

using runtime::KernelCall;

struct GatherWindows {
  IndexWindows windows;
  /// Bytes of a window, if it is one run of the array and of the result; else 0.
  std::size_t run = 0;
};

/// Bytes of a window that is one run in both arrays.
std::size_t run_of(const IndexWindows& w) {
  auto run = std::int64_t(w.element);
  for (std::size_t d = w.dims.size(); d-- > 0;) {
    if (w.sizes[d] == 1) continue;
    if (w.strides[d] != run || w.part_strides[d] != run) return 0;
    run *= w.sizes[d];
  }
  return std::size_t(run);
}

void run_gather(const KernelCall& call) {
  const auto& [w, run] = *static_cast<const GatherWindows*>(call.attributes);
  const std::size_t rank = w.dims.size();
  WindowCursor cursor(w, call.inputs[1], call.begin);
  for (std::int64_t n = call.begin; n < call.end; ++n, cursor.next()) {
    const std::int64_t* start = cursor.start();
    std::int64_t from = 0;
    for (std::size_t d = 0; d < rank; ++d) {
      from += std::clamp<std::int64_t>(start[d], 0, w.dims[d] - w.sizes[d]) * w.strides[d];
    }
    std::byte* to = call.outputs[0] + cursor.part();
    if (run != 0) {
      std::memcpy(to, call.inputs[0] + from, run);
    } else {
      copy_box(to, call.inputs[0] + from, w.sizes, w.part_strides, w.strides, w.element);
    }
  }
}

/// The most numbers of an index vector that there are loops for.
constexpr std::size_t kMostNumbers = 3;

/// Index vectors that stand in a row, `step` numbers apart.
struct RowIndices {
  const std::byte* first;
  std::int64_t step, number_step;  ///< from vector to vector, and from number to number
  std::int64_t most[kMostNumbers], strides[kMostNumbers];  ///< the largest number: others are
                                                           ///< clamped; and bytes between rows
};
template <class Index, std::size_t kNumbers>
TESSERA_INLINE std::int64_t row_at(const RowIndices& indices, std::int64_t i) {
  const auto* at = reinterpret_cast<const Index*>(indices.first) + i * indices.step;
  std::int64_t out = 0;
  for (std::size_t k = 0; k < kNumbers; ++k) {
    const auto number = std::int64_t(at[std::int64_t(k) * indices.number_step]);
    out += std::clamp<std::int64_t>(number, 0, indices.most[k]) * indices.strides[k];
  }
  return out;
}
template <class Index, std::size_t kNumbers, std::size_t kBytes>
void gather_short_rows(const RowIndices& indices, const std::byte* array, std::int64_t /*bytes*/,
                       std::int64_t n, std::byte* out) {
  for (std::int64_t i = 0; i < n; ++i) {
    std::memcpy(out + std::size_t(i) * kBytes, array + row_at<Index, kNumbers>(indices, i), kBytes);
  }
}
/// Rows of so many bytes. They lie anywhere: what is a few rows ahead is fetched early.
template <class Index, std::size_t kNumbers>
void gather_long_rows(const RowIndices& indices, const std::byte* array, std::int64_t bytes,
                      std::int64_t n, std::byte* out) {
  constexpr std::int64_t kAhead = 6, kLine = 64, kMostLines = 8;
  const std::int64_t fetched = std::min(bytes, kMostLines * kLine);
  for (std::int64_t i = 0; i < n; ++i) {
    if (i + kAhead < n) {
      const std::byte* next = array + row_at<Index, kNumbers>(indices, i + kAhead);
      for (std::int64_t b = 0; b < fetched; b += kLine) __builtin_prefetch(next + b);
    }
    std::memcpy(out + i * bytes, array + row_at<Index, kNumbers>(indices, i), std::size_t(bytes));
  }
}
using GatherRows = void (*)(const RowIndices&, const std::byte*, std::int64_t, std::int64_t,
                            std::byte*);
template <class Index, std::size_t kNumbers>
GatherRows gather_rows_of(std::size_t bytes) {
  const auto rows = for_constant<1, 2, 4, 8, 12, 16, 32>(
      bytes, [](auto size) -> GatherRows { return gather_short_rows<Index, kNumbers, size()>; });
  return rows != nullptr ? rows : gather_long_rows<Index, kNumbers>;
}
template <class Index>
GatherRows gather_rows_of(std::size_t numbers, std::size_t bytes) {
  return for_constant<1, 2, 3>(numbers,
                               [&](auto count) { return gather_rows_of<Index, count()>(bytes); });
}
/// Null for what isn't worth a loop of its own.
GatherRows gather_rows_of(DType index, std::size_t numbers, std::size_t bytes) {
  switch (index) {
    case DType::s32:
      return gather_rows_of<std::int32_t>(numbers, bytes);
    case DType::u32:
      return gather_rows_of<std::uint32_t>(numbers, bytes);
    case DType::s64:
      return gather_rows_of<std::int64_t>(numbers, bytes);
    default:
      return nullptr;
  }
}

class GatheredRows final : public ElementSource {
 public:
  GatheredRows(IndexWindows w, std::int64_t row, std::int64_t vector,
               std::shared_ptr<const FusedLoop> indices)
      : w_(std::move(w)), row_(row), vector_(vector), indices_(std::move(indices)) {
    if (!w_.batching.empty() || !w_.indices_in_a_row()) return;
    whole_rows_ = gather_rows_of(w_.index_type, w_.mapped.size(), std::size_t(row_) * w_.element);
  }

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
    if (whole_rows_ == nullptr) return parts_of_rows(array, indices, first, begin, n, out);
    const auto size = std::int64_t(w_.element);
    const std::int64_t lead = std::min(n, (row_ - begin % row_) % row_);
    const std::int64_t whole = (n - lead) / row_, tail = n - lead - whole * row_;
    if (lead > 0) parts_of_rows(array, indices, first, begin, lead, out);
    out += lead * size;
    begin += lead;
    whole_rows_(indices_from(indices, begin / row_, first), array, row_ * size, whole, out);
    if (tail == 0) return;
    parts_of_rows(array, indices, first, begin + whole * row_, tail, out + whole * row_ * size);
  }

  /// From vector `at` on, in memory that begins at element `first`.
  RowIndices indices_from(const std::byte* indices, std::int64_t at, std::int64_t first) const {
    RowIndices out{};
    out.step = w_.index_step();
    out.number_step = w_.vector_step;
    out.first = indices + (at * out.step - first) * std::int64_t(byte_size(w_.index_type));
    for (std::size_t k = 0; k < w_.mapped.size(); ++k) {
      const auto d = std::size_t(w_.mapped[k]);
      out.most[k] = w_.dims[d] - w_.sizes[d];
      out.strides[k] = w_.strides[d];
    }
    return out;
  }

  void parts_of_rows(const std::byte* array, const std::byte* indices, std::int64_t first,
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

  IndexWindows w_;
  std::int64_t row_, vector_;  ///< elements of a row, and of an index vector
  std::shared_ptr<const FusedLoop> indices_;
  GatherRows whole_rows_ = nullptr;  ///< if there is a loop for them
};

/// Rows of the array that become rows of the result, in order.
struct RowKernel {
  std::shared_ptr<const ElementSource> rows;
  std::int64_t row = 1;  ///< elements
  std::size_t element = 1;
};
void run_rows(const KernelCall& call) {
  const auto& k = *static_cast<const RowKernel*>(call.attributes);
  const std::int64_t begin = call.begin * k.row;
  k.rows->generate(call.inputs, begin, call.end * k.row - begin,
                   call.outputs[0] + std::size_t(begin) * k.element);
}

/// Layers of the array, in each of which rows are taken at the same indices. Units are rows.
struct LayerKernel {
  std::shared_ptr<const ElementSource> rows;
  std::int64_t row = 1, count = 1;  ///< elements; rows of a layer of the result
  std::int64_t pitch = 0;           ///< bytes from layer to layer of the array
  std::size_t element = 1;
};
void run_layers(const KernelCall& call) {
  const auto& k = *static_cast<const LayerKernel*>(call.attributes);
  for (std::int64_t begin = call.begin; begin < call.end;) {
    const std::int64_t layer = begin / k.count, first = begin % k.count;
    const std::int64_t n = std::min(k.count - first, call.end - begin);
    const std::byte* const inputs[] = {call.inputs[0] + layer * k.pitch, call.inputs[1]};
    k.rows->generate(inputs, first * k.row, n * k.row,
                     call.outputs[0] + std::size_t(begin * k.row) * k.element);
    begin += n;
  }
}
/// Elements of a row where windows are such rows of all layers, in the order of the result: the
/// dims behind the one that is indexed are the row's, those in front of it the layers'. Else 0.
std::int64_t row_of_layers(const IndexWindows& w) {
  if (w.mapped.size() != 1 || !w.batching.empty()) return 0;
  const auto mapped = std::size_t(w.mapped[0]);
  if (w.sizes[mapped] != 1) return 0;
  std::int64_t bytes = std::int64_t(w.element);
  for (std::size_t d = w.dims.size(); d-- > mapped + 1;) {
    if (w.sizes[d] != w.dims[d] || (w.sizes[d] != 1 && w.part_strides[d] != bytes)) return 0;
    bytes *= w.dims[d];
  }
  const std::int64_t row = bytes / std::int64_t(w.element);
  for (std::size_t d = w.batch_dims.size(); d-- > 0;) {
    if (w.batch_dims[d] != 1 && w.batch_strides[d] != bytes) return 0;
    bytes *= w.batch_dims[d];
  }
  for (std::size_t d = mapped; d-- > 0;) {
    if (w.sizes[d] != w.dims[d] || (w.sizes[d] != 1 && w.part_strides[d] != bytes)) return 0;
    bytes *= w.dims[d];
  }
  return row;
}

struct GatherOperation {
  bool by_rows = false;    ///< each index vector gives one run of the array and of the result
  bool by_layers = false;  ///< it gives one of each layer
};
enum class GatherKernel : std::uint8_t { rows, layers, windows };
constexpr KernelLine<GatherOperation, GatherKernel> kGathers[] = {
    {{"gather/rows", "windows are one run of the array and of the result each, in its order"},
     [](const GatherOperation& g) { return g.by_rows; },
     GatherKernel::rows},
    {{"gather/layers", "windows are rows of all layers of the array, in the result's order"},
     [](const GatherOperation& g) { return g.by_layers; },
     GatherKernel::layers},
    {{"gather/windows", "windows of several runs, or results that stand elsewhere"},
     always<GatherOperation>,
     GatherKernel::windows},
};

}  // namespace

KernelFamily gather_family() { return family_of("gather", kGathers); }

KernelDescriptor gather_kernel(const ir::Instruction& gather) {
  GatherWindows g{index_windows(gather)};
  g.run = run_of(g.windows);
  KernelDescriptor kernel;
  const bool is_empty = gather.shape.element_count() == 0;
  kernel.units = is_empty ? 0 : element_count(g.windows.batch_dims);
  SourceDescriptor rows = gathered_rows(gather);
  const std::int64_t row = is_empty ? 0 : row_of_layers(g.windows);
  const auto& line = choose(kGathers, GatherOperation{bool(rows), row > 0});
  kernel.label = &line.label;
  double each = g.run == 0 ? prices::index::kWindow : prices::index::kRow;
  if (line.how == GatherKernel::layers) {
    kernel.units = gather.shape.element_count() / row;
    each = prices::index::kRow;
  }
  kernel.nanoseconds = prices::call::kGather + each * double(kernel.units) +
                       prices::byte::kCopied * double(gather.shape.byte_count());
  if (line.how == GatherKernel::rows) {
    kernel.key = kernel_key("gather-rows", rows.key);
    kernel.make = [rows = std::move(rows),
                   row = element_count(gather.get<ir::GatherAttrs>().slice_sizes),
                   element = g.windows.element] {
      return runtime::Kernel{
          run_rows, std::make_shared<const RowKernel>(RowKernel{rows.make(), row, element})};
    };
    return kernel;
  }
  if (line.how == GatherKernel::layers) {
    kernel.key = kernel_key("gather-layers", g.windows.key());
    kernel.make = [w = std::move(g.windows), row] {
      const auto mapped = std::size_t(w.mapped[0]);
      LayerKernel made;
      made.row = row;
      made.count = element_count(w.batch_dims);
      made.pitch = w.dims[mapped] * w.strides[mapped];
      made.element = w.element;
      made.rows = std::make_shared<const GatheredRows>(w, row, 1, nullptr);
      return runtime::Kernel{run_layers, std::make_shared<const LayerKernel>(std::move(made))};
    };
    return kernel;
  }
  kernel.key = kernel_key("gather", g.windows.key());
  kernel.make = kernel_maker(run_gather, std::move(g));
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
  IndexWindows w = index_windows(gather);
  const std::int64_t row = element_count(g.slice_sizes);
  const auto vector = std::int64_t(g.start_index_map.size());
  const auto count = double(gather.operand(1)->shape.element_count());
  const bool compiled = indices && worth_compiling(indices->nanoseconds * count, indices.get());
  std::string key = kernel_key("gathered-rows", w.key(), row, vector,
                               indices ? indices->key() : std::string(), compiled);
  return {std::move(key), [w = std::move(w), row, vector, indices = std::move(indices), compiled] {
            return std::make_shared<const GatheredRows>(w, row, vector,
                                                        make_loop(indices, compiled));
          }};
}

}  // namespace tessera::codegen
