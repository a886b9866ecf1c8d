// SPDX-License-Identifier: Apache-2.0
// Trains with a step that was written in JAX and exported by export.py to step.mlir and, sharded,
// step_sharded.mlir. Fits tanh(x w + b) to targets of that form, on one device and then on eight.
#include <tessera/tessera.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <tuple>

using namespace tessera;

namespace {

struct Params {
  Array w, b;
};

using Step = TypedLoadedFunction<std::tuple<Params, Array>(Params, Array, Array)>;

/// The mean squared error after each of some steps, the last one returned.
float train(const Step& step, const Params& from, const Array& x, const Array& y) {
  Params params = from;
  float loss = 0;
  for (int i = 0; i < 60; ++i) {
    Array value;
    std::tie(params, value) = step(params, x, y);
    loss = value.item<float>();
    if (i % 20 == 0) std::printf("  step %2d: loss %.5f\n", i, double(loss));
  }
  std::printf("  at the end: %.5f, w is sharded as %s\n", double(loss),
              params.w.sharding().to_string().c_str());
  return loss;
}

}  // namespace

int main() {
  const std::string folder = TESSERA_EXAMPLE_DIR;
  const Array key = random::key(0);
  const Array x = random::normal(key, {64, 16});
  const Array target = tanh(matmul(x, random::normal(random::fold_in(key, 1), {16, 4})));
  const Params start{zeros({16, 4}), zeros({4})};

  std::printf("step.mlir:\n");
  const auto one =
      load_stablehlo(folder + "/step.mlir").as<std::tuple<Params, Array>(Params, Array, Array)>();
  const float loss = train(one, start, x, target);

  // Arguments and results have the file's shardings.
  std::printf("step_sharded.mlir:\n");
  const LoadedFunction sharded = load_stablehlo(folder + "/step_sharded.mlir");
  std::printf("  on %s\n", sharded.mesh().to_string().c_str());
  const float again =
      train(sharded.as<std::tuple<Params, Array>(Params, Array, Array)>(), start, x, target);

  const bool right = loss < 0.2f && std::abs(loss - again) < 1e-4f;
  if (!right) std::printf("the two runs should agree and have learnt\n");
  return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
