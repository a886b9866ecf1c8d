// SPDX-License-Identifier: Apache-2.0
// A program that goes wrong in one of its processes, as its argument says; run.sh looks at how all
// of them end.
#include <tessera/accelerators.h>
#include <tessera/tessera.h>

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace {

using namespace tessera;

/// Says where this process is, for who looks on; after a step, so that all connections stand.
void note_pid() {
  if (const char* folder = std::getenv("PIDS")) {
    std::ofstream(std::string(folder) + "/" + std::to_string(process_index())) << getpid();
  }
}

/// Steps until the first process has seen so many seconds go by; 0 if their result is right.
int steps_for(double seconds, const Mesh& mesh) {
  const NamedSharding rows(mesh, P("x"));
  const auto step = jit([](Array a) { return roll(a, 1) + sum(a) * 0.0f; });
  const std::int64_t n = 256 * std::int64_t(device_count());
  (void)step(device_put(arange(n) * 1.0f, rows));
  note_pid();
  Array a = device_put(arange(n) * 1.0f, rows);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::int64_t steps = 0;
  for (bool goes_on = true; goes_on;) {
    for (int i = 0; i < 20; ++i, ++steps) a = step(a);
    const bool late = std::chrono::steady_clock::now() > end;
    goes_on = broadcast_one_to_all(Array(late ? 0.0f : 1.0f)).item<float>() > 0;
  }
  const Array want = device_put(roll(arange(n) * 1.0f, steps % n), rows);
  const Array same = jit([](Array x, Array y) { return all(x == y); })(a, want);
  if (process_index() == 0) std::printf("%lld steps\n", (long long)steps);
  return same.item<bool>() ? 0 : 4;
}

int run(const std::string& how, double seconds) {
  const bool last = process_index() == process_count() - 1;
  const Mesh mesh(devices(), {device_count()}, {"x"});
  const Array x = device_put(ones({device_count()}), NamedSharding(mesh, P("x")));
  const auto total = jit([](Array a) { return sum(a); });
  if (how == "loops") {
    // Until something happens to one of the processes.
    const auto step = jit([](Array a) { return a / sum(a) + roll(a, 1) * max(a); });
    Array a = step(device_put(ones({4096 * device_count()}), NamedSharding(mesh, P("x"))));
    note_pid();
    for (;;) a = step(a);
  }
  if (how == "lasts") return steps_for(seconds, mesh);
  if (how == "differs" && last) {
    (void)jit([](Array a) { return max(a) - min(a); })(x);
    return 0;
  }
  if (total(x).item<float>() != float(device_count())) return 3;
  if (how == "killed" && last) std::raise(SIGKILL);
  if (how == "ends" && last) return 0;
  if (how == "exits" && last) std::exit(5);
  if (how == "throws" && last) throw ValueError("this process can't go on");
  if (how == "sleeps" && last) std::this_thread::sleep_for(std::chrono::seconds(8));
  if (how == "other" && last) {
    (void)process_allgather(ones({3}));
    return 0;
  }
  (void)total(x);
  if (how == "nothing") return 0;
  std::printf("nobody noticed\n");
  return 0;
}

/// Plugins that processes load together; PLUGIN names the file.
int run_plugin(const std::string& how) {
  const std::string file = std::getenv("PLUGIN") == nullptr ? "" : std::getenv("PLUGIN");
  const auto load = [&](std::map<std::string, PluginOption> values) -> const std::vector<Device>& {
    values.emplace("cpu_device_count", std::int64_t(2));
    return load_pjrt_plugin(file, {.platform = "xpu", .values = std::move(values)});
  };
  const auto threads = [] {
    std::size_t count = 0;
    for (const auto& t : std::filesystem::directory_iterator("/proc/self/task")) {
      count += t.is_directory();
    }
    return count;
  };
  if (how == "plugin_first") {
    const Mesh mesh(load({}), {4}, {"x"});
    const Array x = device_put(arange(8.0f), NamedSharding(mesh, P("x")));
    return jit([](Array a) { return sum(a); })(x).item<float>() == 28 ? 0 : 4;
  }
  const bool last = process_index() == process_count() - 1;
  const std::size_t before = threads();
  try {
    std::map<std::string, PluginOption> values;
    if (how == "plugin_options" && last) values["num_nodes"] = std::int64_t(3);
    (void)load(values);
  } catch (const Error& e) {
    std::fprintf(stderr, "[process %d] %s\n", int(process_index()), e.what());
    const std::size_t after = threads();
    std::fprintf(stderr, "%zu threads are left\n", after - before);
    return 1;
  }
  std::printf("nobody noticed\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc > 1 && std::string(argv[1]).rfind("plugin", 0) == 0) return run_plugin(argv[1]);
    return run(argc > 1 ? argv[1] : "nothing", argc > 2 ? std::atof(argv[2]) : 5);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "[process %d] %s\n", int(process_index()), e.what());
    return 1;
  }
}
