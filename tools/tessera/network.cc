// SPDX-License-Identifier: Apache-2.0
// tessera network: measures the links between the processes that it is started as, and prints the
// `Network` that describes them.
#include <tessera/tessera.h>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <sstream>

#include "src/base/processes/processes.h"
#include "tools/tessera/command.h"
#include "tools/tessera/placement.h"

namespace tessera::tool {
namespace {

using Seconds = std::chrono::duration<double>;

struct NetworkArguments {
  std::string mesh;
  double megabytes = 4;
  bool json = false;
};

/// One way between two processes.
struct PairLink {
  int from = 0, to = 0;
  double latency = 0, bytes_per_second = 0;
};

double middle_of(std::vector<double> values) {
  const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Half of the time that a message needs to `other` and back, in the middle of some; one of both
/// calls it as `first`.
double one_way(Processes& all, int other, bool first, std::size_t bytes, int times) {
  static constexpr Activity kActivity{"measuring a link", "tessera network", {}};
  static constexpr std::uint32_t kTag = 77;
  std::vector<std::byte> out(bytes), in(bytes);
  const Outgoing give{other, out.data(), bytes};
  const Incoming take{other, in.data(), bytes, false};
  std::vector<double> took;
  for (int i = 0; i < times + 2; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    if (first) all.exchange({&give, 1}, {}, kTag, kActivity);
    all.exchange({}, {&take, 1}, kTag, kActivity);
    if (!first) all.exchange({&give, 1}, {}, kTag, kActivity);
    const Seconds round = std::chrono::steady_clock::now() - begin;
    if (i >= 2) took.push_back(round.count() / 2);
  }
  return middle_of(took);
}

/// All pairs, one after the other, while the others wait.
std::vector<PairLink> measured_pairs(Processes& all, std::size_t bytes) {
  static constexpr Activity kActivity{"measuring links", "tessera network", {}};
  std::vector<int> everybody;
  for (int p = 0; p < all.count(); ++p) everybody.push_back(p);
  const Processes::Turn turn(&all, kActivity);
  std::vector<PairLink> out;
  for (int a = 0; a < all.count(); ++a) {
    for (int b = a + 1; b < all.count(); ++b) {
      std::string mine;
      if (all.index() == a || all.index() == b) {
        const bool first = all.index() == a;
        const int other = first ? b : a;
        const double small = one_way(all, other, first, 8, 50);
        const double large = one_way(all, other, first, bytes, 5);
        std::ostringstream text;
        text.precision(9);
        text << small << " " << large;
        mine = text.str();
      }
      const std::vector<std::string> said = all.gather(everybody, mine, kActivity);
      PairLink link{a, b, 0, 0};
      double large = 0;
      std::istringstream(said[std::size_t(a)]) >> link.latency >> large;
      link.bytes_per_second = double(bytes) / std::max(large - link.latency, 1e-9);
      out.push_back(link);
    }
  }
  return out;
}

std::vector<std::string> host_names(Processes& all) {
  static constexpr Activity kActivity{"exchanging host names", "tessera network", {}};
  char name[256] = "";
  (void)gethostname(name, sizeof name - 1);
  std::vector<int> everybody;
  for (int p = 0; p < all.count(); ++p) everybody.push_back(p);
  const Processes::Turn turn(&all, kActivity);
  return all.gather(everybody, name, kActivity);
}

/// The longest time of any process, for one call among some, in the middle of seven tries.
template <class Call>
double seconds_of(int calls, const Call& call) {
  call();
  std::vector<double> took;
  for (int i = 0; i < 7; ++i) {
    sync_processes("tessera network");
    const auto begin = std::chrono::steady_clock::now();
    for (int k = 0; k < calls; ++k) call();
    const Seconds mine = std::chrono::steady_clock::now() - begin;
    const Array times = process_allgather(full({1}, float(mine.count() / calls)), {.tiled = true});
    took.push_back(max(times).item<float>());
  }
  return middle_of(took);
}

/// What all devices compute at once with `body`, which takes the device's part of `shape`.
template <class Body>
double seconds_per_device(const Mesh& mesh, const std::vector<std::int64_t>& part, int calls,
                          const Body& body) {
  std::vector<SpecEntry> entries{SpecEntry(mesh.axis_names())};
  const PartitionSpec spec = PartitionSpec::from_entries(entries);
  std::vector<std::int64_t> whole = part;
  whole[0] *= std::int64_t(device_count());
  const Array x = jit([whole] { return ones(whole, DType::f32); },
                      {.out_shardings = NamedSharding(mesh, spec)})();
  const auto f =
      jit(shard_map(body, {.mesh = mesh, .in_specs = spec, .out_specs = spec, .check_vma = false}));
  const auto compiled = f.lower(x).compile();
  return seconds_of(calls, [&] { compiled(x).block_until_ready(); });
}

/// What a device's neighbours along the axis send it, when all send at once: as in a ring.
Network::Link measured_axis(const Mesh& mesh, const std::string& axis, std::int64_t size,
                            std::size_t bytes) {
  std::vector<std::pair<std::int64_t, std::int64_t>> ring;
  for (std::int64_t i = 0; i < size; ++i) ring.emplace_back(i, (i + 1) % size);
  const auto shift = [&](Array x) { return ppermute(x, axis, ring); };
  const double small = seconds_per_device(mesh, {2}, 20, shift);
  const double large = seconds_per_device(mesh, {std::int64_t(bytes / 4)}, 2, shift);
  return {double(bytes) / std::max(large - small, 1e-9), small};
}

Network measured_network(const Mesh& mesh, std::size_t bytes) {
  Network out;
  // What a device computes while all others do: they may share cores.
  const double n = 384;
  const double dot = seconds_per_device(mesh, {std::int64_t(n), std::int64_t(n)}, 4,
                                        [](Array a) { return matmul(a, a); });
  out.flops_per_second = 2 * n * n * n / dot;
  const double floats = double(1 << 20);
  const double add =
      seconds_per_device(mesh, {std::int64_t(floats)}, 4, [](Array a) { return a + 1.0f; });
  out.memory_bytes_per_second = 8 * floats / add;
  Network::Link slowest{};
  bool any = false;
  for (const auto& [axis, size] : mesh.shape()) {
    if (size < 2) continue;
    const Network::Link link = measured_axis(mesh, axis, size, bytes);
    out.axes[axis] = link;
    if (!any || link.bytes_per_second < slowest.bytes_per_second) slowest = link;
    any = true;
  }
  if (any) out.other = slowest;
  return out;
}

/// To three digits, in the form that is read again: the rest is noise.
double to_three_digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return std::strtod(text, nullptr);
}
Network to_three_digits(Network n) {
  const auto round = [](Network::Link* link) {
    link->bytes_per_second = to_three_digits(link->bytes_per_second);
    link->latency_seconds = to_three_digits(link->latency_seconds);
  };
  round(&n.other);
  for (auto& [axis, link] : n.axes) round(&link);
  n.flops_per_second = to_three_digits(n.flops_per_second);
  n.memory_bytes_per_second = to_three_digits(n.memory_bytes_per_second);
  return n;
}

void print_pairs(const std::vector<PairLink>& pairs, const std::vector<std::string>& hosts) {
  std::printf("%zu processes:", hosts.size());
  for (std::size_t p = 0; p < hosts.size(); ++p)
    std::printf(" %zu on %s%s", p, hosts[p].c_str(), p + 1 < hosts.size() ? "," : "\n");
  std::printf("%-12s %12s %12s\n", "processes", "latency", "bandwidth");
  for (const PairLink& l : pairs) {
    std::printf("%4d - %-5d %9.1f us %7.3f GB/s%s\n", l.from, l.to, l.latency * 1e6,
                l.bytes_per_second / 1e9,
                hosts[std::size_t(l.from)] == hosts[std::size_t(l.to)] ? "" : "  between hosts");
  }
}

/// Of all devices.
Mesh mesh_of(const Mesh::Shape& axes) {
  const auto [sizes, names, count] = mesh_parts(axes);
  if (count != std::int64_t(device_count())) {
    throw UsageError("--mesh is of " + std::to_string(count) + " devices; there are " +
                     std::to_string(device_count()) + " (TESSERA_NUM_DEVICES in each process)");
  }
  return Mesh(devices(), sizes, names);
}

int measure_network(const NetworkArguments& a) {
  if (a.megabytes < 0.001 || a.megabytes > 1024) {
    throw UsageError("--megabytes is " + std::to_string(a.megabytes) + "; 0.001 to 1024 are valid");
  }
  const auto bytes = std::size_t(a.megabytes * 1e6) / 8 * 8;
  init_processes();
  Mesh mesh(devices(), {std::int64_t(device_count())}, {"devices"});
  if (!a.mesh.empty()) mesh = mesh_of(parse_mesh(a.mesh));
  std::vector<std::string> hosts;
  std::vector<PairLink> pairs;
  if (Processes* all = processes()) {
    hosts = host_names(*all);
    pairs = measured_pairs(*all, bytes);
  }
  Network network = to_three_digits(measured_network(mesh, bytes));
  if (a.mesh.empty()) network.axes.clear();  // of a mesh that the user doesn't know
  if (process_index() != 0) return kDone;
  if (a.json) {
    OrderedJson out;
    out["hosts"] = hosts;
    out["pairs"] = OrderedJson::array();
    for (const PairLink& l : pairs) {
      out["pairs"].push_back({{"processes", {l.from, l.to}},
                              {"latency_seconds", l.latency},
                              {"bytes_per_second", l.bytes_per_second}});
    }
    out["network"] = network.to_string();
    std::cout << out.dump() << "\n";
    return kDone;
  }
  if (!pairs.empty()) print_pairs(pairs, hosts);
  std::fflush(stdout);
  std::cout << network.to_string() << "\n";
  return kDone;
}

}  // namespace

void add_network(CLI::App& app, std::function<int()>& run) {
  auto a = std::make_shared<NetworkArguments>();
  CLI::App* command = app.add_subcommand(
      "network", "Measure the links between processes, and print the network for the solver");
  command->add_option("--mesh", a->mesh,
                      "Measure along the axes of this mesh, as data=2,model=4 (default: one axis)");
  command->add_option("--megabytes", a->megabytes, "Size of large messages (default: 4)");
  command->add_flag("--json", a->json, "Print one JSON object");
  command->callback([&run, a] { run = [a] { return measure_network(*a); }; });
}

}  // namespace tessera::tool
