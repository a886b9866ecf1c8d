// SPDX-License-Identifier: Apache-2.0
// tessera compile: stores a compiled program, which loads without a compiler.
#include <chrono>
#include <cstdio>
#include <iostream>

#include "src/base/env.h"
#include "src/base/file_io.h"
#include "src/base/processes.h"
#include "src/compiler/engine.h"
#include "src/frontend/jit/stored_program.h"
#include "src/ir/rewrite/whole_arrays.h"
#include "tools/tessera/command.h"
#include "tools/tessera/placement.h"

namespace tessera::tool {
namespace {

struct CompileArguments {
  std::string module, output, cpu = "native", layouts;
  PlacementFlags placement;
  bool json = false;
};

int compile(const CompileArguments& options) {
  if (processes() != nullptr) {
    throw UsageError("one process compiles for all; run it by itself");
  }
  LoadedModule loaded = load_module(options.module);
  place(loaded.module.get(), options.placement);
  ir::take_whole_arrays(loaded.module.get());
  const MeshRef mesh = loaded.module->mesh;
  compiler::Options compile_options;
  compile_options.keep_stages = false;
  compile_options.layouts = layouts_of(options.layouts);
  const auto start = std::chrono::steady_clock::now();
  const auto state =
      frontend::state_of_module(compiler::compile(std::move(loaded.module), compile_options), mesh);
  const std::string bytes = frontend::store_program(*state, options.cpu, Location{});
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  ReplacedFile file(options.output);
  file.write(bytes);
  file.commit();
  OrderedJson report;
  report["module"] = state->bound.name;
  report["output"] = options.output;
  report["cpu"] = options.cpu;
  report["devices"] = state->bound.devices.size();
  report["bytes"] = bytes.size();
  report["compile_ms"] = took.count();
  if (options.json) {
    std::cout << report.dump() << "\n";
  } else {
    std::printf("%s: %s for %s, %zu devices, %zu bytes, compiled in %.1f ms\n",
                options.output.c_str(), state->bound.name.c_str(), options.cpu.c_str(),
                state->bound.devices.size(), bytes.size(), took.count());
  }
  return kDone;
}

}  // namespace

void add_compile(CLI::App& app, std::function<int()>& run) {
  auto options = std::make_shared<CompileArguments>();
  CLI::App* command = app.add_subcommand(
      "compile",
      "Store a compiled module, which load_compiled and `tessera run` load in milliseconds");
  command
      ->add_option("module", options->module,
                   "StableHLO (text or bytecode) or HLO text; - is stdin")
      ->required();
  command->add_option("-o,--output", options->output, "File for the compiled program")->required();
  command->add_option("--cpu", options->cpu, "The processor that its machine code is for")
      ->check(CLI::IsMember({"native", "x86-64-v3", "x86-64-v4"}))
      ->capture_default_str();
  add_placement_flags(command, &options->placement);
  add_layouts_flag(command, &options->layouts);
  command->add_flag("--json", options->json, "Print one JSON object");
  command->callback([&run, options] { run = [options] { return compile(*options); }; });
}

}  // namespace tessera::tool
