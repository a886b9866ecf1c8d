// SPDX-License-Identifier: Apache-2.0
// First windows become shorter, then dims of one element become features.
#include "src/passes/products/clip_windows.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "src/ir/analysis/layouts.h"
#include "src/ir/rewrite/patterns.h"

namespace tessera::passes {
namespace {

using ir::ConvolutionAttrs;
using ir::Instruction;
using ir::Opcode;
using ir::WindowDim;

/// Positions of longer results aren't looked at one by one.
constexpr std::int64_t kMostPositions = std::int64_t(1) << 20;

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }
std::int64_t dilated(std::int64_t size, std::int64_t by) {
  return size == 0 ? 0 : (size - 1) * by + 1;
}

/// Of one dim: `count` results, at first, first + step, ..., each seeing the one element through
/// one tap. These taps stand in the filter from `place` on, `advance` apart, which may be negative.
struct Seen {
  std::int64_t first = 0, step = 1, count = 0, place = 0, advance = 1;
};

/// Of an input of one element.
Seen seen_of(const WindowDim& w, std::int64_t out) {
  Seen s;
  for (std::int64_t o = 0; o < out; ++o) {
    const std::int64_t at = w.pad_low - o * w.stride;
    if (at % w.rhs_dilation != 0 || at / w.rhs_dilation < 0 || at / w.rhs_dilation >= w.size) {
      continue;
    }
    const std::int64_t tap = at / w.rhs_dilation, place = w.reversal ? w.size - 1 - tap : tap;
    if (s.count == 0) {
      s.first = o;
      s.place = place;
    } else if (s.count == 1) {
      s.step = o - s.first;
      s.advance = place - s.place;
    }
    ++s.count;
  }
  return s;
}

class Clipping {
 public:
  Clipping(const Instruction& conv, ir::Builder& b)
      : conv_(conv), b_(b), a_(conv.get<ConvolutionAttrs>()), filter_(conv.operands()[1]) {
    for (std::size_t d = 0; d < a_.window.size(); ++d) {
      in_.push_back(conv.operand(0)->shape.dim(a_.input_spatial[d]));
      out_.push_back(conv.shape.dim(a_.output_spatial[d]));
    }
  }

  Instruction* run() {
    for (std::size_t d = 0; d < a_.window.size(); ++d) {
      if (!clip(d)) return nothing();
    }
    seen_.resize(a_.window.size());
    bool units = false;
    for (std::size_t d = 0; d < a_.window.size(); ++d) {
      const bool is_unit = in_[d] == 1 && out_[d] <= kMostPositions &&
                           (a_.window[d].size > 1 || out_[d] > 1 || a_.window[d].pad_low != 0);
      if (!is_unit) continue;
      units = true;
      const Seen& s = seen_[d] = seen_of(a_.window[d], out_[d]);
      if (s.count == 0) return nothing();
      take(d, s.place, s.count, s.advance);
    }
    if (!clipped_ && !units) return nullptr;
    if (!units) return convolved(conv_.operands()[0], filter_, a_, conv_.shape.dims);
    return spread(is_dot() ? dot() : merged());
  }

 private:
  /// The sum of no products.
  Instruction* nothing() { return b_.splat(b_.zero(conv_.shape.dtype), conv_.shape.dims); }

  Instruction* convolved(Instruction* x, Instruction* filter, const ConvolutionAttrs& a,
                         const Dims& dims) {
    Instruction* out =
        b_.emit_shaped(Opcode::convolution, Shape(conv_.shape.dtype, dims), {x, filter}, a);
    out->frontend_attributes = conv_.frontend_attributes;
    out->backend_config = conv_.backend_config;
    return out;
  }

