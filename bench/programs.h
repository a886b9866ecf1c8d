// SPDX-License-Identifier: Apache-2.0
// Programs of any size, to measure what the compiler takes for them.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/ir/rewrite/builder.h"
#include "src/sharding/api/lowering.h"

namespace tessera::bench {

struct StepOptions {
  int layers = 12;
  std::pair<std::int64_t, std::int64_t> mesh{2, 4};
  std::int64_t batch = 64, sequence = 128, width = 1024, heads = 32;
};

/// A transformer's training step, forward, backward and update, written out: batch over "x",
/// hidden layers and heads over "y".
class TransformerStep {
 public:
  explicit TransformerStep(const StepOptions& options)
      : o_(options),
        module_(std::make_unique<ir::Module>("transformer_step")),
        b_(module_->add_computation("main")) {
    mesh_ = make_logical_mesh({{"x", o_.mesh.first}, {"y", o_.mesh.second}});
    module_->mesh = mesh_;
    module_->num_partitions = mesh_->num_devices();
    sum_ = ir::scalar_computation(module_.get(), Op::add, f32);
    max_ = ir::scalar_computation(module_.get(), Op::maximum, f32);
  }

  std::unique_ptr<ir::Module> build() {
    const std::int64_t d = o_.width;
    Array x = parameter({o_.batch, o_.sequence, d}, {{0, 0}});
    std::vector<Layer> layers;
    for (int i = 0; i < o_.layers; ++i) {
      Layer l;
      l.qkv = parameter({d, 3 * d}, {{1, 1}});
      l.out = parameter({d, d}, {{0, 1}});
      l.up = parameter({d, 4 * d}, {{1, 1}});
      l.down = parameter({4 * d, d}, {{0, 1}});
      layers.push_back(l);
    }
    for (Layer& l : layers) {
      line_ += 100;
      x = forward(l, x);
    }
    const double count = double(o_.batch * o_.sequence * d);
    Array loss = b_.binary(Op::multiply, reduce(mul(x, x), {0, 1, 2}), b_.scalar(f32, 1 / count));
    Array dx = scaled(x, 2 / count);
    std::vector<Array> results(layers.size() * 4);
    for (std::size_t i = layers.size(); i-- > 0;) {
      line_ += 100;
      dx = backward(layers[i], dx, &results[4 * i]);
    }
    results.push_back(loss);
    Array root = b_.tuple(results);
    root->sharding.assign(results.size(), TensorSharding::open_on(mesh_, 2));
    root->sharding.back() = TensorSharding::replicated_on(mesh_, 0);
    b_.computation()->set_root(root);
    module_->set_entry(b_.computation());
    return std::move(module_);
  }

 private:
  using Array = ir::Instruction*;
  using Op = ir::Opcode;
  static constexpr DType f32 = DType::f32;

  struct Norm {
    Array normal, scale;  ///< scale: rsqrt of the variance, without the last dim
  };
  struct Layer {
    Array qkv, out, up, down;
    Norm first, second;
    Array q, k, v, weights, mask, attended, hidden, tanh, gelu;
  };

  /// A new line of the made-up source.
  void at() {
    b_.metadata.edit().source_file = "step.py";
    b_.metadata.edit().source_line = ++line_;
    b_.metadata.edit().op_name = "jit(step)/block";
  }
  Array parameter(Dims dims, std::vector<std::pair<std::size_t, int>> splits) {
    at();
    Array p = b_.parameter(parameters_++, Shape(f32, dims));
    TensorSharding s = TensorSharding::replicated_on(mesh_, std::int64_t(dims.size()));
    for (const auto& [dim, axis] : splits) s.dims[dim].axes = {axis};
    p->sharding = {std::move(s)};
    return p;
  }
  Array binary(Op op, Array a, Array b) {
    at();
    return b_.binary(op, a, b);
  }
  Array unary(Op op, Array a) {
    at();
    return b_.unary(op, a);
  }
  Array add(Array a, Array b) { return binary(Op::add, a, b); }
  Array sub(Array a, Array b) { return binary(Op::subtract, a, b); }
  Array mul(Array a, Array b) { return binary(Op::multiply, a, b); }
  Array like(Array x, double v) { return b_.splat(b_.scalar(f32, v), x->shape.dims); }
  Array scaled(Array x, double v) { return mul(x, like(x, v)); }
  Array reduce(Array x, Dims dims, bool max = false) {
    at();
    return b_.reduce(x, b_.scalar(f32, max ? -1e30 : 0), std::move(dims), max ? max_ : sum_);
  }
  /// Along the last dim.
  Array spread(Array x, const Dims& dims) {
    at();
    Dims all;
    for (std::int64_t d = 0; d + 1 < std::int64_t(dims.size()); ++d) all.push_back(d);
    return b_.broadcast(x, dims, all);
  }
  Array mean(Array x) {
    Array sum = reduce(x, {x->shape.rank() - 1});
    return scaled(sum, 1 / double(x->shape.dims.back()));
  }
  Array dot(Array a, Array b, Dims ca, Dims cb, Dims batch = {}) {
    at();
    ir::DotAttrs attrs;
    attrs.lhs_batch = attrs.rhs_batch = std::move(batch);
    attrs.lhs_contracting = std::move(ca);
    attrs.rhs_contracting = std::move(cb);
    return b_.dot(a, b, attrs);
  }

