// SPDX-License-Identifier: Apache-2.0
// Heat diffusion on a plate that is split into blocks over a 2 x 4 mesh. Under shard_map each
// device sends the rim of its block to its neighbours; the same steps on the global array verify
// the result. Then a matrix product whose second factor travels around a ring of devices.
#include <tessera/tessera.h>

#include <cmath>
#include <cstdlib>
#include <iostream>

using namespace tessera;

namespace {

/// The mean of the four neighbours, for a block with a rim of one cell around it.
Array step(const Array& padded, std::int64_t rows, std::int64_t columns) {
  const Array up = slice(padded, {0, 1}, {rows, columns + 1});
  const Array down = slice(padded, {2, 1}, {rows + 2, columns + 1});
  const Array left = slice(padded, {1, 0}, {rows + 1, columns});
  const Array right = slice(padded, {1, 2}, {rows + 1, columns + 2});
  return (up + down + left + right) / 4;
}

/// The block with the rims of its neighbours along one axis; at the border of the plate zeros.
Array with_rims(const Array& block, const std::string& axis, std::int64_t dim) {
  const std::int64_t n = axis_size(axis), size = block.shape(dim);
  std::vector<std::pair<std::int64_t, std::int64_t>> forth, back;
  for (std::int64_t i = 0; i + 1 < n; ++i) {
    forth.emplace_back(i, i + 1);
    back.emplace_back(i + 1, i);
  }
  auto rim = [&](std::int64_t at) {
    std::vector<std::int64_t> start{0, 0}, end = block.shape();
    start[std::size_t(dim)] = at;
    end[std::size_t(dim)] = at + 1;
    return slice(block, start, end);
  };
  return concatenate({ppermute(rim(size - 1), axis, forth), block, ppermute(rim(0), axis, back)},
                     dim);
}

double difference(const Array& a, const Array& b) {
  return max(abs(a - b)).astype(f64).item<double>();
}

void expect(bool condition, const char* what) {
  if (condition) return;
  std::cerr << "halo_exchange: not so: " << what << "\n";
  std::exit(1);
}

}  // namespace

int main() {
  const Mesh mesh = make_mesh({{"x", 2}, {"y", 4}});
  const Array plate = random::uniform(random::key(1), {32, 64});
  constexpr int steps = 20;

  auto blocks = jit(shard_map(
      [](Array block) {
        return fori_loop(
            0, steps,
            [](Array, Array b) {
              const Array padded = with_rims(with_rims(b, "x", 0), "y", 1);
              return step(padded, b.shape(0), b.shape(1));
            },
            block);
      },
      {.mesh = mesh, .in_specs = P("x", "y"), .out_specs = P("x", "y"), .name = "heat"}));
  auto global = jit([](Array plate) {
    return fori_loop(
        0, steps,
        [](Array, Array p) {
          return step(pad(p, {{1, 1}, {1, 1}}), p.shape(0), p.shape(1));
        },
        plate);
  });
  const Array have = blocks(plate), want = global(plate);
  std::cout << "heat: the blocks are sharded as " << have.sharding().to_string()
            << "; they differ from "
            << "the global computation by " << difference(have, want) << "\n";
  expect(difference(have, want) < 1e-6, "blocks and global computation agree");

  // Each device has some rows of a and of b. It multiplies the columns of its a that match the rows
  // of b it has, passes these on, and accumulates.
  const Array a = random::normal(random::key(2), {64, 64}),
              b = random::normal(random::key(3), {64, 32});
  const Mesh ring = make_mesh({{"i", 8}});
  auto product = jit(shard_map(
      [](Array a, Array b) {
        const std::int64_t n = axis_size("i"), rows = b.shape(0);
        std::vector<std::pair<std::int64_t, std::int64_t>> next;
        for (std::int64_t i = 0; i < n; ++i) next.emplace_back(i, (i + n - 1) % n);
        const Array me = axis_index("i");
        auto [sum, last] = fori_loop(
            0, int(n),
            [&](Array k, std::pair<Array, Array> c) {
              const Array from = remainder(me + k, int(n)) * int(rows);
              const Array columns = dynamic_slice(a, {Array(0), from}, {a.shape(0), rows});
              return std::pair{c.first + matmul(columns, c.second), ppermute(c.second, "i", next)};
            },
            std::pair{pcast(zeros({a.shape(0), b.shape(1)}), "i"), b});
        return sum;
      },
      {.mesh = ring, .in_specs = P("i"), .out_specs = P("i"), .name = "ring"}));
  const double off = difference(product(a, b), matmul(a, b));
  std::cout << "ring: the product differs from matmul by " << off << "\n";
  expect(off < 1e-4, "the product round the ring is matmul");
  for (const CollectiveInfo& c : product.lower(a, b).compile().collectives()) {
    std::cout << "  " << c.kind << " at " << c.location << ", " << c.bytes_received << " bytes\n";
  }
}
