// SPDX-License-Identifier: Apache-2.0
// Derivatives taken within code per device: where parts of a gradient are added up, as JAX does it
// with and without check_vma.
#include <tessera/tessera.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing::derivatives_per_device {
namespace {

Mesh line() { return mesh_of({{"x", 4}}); }

Array weights() { return arange(3.0f) + 1.0f; }
Array examples() { return reshape(arange(24.0f), {8, 3}) / 10.0f; }
Array loss(const Array& w, const Array& x) { return sum(sin(matmul(x, w))); }
Array global_gradient() { return grad(loss)(weights(), examples()); }

/// f(w, x) on each device of the line, w on all of them and x by its rows.
auto per_device(auto f, PartitionSpec out = P(), bool check_vma = true) {
  return shard_map(
      f, {.mesh = line(), .in_specs = tree(P(), P("x")), .out_specs = out, .check_vma = check_vma});
}
/// The same function's value outside and within another transformation's program.
void expect_gradient(auto f, const Array& want, float tolerance = 1e-4f) {
  expect_close(f(weights(), examples()), want, tolerance);
  expect_close(jit(f)(weights(), examples()), want, tolerance);
}

TEST(DerivativesPerDevice, GradientsOfWhatAllShareAreAddedUp) {
  expect_gradient(per_device([](Array w, Array x) { return grad(loss)(w, x); }), global_gradient());
  expect_gradient(per_device([](Array w, Array x) {
                    return grad([&](Array v) { return psum(loss(v, x), "x"); })(w);
                  }),
                  global_gradient());
  expect_gradient(per_device([](Array w, Array x) {
                    return grad([&](Array v) { return pmean(loss(v, x), "x"); })(w);
                  }),
                  global_gradient() / 4.0f);
}

TEST(DerivativesPerDevice, GradientsOfPartsStayWhereTheyAre) {
  const auto f = shard_map(
      [](Array w, Array x) {
        return grad([&](Array v) { return psum(loss(w, v * psum(v, "x")), "x"); })(x);
      },
      {.mesh = line(), .in_specs = tree(P(), P("x")), .out_specs = P("x")});
  const Array want = grad([](Array x) {
    const Array all = tile(sum(reshape(x, {4, 2, 3}), {0}), {4, 1});
    return loss(weights(), x * all);
  })(examples());
  expect_gradient(f, want, 1e-3f);
}

TEST(DerivativesPerDevice, UncheckedSumsHaveSumsAsTransposes) {
  // Each device's own gradient.
  const Array x = examples();
  std::vector<Array> own;
  for (std::int64_t d = 0; d < 4; ++d) {
    own.push_back(grad(loss)(weights(), slice(x, {2 * d, 0}, {2 * d + 2, 3})));
  }
  const Array parts = stack(own, 0);
  const auto rows = [](auto f) {
    return per_device([f](Array w, Array x) { return expand_dims(f(w, x), 0); }, P("x"), false);
  };
  expect_gradient(rows([](Array w, Array x) { return grad(loss)(w, x); }), parts);
  expect_gradient(rows([](Array w, Array x) {
                    return grad([&](Array v) { return psum(loss(v, x), "x"); })(w);
                  }),
                  parts * 4.0f);
  expect_gradient(rows([](Array w, Array x) {
                    return grad([&](Array v) { return pmean(loss(v, x), "x"); })(w);
                  }),
                  parts);
  expect_gradient(rows([](Array w, Array x) {
                    return grad([&](Array v) { return loss(pvary(v, "x"), x); })(w);
                  }),
                  parts);
  expect_gradient(
      per_device([](Array w, Array x) { return psum(grad(loss)(w, x), "x"); }, P(), false),
      global_gradient());
}

TEST(DerivativesPerDevice, VjpAndLinearize) {
  expect_gradient(per_device([](Array w, Array x) {
                    const auto [value, back] =
                        vjp([&](Array v) { return psum(loss(v, x), "x"); }, w);
                    return back(cos(value) - cos(value) + 1.0f);
                  }),
                  global_gradient());
  expect_gradient(per_device([](Array w, Array x) {
                    const auto [value, back] = vjp([&](Array v) { return loss(v, x); }, w);
                    return back(ones_like(value));
                  }),
                  global_gradient());
  expect_gradient(per_device([](Array w, Array x) {
                    const auto [value, along] =
                        linearize([&](Array v) { return psum(loss(v, x), "x"); }, w);
                    return along(ones({3}));
                  }),
                  sum(global_gradient()));
  expect_gradient(per_device([](Array w, Array x) {
                    return jvp([&](Array v) { return psum(loss(v, x), "x"); }, std::tuple(w),
                               std::tuple(ones({3})))
                        .second;
                  }),
                  sum(global_gradient()));
}

TEST(DerivativesPerDevice, LoopsRematAndBranches) {
  const auto global = [](Array w, Array x) {
    return sum(scan(
                   [&](Array c, Array k) {
                     const Array next = tanh(matmul(x, c) + k);
                     return std::pair(c + 0.1f * matmul(transpose(x), next), sum(c * c));
                   },
                   w, arange(3.0f))
                   .second);
  };
  const auto local = [](Array w, Array x) {
    return sum(scan(remat([=](Array c, Array k) {
                      const Array next = tanh(matmul(x, c) + k);
                      const Array sum_of_parts = psum(matmul(transpose(x), next), "x");
                      return std::pair(c + 0.1f * sum_of_parts, sum(c * c));
                    }),
                    w, arange(3.0f))
                   .second);
  };
  expect_gradient(
      per_device([=](Array w, Array x) { return grad([&](Array v) { return local(v, x); })(w); }),
      grad(global)(weights(), examples()), 1e-3f);
  // What a branch gives depends on the device, its gradient's parts are added up.
  const Array x = examples();
  const auto want =
      grad([&](Array w) { return sum(sin(w)) * 2.0f + sum(w * w) * 2.0f; })(weights());
  expect_gradient(per_device([](Array w, Array) {
                    return grad([](Array v) {
                      return cond(
                          axis_index("x") < 2, [](Array u) { return sum(sin(u)); },
                          [](Array u) { return sum(u * u); }, pvary(v, "x"));
                    })(w);
                  }),
                  want);
}

TEST(DerivativesPerDevice, RulesOfTheUser) {
  auto f = custom_vjp([](Array v) { return sin(v); }, "f");
  f.def_vjp([](Array v) { return std::pair(sin(v), v); },
            [](Array v, Array g) { return 2.0f * g * cos(v); });
  // Before the values meet those of the device, and after.
  expect_gradient(per_device([=](Array w, Array x) {
                    return grad([&](Array v) { return sum(matmul(x, f(v))); })(w);
                  }),
                  2.0f * cos(weights()) * sum(examples(), {0}));
  expect_gradient(per_device([=](Array w, Array x) {
                    return grad([&](Array v) { return sum(f(matmul(x, v))); })(w);
                  }),
                  2.0f * global_gradient());
}

TEST(DerivativesPerDevice, HigherOrders) {
  expect_gradient(per_device([](Array w, Array x) {
                    return hessian([&](Array v) { return psum(loss(v, x), "x"); })(w);
                  }),
                  hessian([](Array w) { return loss(w, examples()); })(weights()), 1e-3f);
  // An inner step of descent per device, differentiated from outside.
  const auto after_step = [](auto gradient) {
    return [=](Array w) {
      const Array g = gradient(w, examples());
      return sum(sin(w - 0.1f * g));
    };
  };
  const auto inner = per_device([](Array w, Array x) { return grad(loss)(w, x); });
  const auto outer = [](Array w, Array x) { return grad(loss)(w, x); };
  expect_close(grad(after_step(inner))(weights()), grad(after_step(outer))(weights()), 1e-3f);
}

TEST(DerivativesPerDevice, OneReductionPerGradient) {
  const auto step = per_device([](Array w, Array x) { return w - 0.1f * grad(loss)(w, x); });
  const std::string text = jit(step).lower(weights(), examples()).compile().as_text();
  EXPECT_EQ(count(text, " all-reduce("), 1u) << text;
  for (const char* other : {" all-gather(", " all-to-all(", " collective-permute("}) {
    EXPECT_EQ(text.find(other), std::string::npos) << text;
  }
}

TEST(DerivativesPerDevice, PartsOfACotangentAreRefused) {
  expect_error<TypeError>(
      [] {
        per_device([](Array w, Array x) {
          const auto [value, back] = vjp([&](Array v) { return psum(loss(v, x), "x"); }, w);
          return back(pvary(ones_like(value), "x"));
        })(weights(), examples());
      },
      {"cotangent 0 of vjp varies over \"x\", and what it belongs to does not", "psum(..., \"x\")",
       kNear});
  // Along a direction of each device the derivative is each device's own.
  expect_gradient(
      per_device(
          [](Array w, Array x) {
            return jvp([](Array v) { return sin(v); }, std::tuple(w), std::tuple(index(x, {0})))
                .second;
          },
          P("x")),
      reshape(cos(weights()) * index(reshape(examples(), {4, 2, 3}), {Slice{}, 0}), {12}));
}

}  // namespace
}  // namespace tessera::testing::derivatives_per_device
