// SPDX-License-Identifier: Apache-2.0
// An inverse problem: a plate of unknown conductivity is heated at one edge, and only its final
// temperature is measured. Adam finds the conductivity, by the gradient through 1,000 time steps.
// Keeping all steps for the gradient would take much memory; remat keeps one state of each 25.
#include <common/optimizers.h>
#include <common/terminal.h>
#include <tessera/tessera.h>

#include <functional>

using namespace tessera;

namespace {

constexpr std::int64_t kSize = 48, kSteps = 1000, kBlock = 25;

/// The flow into each cell from its neighbour at `offset` along a dimension; none at the border.
Array flow(const Array& heat, const Array& conductivity, std::int64_t dim, std::int64_t offset) {
  const auto neighbour = [&](const Array& x) {
    // Beyond the border x is continued by itself, so there is no difference that would flow.
    const std::int64_t n = x.shape(dim);
    return offset > 0
               ? concatenate({slice_in_dim(x, 1, n, 1, dim), slice_in_dim(x, n - 1, n, 1, dim)},
                             dim)
               : concatenate({slice_in_dim(x, 0, 1, 1, dim), slice_in_dim(x, 0, n - 1, 1, dim)},
                             dim);
  };
  return (conductivity + neighbour(conductivity)) / 2 * (neighbour(heat) - heat);
}

/// One explicit step in time. `source`: the heat that flows in per step.
Array step(const Array& heat, const Array& conductivity, const Array& source) {
  return heat + flow(heat, conductivity, 0, 1) + flow(heat, conductivity, 0, -1) +
         flow(heat, conductivity, 1, 1) + flow(heat, conductivity, 1, -1) + source;
}

enum class Keep { every_step, every_block };

/// The temperature after kSteps.
Array simulate(const Array& conductivity, const Array& source, Keep keep) {
  const auto some_steps = [&](const Array& heat, const Array& k, std::int64_t count) {
    return scan(
               [&](Array h, std::tuple<>) { return std::pair(step(h, k, source), std::tuple<>()); },
               heat, std::tuple<>(), {.length = count})
        .first;
  };
  const Array cold = zeros_like(conductivity);
  if (keep == Keep::every_step) return some_steps(cold, conductivity, kSteps);
  // Of a block the gradient needs all steps, but only while it is in that block: the outer loop
  // keeps a state per block, and remat computes the steps in between again. For n steps in blocks
  // of about sqrt(n) that is 2 sqrt(n) states in place of n.
  const auto block = remat([&](Array h, Array k) { return some_steps(h, k, kBlock); });
  return scan([&](Array h,
                  std::tuple<>) { return std::pair(block(h, conductivity), std::tuple<>()); },
              cold, std::tuple<>(), {.length = kSteps / kBlock})
      .first;
}

/// Any real number as a conductivity within the range in which explicit steps are stable.
Array conductivity_of(const Array& unknown) { return 0.02f + 0.2f * sigmoid(unknown); }

Array loss(const Array& unknown, const Array& source, const Array& measured, Keep keep) {
  return mean(square(simulate(conductivity_of(unknown), source, keep) - measured));
}

auto gradient_of(Keep keep) {
  return jit([keep](Array unknown, Array source, Array measured) {
    return value_and_grad([&](Array u) { return loss(u, source, measured, keep); })(unknown);
  });
}

double relative_difference(const Array& a, const Array& b) {
  return (max(abs(a - b)) / max(abs(b))).item<float>();
}

int run(const terminal::Flags& flags) {
  const int rounds = flags.number("steps");
  const Mesh mesh = flags.mesh("mesh");
  terminal::Checks checks;

  // A round inclusion that conducts badly, and a heater along the upper edge.
  const Array at = arange(kSize).astype(f32) / float(kSize) - 0.5f;
  const Array distance = square(expand_dims(at, 1)) + square(at - 0.1f);
  const Array truth = where(distance < 0.06f, -2.0f, 1.0f);
  const Array source = where(expand_dims(arange(kSize), 1) < 2, full({kSize, kSize}, 0.01f), 0.0f);
  const Array measured = jit([](Array u, Array s) {
    return simulate(conductivity_of(u), s, Keep::every_block);
  })(truth, source);

  const Array start = zeros({kSize, kSize});
  const auto thrifty = gradient_of(Keep::every_block), greedy = gradient_of(Keep::every_step);
  const auto memory = [&](const auto& f) {
    return double(
        f.lower(start, source, measured).compile().memory_analysis().peak_bytes_per_device);
  };
  const double all = memory(greedy), some = memory(thrifty);
  std::printf("memory of a gradient through %lld steps: %.2f MB, with remat %.2f MB\n",
              static_cast<long long>(kSteps), all / 1e6, some / 1e6);
  checks.expect(some < all / 5, "remat saves more than 4/5 of the memory");
  const auto [value, gradient] = thrifty(start, source, measured);
  checks.below(relative_difference(gradient, greedy(start, source, measured).second), 1e-4,
               "relative difference of the gradients with and without remat");

  // The derivative in one direction, by a difference quotient.
  const Array direction = cos(8 * distance);
  const auto at_distance =
      jit([](Array u, Array s, Array m) { return loss(u, s, m, Keep::every_block); });
  const float h = 0.05f;
  const double quotient = (at_distance(start + h * direction, source, measured) -
                           at_distance(start - h * direction, source, measured))
                              .item<float>() /
                          (2 * h);
  const double slope = sum(gradient * direction).item<float>();
  checks.below(std::abs(slope / quotient - 1), 1e-2,
               "relative error against a difference quotient");

  // The same on a mesh that splits the plate: neighbours' rims are exchanged in each step.
  const NamedSharding parts(mesh, P("x", "y"));
  const auto on_mesh = [&](const Array& x) { return device_put(x, parts); };
  const auto [mesh_value, mesh_gradient] =
      thrifty(on_mesh(start), on_mesh(source), on_mesh(measured));
  std::printf("on the mesh the gradient is sharded as %s\n",
              mesh_gradient.sharding().to_string().c_str());
  checks.below(relative_difference(mesh_gradient, gradient), 1e-4,
               "relative difference of the mesh's gradient to one device's");

  // Descent to the conductivity.
  const optim::AdamW adam{.rate = optim::cosine(0.6f, std::max(rounds, 1), 0.05f)};
  const auto update =
      jit([&](Array u, Array g, optim::AdamState<Array> s) { return adam.update(u, g, s); });
  Array unknown = start;
  auto state = adam.init(unknown);
  std::vector<float> losses;
  for (int i = 0; i < rounds; ++i) {
    const auto [l, g] = thrifty(unknown, source, measured);
    std::tie(unknown, state) = update(unknown, g, state);
    losses.push_back(l.item<float>());
    terminal::progress(i + 1, rounds, "loss " + std::to_string(losses.back()));
  }
  if (rounds >= 20) {
    std::vector<float> magnitudes;
    for (float l : losses) magnitudes.push_back(std::log10(l));
    terminal::plot("log10 of the loss", magnitudes);
    checks.expect(losses.back() < losses.front() / 100, "the loss falls to less than 1 %");
    const Array have = conductivity_of(unknown);
    const double inside = mean(index(have, {Slice{20, 28}, Slice{24, 32}})).item<float>(),
                 above = mean(index(have, {Slice{2, 10}})).item<float>();
    std::printf("conductivity found: %.3f within the inclusion, %.3f near the heater\n", inside,
                above);
    checks.expect(inside < above / 2, "the inclusion is found");
  }
  return checks.exit_code();
}

}  // namespace

int main(int argc, char** argv) try {
  return run(terminal::Flags(argc, argv, "Finds a plate's conductivity from its final temperature.",
                             {{"steps", "60"}, {"mesh", "x=2,y=4"}}));
} catch (const tessera::Error& e) {
  std::cerr << e.what() << "\n";
  return 1;
}
