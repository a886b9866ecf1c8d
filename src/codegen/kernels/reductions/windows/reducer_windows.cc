// SPDX-License-Identifier: Apache-2.0
// The reducer is a loop over lanes: many results are made side by side, each from what it is so far
// and the next element of its window.
#include "src/codegen/kernels/reductions/windows/reducer_windows.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "src/codegen/kernels/expressions/composed_view.h"
#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/loops/fused_loop.h"
#include "src/codegen/kernels/moves/copy.h"
#include "src/codegen/kernels/prices.h"
#include "src/codegen/kernels/reductions/windows/window_offsets.h"

namespace tessera::codegen {
namespace {

using ir::WindowDim;
using runtime::KernelCall;

/// Lanes of one call of the reducer, where there are enough.
constexpr std::int64_t kReducerLanes = 256;

struct LaneReducer {
  std::shared_ptr<const LoopExpr> program;
  std::shared_ptr<const FusedLoop> loop;
  std::vector<std::int64_t> bytes;  ///< of an element of each array
  bool backward = false;            ///< what comes next stands on the left

  std::size_t arrays() const { return bytes.size(); }
  /// out = what is so far and what comes next, for so many lanes; `out` may be either.
  void run(const std::vector<std::byte*>& so_far, const std::vector<std::byte*>& next,
           const std::vector<std::byte*>& out, std::int64_t lanes) const {
    const auto& left = backward ? next : so_far;
    const auto& right = backward ? so_far : next;
    std::vector<const std::byte*> inputs(left.begin(), left.end());
    inputs.insert(inputs.end(), right.begin(), right.end());
    loop->run(inputs.data(), out.data(), 0, lanes);
  }
};

/// A buffer for each array.
class LaneBuffers {
 public:
  LaneBuffers(const LaneReducer& reducer, std::int64_t elements) {
    for (const std::int64_t bytes : reducer.bytes) {
      memory_.emplace_back(std::size_t(bytes * std::max<std::int64_t>(1, elements)));
      pointers_.push_back(memory_.back().data());
    }
  }
  const std::vector<std::byte*>& data() const { return pointers_; }
  std::byte* operator[](std::size_t k) const { return pointers_[k]; }

 private:
  std::vector<std::vector<std::byte>> memory_;
  std::vector<std::byte*> pointers_;
};

std::vector<std::byte*> at(const LaneReducer& r, const std::vector<std::byte*>& from,
                           std::int64_t element) {
  std::vector<std::byte*> out = from;
  for (std::size_t k = 0; k < out.size(); ++k) out[k] += element * r.bytes[k];
  return out;
}

void fill(const LaneReducer& r, const KernelCall& call, const std::vector<std::byte*>& to,
          std::int64_t lanes) {
  for (std::size_t k = 0; k < r.arrays(); ++k) {
    copy_strided(call.inputs[r.arrays() + k], 0, lanes, int(r.bytes[k]), to[k]);
  }
}

// -- Running reductions -------------------------------------------------------------------------

struct RunningAttrs : RunningArray {
  LaneReducer reducer;
  std::int64_t stretches = 1;  ///< of each sequence, side by side
  std::int64_t lanes = 1;      ///< sequences of a unit
};

/// Sequences with many others next to them: rows of lanes as they lie.
void run_columns(const KernelCall& call, const RunningAttrs& s) {
  const LaneReducer& r = s.reducer;
  const std::int64_t chunks = ceil_div(s.b, s.lanes);
  const LaneBuffers first(r, s.lanes);
  std::vector<std::byte*> in, out;
  for (std::size_t k = 0; k < r.arrays(); ++k) {
    in.push_back(const_cast<std::byte*>(call.inputs[k]));
    out.push_back(call.outputs[k]);
  }
  for (std::int64_t unit = call.begin; unit < call.end; ++unit) {
    const std::int64_t column = unit % chunks * s.lanes;
    const std::int64_t lanes = std::min(s.lanes, s.b - column);
    const std::int64_t base = unit / chunks * s.n * s.b + column;
    fill(r, call, first.data(), lanes);
    std::vector<std::byte*> before = first.data();
    for (std::int64_t k = 0; k < s.n; ++k) {
      const std::int64_t row = base + (s.backward ? s.n - 1 - k : k) * s.b;
      std::vector<std::byte*> to = at(r, out, row);
      r.run(before, at(r, in, row), to, lanes);
      before = std::move(to);
    }
  }
}

/// Others: stretches of sequences are brought side by side, as [steps, lanes], and back.
class LaneScan {
 public:
  LaneScan(const KernelCall& call, const RunningAttrs& s)
      : call_(call),
        s_(s),
        r_(s.reducer),
        steps_(s.n / s.stretches),
        tile_(r_, steps_ * s.lanes * s.stretches),
        carry_(r_, s.lanes * s.stretches) {}

