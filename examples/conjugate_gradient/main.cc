// SPDX-License-Identifier: Apache-2.0
// A linear system of 16,384 unknowns, solved by conjugate gradients: the matrix is a function, the
// loop stops when the residual is small, and the vectors are split over a 2 x 4 mesh. A while_loop
// has no derivative in reverse mode, but a solution has: custom_vjp solves a second system for it.
#include <common/terminal.h>
#include <tessera/tessera.h>

#include <chrono>

using namespace tessera;

namespace {

constexpr float kTolerance = 1e-5f;
constexpr int kMostTrips = 1000;

/// The matrix: (4 + shift) u minus the four neighbours, with zeros beyond the border. It is
/// symmetric and positive definite, and is never formed.
Array multiply(const Array& u, float shift) {
  const std::int64_t rows = u.shape(0), columns = u.shape(1);
  const Array wide = pad(u, {{1, 1}, {1, 1}});
  const auto neighbours = [&](std::int64_t down, std::int64_t right) {
    return slice(wide, {1 + down, 1 + right}, {1 + down + rows, 1 + right + columns});
  };
  return (4 + shift) * u - neighbours(1, 0) - neighbours(-1, 0) - neighbours(0, 1) -
         neighbours(0, -1);
}

Array product(const Array& a, const Array& b) { return sum(a * b); }

/// What the loop carries: the solution so far, the residual, the direction to go on in, and the
/// residual's square.
struct Search {
  Array x, residual, direction, square, trips;
};
TESSERA_TREE(Search, x, residual, direction, square, trips)

Search search(const Array& b, float shift) {
  const Array enough = kTolerance * kTolerance * product(b, b);
  return while_loop(
      [&](Search s) { return (s.square > enough) & (s.trips < kMostTrips); },
      [&](Search s) {
        const Array image = multiply(s.direction, shift);
        const Array length = s.square / product(s.direction, image);
        const Array residual = s.residual - length * image, square = product(residual, residual);
        return Search{s.x + length * s.direction, residual,
                      residual + square / s.square * s.direction, square, s.trips + 1};
      },
      Search{zeros_like(b), b, b, product(b, b), 0});
}

/// The solution of multiply(x) = b, as a function of b with a derivative.
auto solver(float shift) {
  auto solve = custom_vjp([shift](Array b) { return search(b, shift).x; }, "solve");
  solve.def_vjp([shift](Array b) { return std::pair(search(b, shift).x, std::tuple<>()); },
                // x = A^-1 b, and A is symmetric: the cotangent of b is A^-1 times that of x.
                [shift](std::tuple<>, Array cotangent) { return search(cotangent, shift).x; });
  return solve;
}

double relative_difference(const Array& a, const Array& b) {
  return (max(abs(a - b)) / max(abs(b))).item<float>();
}

int run(const terminal::Flags& flags) {
  const int size = flags.number("size");
  const float shift = 0.01f;
  const Mesh mesh = flags.mesh("mesh");
  terminal::Checks checks;

  const Array b = random::normal(random::key(flags.number("seed")), {size, size});
  const Array placed = device_put(b, {mesh, P("x", "y")});
  const auto find = jit([=](Array v) { return search(v, shift); });
  const Search one = find(b);
  (void)find(placed);
  const auto start = std::chrono::steady_clock::now();
  const Search many = find(placed);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("%d unknowns, %d trips, %.3f s; the solution is sharded as %s\n", size * size,
              many.trips.item<int>(), seconds, many.x.sharding().to_string().c_str());
  std::printf("a trip communicates:\n");
  for (const CollectiveInfo& c : find.lower(placed).compile().collectives()) {
    std::printf("  %-18s for %-10s at %s\n", c.kind.c_str(), c.op.c_str(), c.location.c_str());
  }
  checks.below(relative_difference(multiply(many.x, shift), b), 1e-4,
               "relative difference of A x to b");
  checks.expect(many.trips.item<int>() < kMostTrips, "the residual fell below its limit");
  checks.below(relative_difference(many.x, one.x), 1e-3,
               "relative difference to the solution of one device");

  // A derivative through the solution, on the mesh, against a difference quotient. The function is
  // a square, so that the quotient has no error but rounding.
  const auto loss = [solve = solver(shift)](Array v) { return mean(square(solve(v))); };
  const Array gradient = jit(grad(loss))(placed);
  const Array direction = device_put(
      random::normal(random::key(flags.number("seed") + 1), {size, size}), {mesh, P("x", "y")});
  const float h = 1;
  const auto value = jit(loss);
  const double quotient =
      (value(placed + h * direction).item<float>() - value(placed - h * direction).item<float>()) /
      (2 * h);
  const double slope = sum(gradient * direction).item<float>();
  std::printf("slope %.6f, difference quotient %.6f\n", slope, quotient);
  checks.below(std::abs(slope - quotient) / (std::abs(quotient) + value(b).item<float>()), 1e-3,
               "error of the derivative");
  return checks.exit_code();
}

}  // namespace

int main(int argc, char** argv) try {
  return run(terminal::Flags(argc, argv, "Solves a linear system by conjugate gradients.",
                             {{"size", "128"}, {"mesh", "x=2,y=4"}, {"seed", "0"}}));
} catch (const tessera::Error& e) {
  std::cerr << e.what() << "\n";
  return 1;
}
