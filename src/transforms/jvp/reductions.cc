// SPDX-License-Identifier: Apache-2.0
// Derivatives of reductions, windows, maps and normalisation.
#include <algorithm>
#include <numeric>

#include "src/base/contains.h"
#include "src/transforms/jvp/site.h"
#include "src/transforms/utils/elementwise.h"
#include "src/transforms/utils/scans.h"
#include "src/transforms/utils/windows.h"

namespace tessera::transforms {

using ir::Computation;
using ir::Direction;
using ir::Instruction;
using ir::Opcode;

namespace {

/// A computation with the op's operands as parameters, to be filled.
struct Expansion {
  ir::Builder b;
  std::vector<Instruction*> x;

  explicit Expansion(const JvpSite& s)
      : b(s.b.module()->add_computation(s.op.name + ".expansion")) {
    b.metadata = s.op.metadata;
    for (std::size_t k = 0; k < s.x.size(); ++k) {
      x.push_back(b.parameter(std::int64_t(k), s.x[k]->shape));
    }
  }
  Tangent finish(JvpSite& s, const std::vector<Instruction*>& results) {
    b.computation()->set_root(s.op.shape.is_tuple ? b.tuple(results) : results[0]);
    return s.through(*b.computation());
  }
};

Instruction* sum_over(const JvpSite& s, Instruction* x, const Dims& dims) {
  Computation* adder = ir::scalar_computation(s.b.module(), Opcode::add, x->shape.dtype);
  return s.b.reduce(x, s.b.zero(x->shape.dtype), dims, adder);
}

bool needs_only(const JvpSite& s, std::size_t first, std::size_t count) {
  for (std::size_t k = 0; k < s.dx.size(); ++k) {
    if (!s.dx[k].is_zero() && (k < first || k >= first + count)) return false;
  }
  return true;
}

Dims kept_dims(std::int64_t rank, const Dims& reduced) {
  Dims out;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (!contains(reduced, d)) out.push_back(d);
  }
  return out;
}

/// Equal shares of what stands where the extremum was found.
Tangent at_extremum(JvpSite& s, const Dims& dims) {
  Instruction *x = s.x[0], *y = s.primal();
  const Dims kept = kept_dims(x->shape.rank(), dims);
  Instruction* found = s.b.compare(Direction::eq, x, s.b.broadcast(y, x->shape.dims, kept));
  Instruction* where = s.b.convert(found, x->shape.dtype);
  // Where the initial value is the extremum no element is.
  Instruction* count =
      s.b.binary(Opcode::maximum, sum_over(s, where, dims), full(s.b, y->shape, 1));
  return s.div(sum_over(s, s.mul(s.dx[0].array, where), dims), count);
}

Tangent reduce_in_general(JvpSite& s) {
  const Dims& dims = s.get<ir::DimensionsAttrs>().dims;
  const std::size_t count = s.x.size() / 2;
  Expansion e(s);
  // [n, kept...], n the reduced elements in order.
  std::vector<Instruction*> arrays;
  const Dims kept = kept_dims(s.x[0]->shape.rank(), dims);
  Dims perm = dims;
  std::sort(perm.begin(), perm.end());
  std::int64_t n = 1;
  for (const std::int64_t d : dims) n *= s.x[0]->shape.dim(d);
  perm.insert(perm.end(), kept.begin(), kept.end());
  Dims joined{n};
  for (const std::int64_t d : kept) joined.push_back(s.x[0]->shape.dim(d));
  for (std::size_t k = 0; k < count; ++k) {
    arrays.push_back(e.b.reshape(e.b.transpose(e.x[k], perm), joined));
  }
  const std::vector<Instruction*> init(e.x.begin() + std::ptrdiff_t(count), e.x.end());
  return e.finish(s, reduce_by_halves(e.b, *s.op.called(0), arrays, init));
}

}  // namespace

Tangent jvp_reduce(JvpSite& s) {
  const bool one = s.x.size() == 2;
  if (one && !has_tangent(s.shape())) return {};
  const std::optional<Opcode> combiner =
      one ? ir::as_binary_reducer(*s.op.called(0)) : std::nullopt;
  if (combiner == Opcode::add) return jvp_linear(s);
  const bool extremum = combiner == Opcode::maximum || combiner == Opcode::minimum;
  if (extremum && needs_only(s, 0, 1)) return at_extremum(s, s.get<ir::DimensionsAttrs>().dims);
  return reduce_in_general(s);
}

Tangent jvp_map(JvpSite& s) {
  Expansion e(s);
  return e.finish(s, apply_to_arrays(e.b, *s.op.called(0), e.x));
}

// ------------------------------------------------------------------ windows

