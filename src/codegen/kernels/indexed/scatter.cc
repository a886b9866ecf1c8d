// SPDX-License-Identifier: Apache-2.0
// Scatter kernels. Workers share the result, not the updates: each walks all index vectors in order
// and applies what falls into its own rows, so that no two write the same element and the order of
// updates to an element is that of the index vectors, however many workers there are.
#include "src/codegen/kernels/indexed/scatter.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <complex>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <type_traits>
#include <vector>

#include "src/base/threads/thread_scratch.h"
#include "src/codegen/kernels/indexed/index_windows.h"
#include "src/codegen/kernels/indexed/indices_in_range.h"
#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/moves/copy.h"
#include "src/codegen/kernels/prices.h"
#include "src/codegen/kernels/reductions/combine.h"
#include "src/codegen/kernels/reductions/segment_sums.h"
#include "src/codegen/kernels/type_dispatch.h"
#include "src/codegen/kernels/vectors.h"
#include "src/ir/rewrite/builder.h"

namespace tessera::codegen {
namespace {

using runtime::KernelCall;

/// A dim of a window: steps in the array and in the updates, in bytes.
struct WindowLoop {
  std::int64_t size = 1, to = 0, from = 0;
};

struct ScatterAttrs {
  IndexWindows windows;
  std::int64_t count = 0;   ///< of index vectors
  std::size_t split = 0;    ///< workers have ranges of this dim of the result
  std::int64_t ranges = 1;  ///< so many
  /// The window's dims but `split`, outermost first, and the elements of one run within them.
  std::vector<WindowLoop> outer;
  std::int64_t run = 1;
  /// The run is along `split`: as many elements as the range has.
  bool runs_along_split = false;
  std::int64_t row = 0;          ///< elements of each window, if it is a row; see scatters_rows
  runtime::Combiner combine;     ///< empty: a value replaces what was there
  runtime::Kernel maker;         ///< of the updates, which are its output; none: they are an input
  std::int64_t maker_units = 0;  ///< of a row
};

/// An update of `n` neighbouring elements.
struct CombineInto {
  const runtime::Combiner& combiner;
  std::size_t element;
  template <std::int64_t n>
  void row(std::byte* to, const std::byte* from) const {
    (*this)(to, from, n);
  }
  void operator()(std::byte* to, const std::byte* from, std::int64_t n) const {
    combiner.function(combiner.attributes.get(), to, from, n);
  }
};
/// Takes the update's place; `size`: bytes of an element.
template <std::size_t size>
struct AssignTo {
  template <std::int64_t n>
  void row(std::byte* to, const std::byte* from) const {
    std::memcpy(to, from, std::size_t(n) * size);
  }
  void operator()(std::byte* to, const std::byte* from, std::int64_t n) const {
    std::memcpy(to, from, std::size_t(n) * size);
  }
};
/// Of each element and its update by a function of both, which may be one of vectors as well.
template <class T, class F>
struct Elementwise {
  static constexpr bool kHasVectors = requires { F::kOfVectors; };
  static constexpr std::int64_t kLanes = 16 / sizeof(T);

