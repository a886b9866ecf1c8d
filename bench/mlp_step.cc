// SPDX-License-Identifier: Apache-2.0
// A training step of a two-layer network, on one device and on 8 in {2, 4} (batch over x, hidden
// layer over y), in turn in one run: ratio of medians, peak memory, compile time.
#include <tessera/tessera.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "src/compiler/engine.h"

using namespace tessera;

namespace {

using Clock = std::chrono::steady_clock;
double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

struct Params {
  Array w1, b1, w2, b2;
};

std::pair<Params, Array> step(const Params& p, const Array& x, const Array& y) {
  const Array h = tanh(matmul(x, p.w1) + p.b1);
  const Array error = matmul(h, p.w2) + p.b2 - y;
  const Array loss = mean(square(error));
  const Array d_out = error * (2.0f / float(y.size()));
  const Array d_pre = matmul(d_out, transpose(p.w2)) * (1 - h * h);
  return {Params{p.w1 - .01f * matmul(transpose(x), d_pre), p.b1 - .01f * sum(d_pre, 0),
                 p.w2 - .01f * matmul(transpose(h), d_out), p.b2 - .01f * sum(d_out, 0)},
          loss};
}

struct Case {
  Params params;
  Array x, y;
  decltype(jit(step)) run = jit(step, {.donate_argnums = {0}, .name = "mlp_step"});
  double compile_ms = 0;
  std::vector<double> times;

  void place(const std::function<Array(const Array&, const PartitionSpec&)>& put) {
    const Array k = random::split(random::key(0), 6);
    auto normal = [&](std::int64_t i, std::vector<std::int64_t> shape) {
      return random::normal(reshape(slice_in_dim(k, i, i + 1), {2}), shape) * 0.1f;
    };
    params = {put(normal(0, {512, 2048}), P(nullptr, "y")), put(normal(1, {2048}), P("y")),
              put(normal(2, {2048, 512}), P("y", nullptr)), put(normal(3, {512}), P())};
    x = put(normal(4, {512, 512}), P("x"));
    y = put(normal(5, {512, 512}), P("x"));
  }
  void compile() {
    const auto start = Clock::now();
    (void)run.lower(params, x, y).compile();
    compile_ms = ms_since(start);
  }
  void once() {
    const auto start = Clock::now();
    auto [next, loss] = run(params, x, y);
    times.push_back(ms_since(start));
    params = next;
  }
  double median() {
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }
};

/// The high-water mark of a step with nothing else alive.
std::int64_t measure_peak(const std::function<void(Case&)>& place) {
  Case c;
  place(c);
  c.once();
  const compiler::Engine& engine = compiler::engine_of(devices()[0]);
  engine.reset_peak_memory();
  c.once();
  return engine.memory_stats().peak;
}

}  // namespace

int main() {
  const Mesh mesh = make_mesh({{"x", 2}, {"y", 4}});
  const auto on_one = [](Case& c) {
    c.place([](const Array& a, const PartitionSpec&) { return device_put(a, devices()[0]); });
  };
  const auto on_eight = [&](Case& c) {
    c.place([&](const Array& a, const PartitionSpec& p) {
      return device_put(a, NamedSharding(mesh, p));
    });
  };
  double compile_one = 0, compile_eight = 0;
  {
    // First of all, since equal programs are compiled once.
    Case a, b;
    on_one(a);
    on_eight(b);
    a.compile();
    b.compile();
    compile_one = a.compile_ms;
    compile_eight = b.compile_ms;
  }
  const std::int64_t peak_one = measure_peak(on_one), peak_eight = measure_peak(on_eight);
  Case one, eight;
  on_one(one);
  on_eight(eight);
  for (int i = 0; i < 3; ++i) one.once(), eight.once();
  one.times.clear();
  eight.times.clear();
  for (int i = 0; i < 21; ++i) one.once(), eight.once();
  std::printf("one device    %8.2f ms  peak %8.2f MB  compile %6.1f ms\n", one.median(),
              double(peak_one) / 1e6, compile_one);
  std::printf("8 in {2,4}    %8.2f ms  peak %8.2f MB  compile %6.1f ms\n", eight.median(),
              double(peak_eight) / 1e6, compile_eight);
  std::printf("ratio         %8.3f     peak %8.3f\n", eight.median() / one.median(),
              double(peak_eight) / double(peak_one));
  return 0;
}
