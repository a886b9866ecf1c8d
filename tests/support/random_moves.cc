// SPDX-License-Identifier: Apache-2.0
// Random ops that move elements, and random control flow.
#include <algorithm>

#include "tests/support/random_scope.h"

namespace tessera::testing {

using ir::Opcode;

void RandomScope::concatenate() {
  Known k = any();
  if (k.x->shape.rank() == 0) return;
  const std::int64_t dim = dice_.below(k.x->shape.rank());
  std::vector<ir::Instruction*> parts{k.x};
  double bound = k.bound;
  for (std::int64_t extra = dice_.between(1, 2); extra > 0; --extra) {
    if (dice_.chance(0.3)) {
      parts.push_back(k.x);
      continue;
    }
    if (k.x->shape.dtype == DType::pred || is_complex(k.x->shape.dtype)) continue;
    Dims dims = k.x->shape.dims;
    dims[std::size_t(dim)] = dice_.between(1, 9);
    if (element_count(dims) > 512) continue;
    Known other = as_shape(any(), dims);
    parts.push_back(b_.convert(other.x, k.x->shape.dtype));
    bound = std::max(bound, other.bound);
  }
  add({b_.concatenate(parts, dim), bound});
}

void RandomScope::slice() {
  Known k = any();
  const Dims& in = k.x->shape.dims;
  Dims starts, limits, strides;
  for (std::int64_t n : in) {
    std::int64_t lo = 0, hi = n, step = 1;
    if (n > 1 && dice_.chance(0.6)) {
      lo = dice_.below(n);
      hi = dice_.between(lo + 1, n);
      if (dice_.chance(0.3)) step = dice_.between(2, 3);
    }
    starts.push_back(lo);
    limits.push_back(hi);
    strides.push_back(step);
  }
  add({b_.slice(k.x, starts, limits, strides), k.bound});
}

void RandomScope::pad() {
  Known k = any();
  const DType t = k.x->shape.dtype;
  if (k.x->shape.rank() == 0) return;
  std::vector<ir::PadDim> padding;
  std::int64_t count = 1;
  for (std::int64_t n : k.x->shape.dims) {
    ir::PadDim p;
    if (dice_.chance(0.6)) {
      p.interior = dice_.chance(0.3) ? dice_.between(1, 2) : 0;
      const std::int64_t spread = n + (n - 1) * p.interior;
      p.low = dice_.between(-std::min<std::int64_t>(2, spread - 1), 4);
      p.high = dice_.between(-std::min<std::int64_t>(2, spread + p.low - 1), 4);
      n = spread + p.low + p.high;
    }
    padding.push_back(p);
    count *= n;
  }
  if (count > 1024 || count < 1) return;
  add({b_.pad(k.x, b_.scalar(t, t == DType::pred ? 1 : 2), padding), std::max(k.bound, 2.0)});
}

void RandomScope::reverse() {
  Known k = any();
  Dims dims;
  for (std::int64_t d = 0; d < k.x->shape.rank(); ++d) {
    if (dice_.chance(0.5)) dims.push_back(d);
  }
  if (dims.empty()) return;
  add({b_.reverse(k.x, dims), k.bound});
}

void RandomScope::roll() {
  Known k = any();
  if (k.x->shape.rank() == 0) return;
  const std::size_t d = std::size_t(dice_.below(k.x->shape.rank()));
  const Dims& dims = k.x->shape.dims;
  if (dims[d] < 2) return;
  const std::int64_t by = dice_.between(1, dims[d] - 1);
  Dims zero(dims.size(), 0), cut = dims, from = zero;
  cut[d] = by;
  from[d] = by;
  add({b_.concatenate({b_.slice(k.x, from, dims), b_.slice(k.x, zero, cut)}, std::int64_t(d)),
       k.bound});
}

void RandomScope::dynamic_slice() {
  Known k = any();
  Dims sizes;
  std::vector<ir::Instruction*> starts;
  for (std::int64_t n : k.x->shape.dims) {
    const bool cut = dice_.chance(0.6);
    sizes.push_back(cut ? dice_.between(1, n) : n);
    starts.push_back(cut ? small_index(n) : b_.scalar(s32, 0));
  }
  if (sizes.empty()) return;
  add({b_.dynamic_slice(k.x, starts, sizes), k.bound});
}

void RandomScope::dynamic_update() {
  Known k = any_float();
  Dims sizes;
  std::vector<ir::Instruction*> starts;
  for (std::int64_t n : k.x->shape.dims) {
    const bool cut = dice_.chance(0.6);
    sizes.push_back(!cut ? n : dice_.chance(0.4) ? 1 : dice_.between(1, n));
    starts.push_back(cut ? small_index(n) : b_.scalar(s32, 0));
  }
  if (sizes.empty()) return;
  Known u = as_shape(any(), sizes);
  add({b_.dynamic_update_slice(k.x, b_.convert(u.x, k.x->shape.dtype), starts),
       std::max(k.bound, u.bound)});
}

void RandomScope::sort() {
  Known k = any_float();
  if (k.x->shape.rank() == 0) return;
  const DType t = k.x->shape.dtype;
  const std::int64_t dim = dice_.below(k.x->shape.rank());
  const bool with_index = exact() && dice_.chance(0.5);
  ir::Computation* less = b_.module()->add_computation("less");
  ir::Builder r(less);
  ir::Instruction* a = r.parameter(0, Shape(t, {}));
  ir::Instruction* c = r.parameter(1, Shape(t, {}));
  if (with_index) {
    r.parameter(2, Shape(s32, {}));
    r.parameter(3, Shape(s32, {}));
  }
  less->set_root(r.compare(dice_.chance(0.5) ? ir::Direction::lt : ir::Direction::gt, a, c));
  if (!with_index) return add({b_.sort({k.x}, dim, true, less), k.bound});
  ir::Instruction* at = b_.iota(Shape(s32, k.x->shape.dims), dim);
  ir::Instruction* sorted = b_.sort({k.x, at}, dim, true, less);
  add({b_.get_tuple_element(sorted, 0), k.bound});
  add({b_.get_tuple_element(sorted, 1), double(k.x->shape.dim(dim))});
}

void RandomScope::fft() {
  if (exact()) return;
  Known k = any();
  if (k.x->shape.rank() == 0 || k.x->shape.dtype == f64 || is_integer(k.x->shape.dtype)) return;
  if (k.x->shape.dtype == DType::pred) return;
  if (!is_complex(k.x->shape.dtype)) k.x = b_.convert(k.x, c64);
  if (k.x->shape.dtype != c64) return;
  const std::int64_t n = k.x->shape.dims.back();
  const bool inverse = dice_.chance(0.5);
  add(small({b_.fft(k.x, inverse ? ir::FftType::ifft : ir::FftType::fft, {n}),
             k.bound * (inverse ? 1 : double(n))}));
}

void RandomScope::take() {
  if (!exact()) return;
  Known k = any_float();
  if (k.x->shape.rank() == 0) return;
  const std::int64_t rank = k.x->shape.rank(), dim = dice_.below(rank);
  const std::int64_t n = dice_.between(1, 9);
  Known at = as_shape(any(), {n, 1});
  ir::GatherAttrs g;
  g.index_vector_dim = 1;
  g.start_index_map = {dim};
  g.collapsed_slice_dims = {dim};
  g.slice_sizes = k.x->shape.dims;
  g.slice_sizes[std::size_t(dim)] = 1;
  for (std::int64_t d = 1; d < rank; ++d) g.offset_dims.push_back(d);
  if (element_count(k.x->shape.dims) / k.x->shape.dim(dim) * n > 1024) return;
  add({b_.emit(Opcode::gather, {k.x, b_.convert(at.x, s32)}, g), k.bound});
}

void RandomScope::scatter_add() {
  if (!exact()) return;
  Known k = any_float();
  if (k.x->shape.rank() == 0) return;
  const std::int64_t rank = k.x->shape.rank(), dim = dice_.below(rank);
  const std::int64_t n = dice_.between(1, 9);
  ir::ScatterAttrs s;
  s.index_vector_dim = 1;
  s.scatter_dims_to_operand_dims = {dim};
  s.inserted_window_dims = {dim};
  Dims update{n};
  for (std::int64_t d = 0; d < rank; ++d) {
    if (d == dim) continue;
    s.update_window_dims.push_back(std::int64_t(update.size()));
    update.push_back(k.x->shape.dim(d));
  }
  if (element_count(update) > 1024) return;
  Known at = as_shape(any(), {n, 1}), u = as_shape(any(), update);
  const DType t = k.x->shape.dtype;
  add(small({b_.emit(Opcode::scatter, {k.x, b_.convert(at.x, s32), b_.convert(u.x, t)}, s,
                     {ir::scalar_computation(b_.module(), Opcode::add, t)}),
             k.bound + u.bound * double(n)}));
}

void RandomScope::window() {
  Known k = any_float();
  if (k.x->shape.rank() == 0) return;
  const std::size_t d = std::size_t(dice_.below(k.x->shape.rank()));
  const std::int64_t n = k.x->shape.dims[d];
  if (n == 0) return;  // no window has a place there
  ir::WindowAttrs w;
  w.dims.resize(k.x->shape.dims.size());
  ir::WindowDim& at = w.dims[d];
  if (dice_.chance(0.5)) {
    // A running sum from either end.
    at.size = n;
    (dice_.chance(0.7) ? at.pad_low : at.pad_high) = n - 1;
  } else {
    at.size = std::min<std::int64_t>(n, dice_.between(1, 4));
    at.stride = dice_.between(1, 3);
    at.pad_low = dice_.below(at.size);
    at.pad_high = dice_.below(at.size);
    if (dice_.chance(0.2)) at.lhs_dilation = 2;
    if (dice_.chance(0.2) && (at.size - 1) * 2 < n) at.rhs_dilation = 2;
  }
  const DType t = k.x->shape.dtype;
  const bool highest = dice_.chance(0.3);
  add(small(
      {b_.emit(Opcode::reduce_window, {k.x, b_.scalar(t, highest ? -50 : 0)}, w,
               {ir::scalar_computation(b_.module(), highest ? Opcode::maximum : Opcode::add, t)}),
       std::max(k.bound, 50.0) * double(at.size)}));
}

void RandomScope::integers() {
  Known k = any_float();
  if (!exact()) return;
  ir::Instruction* x = b_.convert(k.x, s32);
  const Dims& dims = x->shape.dims;
  Known other = as_shape(any(), dims);
  ir::Instruction* y = b_.convert(other.x, s32);
  static const std::vector<Opcode> ops = {Opcode::and_, Opcode::or_, Opcode::xor_, Opcode::divide,
                                          Opcode::remainder};
  x = b_.binary(dice_.pick(ops), x, y);
  if (dice_.chance(0.3)) x = b_.unary(Opcode::popcnt, x);
  Dims all;
  for (std::int64_t d = 0; d < x->shape.rank(); ++d) {
    if (dice_.chance(0.3)) all.push_back(d);
  }
  if (!all.empty()) {
    static const std::vector<Opcode> reducers = {Opcode::and_, Opcode::or_, Opcode::xor_};
    const Opcode op = dice_.pick(reducers);
    x = b_.reduce(x, b_.scalar(s32, op == Opcode::and_ ? -1 : 0), all,
                  ir::scalar_computation(b_.module(), op, s32));
  }
  // Any bits may be set by now.
  add({b_.emit(Opcode::clamp, {b_.scalar(s32, -9), x, b_.scalar(s32, 9)}), 9});
}

void RandomScope::loop() {
  if (!options_.control_flow || depth_ > 1) return;
  std::vector<ir::Instruction*> carried{b_.scalar(s32, 0)};
  std::vector<Shape> shapes{Shape(s32, {})};
  for (std::int64_t n = dice_.between(1, 2); n > 0; --n) {
    Known k = any_float();
    k = as_shape(k, k.x->shape.dims);
    carried.push_back(k.x);
    shapes.push_back(k.x->shape);
  }
  const Shape state = Shape::tuple(shapes);
  ir::Module* m = b_.module();
  const std::int64_t trips = dice_.between(1, 3);
  const bool by_data = exact() && dice_.chance(0.3);

  ir::Computation* condition = m->add_computation("condition");
  {
    ir::Builder c(condition);
    ir::Instruction* p = c.parameter(0, state);
    ir::Instruction* go =
        c.compare(ir::Direction::lt, c.get_tuple_element(p, 0), c.scalar(s32, double(trips)));
    if (by_data) {
      ir::Instruction* x = c.get_tuple_element(p, 1);
      Dims all;
      for (std::int64_t d = 0; d < x->shape.rank(); ++d) all.push_back(d);
      if (!all.empty()) {
        x = c.reduce(x, c.scalar(f32, 0), all, ir::scalar_computation(m, Opcode::add, f32));
      }
      go = c.binary(Opcode::and_, go, c.compare(ir::Direction::lt, x, c.scalar(f32, 20)));
    }
    condition->set_root(go);
  }
  ir::Computation* body = m->add_computation("body");
  {
    RandomScope inner(dice_, mesh_, options_, body, depth_ + 1);
    ir::Builder& c = inner.b();
    c.metadata = b_.metadata;
    ir::Instruction* p = c.parameter(0, state);
    ir::Instruction* i = c.get_tuple_element(p, 0);
    for (std::size_t k = 1; k < shapes.size(); ++k) {
      inner.add({c.get_tuple_element(p, std::int64_t(k)), 1024});
    }
    if (exact() && dice_.chance(0.5)) inner.add({c.convert(i, f32), 4});
    inner.grow(int(dice_.between(1, 4)));
    std::vector<ir::Instruction*> next{c.binary(Opcode::add, i, c.scalar(s32, 1))};
    for (std::size_t k = 1; k < shapes.size(); ++k) {
      next.push_back(inner.as_shape(inner.any(), shapes[k].dims).x);
    }
    body->set_root(c.tuple(next));
  }
  ir::Instruction* out = b_.while_loop(condition, body, b_.tuple(carried),
                                       by_data ? std::nullopt : std::optional<std::int64_t>(trips));
  for (std::size_t k = 1; k < shapes.size(); ++k) {
    add({b_.get_tuple_element(out, std::int64_t(k)), 1024});
  }
}

/// As vmap makes it of a loop per row: rows without work keep what they carry, mostly.
void RandomScope::rows_loop() {
  if (!options_.control_flow || depth_ > 1 || !exact()) return;
  Known k = any_float();
  if (k.x->shape.rank() == 0) return;
  k = as_shape(k, k.x->shape.dims);
  const Dims rows{k.x->shape.dim(0)};
  // The number of trips of a row depends on its elements.
  ir::Module* m = b_.module();
  ir::Instruction* work = b_.convert(k.x, s32);
  Dims others;
  for (std::int64_t d = 1; d < k.x->shape.rank(); ++d) others.push_back(d);
  if (!others.empty()) {
    work =
        b_.reduce(work, b_.scalar(s32, 0), others, ir::scalar_computation(m, Opcode::maximum, s32));
  }
  work = b_.emit(Opcode::clamp, {b_.scalar(s32, 0), work, b_.scalar(s32, 5)});
  const Shape state = Shape::tuple({work->shape, k.x->shape});
  const auto has_work = [&](ir::Builder& b, ir::Instruction* p) {
    return b.compare(ir::Direction::gt, b.get_tuple_element(p, 0), b.splat(b.scalar(s32, 0), rows));
  };
  ir::Computation* condition = m->add_computation("condition");
  {
    ir::Builder c(condition);
    ir::Instruction* p = c.parameter(0, state);
    condition->set_root(c.reduce(has_work(c, p), c.scalar(DType::pred, 0), {0},
                                 ir::scalar_computation(m, Opcode::or_, DType::pred)));
  }
  ir::Computation* body = m->add_computation("body");
  {
    RandomScope inner(dice_, mesh_, options_, body, depth_ + 1);
    ir::Builder& c = inner.b();
    c.metadata = b_.metadata;
    ir::Instruction* p = c.parameter(0, state);
    ir::Instruction *left = c.get_tuple_element(p, 0), *x = c.get_tuple_element(p, 1);
    ir::Instruction* go = has_work(c, p);
    inner.add({x, 1024});
    inner.grow(int(dice_.between(1, 2)));
    ir::Instruction* next = inner.as_shape(inner.any(), x->shape.dims).x;
    if (dice_.chance(0.9)) next = c.select(c.broadcast(go, x->shape.dims, {0}), next, x);
    ir::Instruction* less = c.binary(Opcode::subtract, left, c.splat(c.scalar(s32, 1), rows));
    body->set_root(c.tuple({c.select(go, less, left), next}));
  }
  ir::Instruction* out = b_.while_loop(condition, body, b_.tuple({work, k.x}), std::nullopt);
  add({b_.get_tuple_element(out, 1), 1024});
}

void RandomScope::branch() {
  if (!options_.control_flow || depth_ > 1) return;
  Known k = any_float();
  k = as_shape(k, k.x->shape.dims);
  const Shape shape = k.x->shape;
  Known other = as_shape(any(), dice_.chance(0.5) ? shape.dims : random_dims());
  const Shape state = Shape::tuple({shape, other.x->shape});
  const bool indexed = dice_.chance(0.3);
  const int count = indexed ? 3 : 2;
  std::vector<ir::Computation*> branches;
  ir::Instruction* operand = b_.tuple({k.x, other.x});
  for (int i = 0; i < count; ++i) {
    ir::Computation* c = b_.module()->add_computation("branch");
    RandomScope inner(dice_, mesh_, options_, c, depth_ + 1);
    inner.b().metadata = b_.metadata;
    ir::Instruction* p = inner.b().parameter(0, state);
    inner.add({inner.b().get_tuple_element(p, 0), 1024});
    inner.add({inner.b().get_tuple_element(p, 1), 1024});
    inner.grow(int(dice_.between(1, 3)));
    c->set_root(inner.as_shape(inner.any(), shape.dims).x);
    branches.push_back(c);
  }
  ir::Instruction* selector = indexed ? small_index(2) : flag();
  std::vector<ir::Instruction*> operands(std::size_t(count), operand);
  add({b_.conditional(selector, operands, branches), 1024});
}

void RandomScope::call() {
  if (!options_.control_flow || depth_ > 1) return;
  Known k = any_float();
  k = as_shape(k, k.x->shape.dims);
  ir::Computation* c = b_.module()->add_computation("function");
  RandomScope inner(dice_, mesh_, options_, c, depth_ + 1);
  inner.b().metadata = b_.metadata;
  inner.add({inner.b().parameter(0, k.x->shape), 1024});
  inner.grow(int(dice_.between(1, 3)));
  c->set_root(inner.as_shape(inner.any(), k.x->shape.dims).x);
  Known once{b_.call(c, {k.x}), 1024};
  add(once);
  if (dice_.chance(0.5)) add({b_.call(c, {once.x}), 1024});
}

}  // namespace tessera::testing
