// SPDX-License-Identifier: Apache-2.0
// What the compiler takes for a transformer's training step of 12 and 64 layers on 8, 256 and 2,048
// devices, and for chains of 10,000 and 100,000 instructions: milliseconds of processor time per
// stage, the least of several runs, and how they grow.
//   bench_compile_time [--runs N] [--all-stages]
//   bench_compile_time ... --layers N X Y | --chain N | FILE...     these only; X Y: the mesh
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "bench/programs.h"
#include "src/compiler/pipeline.h"
#include "src/compiler/read_module.h"
#include "src/ir/hlo/hlo_text.h"

using namespace tessera;

namespace {

int runs = 5;
bool all_stages = false;

double cpu_ms() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return double(t.tv_sec) * 1e3 + double(t.tv_nsec) / 1e6;
}

struct Times {
  std::map<std::string, double> stage;
  std::size_t instructions = 0, text = 0;
  double spmd() const { return stage.at("propagate") + stage.at("partition"); }
};

Times measure(const std::string& name, const std::function<std::unique_ptr<ir::Module>()>& make) {
  Times least;
  std::vector<std::string> names;
  for (int run = 0; run < runs; ++run) {
    compiler::Compilation c;
    c.module = make();
    least.instructions = c.module->instruction_count();
    compiler::StageRecorder stages(c.module->name, /*all=*/false);
    double before = cpu_ms();
    stages.after_each([&](const char* stage) {
      const double took = cpu_ms() - before;
      auto [it, fresh] = least.stage.try_emplace(stage, took);
      it->second = std::min(it->second, took);
      if (run == 0) {
        names.emplace_back(stage);
        if (names.back() == "partition") least.text = ir::to_string(*c.module).size();
      }
      before = cpu_ms();
    });
    if (!all_stages) {
      compiler::run_through(&c, compiler::Phase::partition, &stages);
      continue;
    }
    compiler::run_through(&c, compiler::Phase::select, &stages);
    const compiler::Target& target = *c.target;
    (void)target.load(std::move(c), &stages);
  }
  std::printf(
      "%-28s %7zu instructions  propagate %8.2f  partition %8.2f  both %8.2f ms  text %zu\n",
      name.c_str(), least.instructions, least.stage["propagate"], least.stage["partition"],
      least.spmd(), least.text);
  if (all_stages) {
    std::printf("   ");
    for (const std::string& s : names) {
      if (least.stage.count(s) && least.stage[s] >= 0.1) {
        std::printf(" %s %.2f", s.c_str(), least.stage[s]);
      }
    }
    std::printf("\n");
  }
  std::fflush(stdout);
  return least;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--runs") == 0 && i + 1 < argc) {
      runs = std::atoi(argv[++i]);
    } else if (std::strcmp(argv[i], "--all-stages") == 0) {
      all_stages = true;
    } else if (std::strcmp(argv[i], "--layers") == 0 && i + 3 < argc) {
      bench::StepOptions o;
      o.layers = std::atoi(argv[i + 1]);
      o.mesh = {std::atoi(argv[i + 2]), std::atoi(argv[i + 3])};
      measure("step", [&] { return bench::transformer_step(o); });
      return 0;
    } else if (std::strcmp(argv[i], "--chain") == 0 && i + 1 < argc) {
      measure("chain", [&] { return bench::chain(std::atoi(argv[i + 1]), {16, 16}); });
      return 0;
    } else {
      files.emplace_back(argv[i]);
    }
  }
  for (const std::string& file : files) {
    const std::string text = compiler::read_file(file);
    measure(file, [&] { return compiler::read_module(text, file); });
  }
  if (!files.empty()) return 0;
  for (int layers : {12, 64}) {
    double least = 0, most = 0;
    for (const auto& mesh : {std::pair<std::int64_t, std::int64_t>{2, 4}, {16, 16}, {64, 32}}) {
      bench::StepOptions o;
      o.layers = layers;
      o.mesh = mesh;
      const std::string name = std::to_string(layers) + " layers on {" +
                               std::to_string(mesh.first) + "," + std::to_string(mesh.second) + "}";
      const double ms = measure(name, [&] { return bench::transformer_step(o); }).spmd();
      if (least == 0) least = ms;
      most = ms;
    }
    std::printf("%d layers, 2048 devices over 8: %.2f\n", layers, most / least);
  }
  const double small = measure("chain", [] { return bench::chain(10000, {16, 16}); }).spmd();
  const double large = measure("chain", [] { return bench::chain(100000, {16, 16}); }).spmd();
  std::printf("100,000 instructions over 10,000: %.2f\n", large / small);
  return 0;
}