  void run(std::int64_t unit) {
    const std::int64_t all = s_.a * s_.b;
    first_ = unit * s_.lanes;
    count_ = std::min(s_.lanes, all - first_);
    move(/*in=*/true);
    const std::int64_t lanes = count_ * s_.stretches;
    // The first stretch, whose lanes come first, begins with the initial value, others with their
    // first element.
    fill(r_, call_, carry_.data(), count_);
    r_.run(carry_.data(), tile_.data(), tile_.data(), count_);
    for (std::int64_t k = 1; k < steps_; ++k) {
      const auto row = at(r_, tile_.data(), k * lanes);
      r_.run(at(r_, tile_.data(), (k - 1) * lanes), row, row, lanes);
    }
    if (s_.stretches > 1) join();
    move(/*in=*/false);
    rest();
  }

 private:
  void join() {
    const std::int64_t lanes = count_ * s_.stretches;
    const auto last = at(r_, tile_.data(), (steps_ - 1) * lanes);
    // What comes before each stretch.
    for (std::size_t k = 0; k < r_.arrays(); ++k) {
      std::memcpy(carry_[k], last[k], std::size_t(count_ * r_.bytes[k]));
    }
    for (std::int64_t j = 1; j + 1 < s_.stretches; ++j) {
      r_.run(at(r_, carry_.data(), (j - 1) * count_), at(r_, last, j * count_),
             at(r_, carry_.data(), j * count_), count_);
    }
    for (std::int64_t k = 0; k < steps_; ++k) {
      const auto row = at(r_, tile_.data(), k * lanes + count_);
      r_.run(carry_.data(), row, row, lanes - count_);
    }
  }

  /// What doesn't make a step of all stretches.
  void rest() {
    for (std::int64_t k = steps_ * s_.stretches; k < s_.n; ++k) {
      for (std::int64_t l = 0; l < count_; ++l) {
        std::vector<std::byte*> left, right, to;
        for (std::size_t n = 0; n < r_.arrays(); ++n) {
          to.push_back(call_.outputs[n] + place(l, k) * r_.bytes[n]);
          left.push_back(call_.outputs[n] + place(l, k - 1) * r_.bytes[n]);
          right.push_back(const_cast<std::byte*>(call_.inputs[n]) + place(l, k) * r_.bytes[n]);
        }
        r_.run(left, right, to, 1);
      }
    }
  }

  /// Of step k of a sequence.
  std::int64_t place(std::int64_t lane, std::int64_t k) const {
    const std::int64_t sequence = first_ + lane;
    return (sequence / s_.b * s_.n + (s_.backward ? s_.n - 1 - k : k)) * s_.b + sequence % s_.b;
  }

  void move(bool in) {
    const std::int64_t lanes = count_ * s_.stretches;
    for (std::size_t n = 0; n < r_.arrays(); ++n) {
      const std::int64_t bytes = r_.bytes[n], step = (s_.backward ? -s_.b : s_.b) * bytes;
      // Sequences of one plane lie at a stride.
      for (std::int64_t l = 0; l < count_;) {
        const std::int64_t run =
            s_.b == 1 ? count_ - l : std::min(count_ - l, s_.b - (first_ + l) % s_.b);
        const std::int64_t apart = s_.b == 1 ? s_.n * bytes : bytes;
        const Dims dims = {s_.stretches, steps_, run};
        const Dims outside = {steps_ * step, step, apart};
        const Dims inside = {count_ * bytes, lanes * bytes, bytes};
        const std::int64_t from = place(l, 0) * bytes;
        if (in) {
          copy_box(tile_[n] + l * bytes, call_.inputs[n] + from, dims, inside, outside,
                   std::size_t(bytes));
        } else {
          copy_box(call_.outputs[n] + from, tile_[n] + l * bytes, dims, outside, inside,
                   std::size_t(bytes));
        }
        l += run;
      }
    }
  }

