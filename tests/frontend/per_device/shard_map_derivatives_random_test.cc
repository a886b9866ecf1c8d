// SPDX-License-Identifier: Apache-2.0
// Random bodies under shard_map: jvp against differences, vjp against jvp.
#include <tessera/tessera.h>

#include "tests/frontend/frontend_testing.h"
#include "tests/support/random_program.h"

namespace tessera::testing::shard_map_derivatives_random {
namespace {

const std::vector<std::string> kNames{"x", "y", "z"};

/// (value, weight: equal on all devices) -> value, in matrices of 4 rows and 8 columns.
using Step = std::function<Array(Array, Array)>;

class Body {
 public:
  Body(Dice& dice, std::vector<std::string> bound, int depth)
      : dice_(dice), bound_(std::move(bound)), depth_(depth) {
    const std::int64_t count = dice.between(1, depth == 0 ? 5 : 2);
    for (std::int64_t k = 0; k < count; ++k) steps_.push_back(make());
  }
  Array operator()(Array a, Array w) const {
    for (const Step& s : steps_) a = s(a, w);
    return a;
  }

 private:
  std::vector<std::string> some() {
    std::vector<std::string> out;
    for (const std::string& n : bound_) {
      if (dice_.chance(0.6)) out.push_back(n);
    }
    if (out.empty()) out.push_back(dice_.pick(bound_));
    if (dice_.chance(0.3)) std::reverse(out.begin(), out.end());
    return out;
  }
  std::shared_ptr<Body> inner(const std::string& more = "") {
    std::vector<std::string> bound = bound_;
    if (!more.empty()) bound.push_back(more);
    return std::make_shared<Body>(dice_, bound, depth_ + 1);
  }

  Step make() {
    const AxisNames over = some();
    const std::int64_t n = 1 << over.list().size();
    const AxisNames all = bound_;
    switch (dice_.below(depth_ < 2 ? 16 : 12)) {
      case 0:
        return [](Array a, Array) { return sin(a); };
      case 1:
        return [](Array a, Array w) { return a * w; };
      case 2:
        return [](Array a, Array w) { return tanh(matmul(matmul(a, transpose(w)), w)); };
      case 3:
        return [over](Array a, Array w) { return a + cos(w) * axis_index(over).astype(f64); };
      case 4:
        return [over](Array a, Array) { return sin(psum(a, over)); };
      case 5:
        return [over](Array a, Array w) { return a * w - pmean(a * a, over); };
      case 6:
        return [over, n](Array a, Array) {
          const Array whole = all_gather(a, over, {.axis = 1, .tiled = true});
          return sin(slice_in_dim(whole, 8 * (n - 1), 8 * n, 1, 1)) + a;
        };
      case 7:
        return [over, n](Array a, Array) {
          return cos(psum_scatter(tile(a, {n, 1}), over, {.scatter_dimension = 0, .tiled = true}));
        };
      case 8: {
        std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
        const std::int64_t by = dice_.below(n);
        for (std::int64_t k = 0; k < n; ++k) {
          if (dice_.chance(0.8)) pairs.emplace_back(k, (k + by) % n);
        }
        return [over, pairs](Array a, Array) { return a + ppermute(sin(a), over, pairs); };
      }
      case 9:
        return [over](Array a, Array) { return reshape(all_to_all(a, over, 1, 0, true), {4, 8}); };
      case 10: {
        const std::int64_t source = dice_.below(n);
        return
            [over, source](Array a, Array w) { return a * pbroadcast(sin(a) * w, over, source); };
      }
      case 11:
        return [over](Array a, Array w) {
          return cond(
              axis_index(over) == 1, [&](Array b) { return pvary(sin(b * w), over); },
              [&](Array b) { return pvary(b * b, over); }, a);
        };
      case 12: {
        auto body = inner();
        const int trips = int(dice_.between(1, 3));
        return [=](Array a, Array w) {
          return fori_loop(
              0, trips, [&](Array, Array c) { return pvary((*body)(c, w), all); }, pvary(a, all));
        };
      }
      case 13: {
        auto body = inner();
        return [=](Array a, Array w) {
          const auto [last, each] = scan(
              [&](Array c, Array s) {
                const Array next = pvary((*body)(c, w * s), all);
                return std::pair(next, psum(sum(next), all));
              },
              pvary(a, all), linspace(0.5f, 1.0f, 2).astype(f64));
          return last + sum(each) * 0.1;
        };
      }
      case 14: {
        auto body = inner();
        return [=](Array a, Array w) {
          return remat([&](Array b, Array v) { return (*body)(b, v); })(a, w);
        };
      }
      default: {
        std::vector<std::string> free;
        for (const std::string& name : kNames) {
          if (std::find(bound_.begin(), bound_.end(), name) == bound_.end()) free.push_back(name);
        }
        if (free.empty()) return [](Array a, Array w) { return a * a + w; };
        const std::string axis = dice_.pick(free);
        auto body = inner(axis);
        const bool joins = dice_.chance(0.5);
        return [=](Array a, Array w) {
          const auto f = shard_map(
              [&](Array b, Array v) {
                const Array c = (*body)(b, v);
                return joins ? c : pmean(c, axis);
              },
              {.in_specs = tree(P(axis), P()),
               .out_specs = joins ? P(axis) : P(),
               .axis_names = {axis}});
          const Array y = f(tile(a, {2, 1}), w);
          return joins ? slice_in_dim(y, 2, 6) : y;
        };
      }
    }
  }

