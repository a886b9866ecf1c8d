// SPDX-License-Identifier: Apache-2.0
// tessera run: compiles a module, runs it, and measures time.
#include <tessera/device.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>

#include <tessera/profile.h>

#include "src/base/env.h"
#include "src/base/files/npy.h"
#include "src/compiler/stored_executable.h"
#include "src/frontend/jit/stored_program.h"
#include "src/ir/rewrite/whole_arrays.h"
#include "tools/tessera/execution.h"
#include "tools/tessera/open_batch.h"
#include "tools/tessera/placement.h"

namespace tessera::tool {
namespace {

constexpr int kWarmUps = 2;

struct RunArguments {
  std::string module, inputs, output_dir, expect, layouts, trace, shapes;
  double tol = 2e-4;
  PlacementFlags placement;
  int repeat = 0;  ///< 0: once, without warming up
  std::uint64_t seed = 0;
  bool json = false;
  bool profile = false;
};

std::string numbers(const std::vector<double>& values) {
  std::string out;
  for (const double v : values) {
    char text[32];
    std::snprintf(text, sizeof text, "%s%.3f", out.empty() ? "" : " ", v);
    out += text;
  }
  return out;
}

/// A value a line, under the names of the JSON object.
void print_lines(const OrderedJson& report, const std::vector<double>& run_ms) {
  std::printf("module: %s (%s), %lld devices", report["module"].get<std::string>().c_str(),
              report["form"].get<std::string>().c_str(),
              static_cast<long long>(report["devices"].get<std::int64_t>()));
  if (report.contains("processes")) {
    std::printf(" of %lld processes",
                static_cast<long long>(report["processes"].get<std::int64_t>()));
  }
  std::printf("\n");
  std::printf("layouts: %s\n", report["layouts"].get<std::string>().c_str());
  std::printf("compile_ms: %.3f\n", report["compile_ms"].get<double>());
  std::printf("run_ms: %s\n", numbers(run_ms).c_str());
  for (const char* key : {"peak_bytes_per_device", "peak_bytes_total"}) {
    std::printf("%s: %lld\n", key, static_cast<long long>(report[key].get<std::int64_t>()));
  }
  std::printf("collectives:");
  for (const auto& [kind, entry] : report["collectives"].items()) {
    if (!entry.is_object()) continue;
    std::printf(" %s %lld (%lld bytes)", kind.c_str(),
                static_cast<long long>(entry["count"].get<std::int64_t>()),
                static_cast<long long>(entry["bytes"].get<std::int64_t>()));
  }
  std::printf("%s\n", report["collectives"].size() == 1 ? " none" : "");
  std::printf("evaluator_ops:%s\n", report["evaluator_ops"].empty() ? " none" : "");
  for (const auto& op : report["evaluator_ops"]) {
    std::printf("  %s\n", op.get<std::string>().c_str());
  }
  std::printf("outputs:\n");
  for (const auto& out : report["outputs"]) {
    std::printf("  %s", out["type"].get<std::string>().c_str());
    if (out.contains("file")) std::printf(" -> %s", out["file"].get<std::string>().c_str());
    if (out.contains("ok")) {
      const bool ok = out["ok"].get<bool>();
      std::printf("  %s%s", ok ? "as expected" : "WRONG at ",
                  ok ? "" : out["where"].get<std::string>().c_str());
    }
    std::printf("\n");
  }
}

OrderedJson profile_json(const Profile& profile) {
  OrderedJson out = OrderedJson::array();
  for (const ProfileRow& r : profile.rows()) {
    out.push_back({{"kind", r.kind},
                   {"op", r.op},
                   {"location", r.location},
                   {"calls", r.calls},
                   {"ms", 1e3 * r.seconds},
                   {"share", r.share},
                   {"bytes", r.bytes},
                   {"kernel", r.kernel},
                   {"reason", r.reason}});
  }
  return out;
}

/// Adds what came of it to the report, and prints that.
int tell(const RunArguments& options, OrderedJson report, const Outcome& outcome,
         const Profile* profile) {
  report["devices"] = outcome.devices;
  // All processes have the results; the first one reports them.
  const bool reports = process_index() == 0;
  if (process_count() > 1) report["processes"] = process_count();
  report["compile_ms"] = outcome.compile_ms;
  report["run_ms"] = outcome.run_ms;
  report["peak_bytes_per_device"] = outcome.peak_bytes_total / outcome.devices;
  report["peak_bytes_total"] = outcome.peak_bytes_total;
  report["collectives"] = collectives_json(outcome);
  report["evaluator_ops"] = outcome.evaluator_ops;
  report["outputs"] = OrderedJson::array();
  for (const Literal& l : outcome.results) {
    report["outputs"].push_back({{"type", l.shape().to_string()}});
  }
  if (!options.output_dir.empty()) {
    const std::filesystem::path folder(options.output_dir);
    std::error_code error;
    if (reports) std::filesystem::create_directories(folder, error);
    for (std::size_t i = 0; i < outcome.results.size(); ++i) {
      const std::string path = (folder / ("out" + std::to_string(i) + ".npy")).string();
      if (reports) write_npy(path, outcome.results[i]);
      report["outputs"][i]["file"] = path;
    }
  }
  if (options.profile) report["profile"] = profile_json(*profile);
  bool ok = true;
  if (!options.expect.empty()) {
    const auto deviations = compare_outputs(outcome.results, options.expect, options.tol);
    for (std::size_t i = 0; i < deviations.size(); ++i) {
      const Deviation& d = deviations[i];
      report["outputs"][i]["ok"] = d.ok();
      report["outputs"][i]["excess"] = d.excess;  // null: no number
      if (!d.ok()) report["outputs"][i]["where"] = d.where;
      ok = ok && d.ok();
    }
    report["ok"] = ok;
  }
  if (!reports) return ok ? kDone : kFailed;
  if (options.json) {
    std::cout << report.dump() << "\n";
  } else {
    print_lines(report, outcome.run_ms);
    if (options.profile) std::printf("%s", profile->table().c_str());
  }
  std::cout << std::flush;
  if (ok) return kDone;
  std::cerr << "tessera: results differ from those in " << options.expect << "\n";
  return kFailed;
}

/// A program that `tessera compile` or Compiled::serialize stored.
bool is_stored(const std::string& path) {
  if (path == "-") return false;
  std::ifstream in(path, std::ios::binary);
  std::string begin(compiler::kStoredMagic.size(), '\0');
  return in.read(begin.data(), std::streamsize(begin.size())) && begin == compiler::kStoredMagic;
}

int run_stored(const RunArguments& options) {
  const PlacementFlags& p = options.placement;
  if (!p.mesh.empty() || !p.in_shardings.empty() || p.devices != 0 || !options.layouts.empty()) {
    throw UsageError(
        "a stored program is placed already: there are no --mesh, --in-shardings, --devices and "
        "--layouts");
  }
  if (process_count() > 1) {
    throw UsageError(
        "a stored program is run in one process here; load_compiled runs it in several");
  }
  const auto start = std::chrono::steady_clock::now();
  const std::string bytes = compiler::read_file(options.module);
  const auto state = frontend::load_program(bytes, {}, {}, /*virtually=*/true);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  const compiler::Executable& executable = *state->bound.executable;
  if (!state->captures.empty()) {
    throw UsageError("'" + state->bound.name +
                     "' has arrays of its own; load_compiled of the library runs it");
  }
  const std::vector<Shape>& shapes = executable.parameter_shapes();
  const std::vector<Literal> inputs = options.inputs.empty() ? random_inputs(shapes, options.seed)
                                                             : read_inputs(shapes, options.inputs);
  std::optional<Profile> profile;
  if (options.profile || !options.trace.empty()) {
    profile.emplace(ProfileOptions{options.trace}, Location{});
  }
  const bool repeating = options.repeat > 0;
  Outcome outcome =
      execute(executable, inputs, {}, repeating ? kWarmUps : 0, std::max(options.repeat, 1));
  outcome.compile_ms = took.count();
  if (profile) profile->stop();
  OrderedJson report;
  report["module"] = state->bound.name;
  report["form"] = "stored";
  report["layouts"] = to_string(executable.layouts());
  return tell(options, std::move(report), outcome, profile ? &*profile : nullptr);
}

int run_module(const RunArguments& options) {
  if (options.repeat < 0) throw UsageError("--repeat: the count can't be negative");
  if (is_stored(options.module)) return run_stored(options);
  if (options.module == "-" && process_count() > 1) {
    throw UsageError("-: several processes can't read one stdin; give a file");
  }
  LoadedModule loaded =
      load_open_module(options.module, options.inputs.empty() || !options.shapes.empty()
                                           ? arguments_of_flag(options.shapes)
                                           : arguments_of_inputs(options.inputs));
  if (has_open_batch(*loaded.module) && !options.inputs.empty()) {
    loaded.module = with_batch(*loaded.module, batch_size_of(*loaded.module, options.inputs));
  }
  refuse_open_batch(*loaded.module);
  place(loaded.module.get(), options.placement);
  ir::take_whole_arrays(loaded.module.get());
  check_memory(*loaded.module);
  const std::vector<Literal> inputs = options.inputs.empty()
                                          ? random_inputs(*loaded.module, options.seed)
                                          : read_inputs(*loaded.module, options.inputs);
  const Layouts layouts = layouts_of(options.layouts);
  OrderedJson report;
  report["module"] = loaded.module->name;
  report["form"] = compiler::name(loaded.form);
  report["read_ms"] = loaded.milliseconds;
  const bool repeating = options.repeat > 0;
  std::optional<Profile> profile;
  if (options.profile || !options.trace.empty()) {
    profile.emplace(ProfileOptions{options.trace}, Location{});
  }
  const Outcome outcome = execute(std::move(loaded.module), inputs, layouts,
                                  repeating ? kWarmUps : 0, std::max(options.repeat, 1));
  if (profile) profile->stop();
  report["layouts"] = to_string(layouts);
  return tell(options, std::move(report), outcome, profile ? &*profile : nullptr);
}

}  // namespace

void add_run(CLI::App& app, std::function<int()>& run) {
  auto options = std::make_shared<RunArguments>();
  CLI::App* command = app.add_subcommand("run", "Run a module of StableHLO or HLO text");
  command
      ->add_option("module", options->module,
                   "StableHLO (text or bytecode), HLO text, or a program that `tessera compile` "
                   "stored; - is stdin")
      ->required();
  add_shapes_flag(command, &options->shapes);
  command->add_option("--inputs", options->inputs,
                      "Folder of arg0.npy, arg1.npy, ...; without it inputs are random");
  command->add_option("--output-dir", options->output_dir, "Folder to write out0.npy, ... into");
  command->add_option("--expect", options->expect,
                      "Folder of out0.npy, ... to compare the results with");
  command
      ->add_option("--tol", options->tol,
                   "|got - want| may be tol (1 + |want|); integers are compared exactly")
      ->capture_default_str();
  add_placement_flags(command, &options->placement);
  add_layouts_flag(command, &options->layouts);
  command->add_option("--repeat", options->repeat, "Time this many runs, after two to warm up");
  command->add_flag("--profile", options->profile,
                    "Print what the time went to, by operation and line");
  command->add_option("--trace", options->trace,
                      "File for a trace, which Perfetto and chrome://tracing show");
  command->add_option("--seed", options->seed, "Of random inputs")->capture_default_str();
  command->add_flag("--json", options->json, "Print one JSON object");
  command->callback([&run, options] { run = [options] { return run_module(*options); }; });
}

}  // namespace tessera::tool
