// SPDX-License-Identifier: Apache-2.0
// Reduce-window kernels: running (prefix) reductions and general windows.
#include "src/codegen/kernels/reductions/reduce_window.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <type_traits>
#include <utility>

#include "src/base/arrays/literal_util.h"
#include "src/codegen/kernels/elementwise/block_ops.h"
#include "src/codegen/kernels/elementwise/half_conversions.h"
#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/loops/fused_loop.h"
#include "src/codegen/kernels/moves/composed_view.h"
#include "src/codegen/kernels/moves/copy.h"
#include "src/codegen/kernels/prices.h"
#include "src/codegen/kernels/reductions/reduce_table.h"
#include "src/codegen/kernels/reductions/reducer_windows.h"
#include "src/codegen/kernels/reductions/window_loops.h"
#include "src/codegen/kernels/reductions/window_offsets.h"
#include "src/codegen/kernels/type_dispatch.h"
#include "src/ir/rewrite/builder.h"

namespace tessera::codegen {
namespace {

using ir::Opcode;
using ir::WindowDim;
using runtime::KernelCall;

bool rounds(Opcode op) { return op == Opcode::add || op == Opcode::multiply; }

/// Sums and products are held wider than their elements, and rounded at the end only.
DType accumulator_type(Opcode op, DType t) {
  const bool is_half = t == DType::f16 || t == DType::bf16;
  return rounds(op) && (is_half || t == DType::f32) ? DType::f64 : is_half ? DType::f32 : t;
}

/// An op on elements between their own type and the held one.
struct HeldOp {
  Opcode op;
  DType element = DType::f32, held = DType::f64;
  BlockFunction function = nullptr;  ///< null if there is none
  BlockFunction widen = nullptr, lift = nullptr, narrow = nullptr;

  HeldOp(Opcode o, DType t)
      : op(o), element(t), held(accumulator_type(o, t)), function(binary_block(o, held)) {
    if (held == element) return;
    lift = lift_block(element);  // null for f32
    widen = convert_block(DType::f32, held);
    narrow = convert_block(lift != nullptr && held == DType::f64 ? DType::f32 : held, element);
  }
  std::size_t element_bytes() const { return byte_size(element); }
  std::size_t held_bytes() const { return byte_size(held); }