  void operator()(std::byte* to, const std::byte* from, std::int64_t n) const {
    T* held = reinterpret_cast<T*>(to);
    const T* value = reinterpret_cast<const T*>(from);
    std::int64_t i = 0;
    if constexpr (kHasVectors) {
      using Simd = Vectors<T, 16>;
      for (; i + kLanes <= n; i += kLanes) {
        Simd::store(held + i, F::of_vectors(Simd::load(held + i), Simd::load(value + i)));
      }
    }
    for (; i < n; ++i) held[i] = F()(held[i], value[i]);
  }
  /// All are read first, so that a vector's instructions do it.
  template <std::int64_t n>
  void row(std::byte* to, const std::byte* from) const {
    if constexpr (kHasVectors) {
      if constexpr (n % kLanes == 0) return (*this)(to, from, n);
    }
    T held[n], value[n];
    std::memcpy(held, to, sizeof held);
    std::memcpy(value, from, sizeof value);
    if constexpr (n == 1 && requires(F f) { f.one(held[0], value[0]); }) {
      held[0] = F().one(held[0], value[0]);
    } else {
      for (std::int64_t i = 0; i < n; ++i) held[i] = F()(held[i], value[i]);
    }
    std::memcpy(to, held, sizeof held);
  }
};
/// The greater one, or NaN; with `least` the lesser one.
template <class T, bool least>
struct ExtremumOf {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  // Which one it is can't be predicted: there is no branch.
  T operator()(T held, T value) const {
    const Bits keeps = Bits((least ? held < value : held > value) | (held != held));
    const Bits bits = (std::bit_cast<Bits>(held) & (Bits(0) - keeps)) |
                      (std::bit_cast<Bits>(value) & (keeps - Bits(1)));
    return std::bit_cast<T>(bits);
  }
  /// Compilers make no vectors of these choices by themselves.
  static constexpr bool kOfVectors = true;
  template <class V>
  static V of_vectors(V held, V value) {
    const auto keeps = (least ? held < value : held > value) | (held != held);
    using Mask = std::remove_const_t<decltype(keeps)>;
    return V((Mask(held) & keeps) | (Mask(value) & ~keeps));
  }
#if defined(__x86_64__)
  /// Of one element alone: an instruction, beside which NaNs are told by their bits. Written as a
  /// choice it would be compiled to a branch.
  T one(T held, T value) const requires std::is_floating_point_v<T> {
    constexpr Bits kInfinity = std::bit_cast<Bits>(std::numeric_limits<T>::infinity());
    if (__builtin_expect((std::bit_cast<Bits>(held) << 1) > (kInfinity << 1), 0)) return held;
    if constexpr (sizeof(T) == 4) {
      const __m128 h = _mm_set_ss(held), v = _mm_set_ss(value);
      return _mm_cvtss_f32(least ? _mm_min_ss(h, v) : _mm_max_ss(h, v));
    } else {
      const __m128d h = _mm_set_sd(held), v = _mm_set_sd(value);
      return _mm_cvtsd_f64(least ? _mm_min_sd(h, v) : _mm_max_sd(h, v));
    }
  }
#endif
};

template <class F>
void for_each_run(const WindowLoop* dim, const WindowLoop* end, std::byte* to,
                  const std::byte* from, std::int64_t run, const F& update) {
  if (dim == end) return update(to, from, run);
  for (std::int64_t i = 0; i < dim->size; ++i) {
    for_each_run(dim + 1, end, to + i * dim->to, from + i * dim->from, run, update);
  }
}

/// Windows that are one run in both arrays, at one index each, which stand in a row, as the updates
/// do.
bool scatters_rows(const IndexWindows& w) {
  if ((w.index_type != DType::s32 && w.index_type != DType::s64) || w.mapped.size() != 1 ||
      !w.batching.empty() || !w.indices_in_a_row() || w.sizes[std::size_t(w.mapped[0])] != 1) {
    return false;
  }
  auto stride = std::int64_t(w.element);
  for (std::size_t d = w.dims.size(); d-- > 0;) {
    if (w.sizes[d] == 1) continue;
    if (w.sizes[d] != w.dims[d] || w.strides[d] != stride || w.part_strides[d] != stride) {
      return false;
    }
    stride *= w.sizes[d];
  }
  for (std::size_t d = w.batch_dims.size(); d-- > 0;) {
    if (w.batch_strides[d] != stride) return false;
    stride *= w.batch_dims[d];
  }
  return true;
}

/// Updates are fetched so far ahead, and so much of each row at most.
constexpr std::int64_t kAhead = 6144, kFetched = 256, kLine = 64;

/// `length`: elements of a row; 0: many.
template <class Index, std::int64_t length, class F>
void scatter_rows(const KernelCall& call, const ScatterAttrs& a, const F& update) {
  const IndexWindows& w = a.windows;
  const auto d = std::size_t(w.mapped[0]);
  const std::int64_t stride = w.strides[d];
  const std::int64_t run = length == 0 ? a.row : length;
  const std::int64_t step = w.index_step();
  const std::int64_t bytes = run * std::int64_t(w.element);
  const std::int64_t first = w.dims[d] * call.begin / a.ranges;
  const std::int64_t last = w.dims[d] * call.end / a.ranges;
  const auto* at = reinterpret_cast<const Index*>(call.inputs[1]);
  const std::byte* from = call.inputs[2];
  std::byte* const out = call.outputs[0];
  // The processor fetches too little ahead by itself while it waits for rows of the result.
  const std::int64_t ahead = std::max<std::int64_t>(1, kAhead / bytes);
  const auto fetch = [&](const std::byte* part) {
    for (std::int64_t line = 0; line < std::min(bytes, kFetched); line += kLine) {
      __builtin_prefetch(part + line);
    }
  };
  const auto update_row = [&](std::int64_t row, const std::byte* part) {
    if constexpr (length == 0) {
      update(out + row * stride, part, run);
    } else {
      update.template row<length>(out + row * stride, part);
    }
  };
  if (first == 0 && last == w.dims[d]) {
    for (std::int64_t n = 0; n < a.count; ++n, at += step, from += bytes) {
      if (length != 1) fetch(from + ahead * bytes);
      const auto row = std::int64_t(*at);
      if (row >= first && row < last) update_row(row, from);
    }
    return;
  }
  constexpr std::int64_t kBlock = 1024;
  std::uint32_t mine[kBlock + kPlacesBeyond];
  const IndicesInRange<Index> list = indices_in_range<Index>(step);
  for (std::int64_t n = 0; n < a.count; n += kBlock, at += kBlock * step, from += kBlock * bytes) {
    const auto in_block = std::uint32_t(std::min(kBlock, a.count - n));
    const std::uint32_t found = list(at, step, in_block, first, last, mine);
    for (std::uint32_t i = 0; i < found; ++i) {
      const std::int64_t k = mine[i];
      if (length != 1 && i + ahead < found) fetch(from + mine[i + ahead] * bytes);
      update_row(std::int64_t(at[k * step]), from + k * bytes);
    }
  }
}
/// So much of the updates is made at a time, before it is applied.
constexpr std::int64_t kMadeBytes = std::int64_t(16) << 10;

/// The same of updates that another kernel makes: those that fall into the call's own rows.
template <class Index, class F>
void scatter_made_rows(const KernelCall& call, const ScatterAttrs& a, const F& update) {
  struct Made {
    std::vector<std::byte> rows;
  };
  const IndexWindows& w = a.windows;
  const auto d = std::size_t(w.mapped[0]);
  const std::int64_t step = w.index_step();
  const std::int64_t bytes = a.row * std::int64_t(w.element);
  const std::int64_t first = w.dims[d] * call.begin / a.ranges;
  const std::int64_t last = w.dims[d] * call.end / a.ranges;
  const std::int64_t most = std::max<std::int64_t>(1, kMadeBytes / bytes);
  std::vector<std::byte>& made = thread_scratch<Made>().rows;
  if (std::int64_t(made.size()) < most * bytes) made.resize(std::size_t(most * bytes));
  const auto make = [&](std::int64_t row, std::int64_t count, std::byte* to) {
    // Where row 0 would be, so that the kernel finds its rows as in an array of all rows.
    std::byte* const origin = to - row * bytes;
    a.maker.function({a.maker.attributes.get(), call.inputs + 2, &origin, row * a.maker_units,
                      (row + count) * a.maker_units, false});
  };
  constexpr std::int64_t kBlock = 1024;
  std::uint32_t mine[kBlock + kPlacesBeyond];
  const IndicesInRange<Index> list = indices_in_range<Index>(step);
  const auto* at = reinterpret_cast<const Index*>(call.inputs[1]);
  for (std::int64_t n = 0; n < a.count; n += kBlock, at += kBlock * step) {
    const auto in_block = std::uint32_t(std::min(kBlock, a.count - n));
    const std::uint32_t found = list(at, step, in_block, first, last, mine);
    for (std::uint32_t i = 0; i < found;) {
      const auto end = std::uint32_t(std::min<std::int64_t>(found, i + most));
      // Neighbours are made by one call.
      for (std::uint32_t k = i, next = i; k < end; k = next) {
        do ++next;
        while (next < end && mine[next] == mine[next - 1] + 1);
        make(n + mine[k], next - k, made.data() + (k - i) * bytes);
      }
      for (const std::byte* from = made.data(); i < end; ++i, from += bytes) {
        update(call.outputs[0] + std::int64_t(at[mine[i] * step]) * w.strides[d], from, a.row);
      }
    }
  }
}

template <class Index, class F>
void scatter_rows(const KernelCall& call, const ScatterAttrs& a, const F& update) {
  if (a.maker.function != nullptr) return scatter_made_rows<Index>(call, a, update);
  const bool is_short = for_constant<1, 2, 4, 8, 16>(std::size_t(a.row), [&](auto row) {
    scatter_rows<Index, row()>(call, a, update);
    return true;
  });
  if (!is_short) scatter_rows<Index, 0>(call, a, update);
}

template <class F>
void scatter(const KernelCall& call, const ScatterAttrs& a, const F& update) {
  if (a.row > 0) {
    return a.windows.index_type == DType::s32 ? scatter_rows<std::int32_t>(call, a, update)
                                              : scatter_rows<std::int64_t>(call, a, update);
  }
  const IndexWindows& w = a.windows;
  const std::size_t rank = w.dims.size();
  // A scalar's only element is its only row.
  const std::int64_t rows = rank == 0 ? 1 : w.dims[a.split];
  const std::int64_t first = rows * call.begin / a.ranges, last = rows * call.end / a.ranges;
  const WindowLoop along =
      rank == 0 ? WindowLoop{1, 0, 0}
                : WindowLoop{w.sizes[a.split], w.strides[a.split], w.part_strides[a.split]};
  const WindowLoop* outer = a.outer.data();
  const WindowLoop* end = outer + a.outer.size();
  WindowCursor cursor(w, call.inputs[1], 0);
  for (std::int64_t n = 0; n < a.count; ++n, cursor.next()) {
    const std::int64_t* start = cursor.start();
    const std::int64_t at = rank == 0 ? 0 : start[a.split];
    // Not only what is outside: most of a worker's windows are in the rows of others.
    if (at >= last || at > rows - along.size || at < first - along.size + 1) continue;
    // A window that isn't entirely inside is dropped.
    bool inside = at >= 0;
    std::int64_t offset = 0;
    for (std::size_t d = 0; inside && d < rank; ++d) {
      inside = start[d] >= 0 && start[d] <= w.dims[d] - w.sizes[d];
      if (inside) offset += start[d] * w.strides[d];
    }
    if (!inside) continue;
    const std::int64_t skip = std::max<std::int64_t>(0, first - at);
    const std::int64_t mine = std::min(along.size, last - at) - skip;
    std::byte* to = call.outputs[0] + offset + skip * along.to;
    const std::byte* from = call.inputs[2] + cursor.part() + skip * along.from;
    if (a.runs_along_split) {
      for_each_run(outer, end, to, from, mine, update);
      continue;
    }
    for (std::int64_t i = 0; i < mine; ++i) {
      for_each_run(outer, end, to + i * along.to, from + i * along.from, a.run, update);
    }
  }
}

template <std::size_t size>
void run_assign(const KernelCall& call) {
  scatter(call, *static_cast<const ScatterAttrs*>(call.attributes), AssignTo<size>());
}
runtime::KernelFunction assign_function(std::size_t element) {
  return for_constant<1, 2, 4, 8, 16>(
      element, [](auto size) -> runtime::KernelFunction { return run_assign<size()>; });
}
void run_combine(const KernelCall& call) {
  const auto& a = *static_cast<const ScatterAttrs*>(call.attributes);
  scatter(call, a, CombineInto{a.combine, a.windows.element});
}
template <class T, class F>
void run_elementwise(const KernelCall& call) {
  scatter(call, *static_cast<const ScatterAttrs*>(call.attributes), Elementwise<T, F>());
}

template <bool least>
runtime::KernelFunction extremum_function(DType t) {
  return for_type(kFloats + ElementTypes<std::int32_t, std::int64_t>(), t,
                  [](auto tag) -> runtime::KernelFunction {
                    using T = typename decltype(tag)::type;
                    return run_elementwise<T, ExtremumOf<T, least>>;
                  });
}

/// By F of the type; integers wrap. Null for types whose results are rounded in a way of their own.
template <template <class> class F>
runtime::KernelFunction arithmetic_function(DType t) {
  return for_type(kFloats + kComplex + ElementTypes<std::uint32_t, std::uint64_t>(),
                  wrapping_type(t), [](auto tag) -> runtime::KernelFunction {
                    using T = typename decltype(tag)::type;
                    return run_elementwise<T, F<T>>;
                  });
}
runtime::KernelFunction function_of(ir::Opcode op, DType t) {
  switch (op) {
    case ir::Opcode::add:
      return arithmetic_function<std::plus>(t);
    case ir::Opcode::subtract:
      return arithmetic_function<std::minus>(t);
    case ir::Opcode::multiply:
      return is_complex(t) ? nullptr : arithmetic_function<std::multiplies>(t);
    case ir::Opcode::maximum:
      return extremum_function<false>(t);
    case ir::Opcode::minimum:
      return extremum_function<true>(t);
    default:
      return nullptr;
  }
}

/// Of an element and its update, in that order.
std::optional<ir::Opcode> op_of(const ir::Computation& combiner) {
  const ir::Instruction& root = *combiner.root();
  if (root.is(ir::Opcode::subtract) && root.operand(0) == combiner.parameter(0) &&
      root.operand(1) == combiner.parameter(1)) {
    return ir::Opcode::subtract;
  }
  return ir::as_binary_reducer(combiner);
}

/// Splits the result where that leaves long runs and enough ranges, and finds the runs.
void divide(ScatterAttrs* a) {
  const IndexWindows& w = a->windows;
  const std::size_t rank = w.dims.size();
  if (a->row > 0) a->split = std::size_t(w.mapped[0]);
  constexpr std::int64_t kEnoughRows = 64;
  for (std::size_t d = 0; d < rank && a->row == 0; ++d) {
    if (w.dims[d] > w.dims[a->split]) a->split = d;
    if (w.dims[a->split] >= kEnoughRows) break;
  }
  // Each worker walks over all indices: many share long windows only. Short ones are added in less
  // time than they are looked for, unless vectors do that, and then a range for each of a few
  // workers is enough.
  const std::int64_t rows = rank == 0 ? 1 : w.dims[a->split];
  constexpr std::int64_t kShortRow = 64, kFewWorkers = 8;
  const bool is_short = a->row > 0 && a->row * std::int64_t(w.element) < kShortRow;
  const std::int64_t step = w.index_step();
  const std::int64_t ranges = !is_short                 ? 4 * element_count(w.sizes)
                              : lists_places_fast(step) ? kFewWorkers
                                                        : 1;
  a->ranges = std::max<std::int64_t>(1, std::min(rows, ranges));
  const auto element = std::int64_t(w.element);
  bool whole_run = true;
  for (std::size_t d = rank; d-- > 0;) {
    if (w.sizes[d] == 1) continue;
    const bool continues =
        w.strides[d] == a->run * element && w.part_strides[d] == a->run * element;
    if (d == a->split) {
      a->runs_along_split = whole_run && a->run == 1 && continues;
      // What is further out is not part of a run that ranges cut.
      whole_run = false;
    } else if (whole_run && continues) {
      a->run *= w.sizes[d];
    } else {
      whole_run = false;
      a->outer.insert(a->outer.begin(), {w.sizes[d], w.strides[d], w.part_strides[d]});
    }
  }
}

}  // namespace

KernelDescriptor scatter_kernel(const ir::Instruction& scatter) {
  KernelDescriptor kernel;
  if (scatter.operands().size() != 3) return kernel;
  const Shape& updates = scatter.operand(2)->shape;
  ScatterAttrs attrs;
  attrs.windows = index_windows(scatter);
  const ir::Computation& combiner = *scatter.called().at(0);
  const bool assigns = combiner.root() == combiner.parameter(1);
  const CombineDescriptor combine = assigns ? CombineDescriptor() : combine_function(combiner);
  if (!assigns && !combine) return kernel;
  const auto op = assigns ? std::nullopt : op_of(combiner);
  const DType type = scatter.shape.dtype;
  runtime::KernelFunction function = op ? function_of(*op, type) : nullptr;
  if (function == nullptr) {
    function = assigns ? assign_function(attrs.windows.element) : run_combine;
  }
  const bool nothing = updates.element_count() == 0 || scatter.shape.element_count() == 0;
  attrs.count = nothing ? 0 : element_count(attrs.windows.batch_dims);
  if (scatters_rows(attrs.windows)) attrs.row = element_count(attrs.windows.sizes);
  divide(&attrs);
  kernel.units = nothing ? 0 : attrs.ranges;
  const double of_a_window = function == run_combine ? prices::index::kCombinedWindow
                             : attrs.row > 0         ? prices::index::kScatteredRow
                                                     : prices::index::kScatteredWindow;
  kernel.nanoseconds = prices::call::kScatter + of_a_window * double(attrs.count) +
                       prices::byte::kScattered * double(updates.byte_count());
  kernel.key = kernel_key("scatter", attrs.windows.key(), assigns, combine.key, attrs.count);
  const auto make = [attrs, combine, function](runtime::Kernel maker, std::int64_t maker_units) {
    auto made = std::make_shared<ScatterAttrs>(attrs);
    if (combine) made->combine = combine.make();
    made->maker = std::move(maker);
    made->maker_units = maker_units;
    return runtime::Kernel{function, std::move(made)};
  };
  // Of complex products with infinities, bits depend on how loops are cut into calls.
  if (attrs.row > 0 && attrs.count > 0 && !is_complex(type)) {
    kernel.body =
        KernelBody::RowUpdates{attrs.count, attrs.row * std::int64_t(attrs.windows.element), make};
  }
  kernel.make = [make] { return make({}, 0); };
  return kernel;
}

namespace {

struct ScatterOperation {
  bool has_kernel = false;   ///< of one array, by an op, a loop or assignment
  bool sums_tables = false;  ///< adds to zeros, the same entry of all tables
  bool by_rows = false;      ///< windows are one run each, at one index
};
enum class ScatterKernel : std::uint8_t { none, segment_sums, updates };
constexpr KernelLine<ScatterOperation, ScatterKernel> kScatters[] = {
    {kOnEvaluator, [](const ScatterOperation& s) { return !s.has_kernel; }, ScatterKernel::none},
    {{"scatter/segment-sums",
      "sums of elements by index into tables of zeros: updates needn't be stored"},
     [](const ScatterOperation& s) { return s.sums_tables; },
     ScatterKernel::segment_sums},
    {{"scatter/rows", "rows at one index each: ranges of the result for workers"},
     [](const ScatterOperation& s) { return s.by_rows; },
     ScatterKernel::updates},
    {{"scatter/windows", "windows of several runs or indices"},
     always<ScatterOperation>,
     ScatterKernel::updates},
};

}  // namespace

KernelFamily scatter_family() { return family_of("scatter", kScatters); }

ScatterPlan scatter_plan(const ir::Instruction& scatter) {
  ScatterPlan plan;
  plan.kernel = scatter_kernel(scatter);
  KernelDescriptor sums = segment_sums_kernel(scatter);
  ScatterOperation operation;
  operation.has_kernel = bool(plan.kernel);
  operation.sums_tables = bool(sums);
  operation.by_rows = operation.has_kernel && scatters_rows(index_windows(scatter));
  const auto& line = choose(kScatters, operation);
  plan.sums_tables = line.how == ScatterKernel::segment_sums;
  if (plan.sums_tables) plan.kernel = std::move(sums);
  plan.kernel.label = &line.label;
  return plan;
}

}  // namespace tessera::codegen
