// SPDX-License-Identifier: Apache-2.0
// The random choice of the next op; elementwise ops, reductions, dots and moves.
#include <algorithm>
#include <functional>

#include "src/ir/hooks.h"
#include "tests/support/random_scope.h"

namespace tessera::testing {

namespace {

using ir::Opcode;

constexpr std::int64_t kMaxElements = 1024;

std::int64_t count_of(const Dims& dims) { return element_count(dims); }

bool real_float(DType t) { return t == f32 || t == f64; }

}  // namespace

void RandomScope::add(Known k) { pool_.push_back(k); }

Known RandomScope::any() { return dice_.pick(pool_); }

ir::Instruction* RandomScope::fill(DType dtype, double v, const Dims& dims) {
  return b_.splat(b_.scalar(dtype, v), dims);
}

Known RandomScope::constant_like(const Dims& dims) {
  if (dice_.chance(0.5)) return {fill(f32, double(dice_.between(-3, 3)), dims), 3};
  return {b_.constant(random_literal(dice_, f32, dims, exact())), 4};
}

/// -0 and 0 are equal to comparisons and maxima, not to a comparison of bits.
Known RandomScope::no_negative_zero(Known k) {
  if (!exact() || !real_float(k.x->shape.dtype)) return k;
  return {b_.binary(Opcode::add, k.x, fill(k.x->shape.dtype, 0, k.x->shape.dims)), k.bound};
}

Known RandomScope::small(Known k) {
  const DType t = k.x->shape.dtype;
  const Dims& dims = k.x->shape.dims;
  if (t == DType::pred) return k;
  if (exact()) {
    if (k.bound <= 512) return k;
    return {b_.emit(Opcode::clamp, {b_.scalar(t, -9), k.x, b_.scalar(t, 9)}), 9};
  }
  if (k.bound <= 64) return k;
  if (is_complex(t)) return {b_.binary(Opcode::multiply, k.x, fill(t, 4 / k.bound, dims)), 4};
  if (is_integer(t)) return {b_.emit(Opcode::clamp, {b_.scalar(t, -9), k.x, b_.scalar(t, 9)}), 9};
  // Smooth, and not so steep that rounding errors grow.
  ir::Instruction* scaled = b_.binary(Opcode::multiply, k.x, fill(t, 4 / k.bound, dims));
  return {b_.unary(Opcode::tanh, scaled), 1};
}

Known RandomScope::to_float(Known k) {
  const DType t = k.x->shape.dtype;
  if (real_float(t)) return k;
  if (is_complex(t)) return {b_.unary(Opcode::real, k.x), k.bound};
  return {b_.convert(k.x, f32), t == DType::pred ? 1 : k.bound};
}

Known RandomScope::any_float() { return to_float(any()); }

Dims RandomScope::random_dims() {
  static const std::vector<std::int64_t> sizes = {1, 2, 3, 4, 5, 6, 7, 8, 8, 12, 13, 16, 24};
  Dims dims;
  std::int64_t count = 1;
  for (std::int64_t d = dice_.between(1, 3); d > 0; --d) {
    std::int64_t n = dice_.pick(sizes);
    if (count * n > 512) n = 2;
    dims.push_back(n);
    count *= n;
  }
  return dims;
}

Known RandomScope::as_shape(Known k, const Dims& dims) {
  k = to_float(k);
  if (k.x->shape.dtype != f32) k.x = b_.convert(k.x, f32);
  if (k.x->shape.dims != dims) {
    if (count_of(k.x->shape.dims) == count_of(dims)) {
      k.x = b_.reshape(k.x, dims);
    } else if (k.x->shape.dims.size() == dims.size() && dice_.chance(0.7)) {
      std::vector<ir::PadDim> padding(dims.size());
      for (std::size_t d = 0; d < dims.size(); ++d) padding[d].high = dims[d] - k.x->shape.dims[d];
      k.x = b_.pad(k.x, b_.scalar(f32, 1), padding);
      k.bound = std::max(k.bound, 1.0);
    } else {
      Dims all;
      for (std::size_t d = 0; d < k.x->shape.dims.size(); ++d) all.push_back(std::int64_t(d));
      ir::Computation* sum = ir::scalar_computation(b_.module(), Opcode::add, f32);
      k.bound *= double(count_of(k.x->shape.dims));
      if (!all.empty()) k.x = b_.reduce(k.x, b_.scalar(f32, 0), all, sum);
      k = small(k);
      k.x = b_.splat(k.x, dims);
    }
  }
  return small(k);
}

ir::Instruction* RandomScope::small_index(std::int64_t size) {
  // Sometimes from data, sometimes out of range.
  if (dice_.chance(0.5) || !exact()) {
    return b_.scalar(s32, double(dice_.between(-3, size + 3)));
  }
  Known k = as_shape(any(), {});
  return b_.convert(k.x, s32);
}

ir::Instruction* RandomScope::flag() {
  if (!exact()) return b_.scalar(DType::pred, dice_.chance(0.5) ? 1 : 0);
  Known k = as_shape(any(), {});
  return b_.compare(ir::Direction::gt, k.x, b_.scalar(f32, double(dice_.between(-4, 4))));
}

void RandomScope::grow(int ops) {
  for (int i = 0; i < ops; ++i) step();
}

void RandomScope::step() {
  using Step = void (RandomScope::*)();
  static const std::vector<Step> steps = {&RandomScope::unary,
                                          &RandomScope::binary,
                                          &RandomScope::binary,
                                          &RandomScope::compare_select,
                                          &RandomScope::broadcast,
                                          &RandomScope::reshape,
                                          &RandomScope::reshape,
                                          &RandomScope::transpose,
                                          &RandomScope::reduce,
                                          &RandomScope::reduce,
                                          &RandomScope::arg_reduce,
                                          &RandomScope::dot,
                                          &RandomScope::dot,
                                          &RandomScope::iota,
                                          &RandomScope::concatenate,
                                          &RandomScope::concatenate,
                                          &RandomScope::slice,
                                          &RandomScope::slice,
                                          &RandomScope::pad,
                                          &RandomScope::reverse,
                                          &RandomScope::roll,
                                          &RandomScope::convert,
                                          &RandomScope::dynamic_slice,
                                          &RandomScope::dynamic_update,
                                          &RandomScope::sort,
                                          &RandomScope::fft,
                                          &RandomScope::take,
                                          &RandomScope::scatter_add,
                                          &RandomScope::window,
                                          &RandomScope::constraint,
                                          &RandomScope::constraint,
                                          &RandomScope::loop,
                                          &RandomScope::rows_loop,
                                          &RandomScope::branch,
                                          &RandomScope::call,
                                          &RandomScope::integers,
                                          &RandomScope::gather,
                                          &RandomScope::gather,
                                          &RandomScope::scatter,
                                          &RandomScope::scatter,
                                          &RandomScope::convolution,
                                          &RandomScope::convolution,
                                          &RandomScope::pool_gradient,
                                          &RandomScope::solve,
                                          &RandomScope::cholesky,
                                          &RandomScope::top_k,
                                          &RandomScope::batch_norm,
                                          &RandomScope::real_fft,
                                          &RandomScope::random_bits,
                                          &RandomScope::mapped,
                                          &RandomScope::running_argmax,
                                          &RandomScope::bits_of_floats,
                                          &RandomScope::not_a_number};
  (this->*dice_.pick(steps))();
}

void RandomScope::unary() {
  Known k = any_float();
  const DType t = k.x->shape.dtype;
  const Dims& dims = k.x->shape.dims;
  if (exact()) {
    switch (dice_.below(4)) {
      case 0:
        return add({b_.unary(Opcode::abs, k.x), k.bound});
      case 1:
        return add({b_.unary(Opcode::sign, k.x), 1});
      case 2:
        return add(no_negative_zero({b_.unary(Opcode::negate, k.x), k.bound}));
      default:
        return add(
            small(no_negative_zero({b_.binary(Opcode::multiply, k.x, k.x), k.bound * k.bound})));
    }
  }
  ir::Instruction* positive =
      b_.binary(Opcode::add, b_.binary(Opcode::multiply, k.x, k.x), fill(t, 1, dims));
  switch (dice_.below(7)) {
    case 0:
      return add({b_.unary(Opcode::tanh, k.x), 1});
    case 1:
      return add({b_.unary(Opcode::sine, b_.unary(Opcode::tanh, k.x)), 1});
    case 2:
      return add({b_.unary(Opcode::exponential, b_.unary(Opcode::tanh, k.x)), 3});
    case 3:
      return add({b_.unary(Opcode::logistic, k.x), 1});
    case 4:
      return add({b_.unary(Opcode::log, positive), 10});
    case 5:
      return add({b_.unary(Opcode::rsqrt, positive), 1});
    default:
      return add({b_.binary(Opcode::divide, k.x, positive), 1});
  }
}

void RandomScope::binary() {
  Known a = any_float();
  const Dims dims = a.x->shape.dims;
  Known c = dice_.chance(0.2) ? constant_like(dims) : as_shape(any(), dims);
  c.x = b_.convert(c.x, a.x->shape.dtype);
  switch (dice_.below(6)) {
    case 0:
    case 1:
      return add(small({b_.binary(Opcode::add, a.x, c.x), a.bound + c.bound}));
    case 2:
      return add(small({b_.binary(Opcode::subtract, a.x, c.x), a.bound + c.bound}));
    case 3:
      return add(
          small(no_negative_zero({b_.binary(Opcode::multiply, a.x, c.x), a.bound * c.bound})));
    case 4:
      return add({b_.binary(Opcode::maximum, a.x, c.x), std::max(a.bound, c.bound)});
    default:
      return add({b_.binary(Opcode::minimum, a.x, c.x), std::max(a.bound, c.bound)});
  }
}

void RandomScope::compare_select() {
  Known a = any_float();
  const Dims dims = a.x->shape.dims;
  if (!exact()) {
    // A mask that doesn't depend on rounding.
    if (dims.empty()) return;
    ir::Instruction* at = b_.iota(Shape(s32, dims), dice_.below(std::int64_t(dims.size())));
    ir::Instruction* mask = b_.compare(ir::Direction::lt, at, fill(s32, 3, dims));
    Known c = as_shape(any(), dims);
    return add(
        {b_.select(mask, a.x, b_.convert(c.x, a.x->shape.dtype)), std::max(a.bound, c.bound)});
  }
  Known c = as_shape(any(), dims);
  c.x = b_.convert(c.x, a.x->shape.dtype);
  ir::Instruction* mask =
      b_.compare(dice_.chance(0.5) ? ir::Direction::lt : ir::Direction::ge, a.x, c.x);
  if (dice_.chance(0.3)) return add({mask, 1});
  if (dice_.chance(0.3)) mask = b_.unary(Opcode::not_, mask);
  add({b_.select(mask, a.x, c.x), std::max(a.bound, c.bound)});
}

void RandomScope::broadcast() {
  Known k = any();
  const Dims& in = k.x->shape.dims;
  if (in.size() >= 4) return;
  Dims out = in, map;
  const std::size_t at = std::size_t(dice_.below(std::int64_t(in.size()) + 1));
  static const std::vector<std::int64_t> sizes = {2, 3, 5, 8, 8, 16};
  const std::int64_t n = dice_.pick(sizes);
  if (count_of(in) * n > kMaxElements) return;
  out.insert(out.begin() + std::ptrdiff_t(at), n);
  for (std::size_t d = 0; d < in.size(); ++d) map.push_back(std::int64_t(d < at ? d : d + 1));
  add({b_.broadcast(k.x, out, map), k.bound});
}

Dims RandomScope::regrouped(const Dims& dims) {
  // Prime factors of all dims, joined again elsewhere; sometimes only neighbours merge.
  std::vector<std::int64_t> factors;
  for (std::int64_t n : dims) {
    for (std::int64_t p = 2; n > 1;) {
      if (n % p == 0) {
        factors.push_back(p);
        n /= p;
      } else {
        ++p;
      }
    }
  }
  Dims out;
  std::int64_t product = 1;
  for (std::int64_t f : factors) {
    product *= f;
    if (dice_.chance(0.45) && out.size() < 3) {
      out.push_back(product);
      product = 1;
    }
  }
  if (product > 1 || out.empty()) out.push_back(product);
  // An array without elements has no factors that say so.
  if (count_of(dims) == 0) out[std::size_t(dice_.below(std::int64_t(out.size())))] = 0;
  if (dice_.chance(0.2)) {
    out.insert(out.begin() + std::ptrdiff_t(dice_.below(std::int64_t(out.size()) + 1)), 1);
  }
  return out;
}

void RandomScope::reshape() {
  Known k = any();
  add({b_.reshape(k.x, regrouped(k.x->shape.dims)), k.bound});
}

void RandomScope::transpose() {
  Known k = any();
  const std::int64_t rank = k.x->shape.rank();
  if (rank < 2) return;
  Dims perm;
  for (std::int64_t d = 0; d < rank; ++d) perm.push_back(d);
  for (std::int64_t i = rank; i > 1; --i) {
    std::swap(perm[std::size_t(i - 1)], perm[std::size_t(dice_.below(i))]);
  }
  add({b_.transpose(k.x, perm), k.bound});
}

void RandomScope::reduce() {
  Known k = any();
  const DType t = k.x->shape.dtype;
  if (is_complex(t)) return;
  Dims dims;
  double count = 1;
  for (std::int64_t d = 0; d < k.x->shape.rank(); ++d) {
    if (dice_.chance(0.6)) continue;
    dims.push_back(d);
    count *= double(k.x->shape.dim(d));
  }
  if (dims.empty()) return;
  if (t == DType::pred) {
    Opcode op = dice_.chance(0.5) ? Opcode::and_ : Opcode::or_;
    return add({b_.reduce(k.x, b_.scalar(t, op == Opcode::and_ ? 1 : 0), dims,
                          ir::scalar_computation(b_.module(), op, t)),
                1});
  }
  if (exact() && dice_.chance(0.15)) {
    // Signs multiply exactly, but for the sign of zero.
    return add(
        no_negative_zero({b_.reduce(b_.unary(Opcode::sign, k.x), b_.scalar(t, 1), dims,
                                    ir::scalar_computation(b_.module(), Opcode::multiply, t)),
                          1}));
  }
  Opcode op = Opcode::add;
  double init = dice_.chance(0.2) ? 3 : 0, bound = k.bound * count + 3;
  if (dice_.chance(0.4)) {
    op = dice_.chance(0.5) ? Opcode::maximum : Opcode::minimum;
    init = op == Opcode::maximum ? -100 : 100;
    if (dice_.chance(0.3)) init = 2;
    bound = std::max(k.bound, 100.0);
  }
  add(small({b_.reduce(k.x, b_.scalar(t, init), dims, ir::scalar_computation(b_.module(), op, t)),
             bound}));
}

ir::Computation* RandomScope::argmax_computation(DType t) {
  ir::Computation* pick = b_.module()->add_computation("argmax");
  ir::Builder r(pick);
  ir::Instruction* va = r.parameter(0, Shape(t, {}));
  ir::Instruction* ia = r.parameter(1, Shape(s32, {}));
  ir::Instruction* vb = r.parameter(2, Shape(t, {}));
  ir::Instruction* ib = r.parameter(3, Shape(s32, {}));
  ir::Instruction* greater = r.compare(ir::Direction::gt, va, vb);
  ir::Instruction* first = r.binary(Opcode::and_, r.compare(ir::Direction::eq, va, vb),
                                    r.compare(ir::Direction::lt, ia, ib));
  ir::Instruction* left = r.binary(Opcode::or_, greater, first);
  pick->set_root(r.tuple({r.select(left, va, vb), r.select(left, ia, ib)}));
  return pick;
}

void RandomScope::arg_reduce() {
  if (!exact()) return;
  Known k = any_float();
  if (k.x->shape.rank() == 0) return;
  const DType t = k.x->shape.dtype;
  const std::int64_t dim = dice_.below(k.x->shape.rank());
  ir::Instruction* at = b_.iota(Shape(s32, k.x->shape.dims), dim);
  ir::Instruction* out = b_.emit(Opcode::reduce, {k.x, at, b_.scalar(t, -1000), b_.scalar(s32, 0)},
                                 ir::DimensionsAttrs{{dim}}, {argmax_computation(t)});
  add({b_.get_tuple_element(out, 0), std::max(k.bound, 1000.0)});
  add({b_.get_tuple_element(out, 1), double(k.x->shape.dim(dim))});
}

void RandomScope::dot() {
  Known a = any_float(), c = any_float();
  if (exact() && a.bound * c.bound > 4096) return;
  c.x = b_.convert(c.x, a.x->shape.dtype);
  ir::DotAttrs attrs;
  double count = 1;
  const Dims &da = a.x->shape.dims, &dc = c.x->shape.dims;
  std::vector<char> taken(dc.size(), 0);
  std::int64_t out = 1;
  for (std::size_t i = 0; i < da.size(); ++i) {
    bool used = false;
    for (std::size_t k = 0; k < dc.size() && !used; ++k) {
      if (taken[k] || dc[k] != da[i] || dice_.chance(0.3)) continue;
      taken[k] = 1;
      used = true;
      if (dice_.chance(0.3)) {
        attrs.lhs_batch.push_back(std::int64_t(i));
        attrs.rhs_batch.push_back(std::int64_t(k));
        out *= da[i];
      } else {
        attrs.lhs_contracting.push_back(std::int64_t(i));
        attrs.rhs_contracting.push_back(std::int64_t(k));
        count *= double(da[i]);
      }
    }
    if (!used) out *= da[i];
  }
  for (std::size_t k = 0; k < dc.size(); ++k) out *= taken[k] ? 1 : dc[k];
  if (attrs.lhs_contracting.empty() || out > kMaxElements || double(out) * count > 16384) {
    // A matrix for the last dim instead.
    if (da.empty() || da.back() > 32) return;
    static const std::vector<std::int64_t> sizes = {1, 3, 5, 8, 8, 16};
    const std::int64_t n = dice_.pick(sizes);
    if (count_of(da) / std::max<std::int64_t>(da.back(), 1) * n > kMaxElements) return;
    c = as_shape(c, {da.back(), n});
    c.x = b_.convert(c.x, a.x->shape.dtype);
    attrs = {};
    attrs.lhs_contracting = {std::int64_t(da.size()) - 1};
    attrs.rhs_contracting = {0};
    count = double(da.back());
  }
  // Sums must stay exact in f32.
  if (exact() && a.bound * c.bound * count > double(1 << 23)) return;
  add(small({b_.dot(a.x, c.x, attrs), a.bound * c.bound * count}));
}

void RandomScope::iota() {
  const Dims dims = random_dims();
  const std::int64_t dim = dice_.below(std::int64_t(dims.size()));
  const DType t = dice_.chance(0.5) ? f32 : s32;
  add(small({b_.iota(Shape(t, dims), dim), double(dims[std::size_t(dim)])}));
}

void RandomScope::convert() {
  Known k = any();
  const DType t = k.x->shape.dtype;
  if (is_complex(t)) return;
  if (exact()) {
    static const std::vector<DType> to = {s32, f32, f64, s64};
    return add({b_.convert(k.x, dice_.pick(to)), t == DType::pred ? 1 : k.bound});
  }
  add({b_.convert(k.x, dice_.chance(0.5) ? f32 : f64), std::max(k.bound, 1.0)});
}

void RandomScope::constraint() {
  Known k = any();
  ir::Instruction* x =
      b_.emit_shaped(Opcode::sharding_constraint, k.x->shape, {k.x}, ir::ShardingConstraintAttrs{});
  x->sharding = {random_sharding(dice_, mesh_, k.x->shape.dims, dice_.chance(0.4))};
  add({x, k.bound});
}

}  // namespace tessera::testing
