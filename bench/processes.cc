// SPDX-License-Identifier: Apache-2.0
// Exchanges between the processes that this program is started with (mpirun -np 2), as programs of
// Tessera and as calls of the MPI library, in turns: median microseconds of each, and their ratio.
// A program has one exchange; where one can follow another, up to 64 KB, a third figure and ratio
// are of an exchange in a program with 64 of them, as most are, beside MPI calls that also send
// what the one before received. A device per process. Of
// all-reduce, reduce-scatter and all-to-all the size is that of what each process gives, of
// all-gather that of what each gets. usage: bench_processes [EXCHANGE [BYTES]]
#include <mpi.h>
#include <tessera/tessera.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

using namespace tessera;

namespace {

/// The longest time of any process for some calls, each.
double microseconds(int calls, const std::function<void()>& call) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  for (int i = 0; i < calls; ++i) call();
  double mine = (MPI_Wtime() - begin) / calls * 1e6, longest = 0;
  MPI_Allreduce(&mine, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return longest;
}

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + std::ptrdiff_t(times.size() / 2), times.end());
  return times[times.size() / 2];
}

constexpr int kInARow = 64;

struct Pair {
  std::string name;
  std::function<Array(Array)> body;  ///< per device
  PartitionSpec in, out;
  std::function<void(const float* from, float* to, int floats)> mpi;
};

void measure(const Pair& pair, std::int64_t bytes) {
  const auto n = std::int64_t(process_count());
  const std::int64_t own = bytes / 4;  // floats of the size
  const Mesh mesh(devices(), {n}, {"x"});
  const bool gathers = pair.name == "all-gather";
  const std::int64_t held = gathers ? own / n : own;  // floats of what each process gives
  const Array x =
      make_array_from_process_local_data(NamedSharding(mesh, P("x")), ones({held}, DType::f32));
  const auto program = [&](const std::function<Array(Array)>& body, const PartitionSpec& out) {
    const auto f = jit(
        shard_map(body, {.mesh = mesh, .in_specs = pair.in, .out_specs = out, .check_vma = false}));
    return f.lower(x).compile();
  };
  const auto compiled = program(pair.body, pair.out);
  const bool follows = pair.name == "all-to-all" && bytes <= 1 << 16;
  const auto many = !follows ? compiled
                             : program(
                                   [&](Array a) {
                                     for (int i = 0; i < kInARow; ++i) a = pair.body(a);
                                     return a;
                                   },
                                   P("x"));
  std::vector<float> from(std::size_t(held), 1), to(std::size_t(own), 0);
  const auto ours = [&] { (void)compiled(x); };
  const auto theirs = [&] { pair.mpi(from.data(), to.data(), int(held)); };
  const auto ours_in_a_row = [&] { (void)many(x); };
  const auto theirs_in_a_row = [&] {
    for (int i = 0; i < kInARow; ++i) {
      pair.mpi(from.data(), to.data(), int(held));
      std::swap(from, to);
    }
  };
  const int calls = int(std::clamp<std::int64_t>((std::int64_t(8) << 20) / bytes, 1, 200));
  (void)microseconds(calls, ours), (void)microseconds(calls, theirs);
  std::vector<double> a, b, c, d;
  for (int i = 0; i < 21; ++i) {
    a.push_back(microseconds(calls, ours));
    b.push_back(microseconds(calls, theirs));
    if (!follows) continue;
    c.push_back(microseconds(std::max(1, calls / kInARow), ours_in_a_row) / kInARow);
    d.push_back(microseconds(std::max(1, calls / kInARow), theirs_in_a_row) / kInARow);
  }
  if (process_index() == 0) {
    std::printf("%-15s %9lld bytes   Tessera %10.1f us   MPI %10.1f us   ratio %.2f",
                pair.name.c_str(), (long long)bytes, median(a), median(b), median(a) / median(b));
    if (follows) {
      std::printf("   in a row %.2f us, MPI %.2f us, ratio %.2f", median(c), median(d),
                  median(c) / median(d));
    }
    std::printf("\n");
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  setenv("TESSERA_NUM_DEVICES", "1", 1);
  init_processes();
  const int n = int(process_count());
  if (n < 2) {
    std::fprintf(stderr, "start it as several processes: mpirun -np 2 bench_processes\n");
    return 2;
  }
  const std::vector<Pair> pairs = {
      {"all-reduce", [](Array a) { return psum(a, "x"); }, P("x"), P(),
       [](const float* from, float* to, int count) {
         MPI_Allreduce(from, to, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
       }},
      {"all-gather", [](Array a) { return all_gather(a, "x", {.tiled = true}); }, P("x"), P(),
       [](const float* from, float* to, int count) {
         MPI_Allgather(from, count, MPI_FLOAT, to, count, MPI_FLOAT, MPI_COMM_WORLD);
       }},
      {"reduce-scatter",
       [](Array a) { return psum_scatter(a, "x", {.scatter_dimension = 0, .tiled = true}); },
       P("x"), P("x"),
       [n](const float* from, float* to, int count) {
         MPI_Reduce_scatter_block(from, to, count / n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
       }},
      {"all-to-all", [](Array a) { return all_to_all(a, "x", 0, 0, true); }, P("x"), P("x"),
       [n](const float* from, float* to, int count) {
         MPI_Alltoall(from, count / n, MPI_FLOAT, to, count / n, MPI_FLOAT, MPI_COMM_WORLD);
       }},
  };
  for (const Pair& pair : pairs) {
    if (argc > 1 && pair.name != argv[1]) continue;
    for (std::int64_t bytes = 1 << 10; bytes <= std::int64_t(64) << 20; bytes *= 4) {
      if (argc <= 2 || std::atoll(argv[2]) == bytes) measure(pair, bytes);
    }
  }
  return 0;
}
