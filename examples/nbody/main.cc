// SPDX-License-Identifier: Apache-2.0
// Bodies that attract each other, split over a ring of devices. Each device has some of the bodies;
// copies of them travel around the ring by ppermute, so that every device meets all bodies and none
// ever holds all. The force of one pair is written once, and vmap makes it that of all pairs.
#include <common/terminal.h>
#include <tessera/tessera.h>

#include <functional>

using namespace tessera;

namespace {

constexpr float kSoftening = 0.05f, kStep = 0.01f;

/// Position, velocity and mass: of one body, or with a leading dimension of many.
struct Bodies {
  Array position, velocity, mass;
};
TESSERA_TREE(Bodies, position, velocity, mass)

/// The acceleration of a body at x by one of mass m at y.
Array pull(const Array& x, const Array& y, const Array& m) {
  const Array d = y - x, r2 = sum(d * d) + kSoftening * kSoftening;
  return m * d / (r2 * sqrt(r2));
}

/// The accelerations of bodies at xs by those at ys: [n, 3], [k, 3], [k] -> [n, 3].
Array pulls(const Array& xs, const Array& ys, const Array& ms) {
  const auto by_all = [](Array x, Array all, Array masses) {
    return sum(vmap(pull, {.in_axes = axes_tree(nullptr, 0, 0)})(x, all, masses), 0);
  };
  return vmap(by_all, {.in_axes = axes_tree(0, nullptr, nullptr)})(xs, ys, ms);
}

/// The same on one device of the ring, for its part of the bodies.
Array pulls_around_ring(const Array& mine, const Array& masses) {
  const std::int64_t n = axis_size("ring");
  std::vector<std::pair<std::int64_t, std::int64_t>> onwards;
  for (std::int64_t i = 0; i < n; ++i) onwards.emplace_back(i, (i + 1) % n);
  const auto go_on = [&](const Array& x) { return ppermute(x, "ring", onwards); };
  const auto meet = [&](std::tuple<Array, Array, Array> c, std::tuple<>) {
    const auto& [sum, visitors, weights] = c;
    return std::pair(
        std::tuple(sum + pulls(mine, visitors, weights), go_on(visitors), go_on(weights)),
        std::tuple<>());
  };
  const auto [sum, visitors, weights] =
      scan(meet, std::tuple(zeros_like(mine), mine, masses), std::tuple<>(), {.length = n}).first;
  return sum;
}

/// Steps in time by the leapfrog method, which conserves energy well; `pulls_of` gives the
/// accelerations.
template <class F>
Bodies simulate(const Bodies& start, int steps, F pulls_of) {
  const auto step = [&](Bodies b, std::tuple<>) {
    const Array half = b.velocity + kStep / 2 * pulls_of(b.position, b.mass);
    const Array moved = b.position + kStep * half;
    return std::pair(Bodies{moved, half + kStep / 2 * pulls_of(moved, b.mass), b.mass},
                     std::tuple<>());
  };
  return scan(step, start, std::tuple<>(), {.length = steps}).first;
}

/// The energy of the pairs' attraction.
Array potential(const Array& x, const Array& m) {
  const Array d = expand_dims(x, 1) - expand_dims(x, 0);
  const Array r = sqrt(sum(d * d, -1) + kSoftening * kSoftening);
  // Each pair occurs twice, and each body with itself once.
  return -sum(outer(m, m) / r) / 2 + sum(m * m) / (2 * kSoftening);
}
Array energy(const Bodies& b) {
  return sum(b.mass * sum(b.velocity * b.velocity, -1)) / 2 + potential(b.position, b.mass);
}

double difference(const Array& a, const Array& b) { return max(abs(a - b)).item<float>(); }

int run(const terminal::Flags& flags) {
  const int n = flags.number("bodies"), steps = flags.number("steps");
  const Mesh ring = flags.mesh("mesh");
  terminal::Checks checks;

  // A turning cloud.
  const Array keys = random::split(random::key(flags.number("seed")), 2);
  const Array x = random::normal(index(keys, {0}), {n, 3});
  const Array axis = array({0.f, 0.f, 0.3f});
  const Array spin =
      stack({-index(x, {ellipsis, 1}), index(x, {ellipsis, 0}), zeros({n})}, 1) * index(axis, {2});
  const Bodies start{x, spin + 0.1f * random::normal(index(keys, {1}), {n, 3}),
                     full({n}, 1.0f / float(n))};

  const auto around = shard_map(
      pulls_around_ring,
      {.mesh = ring, .in_specs = P("ring"), .out_specs = P("ring"), .name = "around_ring"});
  const auto on_ring = jit([&](Bodies b) { return simulate(b, steps, around); });
  const auto on_one = jit([&](Bodies b) {
    return simulate(b, steps, [](const Array& p, const Array& m) { return pulls(p, p, m); });
  });
  const Bodies placed = device_put(start, NamedSharding(ring, P("ring")));

  // Forces are the negative gradient of the energy.
  const auto forces = jit([](Array p, Array m) { return -grad(potential)(p, m); });
  checks.below(difference(jit(around)(placed.position, placed.mass) * expand_dims(start.mass, 1),
                          forces(start.position, start.mass)),
               1e-6, "largest difference of the forces to the gradient of the energy");

  const Bodies end = on_ring(placed);
  std::printf("%d bodies, %d steps; positions are sharded as %s\n", n, steps,
              end.position.sharding().to_string().c_str());
  for (const CollectiveInfo& c : on_ring.lower(placed).compile().collectives()) {
    std::printf("  %s at %s, %.0f bytes\n", c.kind.c_str(), c.location.c_str(), c.bytes_received);
  }
  checks.below(difference(end.position, on_one(start).position), 1e-3,
               "largest difference of positions to those of one device");
  const double before = energy(start).item<float>(), after = energy(end).item<float>();
  std::printf("energy %.6f -> %.6f\n", before, after);
  checks.below(std::abs(after / before - 1), 1e-3, "relative change of the energy");
  checks.below(difference(sum(end.velocity * expand_dims(end.mass, 1), 0),
                          sum(start.velocity * expand_dims(start.mass, 1), 0)),
               1e-5, "change of the total momentum");

  // How the end depends on the start: the gradient goes around the ring the other way.
  const auto spread = [&](auto pulls_of) {
    return jit(grad([=](Bodies b) { return mean(square(simulate(b, 10, pulls_of).position)); }));
  };
  const Bodies g = spread(around)(placed);
  const Bodies h = spread([](const Array& p, const Array& m) { return pulls(p, p, m); })(start);
  checks.below(difference(g.velocity, h.velocity) / max(abs(h.velocity)).item<float>(), 1e-4,
               "relative difference of the gradient by velocities to that of one device");
  return checks.exit_code();
}

}  // namespace

int main(int argc, char** argv) try {
  return run(
      terminal::Flags(argc, argv, "Simulates bodies that attract each other on a ring of devices.",
                      {{"bodies", "256"}, {"steps", "100"}, {"mesh", "ring=8"}, {"seed", "0"}}));
} catch (const tessera::Error& e) {
  std::cerr << e.what() << "\n";
  return 1;
}
