// SPDX-License-Identifier: Apache-2.0
// tessera compile: stores a compiled program, which loads without a compiler, or makes a function
// of C of it.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iostream>

#include "src/base/env.h"
#include "src/base/files/file_io.h"
#include "src/base/processes/processes.h"
#include "src/compiler/c_program.h"
#include "src/compiler/engine.h"
#include "src/frontend/jit/stored_program.h"
#include "src/ir/rewrite/whole_arrays.h"
#include "tools/tessera/c_source.h"
#include "tools/tessera/command.h"
#include "tools/tessera/placement.h"

namespace tessera::tool {
namespace {

struct CompileArguments {
  std::string module, output, cpu = "native", layouts, shapes;
  PlacementFlags placement;
  bool json = false, c = false;
};

CInterface interface_of(const ir::Module& module, const std::string& function,
                        const CompileArguments& options) {
  CInterface out{function, module.name, options.cpu, {}, {}};
  std::vector<CArray> all;
  const auto add = [&](std::vector<CArray>* to, const std::string& is, const char* other,
                       const Shape& shape) {
    const std::string number = other + std::to_string(to->size());
    all.push_back({c_identifier(is, number, all), is, shape});
    to->push_back(all.back());
  };
  for (const ir::Instruction* p : module.entry()->parameters()) {
    add(&out.arguments, p->metadata->op_name, "argument", p->shape);
  }
  for (const Shape& s : flatten(module.entry()->root()->shape)) {
    add(&out.results, "", "result", s);
  }
  return out;
}

/// A header and a shared object.
int compile_c(const CompileArguments& options) {
  const std::string function = c_function_name(options.output);
  LoadedModule loaded = load_module(options.module, arguments_of_flag(options.shapes));
  place(loaded.module.get(), options.placement);
  ir::take_whole_arrays(loaded.module.get());
  const CInterface interface = interface_of(*loaded.module, function, options);
  compiler::Options compile_options;
  compile_options.keep_stages = false;
  compile_options.layouts = layouts_of(options.layouts);
  const auto start = std::chrono::steady_clock::now();
  const auto executable = compiler::compile(std::move(loaded.module), compile_options);
  const std::string stored = compiler::store_c_program(*executable, {options.cpu});
  const std::filesystem::path folder = std::filesystem::path(options.output).parent_path();
  const std::string header = options.output + ".h";
  const std::string object = (folder / ("lib" + function + ".so")).string();
  make_c_object(interface, stored, object);
  ReplacedFile file(header);
  file.write(c_header(interface));
  file.commit();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  OrderedJson report;
  report["module"] = interface.module;
  report["header"] = header;
  report["object"] = object;
  report["function"] = function;
  report["cpu"] = options.cpu;
  report["arguments"] = interface.arguments.size();
  report["results"] = interface.results.size();
  report["compile_ms"] = took.count();
  if (options.json) {
    std::cout << report.dump() << "\n";
  } else {
    std::printf("%s and %s: %s for %s, compiled in %.1f ms\n", header.c_str(), object.c_str(),
                interface.module.c_str(), options.cpu.c_str(), took.count());
  }
  return kDone;
}

int compile(const CompileArguments& options) {
  if (processes() != nullptr) {
    throw UsageError("one process compiles for all; run it by itself");
  }
  if (options.c) return compile_c(options);
  LoadedModule loaded = load_module(options.module, arguments_of_flag(options.shapes));
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
  add_shapes_flag(command, &options->shapes);
  command
      ->add_option("-o,--output", options->output,
                   "File for the compiled program; with --c, DIR/NAME stands for DIR/NAME.h and "
                   "DIR/libNAME.so")
      ->required();
  command->add_flag("--c", options->c,
                    "Make a header and a shared object with a function of C, for one device, which "
                    "takes no memory once it is initialised");
  command->add_option("--cpu", options->cpu, "The processor that its machine code is for")
      ->check(CLI::IsMember({"native", "x86-64-v3", "x86-64-v4"}))
      ->capture_default_str();
  add_placement_flags(command, &options->placement);
  add_layouts_flag(command, &options->layouts);
  command->add_flag("--json", options->json, "Print one JSON object");
  command->callback([&run, options] { run = [options] { return compile(*options); }; });
}

}  // namespace tessera::tool
