// SPDX-License-Identifier: Apache-2.0
// Reduce-window kernels: the choice of one, and windows that are gone through row by row.
#include "src/codegen/kernels/reductions/windows/reduce_window.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <type_traits>
#include <utility>

#include "src/base/arrays/literal_util.h"
#include "src/codegen/kernels/elementwise/block_ops.h"
#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/loops/fused_loop.h"
#include "src/codegen/kernels/moves/copy.h"
#include "src/codegen/kernels/prices.h"
#include "src/codegen/kernels/reductions/reduce_table.h"
#include "src/codegen/kernels/reductions/windows/held_op.h"
#include "src/codegen/kernels/reductions/windows/reducer_windows.h"
#include "src/codegen/kernels/reductions/windows/running_reductions.h"
#include "src/codegen/kernels/reductions/windows/window_loops.h"
#include "src/codegen/kernels/reductions/windows/window_offsets.h"
#include "src/codegen/kernels/reductions/windows/window_taps.h"
#include "src/ir/rewrite/builder.h"

namespace tessera::codegen {
namespace {

using ir::Opcode;
using ir::WindowDim;
using runtime::KernelCall;

struct WindowAttrs : WindowedArray {
  HeldOp op;
  std::optional<WindowLoops> loops = std::nullopt;     ///< where positions are single elements
  WindowTapsFunction taps = nullptr;                   ///< where windows see few places
  bool doubles = false;                                ///< whether rows are combined by runs
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
    std::int64_t rows = 1;  // that are made for one of the result
    for (std::size_t d = 0; d < last_ && w_.taps != nullptr; ++d) rows *= w_.window[d].size;
    if (w_.program) made_.resize(std::size_t(rows * row_ * size_));
    for_each_offset(w_.window[last_], w_.dims[last_], w_.out_dims[last_],
                    [&](const PositionsSeen& s) { seen_.push_back(s); });
    if (w_.taps != nullptr) find_stretches();
    if (w_.doubles) {
      at_once_ = std::max<std::int64_t>(1024, 4 * w_.window[last_].size);
      runs_.resize(std::size_t(at_once_ + w_.window[last_].size) * held_);
    }
  }

