// SPDX-License-Identifier: Apache-2.0
// grad, jvp, vjp, linearize, custom derivatives, remat and vmap, as users call them.
#include <gtest/gtest.h>

#include <cmath>

#include <tessera/tessera.h>

namespace tessera::derivatives_tests {
namespace {

std::vector<float> floats(const Array& a) { return a.to_vector<float>(); }

void expect_near(const Array& got, const Array& want, double tol = 1e-5) {
  ASSERT_EQ(got.shape(), want.shape());
  ASSERT_EQ(got.dtype(), want.dtype());
  const std::vector<float> a = floats(got), b = floats(want);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], tol) << "at " << i;
}

template <class Wrong, class F>
void expect_error(F f, const std::string& text) {
  try {
    f();
    FAIL() << "no error: " << text;
  } catch (const Wrong& e) {
    EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("derivatives_test.cc:"), std::string::npos) << e.what();
  }
}

Array some() { return linspace(-1.0f, 1.5f, 6); }

struct Layer {
  Array w, b;
};
struct Net {
  std::vector<Layer> layers;
  Array scale;
};

Net some_net() {
  const Array key = random::key(3);
  return {{{random::normal(key, {6, 4}), zeros({4})}, {random::normal(key, {4, 2}), ones({2})}},
          Array(0.5f)};
}
Array loss(const Net& n, Array x) {
  for (const Layer& l : n.layers) x = tanh(matmul(x, l.w) + l.b);
  return sum(x * n.scale);
}

TEST(Grad, IsTheGradient) {
  const Array x = some();
  expect_near(grad([](Array v) { return sum(sin(v)); })(x), cos(x));
  EXPECT_NEAR(grad(grad([](Array v) { return sin(v); }))(1.0f).item<float>(), -std::sin(1.0f),
              1e-6);
  EXPECT_NEAR(grad(grad(grad([](Array v) { return v * v * v * v; })))(2.0f).item<float>(), 48,
              1e-4);
}

TEST(Grad, GivesTheArgumentsTypes) {
  const Net net = some_net();
  const Array x = ones({3, 6});
  const Net g = jit(grad([](Net n, Array v) { return loss(n, v); }))(net, x);
  ASSERT_EQ(g.layers.size(), 2u);
  // Against differences.
  const auto moved = [&](float by) {
    Net n = net;
    n.layers[1].b = n.layers[1].b + Array(by);
    return loss(n, x).item<float>();
  };
  EXPECT_NEAR(sum(g.layers[1].b).item<float>(), (moved(1e-2f) - moved(-1e-2f)) / 2e-2f, 1e-2);
  EXPECT_EQ(g.scale.shape(), Array(0.5f).shape());
}

TEST(Grad, TakesSeveralPositionsAndOtherValues) {
  const auto f = [](Array a, Array b) { return std::pair(sum(a * b * b), a + b); };
  const Array a = some(), b = some() + 1.0f;
  const auto [g, other] = grad<0, 1>(f, has_aux)(a, b);
  expect_near(std::get<0>(g), b * b);
  expect_near(std::get<1>(g), 2.0f * a * b);
  expect_near(other, a + b);
  const auto [value, by_second] = value_and_grad<1>(f, has_aux)(a, b);
  expect_near(value.first, sum(a * b * b));
  expect_near(by_second, 2.0f * a * b);
  const auto [plain, gradient] = value_and_grad([](Array v) { return sum(v * v); })(a);
  expect_near(plain, sum(a * a));
  expect_near(gradient, 2.0f * a);
}

TEST(Grad, SeesWhatIsCaptured) {
  const Array x = some();
  // d/dy of y * d/dx (x * y)  =  d/dy y^2
  const auto outer = [](Array y) { return y * grad([&](Array v) { return v * y; })(2.0f); };
  EXPECT_NEAR(grad(outer)(3.0f).item<float>(), 6, 1e-5);
  expect_near(jit([&](Array y) { return grad([&](Array v) { return sum(v * y * x); })(y); })(x),
              x * x);
}

TEST(Grad, OfComplexNumbersIsJaxs) {
  const Array z = complex(some(), some() * 2.0f);
  // jax.grad(lambda z: jnp.sum(jnp.abs(z) ** 2))(z) is 2 conj(z)
  const Array g = grad([](Array v) { return sum(square(abs(v))); })(z);
  expect_near(real(g), 2.0f * real(z), 1e-4);
  expect_near(imag(g), -2.0f * imag(z), 1e-4);
  const Array h = grad([](Array v) { return sum(v * v); }, {.holomorphic = true})(z);
  expect_near(real(h), 2.0f * real(z), 1e-4);
  expect_near(imag(h), 2.0f * imag(z), 1e-4);
}