  void load(const std::byte* from, std::byte* to, std::int64_t n) const {
    const std::byte* in[] = {from};
    if (held == element) {
      copy_block(element_bytes())({nullptr, to, in, 0, n});
      return;
    }
    std::vector<float> floats;
    if (lift != nullptr) {
      floats.resize(std::size_t(n));
      lift({nullptr, reinterpret_cast<std::byte*>(floats.data()), in, 0, n});
      in[0] = reinterpret_cast<const std::byte*>(floats.data());
    }
    widen({nullptr, to, in, 0, n});
  }
  void store(const std::byte* held_values, std::byte* to, std::int64_t n) const {
    const std::byte* in[] = {held_values};
    std::vector<float> floats;
    if (lift != nullptr && held == DType::f64) {
      // By way of f32, as there are instructions for these two.
      floats.resize(std::size_t(n));
      auto* single = reinterpret_cast<std::byte*>(floats.data());
      convert_block(held, DType::f32)({nullptr, single, in, 0, n});
      in[0] = single;
    }
    (held == element ? copy_block(element_bytes()) : narrow)({nullptr, to, in, 0, n});
  }
  /// The element at `from`, held, n times; `one`: room for it.
  void fill(const std::byte* from, std::byte* one, std::byte* to, std::int64_t n) const {
    load(from, one, 1);
    copy_strided(one, 0, n, int(held_bytes()), to);
  }
  void combine(std::byte* acc, const std::byte* value, std::int64_t n) const {
    const std::byte* in[] = {acc, value};
    function({nullptr, acc, in, 0, n});
  }
};

// -- Running reductions -------------------------------------------------------------------------

struct ScanAttrs : RunningArray {
  HeldOp op;
};
/// Columns of a unit.
constexpr std::int64_t kScanLanes = 512;

/// Several rows at once, none of which waits for what the others add; `row`: elements from one to
/// the next.
template <int rows, bool multiplies, class T, class Held>
void running(const T* in, T* out, std::int64_t n, std::int64_t step, std::int64_t row, Held* held) {
  for (std::int64_t i = 0; i < n; ++i, in += step, out += step) {
    for (int r = 0; r < rows; ++r) {
      const auto next = convert_element<Held>(in[r * row]);
      held[r] = multiplies ? Held(held[r] * next) : Held(held[r] + next);
      out[r * row] = convert_element<T>(held[r]);
    }
  }
}

/// Rows of f16 or bf16, by stretches that are converted before and after.
template <int rows, bool multiplies>
void running_halves(const ScanAttrs& s, const std::byte* in, std::byte* out, double init) {
  constexpr std::int64_t kStretch = 256;
  float values[rows * kStretch];
  double held[rows];
  std::fill_n(held, rows, init);
  for (std::int64_t done = 0; done < s.n; done += kStretch) {
    const std::int64_t n = std::min(kStretch, s.n - done);
    const std::int64_t at = s.backward ? s.n - done - n : done;
    for (int r = 0; r < rows; ++r) {
      lift_halves(s.op.element, in + (r * s.n + at) * 2, n, values + r * kStretch);
    }
    float* first = values + (s.backward ? n - 1 : 0);
    running<rows, multiplies>(first, first, n, s.backward ? -1 : 1, kStretch, held);
    for (int r = 0; r < rows; ++r) {
      round_to_halves(s.op.element, values + r * kStretch, n, out + (r * s.n + at) * 2);
    }
  }
}
template <bool multiplies>
bool run_half_rows(const ScanAttrs& s, const std::byte* in, const std::byte* init, std::byte* out,
                   std::int64_t rows) {
  float first = 0;
  lift_halves(s.op.element, init, 1, &first);
  constexpr int kAtOnce = 4;
  std::int64_t r = 0;
  const std::int64_t bytes = s.n * 2;
  for (; r + kAtOnce <= rows; r += kAtOnce) {
    running_halves<kAtOnce, multiplies>(s, in + r * bytes, out + r * bytes, double(first));
  }
  for (; r < rows; ++r) {
    running_halves<1, multiplies>(s, in + r * bytes, out + r * bytes, double(first));
  }
  return true;
}

template <bool multiplies, class T>
bool run_plain_rows(const ScanAttrs& s, const std::byte* in, const std::byte* init, std::byte* out,
                    std::int64_t rows) {
  using Held = std::conditional_t<std::is_same_v<T, float>, double, T>;
  constexpr int kAtOnce = 4;
  const Held first = convert_element<Held>(*reinterpret_cast<const T*>(init));
  const std::int64_t step = s.backward ? -1 : 1, start = s.backward ? s.n - 1 : 0;
  const T* from = reinterpret_cast<const T*>(in) + start;
  T* to = reinterpret_cast<T*>(out) + start;
  std::int64_t r = 0;
  for (; r + kAtOnce <= rows; r += kAtOnce) {
    Held held[kAtOnce] = {first, first, first, first};
    running<kAtOnce, multiplies>(from + r * s.n, to + r * s.n, s.n, step, s.n, held);
  }
  for (; r < rows; ++r) {
    Held held = first;
    running<1, multiplies>(from + r * s.n, to + r * s.n, s.n, step, s.n, &held);
  }
  return true;
}

/// Contiguous rows of sums or products: a plain loop, as the step from element to element is what
/// it costs. False for types that it isn't for.
bool run_rows(const ScanAttrs& s, const std::byte* in, const std::byte* init, std::byte* out,
              std::int64_t rows) {
  const bool multiplies = s.op.op == Opcode::multiply;
  if (s.op.element == DType::f16 || s.op.element == DType::bf16) {
    return multiplies ? run_half_rows<true>(s, in, init, out, rows)
                      : run_half_rows<false>(s, in, init, out, rows);
  }
  return for_type(kFloats + kUnsigned + kComplex, wrapping_type(s.op.element), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_integral_v<T> && !std::is_floating_point_v<T>) {
      return !multiplies && run_plain_rows<false, T>(s, in, init, out, rows);
    } else {
      return multiplies ? run_plain_rows<true, T>(s, in, init, out, rows)
                        : run_plain_rows<false, T>(s, in, init, out, rows);
    }
  });
}

