// SPDX-License-Identifier: Apache-2.0
// Times the models of tests/models, as PyTorch exports them: compilation, a call on all cores, what
// a call costs one core, and how many calls two threads make in the time in which one makes one.
// usage: bench_models [--only REGEX] [--json OUT] [--compare FILE]
//   --json     a row for each model
//   --compare  such rows of another build, or of tests/models/make_models.py --time
// Weights are random. Processor time holds on a busy machine, too.
#include <tessera/tessera.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <thread>
#include <vector>

using namespace tessera;

namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

double microseconds(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return double(t.tv_sec) * 1e6 + double(t.tv_nsec) * 1e-3;
}
double wall() { return microseconds(CLOCK_MONOTONIC); }
double processor() { return microseconds(CLOCK_PROCESS_CPUTIME_ID); }

constexpr double kSecond = 1e6;

std::vector<Array> arguments_of(const LoadedFunction& model) {
  std::vector<Array> out;
  std::uint64_t seed = 0;
  for (const ValueInfo& p : model.parameters()) {
    if (is_floating(p.dtype)) {
      // Vectors may be variances.
      const Array x = random::uniform(random::key(seed++), p.shape);
      out.push_back(astype(p.shape.size() > 1 ? (x - 0.5f) * 0.2f : x + 0.5f, p.dtype));
    } else {
      out.push_back(zeros(p.shape, p.dtype));
    }
  }
  return out;
}

/// The processor time that a call takes, of `threads` threads that call at once.
double cost_of_call(const LoadedFunction& model, const std::vector<Array>& arguments, int threads) {
  std::atomic<std::int64_t> calls = 0;
  const double start = processor(), end = wall() + kSecond / 4;
  {
    std::vector<std::jthread> all;
    for (int i = 0; i < threads; ++i) {
      all.emplace_back([&] {
        std::int64_t made = 0;
        do {
          model(arguments);
          ++made;
        } while (wall() < end);
        calls += made;
      });
    }
  }
  return (processor() - start) / double(calls);
}

Json measure(const fs::path& file) {
  const double start = wall();
  const LoadedFunction model = load_stablehlo(file.string());
  const std::vector<Array> arguments = arguments_of(model);
  model(arguments);
  const double first = wall() - start;
  wait_for_optimized_code();
  double least = 1e300, cpu = 1e300;
  for (const double end = wall() + kSecond / 2; wall() < end;) {
    const double wall0 = wall(), cpu0 = processor();
    model(arguments);
    cpu = std::min(cpu, processor() - cpu0);
    least = std::min(least, wall() - wall0);
  }
  // Turn by turn, as a machine isn't as fast at all times.
  double one = 1e300, two = 1e300;
  for (int turn = 0; turn < 3; ++turn) {
    one = std::min(one, cost_of_call(model, arguments, 1));
    two = std::min(two, cost_of_call(model, arguments, 2));
  }
  return Json{{"name", file.stem().string()},
              {"first_ms", first * 1e-3},
              {"run_us", least},
              {"cpu_us", cpu},
              {"two_threads", 2 * one / two}};
}

/// "cpu_us" of rows, by name; rows of other programs have it in an object of theirs.
std::map<std::string, double> times_of(const std::string& path) {
  std::map<std::string, double> out;
  std::ifstream file(path);
  if (!file) throw std::runtime_error("can't read " + path);
  const auto add = [&](const Json& row) {
    const Json& from = row.contains("cpu_us") ? row : row.at("torch");
    out[row.at("name").get<std::string>()] = from.at("cpu_us").get<double>();
  };
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) add(Json::parse(line));
  }
  return out;
}

int run(int count, char** arguments) {
  std::string only = ".", json, compare;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string flag = arguments[i], value = arguments[i + 1];
    if (flag == "--only") {
      only = value;
    } else if (flag == "--json") {
      json = value;
    } else if (flag == "--compare") {
      compare = value;
    } else {
      throw std::runtime_error("unknown flag " + flag + "; valid: --only, --json, --compare");
    }
  }
  if (count % 2 == 0) {
    throw std::runtime_error(std::string("no value for ") + arguments[count - 1]);
  }
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(TESSERA_SOURCE_DIR "/tests/models")) {
    if (entry.path().extension() == ".mlir") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  const std::map<std::string, double> others =
      compare.empty() ? std::map<std::string, double>() : times_of(compare);
  std::ofstream out;
  if (!json.empty()) out.open(json);
  std::printf("%-14s %10s %10s %10s %12s %8s\n", "model", "first ms", "run us", "cpu us",
              "two threads", "ratio");
  for (const fs::path& file : files) {
    if (!std::regex_search(file.stem().string(), std::regex(only))) continue;
    const Json row = measure(file);
    const auto number = [&](const char* key) { return row.at(key).get<double>(); };
    std::printf("%-14s %10.1f %10.1f %10.1f %11.2fx", file.stem().c_str(), number("first_ms"),
                number("run_us"), number("cpu_us"), number("two_threads"));
    if (const auto other = others.find(file.stem().string()); other != others.end()) {
      std::printf(" %8.2f", number("cpu_us") / other->second);
    }
    std::printf("\n");
    std::fflush(stdout);
    if (out) out << row.dump() << "\n";
  }
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    return run(count, arguments);
  } catch (const std::exception& e) {
    std::cerr << "bench_models: " << e.what() << "\n";
    return 1;
  }
}
