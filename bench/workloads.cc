// SPDX-License-Identifier: Apache-2.0
// Times programs of the kinds that users run, on one device and on meshes of 8: compilation, runs
// and memory, as a table, as a chart, and as JSON, which a later run compares itself with.
// usage: bench_workloads [--only REGEX] [--repeat N] [--json OUT] [--compare FILE] [--svg OUT]
//                        [--list]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>

#include "bench/chart.h"
#include "bench/workload_list.h"

namespace tessera::bench {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;
double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

struct Flags {
  std::string only = ".", json, compare, svg;
  int repeat = 10;
  bool list = false;
};

[[noreturn]] void usage(const std::string& fault) {
  std::cerr << "bench_workloads: " << fault
            << "\nusage: bench_workloads [--only REGEX] [--repeat N] [--json OUT] [--compare FILE] "
               "[--svg OUT] [--list]\n";
  std::exit(2);
}

Flags flags_of(int count, char** arguments) {
  Flags out;
  for (int i = 1; i < count; ++i) {
    const std::string flag = arguments[i];
    if (flag == "--list") {
      out.list = true;
      continue;
    }
    if (i + 1 == count) usage("unknown flag, or no value for it: " + flag);
    const std::string value = arguments[++i];
    if (flag == "--only") {
      out.only = value;
    } else if (flag == "--json") {
      out.json = value;
    } else if (flag == "--compare") {
      out.compare = value;
    } else if (flag == "--svg") {
      out.svg = value;
    } else if (flag == "--repeat") {
      out.repeat = std::atoi(value.c_str());
      if (out.repeat < 1) usage("--repeat takes a number from 1 on");
    } else {
      usage("unknown flag: " + flag);
    }
  }
  return out;
}

struct Timing {
  double compile_ms = 0, median_ms = 0, least_ms = 0;
  std::int64_t peak_bytes = 0;
};

Timing measure(const Workload& workload, const Variant* variant, int repeat) {
  Arrays inputs = workload.inputs();
  std::optional<Mesh> mesh;
  if (variant) {
    mesh = make_mesh(variant->mesh);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::size_t k = std::min(i, variant->specs.size() - 1);
      inputs[i] = device_put(inputs[i], NamedSharding(*mesh, variant->specs[k]));
    }
  }
  const Mesh* on = mesh ? &*mesh : nullptr;
  const auto run = jit([&](Arrays a) { return workload.run(a, on); }, {.name = workload.name});
  Timing out;
  const auto lowered = run.lower(inputs);
  const auto begin = Clock::now();
  (void)lowered.compile();
  out.compile_ms = ms_since(begin);
  Arrays results;
  std::vector<double> times;
  for (int i = 0; i < 2 + repeat; ++i) {
    results.clear();
    if (i == 2) {
      wait_for_optimized_code();
      reset_peak_memory(devices()[0]);
    }
    const auto start = Clock::now();
    results = run(inputs);
    if (i >= 2) times.push_back(ms_since(start));
  }
  out.peak_bytes = memory_stats(devices()[0]).peak;
  std::sort(times.begin(), times.end());
  out.median_ms = times[times.size() / 2];
  out.least_ms = times[0];
  return out;
}

/// The times of an earlier run by name, or of another program's runs: rows with a "jax" object.
Json earlier_times(const std::string& path) {
  Json out = Json::object();
  if (path.empty()) return out;
  std::ifstream file(path);
  const Json rows = Json::parse(file, nullptr, false);
  if (!rows.is_array()) usage("can't read " + path);
  for (const Json& row : rows) {
    const Json& times = row.contains("jax") ? row["jax"] : row;
    if (times.contains("run_ms")) out[row.value("name", "")] = times["run_ms"];
  }
  return out;
}

int run_all(const Flags& flags) {
  std::regex only;
  try {
    only = std::regex(flags.only);
  } catch (const std::regex_error& e) {
    usage(std::string("--only: ") + e.what());
  }
  const Json before = earlier_times(flags.compare);
  Json rows = Json::array();
  if (!flags.list) {
    std::printf("%-36s %10s %10s %10s %10s%s\n", "workload", "compile ms", "run ms", "least ms",
                "peak MB", before.empty() ? "" : "   run before  ratio");
  }
  std::vector<Bar> bars;
  int failures = 0;
  for (const Workload& workload : workloads()) {
    for (std::size_t v = 0; v <= workload.variants.size(); ++v) {
      const Variant* variant = v == 0 ? nullptr : &workload.variants[v - 1];
      const std::string name = workload.name + "/" + (variant ? variant->name : "one");
      if (!std::regex_search(name, only)) continue;
      if (flags.list) {
        std::printf("%s\n", name.c_str());
        continue;
      }
      try {
        const Timing t = measure(workload, variant, flags.repeat);
        std::printf("%-36s %10.1f %10.3f %10.3f %10.1f", name.c_str(), t.compile_ms, t.median_ms,
                    t.least_ms, double(t.peak_bytes) / 1e6);
        if (before.contains(name)) {
          const double then = before[name].get<double>();
          std::printf(" %12.3f %6.2f", then, t.median_ms / then);
          bars.push_back({name, t.median_ms / then});
        } else if (before.empty()) {
          bars.push_back({name, t.median_ms});
        }
        std::printf("\n");
        rows.push_back({{"name", name},
                        {"compile_ms", t.compile_ms},
                        {"run_ms", t.median_ms},
                        {"least_ms", t.least_ms},
                        {"peak_bytes", t.peak_bytes}});
      } catch (const Error& e) {
        std::printf("%-36s FAILED: %s\n", name.c_str(), e.what());
        ++failures;
      }
      std::fflush(stdout);
    }
  }
  if (!flags.json.empty()) {
    std::ofstream file(flags.json);
    file << rows.dump(1) << "\n";
    if (!file) usage("can't write " + flags.json);
  }
  if (!flags.svg.empty() && !bars.empty()) {
    std::ofstream file(flags.svg);
    file << (before.empty() ? bar_chart("Run time in milliseconds", bars, 0)
                            : bar_chart("Run time in units of the compared run", bars, 1));
    if (!file) usage("can't write " + flags.svg);
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tessera::bench

int main(int count, char** arguments) {
  return tessera::bench::run_all(tessera::bench::flags_of(count, arguments));
}