  Dice& dice_;
  std::vector<std::string> bound_;
  int depth_;
  std::vector<Step> steps_;
};

Array random_array(Dice& dice, std::vector<std::int64_t> shape) {
  std::int64_t n = 1;
  for (const std::int64_t d : shape) n *= d;
  std::vector<double> values;
  for (std::int64_t k = 0; k < n; ++k) values.push_back(2 * dice.unit() - 1);
  return array(values, std::move(shape));
}
double dot(const Array& a, const Array& b) { return sum(a * b).item<double>(); }

void run_case(std::uint64_t seed) {
  Dice dice(seed);
  const Mesh mesh = mesh_of({{"x", 2}, {"y", 2}, {"z", 2}});
  std::vector<std::string> manual;
  const std::int64_t set = dice.between(1, 7);
  for (int a = 0; a < 3; ++a) {
    if (set >> a & 1) manual.push_back(kNames[std::size_t(a)]);
  }
  // Each manual axis cuts the rows, or nothing; each is among those of the result's rows, or not.
  std::vector<std::string> in, out, equal;
  for (const std::string& name : manual) {
    if (dice.chance(0.7)) in.push_back(name);
    (dice.chance(0.6) ? out : equal).push_back(name);
  }
  const Body body(dice, manual, 0);
  const auto spec = [](const std::vector<std::string>& axes) {
    return axes.empty() ? P() : P(SpecEntry(axes));
  };
  const bool means = dice.chance(0.5);
  const auto f = shard_map(
      [&](Array a, Array w) {
        Array y = body(a, w);
        if (equal.empty()) return y;
        return means ? pmean(y, equal) : psum(y * w, equal);
      },
      {.mesh = mesh,
       .in_specs = tree(spec(in), P()),
       .out_specs = spec(out),
       .axis_names = manual});
  const Array a = random_array(dice, {std::int64_t(4) << in.size(), 8});
  const Array w = random_array(dice, {4, 8});
  const Array da = random_array(dice, a.shape()), dw = random_array(dice, w.shape());
  const double step = 1e-5;
  const Array far = jit(f)(a + da * step, w + dw * step),
              near = jit(f)(a - da * step, w - dw * step);
  const auto forward = jit([&](Array p, Array q, Array dp, Array dq) {
    return jvp(f, std::tuple(p, q), std::tuple(dp, dq));
  });
  const auto [y, dy] = forward(a, w, da, dw);
  const Array ct = random_array(dice, y.shape());
  const auto [ga, gw] =
      jit([&](Array p, Array q, Array g) { return vjp(f, p, q).second(g); })(a, w, ct);
  const double want = dot((far - near) / (2 * step), ct), have = dot(dy, ct);
  const double size = 1 + std::abs(want) + sum(abs(dy)).item<double>();
  EXPECT_NEAR(have, want, 1e-5 * size) << "jvp against differences";
  EXPECT_NEAR(dot(ga, da) + dot(gw, dw), have, 1e-7 * size) << "vjp against jvp";
}

TEST(ShardMapDerivativesRandom, AgreeWithDifferences) {
  const char* more = std::getenv("SOAK_PROGRAMS");
  const std::uint64_t programs = more ? std::uint64_t(std::atoll(more)) : 300;
  for (std::uint64_t seed = 1; seed <= programs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    try {
      run_case(seed);
    } catch (const std::exception& e) {
      ADD_FAILURE() << e.what();
    }
  }
}

}  // namespace
}  // namespace tessera::testing::shard_map_derivatives_random
