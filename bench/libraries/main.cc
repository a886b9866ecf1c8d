// SPDX-License-Identifier: Apache-2.0
// Times our kernels beside those of libraries: products, convolutions, sorts and Fourier
// transforms, in turn in one process, on one thread and on two. Results are compared, too. usage:
// bench_libraries [--only REGEX] [--threads N] [--json OUT]
//   --only     cases to run, for example '^convolutions 1x1/'
//   --threads  with so many threads alone
//   --json     writes a row for each case and number of threads
// Exit code 1 if results differ, or a case fails.
//
// A time is the least of several turns, each the mean of some calls: of the processor on one
// thread, which holds on a busy machine, too, and of the clock on several. Ours are calls of a
// compiled program, with the memory of the result; of libraries' functions only what computes is
// timed, on memory made ahead. The ratio is to the fastest library.
#include <cblas.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <stdexcept>
#include <thread>

#include "bench/libraries/case.h"

extern char** environ;

namespace tessera::bench {
namespace {

using Json = nlohmann::ordered_json;

double seconds(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return double(t.tv_sec) + double(t.tv_nsec) * 1e-9;
}
double wall() { return seconds(CLOCK_MONOTONIC); }

std::vector<double> numbers_of(const Array& a) {
  const auto of_complex = [](const auto& values) {
    std::vector<double> out;
    for (const auto& x : values) {
      out.push_back(double(x.real()));
      out.push_back(double(x.imag()));
    }
    return out;
  };
  const auto of = [](const auto& values) {
    return as_doubles(values.data(), std::int64_t(values.size()));
  };
  switch (a.dtype()) {
    case DType::f32:
      return of(a.to_vector<float>());
    case DType::f64:
      return of(a.to_vector<double>());
    case DType::s32:
      return of(a.to_vector<std::int32_t>());
    case DType::s64:
      return of(a.to_vector<std::int64_t>());
    case DType::u64:
      return of(a.to_vector<std::uint64_t>());
    case DType::c64:
      return of_complex(a.to_vector<std::complex<float>>());
    case DType::c128:
      return of_complex(a.to_vector<std::complex<double>>());
    default:
      throw std::logic_error("a result of another type");
  }
}

/// The largest difference, as a part of the largest number.
double difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return INFINITY;
  double most = 0, largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(a[i]));
    const double d = std::abs(a[i] - b[i]);
    if (!(d <= largest)) largest = d;
  }
  return most > 0 ? largest / most : largest;
}

/// What is timed in turn.
struct Side {
  std::string name;
  std::function<void()> run;
  int calls = 1;  ///< in a turn
  double least = INFINITY;
};

/// Turns of two milliseconds or of a call, for about half a second in all.
void time_in_turn(std::vector<Side>* sides, int threads) {
  constexpr double kTurn = 2e-3, kAll = 0.5;
  constexpr int kMostCalls = 5000, kFewestTurns = 4, kMostTurns = 60;
  const clockid_t clock = threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
  const double start = wall();
  for (Side& s : *sides) {
    s.run();
    const double begin = wall();
    s.run();
    s.calls = int(std::clamp(kTurn / std::max(wall() - begin, 1e-9), 1.0, double(kMostCalls)));
  }
  for (int turn = 0; turn < kMostTurns; ++turn) {
    if (turn >= kFewestTurns && wall() - start > kAll) break;
    for (Side& s : *sides) {
      // Threads of others have to be asleep, and ours awake.
      if (threads > 1) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      // What others left in the caches goes.
      for (int i = 0; i < (s.calls > 1 ? 2 : threads - 1); ++i) s.run();
      const double begin = seconds(clock);
      for (int i = 0; i < s.calls; ++i) s.run();
      s.least = std::min(s.least, (seconds(clock) - begin) / s.calls);
    }
  }
}

/// Null if no library computes it.
Json measure(const Case& c, int threads) {
  const Problem problem = c.make(threads);
  if (problem.peers.empty()) return {};
  const auto compiled = jit([&](Arrays v) { return problem.ours(v); }, {.name = "case"})
                            .lower(problem.inputs)
                            .compile();
  Array result = compiled(problem.inputs);
  wait_for_optimized_code();
  const std::vector<double> expected = numbers_of(result);
  double differs = 0;
  std::vector<Side> sides{{"Tessera", [&] {
                             result = Array();
                             result = compiled(problem.inputs);
                           }}};
  for (const Peer& p : problem.peers) {
    p.run();
    differs = std::max(differs, difference(expected, p.result()));
    sides.push_back({p.name, p.run});
  }
  time_in_turn(&sides, threads);
  const auto best = std::min_element(sides.begin() + 1, sides.end(),
                                     [](const auto& a, auto& b) { return a.least < b.least; });
  Json row{{"name", c.name},
           {"threads", threads},
           {"us", sides[0].least * 1e6},
           {"library", best->name},
           {"library_us", best->least * 1e6},
           {"ratio", sides[0].least / best->least},
           {"difference", differs},
           {"agrees", differs <= problem.tolerance}};
  for (auto s = sides.begin() + 1; s != sides.end(); ++s) row["all_us"][s->name] = s->least * 1e6;
  return row;
}

std::vector<Case> all_cases() {
  std::vector<Case> out;
  for (auto* make : {&products, &convolutions, &sorts, &transforms}) {
    for (Case& c : make()) out.push_back(std::move(c));
  }
  return out;
}