  Norm norm(Array x) {
    Array centred = sub(x, spread(mean(x), x->shape.dims));
    Array variance = mean(mul(centred, centred));
    Array scale = unary(Op::rsqrt, add(variance, like(variance, 1e-5)));
    return {mul(centred, spread(scale, x->shape.dims)), scale};
  }
  Array norm_gradient(const Norm& n, Array d) {
    const Dims& dims = d->shape.dims;
    Array rest =
        sub(sub(d, spread(mean(d), dims)), mul(n.normal, spread(mean(mul(d, n.normal)), dims)));
    return mul(rest, spread(n.scale, dims));
  }

  /// One of q, k, v of the projection as [batch, heads, sequence, width of a head].
  Array heads_of(Array projected, int which) {
    const std::int64_t d = o_.width;
    at();
    Array part = b_.slice(projected, {0, 0, which * d}, {o_.batch, o_.sequence, (which + 1) * d});
    Array split = b_.reshape(part, {o_.batch, o_.sequence, o_.heads, d / o_.heads});
    return b_.transpose(split, {0, 2, 1, 3});
  }
  Array flat_of(Array heads) {
    at();
    return b_.reshape(b_.transpose(heads, {0, 2, 1, 3}), {o_.batch, o_.sequence, o_.width});
  }

  Array forward(Layer& l, Array x) {
    const std::int64_t s = o_.sequence;
    l.first = norm(x);
    Array projected = dot(l.first.normal, l.qkv, {2}, {0});
    l.q = heads_of(projected, 0);
    l.k = heads_of(projected, 1);
    l.v = heads_of(projected, 2);
    Array logits = scaled(dot(l.q, l.k, {3}, {3}, {0, 1}), 0.125);
    at();
    const Shape square(DType::s32, {s, s});
    Array causal = b_.compare(ir::Direction::ge, b_.iota(square, 0), b_.iota(square, 1));
    l.mask = b_.broadcast(causal, logits->shape.dims, {2, 3});
    logits = b_.select(l.mask, logits, like(logits, -1e9));
    Array top = reduce(logits, {3}, true);
    Array e = unary(Op::exponential, sub(logits, spread(top, logits->shape.dims)));
    l.weights = binary(Op::divide, e, spread(reduce(e, {3}), e->shape.dims));
    l.attended = flat_of(dot(l.weights, l.v, {3}, {2}, {0, 1}));
    x = add(x, dot(l.attended, l.out, {2}, {0}));
    l.second = norm(x);
    l.hidden = dot(l.second.normal, l.up, {2}, {0});
    const Array h = l.hidden;
    Array cubic = add(h, scaled(mul(h, mul(h, h)), 0.044715));
    l.tanh = unary(Op::tanh, scaled(cubic, 0.7978845608));
    l.gelu = mul(scaled(h, 0.5), add(l.tanh, like(h, 1)));
    return add(x, dot(l.gelu, l.down, {2}, {0}));
  }