TEST(Grad, GoesThroughControlFlow) {
  const Array x = some();
  const auto by_scan = [](Array c, Array xs) {
    const auto [last, ys] = scan(
        [](Array a, Array v) {
          const Array next = tanh(a * v + 1.0f);
          return std::pair(next, next * 2.0f);
        },
        c, xs);
    return last + sum(ys);
  };
  const auto unrolled = [](Array c, Array xs) {
    Array total = Array(0.0f);
    for (int i = 0; i < 6; ++i) {
      c = tanh(c * index(xs, {i}) + 1.0f);
      total = total + c * 2.0f;
    }
    return c + total;
  };
  const auto got = grad<0, 1>(by_scan)(Array(0.3f), x);
  const auto want = grad<0, 1>(unrolled)(Array(0.3f), x);
  expect_near(std::get<0>(got), std::get<0>(want));
  expect_near(std::get<1>(got), std::get<1>(want));
  const auto fori = [](Array v) {
    return sum(fori_loop(
        0, 5, [](Array i, Array a) { return sin(a) * (i + 1); }, v));
  };
  const auto plain = [](Array v) {
    for (int i = 0; i < 5; ++i) v = sin(v) * float(i + 1);
    return sum(v);
  };
  expect_near(grad(fori)(x), grad(plain)(x), 1e-3);
  const auto branch = [](Array v) {
    return sum(cond(
        sum(v) > 0.0f, [](Array a) { return a * a; }, [](Array a) { return sin(a); }, v));
  };
  expect_near(grad(branch)(x), 2.0f * x);
  expect_near(grad(branch)(-x), cos(x));
}

TEST(Grad, RefusesWhatItCannotDo) {
  const Array x = some();
  expect_error<ShapeError>([&] { grad([](Array v) { return v; })(x); },
                           "the function returns f32[6] and must return a scalar");
  expect_error<DTypeError>([&] { grad([](Array v) { return sum(v); })(arange(3)); },
                           "argument[0] is s32[3], which has no gradient");
  expect_error<DTypeError>([&] { grad([](Array v) { return sum(v > 0.0f); })(x); },
                           "must return a floating-point scalar");
  expect_error<NotImplementedError>(
      [&] {
        grad([](Array v) {
          return sum(while_loop([](Array a) { return sum(a) < 9.0f; },
                                [](Array a) { return a * 2.0f + 1.0f; }, v));
        })(x);
      },
      "reverse mode through a loop needs to know how often it runs");
  const Array zero =
      grad([](Array v, Array n) { return sum(v) * sum(n); }, {.allow_int = true})(arange(3), x);
  EXPECT_EQ(zero.dtype(), DType::pred);
}

TEST(Jvp, GoesThroughLoopsOfUnknownLength) {
  const auto f = [](Array v) {
    return while_loop([](Array a) { return sum(a) < 50.0f; }, [](Array a) { return a * 2.0f; }, v);
  };
  const Array x = abs(some()) + 0.5f;
  const auto [y, dy] = jvp(f, std::tuple(x), std::tuple(ones_like(x)));
  expect_near(dy, y / x, 1e-3);
  expect_error<TypeError>([&] { jvp(f, std::tuple(x), std::tuple(ones({2}))); },
                          "the tangent of argument[0] is f32[2] and must be f32[6]");
}

TEST(Vjp, KeepsWhatItNeeds) {
  const Array a = reshape(some(), {2, 3}), b = reshape(some(), {3, 2});
  const auto [y, pull] = vjp([](Array p, Array q) { return matmul(p, q); }, a, b);
  const auto [ga, gb] = pull(ones_like(y));
  expect_near(ga, matmul(ones({2, 2}), transpose(b)));
  expect_near(gb, matmul(transpose(a), ones({2, 2})));
  const auto [gc, gd] = pull(2.0f * ones_like(y));
  expect_near(gc, 2.0f * ga);
  expect_near(gd, 2.0f * gb);
  const auto [z, push] = linearize([](Array v) { return v * v; }, a);
  expect_near(push(reshape(b, {2, 3})), 2.0f * a * reshape(b, {2, 3}));
  expect_near(z, a * a);
  const auto back = linear_transpose([&](Array v) { return matmul(a, v); }, b);
  expect_near(back(ones({2, 2})), gb);
  const auto of_type =
      linear_transpose([](Array v) { return 2.0f * v; }, shape_dtype_struct({3}, f32));
  expect_near(of_type(ones({3})), full({3}, 2.0f));
  expect_error<ValueError>([&] { linear_transpose([](Array v) { return sin(v); }, a); },
                           "linear_transpose of a function that is not linear");
}

Array of_operand(Operand x) { return sum(x.array * x.array); }

TEST(Grad, TakesFunctionsOfOperands) {
  expect_near(grad(of_operand)(some()), 2.0f * some());
  EXPECT_NEAR(value_and_grad(of_operand)(3.0f).second.item<float>(), 6, 1e-5);
}