void run_scan(const KernelCall& call) {
  const auto& s = *static_cast<const ScanAttrs*>(call.attributes);
  const auto size = std::int64_t(s.op.element_bytes());
  std::vector<std::byte> acc(std::size_t(kScanLanes) * s.op.held_bytes()), value(acc.size());
  if (rounds(s.op.op) && s.b == 1) {
    const std::int64_t base = call.begin * s.n * size;
    if (run_rows(s, call.inputs[0] + base, call.inputs[1], call.outputs[0] + base,
                 call.end - call.begin)) {
      return;
    }
  }
  // Units: stretches of up to kScanLanes of b, row of a by row.
  const std::int64_t chunks = ceil_div(s.b, kScanLanes);
  for (std::int64_t unit = call.begin; unit < call.end; ++unit) {
    const std::int64_t a = unit / chunks, column = unit % chunks * kScanLanes;
    const std::int64_t lanes = std::min(kScanLanes, s.b - column);
    const std::int64_t base = (a * s.n * s.b + column) * size;
    s.op.fill(call.inputs[1], value.data(), acc.data(), lanes);
    for (std::int64_t k = 0; k < s.n; ++k) {
      const std::int64_t at = base + (s.backward ? s.n - 1 - k : k) * s.b * size;
      s.op.load(call.inputs[0] + at, value.data(), lanes);
      s.op.combine(acc.data(), value.data(), lanes);
      s.op.store(acc.data(), call.outputs[0] + at, lanes);
    }
  }
}

std::optional<KernelDescriptor> scan(const ir::Instruction& in, Opcode op) {
  const Shape& shape = in.operand(0)->shape;
  const RunningDim along = running_dim(shape, in.shape.dims, in.get<ir::WindowAttrs>().dims);
  if (along.dim < 0 || !(shape == in.shape)) return std::nullopt;
  ScanAttrs s{RunningArray(shape.dims, along), HeldOp(op, shape.dtype)};
  KernelDescriptor kernel;
  kernel.units = shape.element_count() == 0 ? 0 : s.a * ceil_div(s.b, kScanLanes);
  kernel.nanoseconds =
      prices::call::kWindows + prices::other::kScanned * double(shape.element_count());
  kernel.key = kernel_key("scan", shape.dtype, op, s.backward, s.a, s.n, s.b);
  kernel.make = kernel_maker(run_scan, std::move(s));
  return kernel;
}

// -- Other windows ------------------------------------------------------------------------------

struct WindowAttrs : WindowedArray {
  HeldOp op;
  const WindowLoops* loops = nullptr;                  ///< where positions are single elements
  std::shared_ptr<const FusedLoop> program = nullptr;  ///< that makes the array
  std::size_t init = 1;                                ///< the input
};

/// Units are the rows of the result, positions of so many elements each. The rows of the array that
/// a row sees are combined first, then the positions of what that makes.
class WindowRows {
 public:
  explicit WindowRows(const KernelCall& call)
      : call_(call),
        w_(*static_cast<const WindowAttrs*>(call.attributes)),
        last_(w_.dims.size() - 1),
        held_(w_.op.held_bytes()),
        size_(std::int64_t(w_.op.element_bytes())),
        length_(w_.out_dims[last_] * w_.inner),
        row_(w_.dims[last_] * w_.inner) {
    rows_.resize(std::size_t(row_) * held_);
    acc_.resize(std::size_t(length_) * held_);
    value_.resize(std::size_t(std::max(length_, row_)) * held_);
    if (w_.program) made_.resize(std::size_t(row_ * size_));
    for_each_offset(w_.window[last_], w_.dims[last_], w_.out_dims[last_],
                    [&](const PositionsSeen& s) { seen_.push_back(s); });
    if (doubles()) {
      at_once_ = std::max<std::int64_t>(1024, 4 * w_.window[last_].size);
      runs_.resize(std::size_t(at_once_ + w_.window[last_].size) * held_);
      behind_.resize(runs_.size());
    }
  }

  void run(std::int64_t row) {
    w_.op.fill(call_.inputs[w_.init], value_.data(), acc_.data(), length_);
    if (combine_rows(row)) combine_columns();
    std::byte* to = call_.outputs[0] + row * length_ * size_;
    if (w_.loops != nullptr) return w_.loops->store(acc_.data(), to, length_);
    w_.op.store(acc_.data(), to, length_);
  }

 private:
  /// False if there is none.
  bool combine_rows(std::int64_t row) {
    bool any = false;
    const auto take = [&](std::int64_t base) {
      const std::byte* from = call_.inputs[0] + base * size_;
      if (w_.program) {
        std::byte* outputs[] = {made_.data()};
        w_.program->run(call_.inputs, outputs, base, base + row_, base);
        from = made_.data();
      }
      if (w_.loops != nullptr) {
        (any ? w_.loops->combine : w_.loops->load)(from, rows_.data(), row_);
      } else if (!any) {
        w_.op.load(from, rows_.data(), row_);
      } else if (w_.op.held == w_.op.element) {
        w_.op.combine(rows_.data(), from, row_);
      } else {
        w_.op.load(from, value_.data(), row_);
        w_.op.combine(rows_.data(), value_.data(), row_);
      }
      any = true;
    };
    for_each_row_seen(w_, row, &places_, take);
    return any;
  }

