// SPDX-License-Identifier: Apache-2.0
// A program that goes wrong in one of its processes, as its argument says; run.sh looks at how all
// of them end.
#include <tessera/tessera.h>

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

namespace {

using namespace tessera;

int run(const std::string& how) {
  const bool last = process_index() == process_count() - 1;
  const Mesh mesh(devices(), {device_count()}, {"x"});
  const Array x = device_put(ones({device_count()}), NamedSharding(mesh, P("x")));
  const auto total = jit([](Array a) { return sum(a); });
  if (how == "loops") {
    // Until something happens to one of the processes.
    const auto step = jit([](Array a) { return a / sum(a) + roll(a, 1) * max(a); });
    if (const char* folder = std::getenv("PIDS")) {
      std::ofstream(std::string(folder) + "/" + std::to_string(process_index())) << getpid();
    }
    for (Array a = device_put(ones({4096 * device_count()}), NamedSharding(mesh, P("x")));;) {
      a = step(a);
    }
  }
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

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? argv[1] : "nothing");
  } catch (const std::exception& e) {
    std::fprintf(stderr, "[process %d] %s\n", int(process_index()), e.what());
    return 1;
  }
}