namespace {

/// A scan of one dim: the window is as long as the dim and starts, or ends, at each element.
std::optional<ScanDim> as_cumulative(const ir::WindowAttrs& a, const Shape& x) {
  std::optional<ScanDim> out;
  for (std::size_t d = 0; d < a.dims.size(); ++d) {
    const ir::WindowDim& w = a.dims[d];
    if (w == ir::WindowDim{}) continue;
    const std::int64_t n = x.dims[d];
    const bool plain = w.stride == 1 && w.lhs_dilation == 1 && w.rhs_dilation == 1 && w.size == n;
    const bool forward = w.pad_low == n - 1 && w.pad_high == 0;
    const bool backward = w.pad_low == 0 && w.pad_high == n - 1;
    if (out || !plain || (!forward && !backward)) return {};
    out = ScanDim{d, !forward};
  }
  return out;
}

/// Whether it is the neutral element of what the reducer does, as initial values mostly are.
bool is_neutral(const Instruction* init, std::optional<Opcode> combiner) {
  while (init->is(Opcode::broadcast) || init->is(Opcode::reshape)) init = init->operand(0);
  const auto* constant = init->attrs.get_if<ir::ConstantAttrs>();
  if (constant == nullptr || constant->elided || !combiner) return false;
  const std::optional<Literal> neutral = ir::identity_of(*combiner, init->shape.dtype);
  return neutral && constant->value == *neutral;
}

/// As many terms as the window has places.
std::vector<Instruction*> window_by_places(ir::Builder& b, const JvpSite& s,
                                           std::vector<Instruction*> x,
                                           std::span<Instruction* const> init,
                                           std::optional<Opcode> combiner) {
  const auto& a = s.get<ir::WindowAttrs>();
  const Dims out_dims = element_shapes(s.op.shape)[0].dims;
  std::vector<ir::PadDim> pad;
  std::int64_t places = 1;
  for (const ir::WindowDim& w : a.dims) {
    pad.push_back({w.pad_low, w.pad_high, w.lhs_dilation - 1});
    places *= w.size;
  }
  constexpr std::int64_t kMostPlaces = 4096;
  if (places > kMostPlaces) {
    s.refuse("its window has " + std::to_string(places) + " places and combines them by " +
             s.op.called(0)->name() + "; windows of up to " + std::to_string(kMostPlaces) +
             " have derivatives, and of any size if they add or take a maximum or minimum");
  }
  // The padding takes no part; initial values that aren't neutral count once.
  for (std::size_t k = 0; k < x.size(); ++k) {
    const auto neutral = combiner ? ir::identity_of(*combiner, x[k]->shape.dtype) : std::nullopt;
    x[k] = b.pad(x[k], neutral ? b.constant(*neutral) : init[k], pad);
  }
  std::vector<Instruction*> total;
  for (std::size_t k = 0; k < x.size(); ++k) total.push_back(b.splat(init[k], out_dims));
  for (std::int64_t p = 0; p < places; ++p) {
    Dims starts(a.dims.size()), limits(a.dims.size()), strides(a.dims.size());
    std::int64_t rest = p;
    for (std::size_t d = a.dims.size(); d-- > 0;) {
      const ir::WindowDim& w = a.dims[d];
      starts[d] = rest % w.size * w.rhs_dilation;
      rest /= w.size;
      strides[d] = w.stride;
      limits[d] = out_dims[d] == 0 ? starts[d] : starts[d] + (out_dims[d] - 1) * w.stride + 1;
    }
    std::vector<Instruction*> both = total;
    for (Instruction* y : x) both.push_back(b.slice(y, starts, limits, strides));
    total = apply_to_arrays(b, *s.op.called(0), both);
  }
  return total;
}

}  // namespace

Tangent jvp_reduce_window(JvpSite& s) {
  const auto& a = s.get<ir::WindowAttrs>();
  const std::size_t count = s.x.size() / 2;
  if (count == 1 && !has_tangent(s.shape())) return {};
  const std::optional<Opcode> combiner =
      count == 1 ? ir::as_binary_reducer(*s.op.called(0)) : std::nullopt;
  if (combiner == Opcode::add && needs_only(s, 0, 1)) {
    // The initial value is in each window; its tangent is zero.
    return s.clone_on({s.dx[0].array, s.b.zero(s.shape().dtype)});
  }
  const bool extremum = combiner == Opcode::maximum || combiner == Opcode::minimum;
  const bool cumulative = as_cumulative(a, s.x[0]->shape).has_value();
  if (extremum && needs_only(s, 0, 1) && !cumulative) {
    const Direction d = combiner == Opcode::maximum ? Direction::ge : Direction::le;
    return chosen_in_windows(s.b, s.x[0], s.dx[0].array, a, d);
  }
  const std::optional<Direction> chosen = chosen_tangent_direction(s.op);
  if (chosen && needs_only(s, 1, 1)) {
    return Tangent::tuple({{}, chosen_in_windows(s.b, s.x[0], s.dx[1].array, a, *chosen)});
  }
  if (chosen && needs_only(s, 0, 2)) {
    // The choice doesn't change with the keys.
    Tangent key = chosen_in_windows(s.b, s.x[0], s.tangent(0), a, *chosen);
    return Tangent::tuple({key, chosen_in_windows(s.b, s.x[0], s.tangent(1), a, *chosen)});
  }
  Expansion e(s);
  const std::vector<Instruction*> x(e.x.begin(), e.x.begin() + std::ptrdiff_t(count));
  const std::span<Instruction* const> init(e.x.data() + count, count);
  const auto along = as_cumulative(a, s.x[0]->shape);
  const bool neutral = is_neutral(s.op.operand(count), combiner);
  if (along) {
    std::vector<Instruction*> out = scan_by_pairs(e.b, *s.op.called(0), x, *along);
    if (!neutral) {
      std::vector<Instruction*> both;
      for (std::size_t k = 0; k < count; ++k) {
        both.push_back(e.b.splat(init[k], out[k]->shape.dims));
      }
      both.insert(both.end(), out.begin(), out.end());
      out = apply_to_arrays(e.b, *s.op.called(0), both);
    }
    return e.finish(s, out);
  }
  return e.finish(s, window_by_places(e.b, s, x, init, combiner));
}