  /// Whether windows along a row are combined of runs of 1, 2, 4, ... positions: they are long, one
  /// begins at each position, and not nearly all of it is padding.
  bool doubles() const {
    constexpr std::int64_t kManyTaps = 12;
    WindowDim plain;
    plain.size = w_.window[last_].size;
    plain.pad_low = w_.window[last_].pad_low;
    plain.pad_high = w_.window[last_].pad_high;
    return w_.loops != nullptr && plain.size >= kManyTaps && plain.size <= row_ &&
           w_.window[last_] == plain;
  }

  /// The positions [begin, end) of the result, of a few at a time, so that runs stay in the cache.
  void combine_runs(std::int64_t begin, std::int64_t end) {
    const std::int64_t size = w_.window[last_].size, held = std::int64_t(held_);
    const std::int64_t count = end - begin, positions = count + size - 1;
    std::byte* const acc = acc_.data() + begin * held;
    // Position p of the runs is p + first of the row, which padding may be on both sides of.
    const std::int64_t first = begin - w_.window[last_].pad_low;
    const std::int64_t from = std::clamp<std::int64_t>(-first, 0, positions);
    const std::int64_t to = std::clamp<std::int64_t>(row_ - first, from, positions);
    w_.loops->clear(runs_.data(), from);
    if (to > from) {
      std::memcpy(runs_.data() + from * held, rows_.data() + (first + from) * held,
                  std::size_t((to - from) * held));
    }
    w_.loops->clear(runs_.data() + to * held, positions - to);
    std::int64_t taken = 0;
    for (std::int64_t run = 1;; run *= 2) {
      if ((size & run) != 0) {
        w_.loops->tap(runs_.data() + taken * held, 1, acc, 1, count);
        taken += run;
      }
      if (taken == size) return;
      const std::int64_t longer = positions - 2 * run + 1;
      std::memcpy(behind_.data(), runs_.data() + run * held, std::size_t(longer * held));
      w_.loops->tap(behind_.data(), 1, runs_.data(), 1, longer);
    }
  }

  void combine_columns() {
    if (at_once_ > 0) {
      for (std::int64_t begin = 0; begin < length_; begin += at_once_) {
        combine_runs(begin, std::min(length_, begin + at_once_));
      }
      return;
    }
    constexpr std::int64_t kLong = 32;  // bytes of a position that are worth a call
    const std::int64_t bytes = w_.inner * std::int64_t(held_);
    for (const PositionsSeen& s : seen_) {
      const std::byte* from = rows_.data() + s.from * bytes;
      std::byte* to = acc_.data() + s.to * bytes;
      if (w_.loops != nullptr) {
        w_.loops->tap(from, s.advance, to, s.step, s.count);
        continue;
      }
      if (s.step == 1 && (s.advance == 1 || bytes < kLong)) {
        if (s.advance != 1 && s.count > 1) {
          copy_box(value_.data(), from, {s.count}, {bytes}, {s.advance * bytes},
                   std::size_t(bytes));
          from = value_.data();
        }
        w_.op.combine(to, from, s.count * w_.inner);
        continue;
      }
      for (std::int64_t k = 0; k < s.count; ++k) {
        w_.op.combine(to + k * s.step * bytes, from + k * s.advance * bytes, w_.inner);
      }
    }
  }

  const KernelCall& call_;
  const WindowAttrs& w_;
  const std::size_t last_, held_;
  const std::int64_t size_;
  const std::int64_t length_, row_;  ///< elements of a row of the result, of the array
  std::vector<std::byte> rows_;      ///< combined, as they are held
  std::vector<std::byte> acc_, value_, made_;
  std::vector<PositionsSeen> seen_;  ///< through each offset along a row
  std::int64_t at_once_ = 0;         ///< results of runs; 0: there are none
  std::vector<std::byte> runs_, behind_;
  RowPlaces places_;
};

void run_windows(const KernelCall& call) {
  WindowRows rows(call);
  for (std::int64_t row = call.begin; row < call.end; ++row) rows.run(row);
}

}  // namespace

KernelDescriptor reduce_window_kernel(const ir::Instruction& in) {
  return reduce_window_kernel(in, nullptr, 1);
}