  const KernelCall& call_;
  const RunningAttrs& s_;
  const LaneReducer& r_;
  const std::int64_t steps_;
  const LaneBuffers tile_, carry_;
  std::int64_t first_ = 0, count_ = 0;  ///< sequences of the unit
};

void run_running(const KernelCall& call) {
  const auto& s = *static_cast<const RunningAttrs*>(call.attributes);
  if (s.b >= s.lanes && s.stretches == 1) return run_columns(call, s);
  LaneScan side(call, s);
  for (std::int64_t unit = call.begin; unit < call.end; ++unit) side.run(unit);
}

// -- Other windows ------------------------------------------------------------------------------

struct ReducerWindowAttrs : WindowedArray {
  LaneReducer reducer;
};

/// Units are the rows of the result. Each offset in the window adds an element to each position
/// that sees one through it.
class ReducerWindowRow {
 public:
  ReducerWindowRow(const KernelCall& call, const ReducerWindowAttrs& w)
      : call_(call),
        w_(w),
        r_(w.reducer),
        last_(w.dims.size() - 1),
        length_(w.out_dims[last_] * w.inner),
        values_(r_, length_),
        sums_(r_, length_) {}

  void run(std::int64_t row) {
    out_.clear();
    for (std::size_t k = 0; k < r_.arrays(); ++k) {
      out_.push_back(call_.outputs[k] + row * length_ * r_.bytes[k]);
    }
    fill(r_, call_, out_, length_);
    const auto take = [&](std::int64_t base) {
      for_each_offset(w_.window[last_], w_.dims[last_], w_.out_dims[last_],
                      [&](const PositionsSeen& s) { add(base + s.from * w_.inner, s); });
    };
    for_each_row_seen(w_, row, &places_, take);
  }

 private:
  void add(std::int64_t from, const PositionsSeen& s) {
    std::vector<std::byte*> values, sums;
    for (std::size_t k = 0; k < r_.arrays(); ++k) {
      const std::int64_t bytes = r_.bytes[k];
      std::byte* in = const_cast<std::byte*>(call_.inputs[k]) + from * bytes;
      std::byte* out = out_[k] + s.to * w_.inner * bytes;
      values.push_back(s.advance == 1 ? in : values_[k]);
      sums.push_back(s.step == 1 ? out : sums_[k]);
      if (s.advance != 1) place(values_[k], in, bytes, s.count, 1, s.advance);
      if (s.step != 1) place(sums_[k], out, bytes, s.count, 1, s.step);
    }
    r_.run(sums, values, sums, s.count * w_.inner);
    for (std::size_t k = 0; k < r_.arrays() && s.step != 1; ++k) {
      place(out_[k] + s.to * w_.inner * r_.bytes[k], sums_[k], r_.bytes[k], s.count, s.step, 1);
    }
  }

  /// n positions, so many apart.
  void place(std::byte* to, const std::byte* from, std::int64_t bytes, std::int64_t n,
             std::int64_t to_step, std::int64_t from_step) const {
    copy_box(to, from, {n, w_.inner}, {to_step * w_.inner * bytes, bytes},
             {from_step * w_.inner * bytes, bytes}, std::size_t(bytes));
  }