Tangent jvp_select_and_scatter(JvpSite& s) {
  // Where the operand's extrema are does not change with it.
  if (s.dx[1].is_zero() && s.dx[2].is_zero()) return {};
  if (!s.dx[2].is_zero()) s.refuse("its initial value may not depend on what is differentiated");
  if (ir::as_binary_reducer(*s.op.called(1)) != Opcode::add) s.refuse("it doesn't add");
  return s.clone_on({s.x[0], s.dx[1].array, s.b.zero(s.shape().dtype)});
}

// ------------------------------------------------------------------ batch normalisation

namespace {

struct Normalisation {
  ir::Builder& b;
  Shape shape;
  std::int64_t feature;
  Dims others;

  Normalisation(ir::Builder& builder, const Shape& x, std::int64_t feature_index)
      : b(builder),
        shape(x),
        feature(feature_index),
        others(kept_dims(x.rank(), {feature_index})) {}

  Instruction* spread(Instruction* x) const { return b.broadcast(x, shape.dims, {feature}); }
  Instruction* sum(Instruction* x) const {
    Computation* adder = ir::scalar_computation(b.module(), Opcode::add, x->shape.dtype);
    return b.reduce(x, b.zero(x->shape.dtype), others, adder);
  }
  Instruction* mean(Instruction* x) const {
    double n = 1;
    for (const std::int64_t d : others) n *= double(shape.dim(d));
    Instruction* total = sum(x);
    return b.binary(Opcode::divide, total, full(b, total->shape, n));
  }
  Instruction* mul(Instruction* x, Instruction* y) const {
    return b.binary(Opcode::multiply, x, y);
  }
  Instruction* sub(Instruction* x, Instruction* y) const {
    return b.binary(Opcode::subtract, x, y);
  }
  Instruction* inverse_deviation(Instruction* variance, float epsilon) const {
    return b.unary(Opcode::rsqrt,
                   b.binary(Opcode::add, variance, full(b, variance->shape, double(epsilon))));
  }
};

}  // namespace

Tangent jvp_batch_norm_training(JvpSite& s) {
  const auto& a = s.get<ir::BatchNormAttrs>();
  Expansion e(s);
  const Normalisation n(e.b, s.x[0]->shape, a.feature_index);
  Instruction* mean = n.mean(e.x[0]);
  Instruction* centred = n.sub(e.x[0], n.spread(mean));
  Instruction* variance = n.mean(n.mul(centred, centred));
  Instruction* scale = n.mul(n.inverse_deviation(variance, a.epsilon), e.x[1]);
  Instruction* y = e.b.binary(Opcode::add, n.mul(centred, n.spread(scale)), n.spread(e.x[2]));
  return e.finish(s, {y, mean, variance});
}

Tangent jvp_batch_norm_inference(JvpSite& s) {
  const auto& a = s.get<ir::BatchNormAttrs>();
  Expansion e(s);
  const Normalisation n(e.b, s.x[0]->shape, a.feature_index);
  Instruction* centred = n.sub(e.x[0], n.spread(e.x[3]));
  Instruction* scale = n.mul(n.inverse_deviation(e.x[4], a.epsilon), e.x[1]);
  return e.finish(s, {e.b.binary(Opcode::add, n.mul(centred, n.spread(scale)), n.spread(e.x[2]))});
}

/// Of operand, scale, mean, variance, gradient.
Tangent jvp_batch_norm_grad(JvpSite& s) {
  const auto& a = s.get<ir::BatchNormAttrs>();
  Expansion e(s);
  const Normalisation n(e.b, s.x[0]->shape, a.feature_index);
  Instruction* inverse = n.inverse_deviation(e.x[3], a.epsilon);
  Instruction* normal = n.mul(n.sub(e.x[0], n.spread(e.x[2])), n.spread(inverse));
  Instruction* of_scale = n.sum(n.mul(e.x[4], normal));
  Instruction* of_offset = n.sum(e.x[4]);
  Instruction* pulled = n.sub(n.sub(e.x[4], n.spread(n.mean(e.x[4]))),
                              n.mul(normal, n.spread(n.mean(n.mul(e.x[4], normal)))));
  Instruction* of_operand = n.mul(pulled, n.spread(n.mul(e.x[1], inverse)));
  return e.finish(s, {of_operand, of_scale, of_offset});
}

}  // namespace tessera::transforms
