// SPDX-License-Identifier: Apache-2.0
// Random ops with a structure of their own: convolutions, factorizations, general indexing, ...
#include <algorithm>
#include <limits>
#include <numeric>

#include "tests/support/random_scope.h"

namespace tessera::testing {

using ir::Opcode;

namespace {

constexpr std::int64_t kMaxElements = 1024;

/// A random order of 0..n-1.
Dims shuffled(Dice& dice, std::int64_t n) {
  Dims out(static_cast<std::size_t>(n));
  std::iota(out.begin(), out.end(), 0);
  for (std::int64_t i = n; i > 1; --i) {
    std::swap(out[std::size_t(i - 1)], out[std::size_t(dice.below(i))]);
  }
  return out;
}

ir::Computation* comparing(ir::Module* module, ir::Direction direction, DType t) {
  ir::Computation* c = module->add_computation("choose");
  ir::Builder r(c);
  ir::Instruction* a = r.parameter(0, Shape(t, {}));
  ir::Instruction* b = r.parameter(1, Shape(t, {}));
  c->set_root(r.compare(direction, a, b));
  return c;
}

}  // namespace

void RandomScope::convolution() {
  static const std::vector<std::int64_t> sizes = {1, 2, 3, 4, 8};
  const std::int64_t spatial = dice_.between(1, 2);
  std::int64_t batch = dice_.pick(sizes), in = dice_.pick(sizes), out = dice_.pick(sizes);
  // Groups: of features, or of the batch (as the gradients of grouped convolutions have).
  std::int64_t feature_groups = 1, batch_groups = 1;
  if (dice_.chance(0.4)) {
    const std::int64_t groups = dice_.chance(0.5) ? 2 : 4;
    (dice_.chance(0.6) ? feature_groups : batch_groups) = groups;
    out *= groups;
    in *= feature_groups;
    batch *= batch_groups;
  }
  // Windows over the input, or a window as large as it (the gradient of a kernel).
  const bool large = dice_.chance(0.3);
  ir::ConvolutionAttrs a;
  a.feature_group_count = feature_groups;
  a.batch_group_count = batch_groups;
  Dims x_sizes{batch, in}, k_sizes{in / feature_groups, out};
  double taps = 1;
  for (std::int64_t s = 0; s < spatial; ++s) {
    const std::int64_t rows = dice_.between(1, spatial == 1 ? 13 : 6);
    ir::WindowDim w;
    w.size = large ? rows : std::min<std::int64_t>(rows, dice_.between(1, 4));
    w.pad_low = large ? dice_.between(0, 2) : dice_.below(w.size);
    w.pad_high = large ? dice_.between(0, 2) : dice_.below(w.size);
    if (dice_.chance(0.1) && rows > 4 && !large) w.pad_low = -1;
    if (!large) {
      w.stride = dice_.between(1, 3);
      if (dice_.chance(0.2)) w.lhs_dilation = 2;
    }
    if (dice_.chance(0.2) && (w.size - 1) * 2 < rows) w.rhs_dilation = 2;
    w.reversal = dice_.chance(0.2);
    a.window.push_back(w);
    x_sizes.push_back(rows);
    k_sizes.push_back(w.size);
    taps *= double(w.size);
  }
  // The dims of each array in any order.
  const auto place = [&](const Dims& in_order, Dims* dims) {
    const Dims at = shuffled(dice_, std::int64_t(in_order.size()));
    dims->resize(at.size());
    for (std::size_t i = 0; i < at.size(); ++i) (*dims)[std::size_t(at[i])] = in_order[i];
    return at;
  };
  Dims x_dims, k_dims, out_dims;
  Dims at = place(x_sizes, &x_dims);
  a.input_batch = at[0];
  a.input_feature = at[1];
  a.input_spatial.assign(at.begin() + 2, at.end());
  at = place(k_sizes, &k_dims);
  a.kernel_input_feature = at[0];
  a.kernel_output_feature = at[1];
  a.kernel_spatial.assign(at.begin() + 2, at.end());
  at = place(x_sizes, &out_dims);
  a.output_batch = at[0];
  a.output_feature = at[1];
  a.output_spatial.assign(at.begin() + 2, at.end());
  if (element_count(x_dims) > kMaxElements || element_count(k_dims) > kMaxElements) return;
  Known x = as_shape(any(), x_dims), k = as_shape(any(), k_dims);
  const double bound = x.bound * k.bound * taps * double(in);
  if (exact() && bound > double(1 << 23)) return;
  add(small({b_.emit(Opcode::convolution, {x.x, k.x}, a), bound}));
}

void RandomScope::pool_gradient() {
  if (!exact()) return;
  Known k = any_float();
  if (k.x->shape.rank() == 0) return;
  const DType t = k.x->shape.dtype;
  ir::WindowAttrs w;
  Dims windows;
  for (const std::int64_t n : k.x->shape.dims) {
    ir::WindowDim d;
    if (dice_.chance(0.6)) {
      d.size = std::min<std::int64_t>(n, dice_.between(1, 3));
      d.stride = dice_.between(1, 3);
      d.pad_low = dice_.below(d.size);
      d.pad_high = dice_.below(d.size);
    }
    w.dims.push_back(d);
    windows.push_back((n + d.pad_low + d.pad_high - d.size) / d.stride + 1);
  }
  Known source = as_shape(any(), windows);
  const auto direction = dice_.chance(0.7) ? ir::Direction::ge : ir::Direction::le;
  ir::Computation* select = comparing(b_.module(), direction, t);
  ir::Computation* scatter = ir::scalar_computation(b_.module(), Opcode::add, t);
  add(small(no_negative_zero(
      {b_.emit(Opcode::select_and_scatter,
               {k.x, b_.convert(source.x, t), b_.scalar(t, dice_.chance(0.3) ? 2 : 0)}, w,
               {select, scatter}),
       source.bound * double(element_count(windows)) + 2})));
}

/// A batch of well-conditioned triangles with something beside the other one, too.
ir::Instruction* RandomScope::triangle(const Dims& dims, bool lower, double beside) {
  const std::int64_t rank = std::int64_t(dims.size());
  ir::Instruction* x = as_shape(any(), dims).x;
  x = b_.binary(Opcode::multiply, b_.unary(Opcode::tanh, x), fill(f32, 0.3, dims));
  ir::Instruction* row = b_.iota(Shape(s32, dims), rank - 2);
  ir::Instruction* column = b_.iota(Shape(s32, dims), rank - 1);
  ir::Instruction* diagonal = b_.compare(ir::Direction::eq, row, column);
  ir::Instruction* kept = b_.compare(lower ? ir::Direction::ge : ir::Direction::le, row, column);
  x = b_.select(kept, x, fill(f32, beside, dims));
  return b_.select(diagonal, fill(f32, 2, dims), x);
}

void RandomScope::solve() {
  if (exact()) return;
  static const std::vector<std::int64_t> batches = {1, 2, 3, 8, 8};
  Dims dims;
  if (dice_.chance(0.7)) dims.push_back(dice_.pick(batches));
  const std::int64_t n = dice_.between(1, 8), m = dice_.pick(batches);
  Dims square = dims, right = dims;
  square.insert(square.end(), {n, n});
  ir::TriangularSolveAttrs a;
  a.left_side = dice_.chance(0.5);
  a.lower = dice_.chance(0.5);
  a.unit_diagonal = dice_.chance(0.3);
  if (dice_.chance(0.4)) a.transpose_a = ir::TriangularSolveAttrs::Transpose::transpose;
  right.insert(right.end(), {a.left_side ? n : m, a.left_side ? m : n});
  ir::Instruction* t = triangle(square, a.lower, 7);
  Known b = as_shape(any(), right);
  add(small({b_.emit(Opcode::triangular_solve, {t, b.x}, a), b.bound * 64}));
}

void RandomScope::cholesky() {
  if (exact()) return;
  static const std::vector<std::int64_t> batches = {1, 2, 3, 8, 8};
  Dims dims;
  if (dice_.chance(0.8)) dims.push_back(dice_.pick(batches));
  const std::int64_t n = dice_.between(1, 6);
  dims.insert(dims.end(), {n, n});
  ir::Instruction* t = triangle(dims, true, 0);
  ir::DotAttrs attrs;
  const std::int64_t last = std::int64_t(dims.size()) - 1;
  attrs.lhs_contracting = attrs.rhs_contracting = {last};
  if (last == 2) attrs.lhs_batch = attrs.rhs_batch = {0};
  ir::Instruction* product = b_.dot(t, t, attrs);
  const bool lower = dice_.chance(0.5);
  ir::Instruction* root = b_.emit(Opcode::cholesky, {product}, ir::CholeskyAttrs{lower});
  // Elements outside of the triangle are undefined.
  ir::Instruction* row = b_.iota(Shape(s32, dims), last - 1);
  ir::Instruction* column = b_.iota(Shape(s32, dims), last);
  ir::Instruction* kept = b_.compare(lower ? ir::Direction::ge : ir::Direction::le, row, column);
  add({b_.select(kept, root, fill(f32, 0, dims)), 32});
}

void RandomScope::top_k() {
  if (!exact()) return;
  Known k = any_float();
  if (k.x->shape.rank() == 0) return;
  const std::int64_t n = k.x->shape.dims.back();
  ir::Instruction* out = b_.emit(Opcode::topk, {k.x}, ir::TopKAttrs{dice_.between(1, n), true});
  add({b_.get_tuple_element(out, 0), k.bound});
  add({b_.get_tuple_element(out, 1), double(n)});
}

void RandomScope::batch_norm() {
  if (exact()) return;
  Known k = any_float();
  if (k.x->shape.rank() < 2) return;
  k = as_shape(k, k.x->shape.dims);
  const Dims dims = k.x->shape.dims;
  ir::BatchNormAttrs a;
  a.epsilon = 0.5F;
  a.feature_index = dice_.below(std::int64_t(dims.size()));
  const Dims features{dims[std::size_t(a.feature_index)]};
  ir::Instruction* scale = as_shape(any(), features).x;
  ir::Instruction* offset = as_shape(any(), features).x;
  ir::Instruction* mean = as_shape(any(), features).x;
  ir::Instruction* variance = as_shape(any(), features).x;
  variance = b_.binary(Opcode::multiply, variance, variance);
  switch (dice_.below(3)) {
    case 0: {
      ir::Instruction* out = b_.emit(Opcode::batch_norm_training, {k.x, scale, offset}, a);
      for (int i = 0; i < 3; ++i) add(small({b_.get_tuple_element(out, i), 1e6}));
      return;
    }
    case 1:
      return add(small(
          {b_.emit(Opcode::batch_norm_inference, {k.x, scale, offset, mean, variance}, a), 1e6}));
    default: {
      ir::Instruction* gradient = as_shape(any(), dims).x;
      ir::Instruction* out =
          b_.emit(Opcode::batch_norm_grad, {k.x, scale, mean, variance, gradient}, a);
      for (int i = 0; i < 3; ++i) add(small({b_.get_tuple_element(out, i), 1e6}));
    }
  }
}

void RandomScope::real_fft() {
  if (exact()) return;
  Known k = any();
  if (k.x->shape.rank() == 0 || is_complex(k.x->shape.dtype)) return;
  k = as_shape(k, k.x->shape.dims);
  const Dims& dims = k.x->shape.dims;
  const std::size_t transformed =
      std::min<std::size_t>(dims.size(), std::size_t(dice_.between(1, 2)));
  const Dims lengths(dims.end() - std::ptrdiff_t(transformed), dims.end());
  const double count = double(element_count(lengths));
  if (dice_.chance(0.4)) {
    ir::Instruction* z = b_.emit(Opcode::complex, {k.x, k.x});
    return add(small({b_.fft(z, ir::FftType::fft, lengths), 2 * k.bound * count}));
  }
  ir::Instruction* half = b_.fft(k.x, ir::FftType::rfft, lengths);
  if (dice_.chance(0.5)) return add(small({half, k.bound * count}));
  add(small({b_.fft(half, ir::FftType::irfft, lengths), k.bound * count}));
}

void RandomScope::random_bits() {
  if (!exact()) return;
  Dims dims = random_dims();
  const DType t = dice_.chance(0.5) ? u32 : u64;
  Literal seed(Shape(u64, {2}));
  for (std::uint64_t& s : seed.mutable_data<std::uint64_t>()) s = dice_.next();
  ir::Instruction* both =
      b_.emit_shaped(Opcode::rng_bit_generator, Shape::tuple({Shape(u64, {2}), Shape(t, dims)}),
                     {b_.constant(std::move(seed))}, ir::RngAttrs{"rng_three_fry"});
  ir::Instruction* bits = b_.get_tuple_element(both, 1);
  bits = b_.binary(Opcode::and_, bits, fill(t, 7, dims));
  add({b_.convert(bits, f32), 7});
}

void RandomScope::running_argmax() {
  if (!exact()) return;
  Known k = any_float();
  if (k.x->shape.rank() == 0) return;
  const DType t = k.x->shape.dtype;
  const std::size_t dim = std::size_t(dice_.below(k.x->shape.rank()));
  const std::int64_t n = k.x->shape.dims[dim];
  ir::WindowAttrs w;
  w.dims.resize(k.x->shape.dims.size());
  w.dims[dim].size = n;
  (dice_.chance(0.6) ? w.dims[dim].pad_low : w.dims[dim].pad_high) = n - 1;
  ir::Instruction* at = b_.iota(Shape(s32, k.x->shape.dims), std::int64_t(dim));
  ir::Instruction* out =
      b_.emit(Opcode::reduce_window, {k.x, at, b_.scalar(t, -1000), b_.scalar(s32, 0)}, w,
              {argmax_computation(t)});
  add({b_.get_tuple_element(out, 0), std::max(k.bound, 1000.0)});
  add({b_.get_tuple_element(out, 1), double(n)});
}

void RandomScope::bits_of_floats() {
  if (!exact()) return;
  Known k = any_float();
  k = as_shape(k, k.x->shape.dims);
  const Dims& dims = k.x->shape.dims;
  ir::Instruction* bits = b_.emit_shaped(Opcode::bitcast_convert, Shape(u32, dims), {k.x});
  static const std::vector<Opcode> shifts = {Opcode::shift_left, Opcode::shift_right_logical,
                                             Opcode::shift_right_arithmetic};
  // Shifts by as many bits as there are, and more, have a meaning too.
  bits = b_.binary(dice_.pick(shifts), bits, fill(u32, double(dice_.between(0, 40)), dims));
  if (dice_.chance(0.3)) bits = b_.unary(Opcode::count_leading_zeros, bits);
  bits = b_.binary(Opcode::and_, bits, fill(u32, 15, dims));
  add({b_.convert(bits, f32), 15});
}

void RandomScope::mapped() {
  if (!exact()) return;
  Known a = any_float(), c = any();
  const Dims dims = a.x->shape.dims;
  c = as_shape(c, dims);
  const DType t = a.x->shape.dtype;
  ir::Computation* f = b_.module()->add_computation("mapped");
  ir::Builder r(f);
  ir::Instruction* x = r.parameter(0, Shape(t, {}));
  ir::Instruction* y = r.parameter(1, Shape(f32, {}));
  f->set_root(r.select(r.compare(ir::Direction::gt, x, r.convert(y, t)), x, r.scalar(t, 1)));
  Dims all(dims.size());
  std::iota(all.begin(), all.end(), 0);
  add({b_.emit(Opcode::map, {a.x, c.x}, ir::DimensionsAttrs{all}, {f}), std::max(a.bound, 1.0)});
}

/// NaN among the elements of a few ops; then it is taken out, so that results compare.
void RandomScope::not_a_number() {
  if (!exact()) return;
  Known k = any_float();
  k = as_shape(k, k.x->shape.dims);
  const Dims& dims = k.x->shape.dims;
  ir::Instruction* nan = fill(f32, std::numeric_limits<double>::quiet_NaN(), dims);
  ir::Instruction* some =
      b_.compare(ir::Direction::eq, k.x, fill(f32, double(dice_.between(-3, 3)), dims));
  RandomScope inner(dice_, mesh_, options_, b_.computation(), depth_);
  inner.b_.metadata = b_.metadata;
  inner.add({b_.select(some, nan, k.x), k.bound});
  using Step = void (RandomScope::*)();
  // None that orders elements: no order has NaN in it.
  static const std::vector<Step> steps = {
      &RandomScope::reduce,        &RandomScope::reshape,     &RandomScope::transpose,
      &RandomScope::pad,           &RandomScope::concatenate, &RandomScope::slice,
      &RandomScope::dynamic_slice, &RandomScope::window,      &RandomScope::binary,
      &RandomScope::roll,          &RandomScope::dot,         &RandomScope::dynamic_update};
  for (std::int64_t n = dice_.between(1, 3); n > 0; --n) (inner.*dice_.pick(steps))();
  Known last = inner.pool().back();
  if (!is_floating(last.x->shape.dtype)) return;
  ir::Instruction* is = b_.compare(ir::Direction::ne, last.x, last.x);
  add({b_.select(is, fill(last.x->shape.dtype, 5, last.x->shape.dims), last.x),
       std::max(last.bound, 5.0)});
}

}  // namespace tessera::testing
