// SPDX-License-Identifier: Apache-2.0
// Random compositions of transformations: wrapping a function in jit, remat, loops, branches or
// vmap changes nothing, whatever derivatives are taken inside and around.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <random>

#include <tessera/tessera.h>

namespace tessera {
namespace {

constexpr std::int64_t kSize = 3;

using Function = std::function<Array(Array)>;

/// The same function twice: as transformations make it, and in plain calls.
struct Composition {
  Function wrapped, plain;
  std::string text;
};

class Compositions {
 public:
  explicit Compositions(unsigned seed) : bits_(seed) {}

  Composition make(int depth) {
    Composition f = leaf();
    for (int d = 0; d < depth; ++d) f = around(std::move(f));
    return f;
  }

 private:
  std::size_t pick(std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(bits_);
  }

  static Composition same(Function f, std::string text) { return {f, f, std::move(text)}; }

  Composition leaf() {
    switch (pick(6)) {
      case 0:
        return same([](Array x) { return sin(x) * x; }, "sin(x) x");
      case 1:
        return same([](Array x) { return tanh(x + 0.3f) / (1.5f + x * x); }, "tanh / (1.5 + x x)");
      case 2:
        return same(
            [](Array x) {
              const Array w = reshape(linspace(-0.5f, 0.6f, kSize * kSize), {kSize, kSize});
              return cos(matmul(w, x));
            },
            "cos(W x)");
      case 3:
        return same([](Array x) { return softmax(x) * sum(x); }, "softmax sum");
      case 4:
        return same([](Array x) { return cumsum(exp(-x * x)); }, "cumsum(exp(-x x))");
      default:
        return same([](Array x) { return where(x > 0.1f, x * x, sin(x)); }, "where");
    }
  }

  Composition around(Composition f) {
    const Function w = f.wrapped, p = f.plain;
    switch (pick(11)) {
      case 0:
        return {jit(w), p, "jit(" + f.text + ")"};
      case 1:
        return {remat(w), p, "remat(" + f.text + ")"};
      case 2:
        return {[w](Array x) {
                  return scan([&](Array c, Array s) { return std::pair(w(c) * s, Array(0.0f)); }, x,
                              ones({2}))
                      .first;
                },
                [p](Array x) { return p(p(x)); }, "scan(" + f.text + ")"};
      case 3:
        return {[w](Array x) {
                  return cond(
                      sum(x * x) > -1.0f, [&](Array a) { return w(a); }, [](Array a) { return a; },
                      x);
                },
                p, "cond(" + f.text + ")"};
      case 4:
        return {[w](Array x) {
                  const Array both =
                      concatenate({reshape(x, {1, kSize}), reshape(x * 0.5f, {1, kSize})}, 0);
                  return sum(vmap(w)(both), 0);
                },
                [p](Array x) { return p(x) + p(x * 0.5f); }, "vmap(" + f.text + ")"};
      case 5:
        return {[w](Array x) { return grad([&](Array v) { return sum(w(v)); })(x); },
                [p](Array x) { return grad([&](Array v) { return sum(p(v)); })(x); },
                "grad(" + f.text + ")"};
      case 6:
        return {[w](Array x) { return jvp(w, std::tuple(x), std::tuple(cos(x))).second; },
                [p](Array x) { return jvp(p, std::tuple(x), std::tuple(cos(x))).second; },
                "jvp(" + f.text + ")"};
      case 7:
        return {[w](Array x) {
                  const auto [y, pull] = vjp(w, x);
                  return pull(sin(y));
                },
                [p](Array x) {
                  const Array ct = sin(p(x));
                  return grad([&](Array v) { return sum(p(v) * ct); })(x);
                },
                "vjp(" + f.text + ")"};
      case 8:
        return {[w](Array x) {
                  return fori_loop(
                      0, 2, [&](Array, Array c) { return w(c) * 0.5f; }, x);
                },
                [p](Array x) { return p(p(x) * 0.5f) * 0.5f; }, "fori(" + f.text + ")"};
      case 9:
        // Its rule uses an array of the function around it.
        return {[w](Array x) {
                  const Array one = stop_gradient(x * 0.0f + 1.0f);
                  auto f = custom_jvp([w](Array v) { return w(v); });
                  f.def_jvp([w, one](std::tuple<Array> v, std::tuple<Array> dv) {
                    const auto [y, dy] = jvp(w, v, dv);
                    return std::pair(y, dy * one);
                  });
                  return f(x);
                },
                p, "custom_jvp(" + f.text + ")"};
      default: {
        const Composition g = leaf();
        return {[w, g](Array x) { return w(x) * g.wrapped(x); },
                [p, g](Array x) { return p(x) * g.plain(x); }, "(" + f.text + ") " + g.text};
      }
    }
  }

  std::mt19937 bits_;
};

TEST(RandomTransforms, ComposeToWhatPlainCallsGive) {
  const char* first = std::getenv("SOAK_SEED");
  const char* more = std::getenv("SOAK_PROGRAMS");
  const unsigned seed = first ? unsigned(std::atoi(first)) : 11;
  const int count = more ? std::atoi(more) : 1000;
  for (int n = 0; n < count; ++n) {
    Compositions random(seed + unsigned(n));
    const Composition f = random.make(4);
    SCOPED_TRACE("seed " + std::to_string(seed + unsigned(n)) + ": " + f.text);
    const Array x = linspace(-0.7f, 0.9f, kSize);
    const std::vector<float> got = jit(f.wrapped)(x).to_vector<float>();
    const std::vector<float> want = jit(f.plain)(x).to_vector<float>();
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (!std::isfinite(want[i]) || std::abs(want[i]) > 1e4f) continue;
      const double tolerance = 2e-3 * (1 + std::abs(want[i]));
      if (std::abs(got[i] - want[i]) <= tolerance) continue;
      // Rounding may be all that differs, where the function itself multiplies it.
      const std::vector<float> near = jit(f.plain)(x * 1.0000002f).to_vector<float>();
      if (std::abs(near[i] - want[i]) > tolerance) continue;
      ADD_FAILURE() << "at " << i << ": " << got[i] << " for " << want[i];
    }
  }
}

}  // namespace
}  // namespace tessera
