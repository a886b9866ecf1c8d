// SPDX-License-Identifier: Apache-2.0
// Rows of the dot are positions of the result, and its sums go along a row of the filter: input
// features and taps, in the order in which they stand there.
#include "src/passes/products/convolutions_as_dots.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "src/ir/analysis/layouts.h"
#include "src/ir/rewrite/patterns.h"

namespace tessera::passes {
namespace {

using ir::ConvolutionAttrs;
using ir::Instruction;
using ir::Opcode;

/// More taps aren't put side by side one by one.
constexpr std::int64_t kMostTaps = 64;

/// Dims of the filter behind the output features: spatial dims by number, in the order in which
/// they stand, and where the input features are among them.
struct FilterOrder {
  std::vector<std::size_t> spatial;
  bool features_first = true;
};

/// Nothing if taps aren't neighbours there.
std::optional<FilterOrder> filter_order(const ConvolutionAttrs& a) {
  FilterOrder out;
  const std::int64_t last = std::int64_t(a.kernel_spatial.size()) + 1;
  if (a.kernel_output_feature != 0 ||
      (a.kernel_input_feature != 1 && a.kernel_input_feature != last)) {
    return std::nullopt;
  }
  out.features_first = a.kernel_input_feature == 1;
  out.spatial.resize(a.kernel_spatial.size());
  std::iota(out.spatial.begin(), out.spatial.end(), 0);
  std::sort(out.spatial.begin(), out.spatial.end(), [&](std::size_t x, std::size_t y) {
    return a.kernel_spatial[x] < a.kernel_spatial[y];
  });
  return out;
}

class DotOfConvolution {
 public:
  DotOfConvolution(const Instruction& conv, FilterOrder order, ir::Builder& b)
      : conv_(conv), a_(conv.get<ConvolutionAttrs>()), order_(std::move(order)), b_(b) {
    filter_ = conv.operand(1);
    rows_ = conv.shape.dim(a_.output_batch);
    for (std::size_t d = 0; d < a_.window.size(); ++d) {
      out_.push_back(conv.shape.dim(a_.output_spatial[d]));
      rows_ *= out_.back();
      taps_ *= a_.window[d].size;
    }
  }

  Instruction* run() {
    const std::int64_t columns = conv_.shape.dim(a_.output_feature);
    Instruction* patches = nullptr;
    if (side_by_side()) {
      if (filter_turns()) turn_filter();
      patches = cut_up();
    } else if (taps_ == 1 || (2 * rows_ <= columns && taps_ <= kMostTaps)) {
      patches = collected();
    } else {
      return nullptr;
    }
    const std::int64_t width = taps_ * features();
    ir::DotAttrs dot;
    dot.lhs_contracting = dot.rhs_contracting = {1};
    dot.operand_precision = a_.operand_precision;
    Instruction* made =
        b_.dot(b_.reshape(patches, {rows_, width}), b_.reshape(filter_, {columns, width}), dot);
    Dims dims = {conv_.shape.dim(a_.output_batch)}, order = {a_.output_batch};
    for (std::size_t d = 0; d < out_.size(); ++d) {
      dims.push_back(out_[d]);
      order.push_back(a_.output_spatial[d]);
    }
    dims.push_back(columns);
    order.push_back(a_.output_feature);
    return moved(b_.reshape(made, dims), ir::inverse_order(order));
  }

 private:
  std::int64_t features() const { return conv_.operand(0)->shape.dim(a_.input_feature); }

  Instruction* moved(Instruction* x, const Dims& perm) {
    return std::is_sorted(perm.begin(), perm.end()) ? x : b_.transpose(x, perm);
  }

  /// Whether each element is seen once.
  bool side_by_side() const {
    for (std::size_t d = 0; d < a_.window.size(); ++d) {
      const ir::WindowDim& w = a_.window[d];
      if (w.pad_low != 0 || w.pad_high != 0 || w.stride != w.size || w.rhs_dilation != 1 ||
          (w.reversal && w.size > 1) ||
          out_[d] * w.size != conv_.operand(0)->shape.dim(a_.input_spatial[d])) {
        return false;
      }
    }
    return true;
  }

  /// Whether it costs less to put the filter's features last, as the image has them, than to put
  /// the image's first.
  bool filter_turns() const {
    const Instruction& x = *conv_.operand(0);
    const Shape& w = conv_.operand(1)->shape;
    return order_.features_first && taps_ > 1 && a_.input_feature + 1 == x.shape.rank() &&
           x.opcode != Opcode::transpose && 2 * w.element_count() <= x.shape.element_count();
  }

  void turn_filter() {
    Dims order = {0};
    for (const std::size_t s : order_.spatial) order.push_back(a_.kernel_spatial[s]);
    order.push_back(1);
    filter_ = b_.transpose(filter_, order);
    order_.features_first = false;
  }