TEST(Grad, IsZeroAtTheKinksOfActivations) {
  expect_near(grad([](Array v) { return sum(relu(v)); })(array({-1.0f, 0.0f, 2.0f})),
              array({0.0f, 0.0f, 1.0f}));
  const Array x = array({0.3f, -0.9f, 0.0f});
  const Array y = erf_inv(x);
  expect_near(grad([](Array v) { return sum(erf_inv(v)); })(x),
              exp(y * y) * float(std::sqrt(std::acos(-1.0)) / 2), 1e-3);
}

TEST(CustomJvp, IsUsedInBothModes) {
  auto f = custom_jvp([](Array x) { return log1p(exp(x)); });
  expect_error<TypeError>([&] { f(some()); }, "called before its rule is set by def_jvp");
  f.def_jvp([](std::tuple<Array> x, std::tuple<Array> dx) {
    return std::pair(log1p(exp(std::get<0>(x))), std::get<0>(x) * 100.0f * std::get<0>(dx));
  });
  const Array x = some();
  expect_near(f(x), log1p(exp(x)));
  expect_near(grad([&](Array v) { return sum(f(v)); })(x), 100.0f * x, 1e-3);
  expect_near(jvp(f, std::tuple(x), std::tuple(ones_like(x))).second, 100.0f * x, 1e-3);
  // Of the rule itself.
  expect_near(grad([&](Array v) { return sum(grad([&](Array u) { return sum(f(u)); })(v)); })(x),
              full({6}, 100.0f), 1e-3);
}

TEST(CustomJvp, TakesFunctionsOfOperands) {
  auto f = custom_jvp([](Operand x, Operand y) { return x.array * y.array; }, "product");
  f.def_jvp([](std::tuple<Array, Array> x, std::tuple<Array, Array> t) {
    return std::pair(std::get<0>(x) * std::get<1>(x), std::get<0>(t) * 10.0f);
  });
  EXPECT_EQ(f(2.0f, 3.0f).item<float>(), 6);
  EXPECT_EQ(grad(f)(2.0f, 3.0f).item<float>(), 10);
}

TEST(CustomVjp, IsUsedInReverseModeOnly) {
  auto f = custom_vjp([](Array x, Array y) { return sin(x) * y; }, "sine_times");
  f.def_vjp([](Array x, Array y) { return std::pair(sin(x) * y, std::tuple(cos(x), sin(x), y)); },
            [](std::tuple<Array, Array, Array> saved, Array g) {
              const auto [c, s, y] = saved;
              return std::tuple(c * g * y * 1000.0f, s * g);
            });
  const Array x = some();
  const auto [gx, gy] = jit(grad<0, 1>([&](Array a, Array b) { return sum(f(a, b)); }))(x, x);
  expect_near(gx, 1000.0f * cos(x) * x, 1e-2);
  expect_near(gy, sin(x));
  expect_error<NotImplementedError>(
      [&] { jvp([&](Array a) { return f(a, a); }, std::tuple(x), std::tuple(x)); },
      "forward mode can't go through sine_times");
  const auto captures = [](Array w) {
    auto g = custom_vjp([w](Array v) { return w * v; }, "captures");
    g.def_vjp([w](Array v) { return std::pair(w * v, w); },
              [](Array saved, Array ct) { return saved * ct; });
    return grad([g](Array v) { return g(v); })(Array(2.0f));
  };
  EXPECT_NEAR(captures(Array(3.0f)).item<float>(), 3, 1e-6);
  EXPECT_NEAR(jit(captures)(Array(3.0f)).item<float>(), 3, 1e-6);
  auto wrong = custom_vjp([](Array v) { return v * 2.0f; });
  wrong.def_vjp([](Array v) { return std::pair(v * 2.0f, v); },
                [](Array, Array g) { return sum(g); });
  expect_error<TypeError>([&] { grad([&](Array v) { return sum(wrong(v)); })(x); },
                          "that the backward rule of custom_vjp gives is f32[] and must be f32[6]");
}

TEST(StopGradient, HasNone) {
  const Array x = some();
  expect_near(grad([](Array v) { return sum(v * stop_gradient(v)); })(x), x);
  expect_near(stop_gradient(x), x);
}