namespace {

/// The op of a window that a kernel can run.
std::optional<Opcode> window_op(const ir::Instruction& in) {
  if (in.operands().size() != 2 || in.shape.is_tuple) return std::nullopt;
  const Shape& shape = in.operand(0)->shape;
  const auto op = ir::as_binary_reducer(*in.called().at(0));
  if (!op || shape.dtype != in.shape.dtype || shape.rank() == 0 ||
      HeldOp(*op, shape.dtype).function == nullptr) {
    return std::nullopt;
  }
  double taps = 1;
  for (const WindowDim& w : in.get<ir::WindowAttrs>().dims) {
    if (w.reversal) return std::nullopt;
    taps *= double(w.size);
  }
  // Without taps all results are the initial value: left to the evaluator.
  return taps == 0 ? std::nullopt : op;
}

}  // namespace

bool reduce_window_takes_programs(const ir::Instruction& in) {
  const auto op = window_op(in);
  return op && !scan(in, *op) && in.operand(0)->shape.element_count() > 0;
}

namespace {

KernelDescriptor windows_kernel(const ir::Instruction& in, Opcode op,
                                std::shared_ptr<const LoopExpr> program, int inputs) {
  const Shape& shape = in.operand(0)->shape;
  const auto& window = in.get<ir::WindowAttrs>().dims;
  // Dims without windows that come last are done as one, unless that leaves too few rows.
  std::size_t rank = window.size();
  constexpr std::int64_t kEnoughRows = 32;
  std::int64_t rows = in.shape.element_count();
  for (std::size_t d = rank; d-- > 0 && rows > 0;) {
    rows /= in.shape.dims[d];
    if (window[d] == WindowDim{}) continue;
    if (rows >= kEnoughRows) rank = d + 1;
    break;
  }
  WindowAttrs attrs{WindowedArray(shape.dims, in.shape.dims, window, rank),
                    HeldOp(op, shape.dtype)};
  attrs.init = std::size_t(inputs);
  if (attrs.inner == 1) attrs.loops = window_loops_of(op, attrs.op.element, attrs.op.held);
  KernelDescriptor kernel;
  const std::int64_t length = attrs.inner * attrs.out_dims.back();
  kernel.units = in.shape.element_count() == 0 ? 0 : in.shape.element_count() / length;
  double taps = 1;
  for (const WindowDim& w : window) taps *= double(w.size);
  double each = 1;
  if (program) {
    // A row for each window of it that is not the row's own.
    each += program->nanoseconds * double(attrs.inner * attrs.dims.back()) /
            double(std::max<std::int64_t>(1, length * attrs.window.back().size));
  }
  kernel.nanoseconds = prices::call::kWindows + each * taps * double(in.shape.element_count());
  kernel.key =
      kernel_key("reduce-window", shape.dtype, op, attrs.dims, attrs.out_dims, attrs.window,
                 attrs.inner, program ? program->key() : std::string(), attrs.init);
  kernel.make = [attrs = std::move(attrs), program = std::move(program)] {
    auto made = std::make_shared<WindowAttrs>(attrs);
    made->program = make_loop(program);
    return runtime::Kernel{run_windows, std::move(made)};
  };
  return kernel;
}

}  // namespace

KernelDescriptor reduce_window_kernel(const ir::Instruction& in,
                                      std::shared_ptr<const LoopExpr> program, int inputs) {
  const auto op = window_op(in);
  auto running = op ? scan(in, *op) : std::nullopt;
  const RunningDim along = running_dim(in.operand(0)->shape, flatten(in.shape).at(0).dims,
                                       in.get<ir::WindowAttrs>().dims);
  ReduceWindowOperation operation;
  operation.one_op = op.has_value();
  operation.scans = running.has_value();
  // What is exact may be done in any type, and where rows are gone along, many at a time.
  operation.rounds = op && rounds(*op);
  operation.runs = along.dim >= 0;
  operation.in_rows = along.dim + 1 == in.operand(0)->shape.rank();
  const bool may_be_lanes = !op || (running && !operation.rounds && operation.in_rows);
  operation.has_lanes = may_be_lanes && has_reducer_window_kernel(in);
  const auto& line = choose_reduce_window(operation);
  KernelDescriptor kernel;
  switch (line.how) {
    case ReduceWindowKernel::none:
      return kernel;
    case ReduceWindowKernel::lanes:
      kernel = reducer_window_kernel(in);
      break;
    case ReduceWindowKernel::scan:
      kernel = *std::move(running);
      break;
    case ReduceWindowKernel::windows:
      kernel = windows_kernel(in, *op, std::move(program), inputs);
      break;
  }
  kernel.label = &line.label;
  return kernel;
}

}  // namespace tessera::codegen