  /// The input with each spatial dim as windows and taps of these.
  Instruction* cut_up() {
    const Shape& x = conv_.operand(0)->shape;
    std::vector<std::int64_t> place(std::size_t(x.rank()));  // of the windows, where it is cut
    Dims dims;
    for (std::int64_t d = 0; d < x.rank(); ++d) {
      place[std::size_t(d)] = std::int64_t(dims.size());
      const auto at = std::find(a_.input_spatial.begin(), a_.input_spatial.end(), d);
      if (at == a_.input_spatial.end()) {
        dims.push_back(x.dim(d));
        continue;
      }
      const auto s = std::size_t(at - a_.input_spatial.begin());
      dims.push_back(out_[s]);
      dims.push_back(a_.window[s].size);
    }
    Dims order = {place[std::size_t(a_.input_batch)]};
    for (const std::int64_t d : a_.input_spatial) order.push_back(place[std::size_t(d)]);
    if (order_.features_first) order.push_back(place[std::size_t(a_.input_feature)]);
    for (const std::size_t s : order_.spatial) {
      order.push_back(place[std::size_t(a_.input_spatial[s])] + 1);
    }
    if (!order_.features_first) order.push_back(place[std::size_t(a_.input_feature)]);
    return moved(b_.reshape(conv_.operand(0), dims), order);
  }

  /// What each position sees, tap by tap.
  Instruction* collected() {
    Dims order = {a_.input_batch};
    order.insert(order.end(), a_.input_spatial.begin(), a_.input_spatial.end());
    order.push_back(a_.input_feature);
    Instruction* x = moved(conv_.operand(0), order);
    std::vector<ir::PadDim> around(std::size_t(x->shape.rank()));
    bool pads = false;
    for (std::size_t d = 0; d < a_.window.size(); ++d) {
      around[d + 1] = {a_.window[d].pad_low, a_.window[d].pad_high, 0};
      pads = pads || a_.window[d].pad_low != 0 || a_.window[d].pad_high != 0;
    }
    if (pads) x = b_.pad(x, b_.zero(x->shape.dtype), around);
    std::vector<Instruction*> seen;
    Dims tap(a_.window.size(), 0);
    for (std::int64_t n = 0; n < taps_; ++n) {
      seen.push_back(tap_of(x, tap));
      for (std::size_t k = tap.size(); k-- > 0;) {
        const std::size_t s = order_.spatial[k];
        if (++tap[s] < a_.window[s].size) break;
        tap[s] = 0;
      }
    }
    const std::int64_t rank = x->shape.rank();
    return seen.size() == 1
               ? seen.front()
               : b_.concatenate(std::move(seen), order_.features_first ? rank : rank - 1);
  }

  Instruction* tap_of(Instruction* x, const Dims& tap) {
    Dims starts(std::size_t(x->shape.rank()), 0), limits = x->shape.dims, strides(starts.size(), 1);
    Dims dims = {x->shape.dim(0)};
    for (std::size_t d = 0; d < tap.size(); ++d) {
      const ir::WindowDim& w = a_.window[d];
      starts[d + 1] = (w.reversal ? w.size - 1 - tap[d] : tap[d]) * w.rhs_dilation;
      limits[d + 1] = starts[d + 1] + (out_[d] - 1) * w.stride + 1;
      strides[d + 1] = w.stride;
      dims.push_back(out_[d]);
    }
    Instruction* out = b_.slice(x, std::move(starts), std::move(limits), std::move(strides));
    if (!order_.features_first) dims.push_back(1);
    dims.push_back(features());
    if (order_.features_first) dims.push_back(1);
    return taps_ == 1 ? out : b_.reshape(out, dims);
  }

  const Instruction& conv_;
  const ConvolutionAttrs& a_;
  FilterOrder order_;
  Instruction* filter_ = nullptr;
  ir::Builder& b_;
  Dims out_;  ///< spatial
  std::int64_t rows_ = 1, taps_ = 1;
};

Instruction* convolution_as_dot(const Instruction& conv, ir::Builder& b) {
  const auto& a = conv.get<ConvolutionAttrs>();
  const DType t = conv.shape.dtype;
  const bool same_types = conv.operand(0)->shape.dtype == t && conv.operand(1)->shape.dtype == t;
  if ((t != DType::f32 && t != DType::f64) || !same_types || a.feature_group_count != 1 ||
      a.batch_group_count != 1 || conv.shape.element_count() == 0 ||
      !conv.control_predecessors().empty()) {
    return nullptr;
  }
  for (const ir::WindowDim& w : a.window) {
    if (w.size == 0 || w.lhs_dilation != 1) return nullptr;
  }
  const auto order = filter_order(a);
  return order ? DotOfConvolution(conv, *order, b).run() : nullptr;
}

}  // namespace

std::size_t convolutions_as_dots(ir::Module* module) {
  static const auto& patterns =
      ir::keep(ir::PatternSet("convolutions-as-dots").add(Opcode::convolution, convolution_as_dot));
  return ir::walk_and_apply_patterns(module, patterns);
}

}  // namespace tessera::passes