TEST(Remat, ComputesTheSameGradients) {
  const Array w = ones({6, 6}) / 10.0f, x = some();
  const auto gradients = [&](auto layer) {
    return grad([&](Array a, Array v) {
      for (int i = 0; i < 3; ++i) v = layer(a, v);
      return sum(v);
    })(w, x);
  };
  const auto layer = [](Array a, Array v) {
    return tanh(matmul(checkpoint_name(tanh(matmul(v, a)), "inner"), a));
  };
  const Array want = gradients(layer);
  expect_near(gradients(remat(layer)), want);
  for (const CheckpointPolicy& policy :
       {CheckpointPolicy::everything_saveable(), CheckpointPolicy::dots_saveable(),
        CheckpointPolicy::dots_with_no_batch_dims_saveable(),
        CheckpointPolicy::save_only_these_names({"inner"}),
        CheckpointPolicy::save_any_names_but_these({"inner"}),
        CheckpointPolicy::save_anything_except_these_names({"inner"}),
        CheckpointPolicy::save_only_these_names({"inner"}) | CheckpointPolicy::dots_saveable()}) {
    expect_near(gradients(remat(layer, {.policy = policy})), want);
  }
}

TEST(Remat, SavesLessThanThePlainDerivative) {
  const Array w = ones({64, 64}) / 64.0f, x = ones({256, 64});
  const auto peak = [&](auto layer) {
    const auto f = jit(grad([&](Array a, Array v) {
      for (int i = 0; i < 12; ++i) v = layer(a, v);
      return sum(v);
    }));
    return f.lower(w, x).compile().memory_analysis().peak_bytes_per_device;
  };
  const auto layer = [](Array a, Array v) {
    for (int i = 0; i < 4; ++i) v = tanh(matmul(v, a));
    return v;
  };
  EXPECT_LT(double(peak(remat(layer))), 0.6 * double(peak(layer)));
}

TEST(Vmap, BatchesWhatIsTraced) {
  const Array xs = reshape(linspace(0.0f, 1.0f, 12), {3, 4}), w = linspace(1.0f, 2.0f, 4);
  const auto one = [](Array a, Array x) { return sum(a * x); };
  expect_near(vmap(one, {.in_axes = axes_tree(nullptr, 0)})(w, xs), matmul(xs, w));
  expect_near(vmap(one, {.in_axes = axes_tree(nullptr, -1)})(w, transpose(xs)), matmul(xs, w));
  expect_near(vmap([](Array x) { return x * 2.0f; }, {.out_axes = 1})(xs), transpose(xs * 2.0f));
  // A gradient for each entry.
  const Array each = vmap(grad(one), {.in_axes = axes_tree(nullptr, 0)})(w, xs);
  expect_near(each, xs);
  expect_near(jit(vmap(vmap([](Array x) { return x * x; })))(xs), xs * xs);
  expect_near(vmap([](Array x) { return x; }, {.in_axes = nullptr, .axis_size = 2})(w),
              broadcast_to(w, {2, 4}));
}

TEST(Vmap, RefusesWrongAxes) {
  const Array xs = ones({3, 4}), w = ones({4});
  const auto one = [](Array a, Array x) { return sum(a * x); };
  expect_error<ValueError>([&] { vmap(one)(w, xs); }, "holds 3 entries along dim 0, and argument");
  expect_error<ValueError>([&] { vmap(one, {.in_axes = axes_tree(nullptr, 5)})(w, xs); },
                           "in_axes of argument[1] is 5 for an array of rank 2");
  expect_error<ValueError>([&] { vmap([](Array x) { return x; })(Array(1.0f)); },
                           "a scalar holds no batch");
  expect_error<ValueError>([&] { vmap(one, {.in_axes = nullptr})(w, w); },
                           "names no dimension; valid: at least one, or axis_size");
  expect_error<ValueError>(
      [&] { vmap(one, {.in_axes = axes_tree(nullptr, 0), .out_axes = nullptr})(w, xs); },
      "is nullptr, and the result depends on the batch");
}

TEST(Jacobian, IsTheMatrixOfDerivatives) {
  const Array a = reshape(some(), {2, 3}), x = linspace(0.5f, 1.0f, 3);
  const auto f = [&](Array v) { return sin(matmul(a, v)); };
  const Array want = reshape(cos(matmul(a, x)), {2, 1}) * a;
  expect_near(jacfwd(f)(x), want);
  expect_near(jacrev(f)(x), want);
  const Array h = hessian([](Array v) { return sum(v * v * v); })(x);
  expect_near(h, diag(6.0f * x), 1e-4);
}

TEST(Grad, IsShardedAsTheProgramIs) {
  const Mesh mesh = make_mesh({{"data", 2}, {"model", 4}});
  const Array w = device_put(ones({8, 16}) / 8.0f, NamedSharding(mesh, P(nullptr, "model")));
  const Array x = device_put(ones({4, 8}), NamedSharding(mesh, P("data")));
  const auto f = [](Array a, Array v) { return sum(square(tanh(matmul(v, a)))); };
  const Array g = jit(grad(f))(w, x);
  expect_near(g, grad(f)(ones({8, 16}) / 8.0f, ones({4, 8})));
  EXPECT_EQ(g.sharding(), w.sharding());
}

}  // namespace
}  // namespace tessera::derivatives_tests