  void run(std::int64_t row) {
    if (w_.taps != nullptr) return run_taps(row);
    w_.op.fill(call_.inputs[w_.init], value_.data(), acc_.data(), length_);
    if (combine_rows(row)) combine_columns();
    std::byte* to = call_.outputs[0] + row * length_ * size_;
    if (w_.loops) return w_.loops->store({acc_.data(), to, length_});
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
      if (w_.loops) {
        (any ? w_.loops->combine : w_.loops->load)({from, rows_.data(), row_});
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

  /// Positions [begin, end) whose windows see offsets [first, last) of them along a row.
  struct Stretch {
    std::int64_t begin, end, first, last;
  };
  void find_stretches() {
    const WindowDim& w = w_.window[last_];
    for (std::int64_t p = 0; p < w_.out_dims[last_]; ++p) {
      auto [first, last] = window_offsets(w, w_.dims[last_], p, p);
      if (first >= last) first = last = 0;
      if (stretches_.empty() || stretches_.back().first != first ||
          stretches_.back().last != last) {
        stretches_.push_back({p, p, first, last});
      }
      stretches_.back().end = p + 1;
    }
  }

  /// The rows of the array that a row of the result sees, or what is made of them.
  void find_rows(std::int64_t row) {
    lines_.clear();
    std::byte* made = made_.data();
    for_each_row_seen(w_, row, &places_, [&](std::int64_t base) {
      if (!w_.program) {
        lines_.push_back(call_.inputs[0] + base * size_);
        return;
      }
      lines_.push_back(made);
      w_.program->run(call_.inputs, &made, base, base + row_, base);
      made += row_ * size_;
    });
  }

  void run_taps(std::int64_t row) {
    find_rows(row);
    const WindowDim& w = w_.window[last_];
    const std::int64_t position = w_.inner * size_;  // bytes
    std::byte* const out = call_.outputs[0] + row * length_ * size_;
    for (const Stretch& s : stretches_) {
      taps_.clear();
      for (const std::byte* line : lines_) {
        for (std::int64_t k = s.first; k < s.last; ++k) {
          taps_.push_back(line + (s.begin * w.stride + k * w.rhs_dilation - w.pad_low) * position);
        }
      }
      WindowTaps job{taps_.data(), std::int64_t(taps_.size()), call_.inputs[w_.init],
                     out + s.begin * position, w_.inner};
      if (w.stride == 1 || w_.inner == 1) {
        job.n *= s.end - s.begin;
        job.advance = w.stride;
        w_.taps(job);
        continue;
      }
      for (std::int64_t p = s.begin; p < s.end; ++p, job.out += position) {
        w_.taps(job);
        for (const std::byte*& tap : taps_) tap += w.stride * position;
      }
    }
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
    w_.loops->clear({nullptr, runs_.data(), from});
    if (to > from) {
      std::memcpy(runs_.data() + from * held, rows_.data() + (first + from) * held,
                  std::size_t((to - from) * held));
    }
    w_.loops->clear({nullptr, runs_.data() + to * held, positions - to});
    std::int64_t taken = 0;
    for (std::int64_t run = 1;; run *= 2) {
      if ((size & run) != 0) {
        w_.loops->tap({runs_.data() + taken * held, acc, count});
        taken += run;
      }
      if (taken == size) return;
      const std::int64_t longer = positions - 2 * run + 1;
      // Each vector of runs is read before it, or one in front of it, is written.
      w_.loops->tap({runs_.data() + run * held, runs_.data(), longer});
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
      if (w_.loops) {
        w_.loops->tap({from, to, s.count, s.advance, s.step});
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
  std::vector<std::byte> runs_;
  std::vector<Stretch> stretches_;
  std::vector<const std::byte*> lines_, taps_;  ///< of one row; of one stretch of it
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
  return op && !running_reduction(in, *op) && in.operand(0)->shape.element_count() > 0;
}

namespace {

/// Whether windows are best combined place by place: of larger ones that overlap, rows are combined
/// first. Results that are next to each other, or lie within a position, fill vectors. `is_made`:
/// the rows are, all of a window at once.
bool sees_few(const WindowAttrs& w, bool is_made) {
  constexpr std::int64_t kFew = 16, kFilled = 8;
  std::int64_t places = 1;
  for (const WindowDim& d : w.window) {
    places *= d.size;
    if (d.lhs_dilation != 1) return false;
  }
  const WindowDim& last = w.window.back();
  return (places <= kFew || (!is_made && last.stride >= last.size * last.rhs_dilation)) &&
         (last.stride == 1 || w.inner >= kFilled ||
          (w.inner == 1 && last.stride <= kMaxTapAdvance));
}

/// Whether windows along a row are combined of runs of 1, 2, 4, ... positions: they are long, one
/// begins at each position, and not nearly all of it is padding.
bool have_long_runs(const WindowAttrs& w) {
  constexpr std::int64_t kManyTaps = 12;
  const WindowDim& last = w.window.back();
  WindowDim plain;
  plain.size = last.size;
  plain.pad_low = last.pad_low;
  plain.pad_high = last.pad_high;
  return w.loops.has_value() && plain.size >= kManyTaps && plain.size <= w.dims.back() &&
         last == plain;
}

WindowAttrs window_attrs(const ir::Instruction& in, Opcode op, bool is_made, int inputs) {
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
  if (sees_few(attrs, is_made)) attrs.taps = window_taps_of(op, attrs.op.element);
  attrs.doubles = attrs.taps == nullptr && have_long_runs(attrs);
  return attrs;
}

KernelDescriptor windows_kernel(const ir::Instruction& in, Opcode op, WindowAttrs attrs,
                                std::shared_ptr<const LoopExpr> program) {
  const Shape& shape = in.operand(0)->shape;
  KernelDescriptor kernel;
  const std::int64_t length = attrs.inner * attrs.out_dims.back();
  kernel.units = in.shape.element_count() == 0 ? 0 : in.shape.element_count() / length;
  double taps = 1;
  for (const WindowDim& w : in.get<ir::WindowAttrs>().dims) taps *= double(w.size);
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
  auto running = op ? running_reduction(in, *op) : std::nullopt;
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
  std::optional<WindowAttrs> windows;
  if (op && !running) {
    windows = window_attrs(in, *op, program != nullptr, inputs);
    operation.sees_few = windows->taps != nullptr;
    operation.has_long_runs = windows->doubles;
  }
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
      kernel = windows_kernel(in, *op, *std::move(windows), std::move(program));
      break;
  }
  kernel.label = &line.label;
  return kernel;
}

}  // namespace tessera::codegen