  /// Elements of the filter along a dim: `count` from `first` on, `step` apart.
  void take(std::size_t d, std::int64_t first, std::int64_t count, std::int64_t step) {
    const auto at = std::size_t(a_.kernel_spatial[d]);
    const std::int64_t low = step < 0 ? first + (count - 1) * step : first;
    Dims starts(filter_->shape.dims.size(), 0), limits = filter_->shape.dims;
    Dims strides(starts.size(), 1);
    starts[at] = low;
    strides[at] = std::abs(step);
    limits[at] = low + (count - 1) * strides[at] + 1;
    if (filter_->shape.dims[at] != count) {
      filter_ = b_.slice(filter_, std::move(starts), std::move(limits), std::move(strides));
    }
    if (step < 0 && count > 1) filter_ = b_.reverse(filter_, {std::int64_t(at)});
  }

  /// Leaves out taps that see nothing from the first position to the last; false if all do.
  bool clip(std::size_t d) {
    WindowDim& w = a_.window[d];
    const std::int64_t last = dilated(in_[d], w.lhs_dilation) - 1;
    const std::int64_t reach = (out_[d] - 1) * w.stride;
    const std::int64_t low =
        std::max<std::int64_t>(0, -floor_div(reach - w.pad_low, w.rhs_dilation));
    const std::int64_t high = std::min(w.size - 1, floor_div(last + w.pad_low, w.rhs_dilation));
    if (low > high) return false;
    if (low == 0 && high == w.size - 1) return true;
    clipped_ = true;
    const std::int64_t size = high - low + 1;
    take(d, w.reversal ? w.size - 1 - high : low, size, 1);
    w.size = size;
    w.pad_low -= low * w.rhs_dilation;
    w.pad_high = reach + dilated(size, w.rhs_dilation) - w.pad_low - (last + 1);
    return true;
  }

  bool is_seen(std::size_t d) const { return seen_[d].count > 0; }

  /// Whether nothing is convolved along the other dims.
  bool is_dot() const {
    const DType t = conv_.shape.dtype;
    for (std::size_t d = 0; d < a_.window.size(); ++d) {
      if (!is_seen(d) && !(a_.window[d] == WindowDim())) return false;
    }
    return a_.feature_group_count == 1 && a_.batch_group_count == 1 &&
           conv_.operand(0)->shape.dtype == t && filter_->shape.dtype == t;
  }

  /// The result without positions that see nothing: dims as those of the op.
  Dims seen_dims() const {
    Dims dims = conv_.shape.dims;
    for (std::size_t d = 0; d < a_.window.size(); ++d) {
      if (is_seen(d)) dims[std::size_t(a_.output_spatial[d])] = seen_[d].count;
    }
    return dims;
  }

  Instruction* moved(Instruction* x, const Dims& perm) {
    return std::is_sorted(perm.begin(), perm.end()) ? x : b_.transpose(x, perm);
  }

  /// The number of the spatial dim that is dim k; that of all if none is.
  static std::size_t number_of(const Dims& spatial, std::int64_t k) {
    return std::size_t(std::find(spatial.begin(), spatial.end(), k) - spatial.begin());
  }

  Instruction* dot() {
    const std::size_t rank = a_.window.size();
    ir::DotAttrs attrs;
    attrs.operand_precision = a_.operand_precision;
    // Dims that stay, and which of the op's those of the result are.
    Dims rows, columns, made, roles;
    const Shape& x = conv_.operand(0)->shape;
    for (std::int64_t k = 0; k < x.rank(); ++k) {
      const std::size_t s = number_of(a_.input_spatial, k);
      if (s < rank && is_seen(s)) continue;
      if (k == a_.input_feature) attrs.lhs_contracting = {std::int64_t(rows.size())};
      rows.push_back(x.dim(k));
      if (k == a_.input_feature) continue;
      made.push_back(x.dim(k));
      roles.push_back(s < rank ? a_.output_spatial[s] : a_.output_batch);
    }
    const Shape& filter = filter_->shape;
    for (std::int64_t k = 0; k < filter.rank(); ++k) {
      const std::size_t s = number_of(a_.kernel_spatial, k);
      if (s < rank && !is_seen(s)) continue;
      if (k == a_.kernel_input_feature) attrs.rhs_contracting = {std::int64_t(columns.size())};
      columns.push_back(filter.dim(k));
      if (k == a_.kernel_input_feature) continue;
      made.push_back(filter.dim(k));
      roles.push_back(s < rank ? a_.output_spatial[s] : a_.output_feature);
    }
    Instruction* out = b_.emit_shaped(
        Opcode::dot, Shape(conv_.shape.dtype, made),
        {b_.reshape(conv_.operands()[0], rows), b_.reshape(filter_, columns)}, std::move(attrs));
    return moved(out, ir::inverse_order(roles));
  }