  Array backward(const Layer& l, Array dy, Array* updated) {
    auto update = [&](Array w, Array in, Array d) {
      return sub(w, scaled(dot(in, d, {0, 1}, {0, 1}), 0.01));
    };
    const Array h = l.hidden;
    Array dgelu = dot(dy, l.down, {2}, {1});
    updated[3] = update(l.down, l.gelu, dy);
    Array slope = add(scaled(mul(h, h), 3 * 0.044715), like(h, 1));
    Array curve = sub(like(h, 1), mul(l.tanh, l.tanh));
    Array inner = scaled(mul(mul(h, slope), curve), 0.5 * 0.7978845608);
    Array dh = mul(dgelu, add(scaled(add(l.tanh, like(h, 1)), 0.5), inner));
    updated[2] = update(l.up, l.second.normal, dh);
    Array dx = add(dy, norm_gradient(l.second, dot(dh, l.up, {2}, {1})));

    Array dflat = dot(dx, l.out, {2}, {1});
    updated[1] = update(l.out, l.attended, dx);
    at();
    Array split = b_.reshape(dflat, {o_.batch, o_.sequence, o_.heads, o_.width / o_.heads});
    Array dattended = b_.transpose(split, {0, 2, 1, 3});
    Array dweights = dot(dattended, l.v, {3}, {3}, {0, 1});
    Array dv = dot(l.weights, dattended, {2}, {2}, {0, 1});
    Array common = reduce(mul(dweights, l.weights), {3});
    Array dlogits = mul(l.weights, sub(dweights, spread(common, dweights->shape.dims)));
    dlogits = scaled(b_.select(l.mask, dlogits, like(dlogits, 0)), 0.125);
    Array dq = dot(dlogits, l.k, {3}, {2}, {0, 1});
    Array dk = dot(dlogits, l.q, {2}, {2}, {0, 1});
    at();
    Array dprojected = b_.concatenate({flat_of(dq), flat_of(dk), flat_of(dv)}, 2);
    updated[0] = update(l.qkv, l.first.normal, dprojected);
    return add(dx, norm_gradient(l.first, dot(dprojected, l.qkv, {2}, {1})));
  }

  StepOptions o_;
  std::unique_ptr<ir::Module> module_;
  ir::Builder b_;
  MeshRef mesh_;
  ir::Computation *sum_, *max_;
  std::int64_t parameters_ = 0, line_ = 0;
};

inline std::unique_ptr<ir::Module> transformer_step(const StepOptions& options) {
  return TransformerStep(options).build();
}

/// `count` instructions in a row: dots with a weight that is split along its rows, then along its
/// columns, elementwise ops between them and, now and then, a sum over all rows.
inline std::unique_ptr<ir::Module> chain(std::int64_t count,
                                         std::pair<std::int64_t, std::int64_t> sizes) {
  auto module = std::make_unique<ir::Module>("chain");
  MeshRef mesh = make_logical_mesh({{"x", sizes.first}, {"y", sizes.second}});
  module->mesh = mesh;
  module->num_partitions = mesh->num_devices();
  ir::Builder b(module->add_computation("main"));
  ir::Computation* sum = ir::scalar_computation(module.get(), ir::Opcode::add, DType::f32);
  const std::int64_t n = 4096;
  auto parameter = [&](std::int64_t number, int rows, int columns) {
    ir::Instruction* p = b.parameter(number, Shape(DType::f32, {n, n}));
    TensorSharding s = TensorSharding::replicated_on(mesh, 2);
    if (rows >= 0) s.dims[0].axes = {rows};
    if (columns >= 0) s.dims[1].axes = {columns};
    p->sharding = {std::move(s)};
    return p;
  };
  ir::Instruction *x = parameter(0, 0, -1), *up = parameter(1, -1, 1), *down = parameter(2, 1, -1);
  ir::Instruction* zero = b.zero(DType::f32);
  ir::DotAttrs product;
  product.lhs_contracting = {1};
  product.rhs_contracting = {0};
  for (std::int64_t made = 4; made < count;) {
    x = b.unary(ir::Opcode::tanh, b.dot(x, up, product));
    x = b.binary(ir::Opcode::multiply, x, x);
    x = b.unary(ir::Opcode::tanh, b.dot(x, down, product));
    made += 5;
    if (made % 4 == 0) {
      ir::Instruction* total = b.broadcast(b.reduce(x, zero, {0}, sum), {n, n}, {1});
      x = b.binary(ir::Opcode::subtract, x, total);
      made += 3;
    }
  }
  b.computation()->set_root(x);
  module->set_entry(b.computation());
  return module;
}

}  // namespace tessera::bench
