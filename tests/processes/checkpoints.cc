// SPDX-License-Identifier: Apache-2.0
// Saves or restores one tree, on whatever processes and devices it is started with; run.sh goes
// from some to others.
// usage: checkpoints save DIR STEP | check DIR STEP | killed DIR STEP CALL PROCESS
#include <tessera/tessera.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "src/base/files/file_io.h"

namespace {

using namespace tessera;
using Tree = std::map<std::string, Array>;

/// Of any even number of devices up to 16.
Tree tree_of(float step) {
  const Mesh line(devices(), {device_count()}, {"x"});
  const Mesh grid(devices(), {device_count() / 2, 2}, {"x", "y"});
  const Array values = reshape(arange(96 * 32), {96, 32}) * 1.0f + step;
  const auto placed = [&](const Array& x, const Mesh& mesh, const PartitionSpec& spec) {
    return device_put(x, NamedSharding(mesh, spec));
  };
  return {{"rows", placed(values, Mesh(devices(), {device_count()}, {"x"}), P("x"))},
          {"tiles", placed(values * 2, grid, P("x", "y"))},
          {"columns", placed(values * 3, grid, P(nullptr, "y"))},
          {"copies", placed(values * 4, line, P())},
          {"number", Array(step)}};
}

/// Ends this process at one of its system calls.
class Killer : public FileFaults {
 public:
  explicit Killer(int call) : left_(call) {}
  int before(std::string_view, const std::string&, std::size_t*) override {
    if (left_-- == 0) std::raise(SIGKILL);
    return 0;
  }

 private:
  int left_;
};

int run(int argc, char** argv) {
  if (argc < 4) return 2;
  const std::string what = argv[1], folder = argv[2];
  const std::int64_t step = std::atoll(argv[3]);
  const Tree tree = tree_of(float(step));
  if (what == "check") {
    if (latest_step(folder) != step) return 3;
    if (process_index() == 0 && !verify_checkpoint(folder).empty()) return 4;
    const Tree back = restore_checkpoint(folder, tree_of(0));
    for (const auto& [name, want] : tree) {
      const Array same = jit([](Array a, Array b) { return all(a == b); })(back.at(name), want);
      if (!same.item<bool>()) return 5;
    }
    return 0;
  }
  static Killer killer(argc > 4 ? std::atoi(argv[4]) : 0);
  if (what == "killed" && process_index() == std::atoi(argv[5])) set_file_faults(&killer);
  save_checkpoint(folder, tree, step, {.keep = 2});
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "[process %d] %s\n", int(process_index()), e.what());
    return 1;
  }
}