  /// The convolution along the other dims, whose features are the results along those of one
  /// element as well. A group's are together.
  Instruction* merged() {
    std::vector<std::size_t> units;
    std::int64_t count = 1;
    for (std::size_t d = 0; d < a_.window.size(); ++d) {
      if (!is_seen(d)) continue;
      units.push_back(d);
      count *= seen_[d].count;
      a_.window[d] = WindowDim();
    }
    // The filter with these dims behind its output features, and then in one with them.
    const Dims dims = filter_->shape.dims;
    Dims order, merged;
    for (std::int64_t k = 0; k < std::int64_t(dims.size()); ++k) {
      const std::size_t s = number_of(a_.kernel_spatial, k);
      const bool unit = s < a_.window.size() && is_seen(s);
      merged.push_back(unit ? 1 : dims[std::size_t(k)]);
      if (!unit) order.push_back(k);
      if (k != a_.kernel_output_feature) continue;
      for (const std::size_t d : units) order.push_back(a_.kernel_spatial[d]);
    }
    merged[std::size_t(a_.kernel_output_feature)] *= count;
    Instruction* filter = b_.reshape(moved(filter_, order), merged);
    // The result likewise.
    const Dims all = seen_dims();
    Dims made = all, split, places;
    for (const std::size_t d : units) made[std::size_t(a_.output_spatial[d])] = 1;
    made[std::size_t(a_.output_feature)] *= count;
    for (std::int64_t k = 0; k < std::int64_t(all.size()); ++k) {
      const std::size_t s = number_of(a_.output_spatial, k);
      if (s < a_.window.size() && is_seen(s)) continue;
      split.push_back(all[std::size_t(k)]);
      places.push_back(k);
      if (k != a_.output_feature) continue;
      for (const std::size_t d : units) {
        split.push_back(seen_[d].count);
        places.push_back(a_.output_spatial[d]);
      }
    }
    Instruction* out = convolved(conv_.operands()[0], filter, a_, made);
    return moved(b_.reshape(out, split), ir::inverse_order(places));
  }

  /// With zeros where positions see nothing.
  Instruction* spread(Instruction* x) {
    std::vector<ir::PadDim> around(std::size_t(x->shape.rank()));
    bool pads = false;
    for (std::size_t d = 0; d < a_.window.size(); ++d) {
      const Seen& s = seen_[d];
      if (!is_seen(d) || s.count == out_[d]) continue;
      pads = true;
      const std::int64_t end = s.first + (s.count - 1) * s.step + 1;
      around[std::size_t(a_.output_spatial[d])] = {s.first, out_[d] - end, s.step - 1};
    }
    return pads ? b_.pad(x, b_.zero(x->shape.dtype), around) : x;
  }

  const Instruction& conv_;
  ir::Builder& b_;
  ConvolutionAttrs a_;
  Instruction* filter_;
  Dims in_, out_;           ///< spatial
  std::vector<Seen> seen_;  ///< of dims of one element; else of nothing
  bool clipped_ = false;
};

Instruction* clipped(const Instruction& conv, ir::Builder& b) {
  if (conv.shape.element_count() == 0 || conv.operand(0)->shape.element_count() == 0 ||
      conv.operand(1)->shape.element_count() == 0 || !conv.control_predecessors().empty()) {
    return nullptr;
  }
  return Clipping(conv, b).run();
}

}  // namespace

std::size_t clip_windows(ir::Module* module) {
  static const auto& patterns =
      ir::keep(ir::PatternSet("clip-windows").add(Opcode::convolution, clipped));
  return ir::apply_patterns_greedily(module, patterns);
}

}  // namespace tessera::passes