/// In a process of its own, as its environment says how many threads there are: prints the rows.
int print_rows(const std::regex& only) {
  const int threads = std::atoi(std::getenv("TESSERA_NUM_THREADS"));
  openblas_set_num_threads(1);
  for (const Case& c : all_cases()) {
    if (!std::regex_search(c.name, only)) continue;
    Json row;
    try {
      row = measure(c, threads);
    } catch (const std::exception& e) {
      row = {{"name", c.name}, {"threads", threads}, {"error", e.what()}};
    }
    if (row.is_null()) continue;
    std::cout << row.dump() << std::endl;
  }
  return 0;
}

/// Calls `each` with every line that a process of this program prints.
void run_with_threads(int threads, const std::string& only,
                      const std::function<void(const std::string&)>& each) {
  const std::string count = std::to_string(threads);
  setenv("TESSERA_NUM_THREADS", count.c_str(), 1);
  setenv("OMP_NUM_THREADS", count.c_str(), 1);
  setenv("TESSERA_TIERED_COMPILATION", "off", 1);
  // oneDNN's threads are to stop looking for work before others have their turn.
  setenv("GOMP_SPINCOUNT", "20000", 1);
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("no pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  posix_spawn_file_actions_addclose(&actions, ends[1]);
  std::string self = "/proc/self/exe", flag = "--rows", pattern = only;
  char* arguments[] = {self.data(), flag.data(), pattern.data(), nullptr};
  pid_t child = 0;
  const int failed = posix_spawn(&child, self.c_str(), &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (failed != 0) throw std::runtime_error("can't run this program once more");
  std::FILE* rows = fdopen(ends[0], "r");
  char* line = nullptr;
  std::size_t room = 0;
  while (getline(&line, &room, rows) > 0) each(line);
  std::free(line);
  std::fclose(rows);
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) throw std::runtime_error("the process with " + count + " threads failed");
}

/// The ratios of a group.
struct Ratios {
  std::vector<double> all;
  double logs = 0;
  void add(double ratio) {
    all.push_back(ratio);
    logs += std::log(ratio);
  }
};

struct Flags {
  std::string only = ".", json;
  std::vector<int> threads;
};

Flags flags_of(int count, char** arguments) {
  Flags out;
  for (int i = 1; i < count; i += 2) {
    const std::string flag = arguments[i];
    if (flag != "--only" && flag != "--json" && flag != "--threads") {
      throw std::runtime_error("unknown flag " + flag + "; valid: --only, --threads, --json");
    }
    if (i + 1 == count) throw std::runtime_error("no value for " + flag);
    const std::string value = arguments[i + 1];
    if (flag == "--only") {
      out.only = value;
    } else if (flag == "--json") {
      out.json = value;
    } else if (const int n = std::atoi(value.c_str()); n >= 1) {
      out.threads.push_back(n);
    } else {
      throw std::runtime_error("--threads takes a number from 1 on");
    }
  }
  if (out.threads.empty()) {
    out.threads = {1};
    if (std::thread::hardware_concurrency() > 1) out.threads.push_back(2);
  }
  return out;
}

int run(const Flags& flags) {
  const std::regex checked(flags.only);  // before another process fails by it
  std::ofstream out;
  if (!flags.json.empty()) {
    out.open(flags.json);
    if (!out) throw std::runtime_error("can't write " + flags.json);
  }
  bool failed = false;
  std::map<std::string, Ratios> groups;
  const auto print = [&](const std::string& line) {
    if (out) out << line << std::flush;
    const Json row = Json::parse(line);
    const auto name = row.at("name").get<std::string>();
    std::printf("%-58s ", name.c_str());
    if (row.contains("error")) {
      failed = true;
      std::printf("failed: %s\n", row.at("error").get<std::string>().c_str());
      return;
    }
    const bool agrees = row.at("agrees").get<bool>();
    const auto threads = row.at("threads").get<int>();
    const auto ratio = row.at("ratio").get<double>();
    std::printf("%7d %12.1f %12.1f  %-16s %6.2f%s\n", threads, row.at("us").get<double>(),
                row.at("library_us").get<double>(), row.at("library").get<std::string>().c_str(),
                ratio, agrees ? "" : "  results differ");
    std::fflush(stdout);
    failed = failed || !agrees;
    groups[name.substr(0, name.find('/')) + ", " + std::to_string(threads)].add(ratio);
  };
  std::printf("%-58s %7s %12s %12s  %-16s %6s\n", "case", "threads", "us", "library's", "library",
              "ratio");
  for (const int threads : flags.threads) run_with_threads(threads, flags.only, print);
  std::printf("\n%-40s %6s %8s %8s %8s %14s\n", "group, threads", "cases", "least", "mean", "most",
              "above 1.05");
  for (const auto& [name, ratios] : groups) {
    const auto [least, most] = std::minmax_element(ratios.all.begin(), ratios.all.end());
    const auto slower =
        std::count_if(ratios.all.begin(), ratios.all.end(), [](double r) { return r > 1.05; });
    std::printf("%-40s %6zu %8.2f %8.2f %8.2f %14td\n", name.c_str(), ratios.all.size(), *least,
                std::exp(ratios.logs / double(ratios.all.size())), *most, slower);
  }
  return failed ? 1 : 0;
}

}  // namespace
}  // namespace tessera::bench

int main(int count, char** arguments) {
  try {
    if (count == 3 && std::string(arguments[1]) == "--rows") {
      return tessera::bench::print_rows(std::regex(arguments[2]));
    }
    return tessera::bench::run(tessera::bench::flags_of(count, arguments));
  } catch (const std::exception& e) {
    std::cerr << "bench_libraries: " << e.what() << "\n";
    return 1;
  }
}