  const KernelCall& call_;
  const ReducerWindowAttrs& w_;
  const LaneReducer& r_;
  const std::size_t last_;
  const std::int64_t length_;
  const LaneBuffers values_, sums_;
  std::vector<std::byte*> out_;
  RowPlaces places_;
};

void run_reducer_windows(const KernelCall& call) {
  ReducerWindowRow rows(call, *static_cast<const ReducerWindowAttrs*>(call.attributes));
  for (std::int64_t row = call.begin; row < call.end; ++row) rows.run(row);
}

template <class Attrs>
KernelDescriptor kernel_of(Attrs attrs, runtime::KernelFunction function, std::string key,
                           std::int64_t units, double nanoseconds) {
  KernelDescriptor kernel;
  kernel.units = units;
  kernel.nanoseconds = nanoseconds;
  const bool compiled = worth_compiling(nanoseconds, attrs.reducer.program.get());
  kernel.key = kernel_key(key, attrs.reducer.program->key(), attrs.reducer.bytes, compiled);
  kernel.make = [attrs = std::move(attrs), function, compiled] {
    auto made = std::make_shared<Attrs>(attrs);
    made->reducer.loop = make_loop(made->reducer.program, compiled);
    return runtime::Kernel{function, std::move(made)};
  };
  return kernel;
}

KernelDescriptor running(const Shape& array, const RunningDim& along, LaneReducer reducer,
                         double each) {
  RunningAttrs s{RunningArray(array.dims, along), {}};
  constexpr std::int64_t kFewLanes = 64, kTile = 1 << 18;
  std::int64_t widest = 1;
  for (const std::int64_t bytes : reducer.bytes) widest = std::max(widest, bytes);
  const std::int64_t sequences = s.a * s.b;
  s.reducer = std::move(reducer);
  s.reducer.backward = along.backward;
  double passes = 1;
  if (s.b >= kFewLanes) {
    s.lanes = std::min(s.b, kReducerLanes);
  } else if (sequences >= kFewLanes) {
    s.lanes = std::clamp(kTile / std::max<std::int64_t>(1, s.n * widest), kFewLanes, kReducerLanes);
    s.lanes = std::min(s.lanes, sequences);
  } else {
    s.lanes = std::max<std::int64_t>(1, sequences);
    s.stretches = std::clamp<std::int64_t>(s.n / 16, 1, ceil_div(kReducerLanes, s.lanes));
    passes = 2;
  }
  const std::int64_t units =
      s.b >= kFewLanes ? s.a * ceil_div(s.b, s.lanes) : ceil_div(sequences, s.lanes);
  const double time = prices::call::kWindows + passes * each * double(array.element_count());
  std::string key = kernel_key("reducer-scan", s.a, s.n, s.b, s.backward, s.stretches, s.lanes);
  return kernel_of(std::move(s), run_running, std::move(key), units, time);
}

KernelDescriptor windows(const Shape& array, const Dims& out, const std::vector<WindowDim>& window,
                         LaneReducer reducer, double each) {
  // Dims without windows that come last are done as one.
  std::size_t rank = window.size();
  while (rank > 1 && window[rank - 1] == WindowDim{}) --rank;
  ReducerWindowAttrs w{WindowedArray(array.dims, out, window, rank), std::move(reducer)};
  double taps = 1;
  for (const WindowDim& d : window) taps *= double(d.size);
  const std::int64_t units = element_count(out) / (w.inner * w.out_dims.back());
  const double time = prices::call::kWindows + each * taps * double(element_count(out));
  std::string key = kernel_key("reducer-window", w.dims, w.out_dims, w.window, w.inner);
  return kernel_of(std::move(w), run_reducer_windows, std::move(key), units, time);
}

}  // namespace

bool has_reducer_window_kernel(const ir::Instruction& in) {
  const std::size_t arrays = in.operands().size() / 2;
  const Shape& array = in.operand(0)->shape;
  const std::vector<Shape> results = flatten(in.shape);
  if (array.rank() == 0 || array.element_count() == 0 || results.at(0).element_count() == 0) {
    return false;
  }
  for (const WindowDim& w : in.get<ir::WindowAttrs>().dims) {
    if (w.reversal || w.size == 0) return false;
  }
  for (std::size_t k = 0; k < arrays; ++k) {
    if (in.operand(k)->shape.dtype != results.at(k).dtype) return false;
  }
  return program_of(*in.called().at(0)) != nullptr;
}

KernelDescriptor reducer_window_kernel(const ir::Instruction& in) {
  const Shape& array = in.operand(0)->shape;
  const auto& window = in.get<ir::WindowAttrs>().dims;
  const std::vector<Shape> results = flatten(in.shape);
  const Dims& out = results.at(0).dims;
  LaneReducer reducer;
  reducer.program = program_of(*in.called().at(0));
  for (std::size_t k = 0; k < in.operands().size() / 2; ++k) {
    reducer.bytes.push_back(std::int64_t(byte_size(results[k].dtype)));
  }
  const double each = 1 + reducer.program->nanoseconds * time_of_code(true);
  const RunningDim along = running_dim(array, out, window);
  return along.dim >= 0 ? running(array, along, std::move(reducer), each)
                        : windows(array, out, window, std::move(reducer), each);
}

}  // namespace tessera::codegen
