// SPDX-License-Identifier: Apache-2.0
// A corpus folder has a folder per case with arg0.npy, ..., out0.npy, ... and, per variant V, a
// V.json with "tol" and the program as V.mlir (StableHLO) and V.hlo.
#include <tessera/device.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <regex>

#include "src/base/env.h"
#include "src/ir/rewrite/whole_arrays.h"
#include "tools/tessera/execution.h"
#include "tools/tessera/placement.h"

namespace tessera::tool {
namespace {

namespace fs = std::filesystem;

struct CheckArguments {
  std::string corpus, only = "", form = "both", layouts;
  std::int64_t devices = 0;
  bool json = false, quiet = false;
};

struct Row {
  std::string name, variant, form;
  std::int64_t devices = 0;
  bool ok = false, internal = false;  ///< internal: by a fault of Tessera's own
  std::string what;                   ///< what is wrong
  double excess = 0, compile_ms = 0, run_ms = 0;
  OrderedJson collectives;
  std::vector<std::string> evaluator_ops;
};

std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  if (error) throw IoError("can't read the folder " + folder.string());
  std::vector<fs::path> out;
  for (const auto& entry : entries) out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

double tolerance_of(const fs::path& path) {
  try {
    return OrderedJson::parse(read_text(path.string())).at("tol").get<double>();
  } catch (const OrderedJson::exception& e) {
    throw IoError(path.string() + ": no \"tol\" in it: " + e.what());
  }
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

void check_one(const fs::path& folder, const fs::path& program, const CheckArguments& options,
               Row* row) {
  try {
    const double tol = tolerance_of(folder / (row->variant + ".json"));
    LoadedModule loaded = load_module(program.string(), arguments_of_inputs(folder.string()));
    PlacementFlags placement;
    placement.devices = options.devices;
    place(loaded.module.get(), placement);
    ir::take_whole_arrays(loaded.module.get());
    check_memory(*loaded.module);
    const std::vector<Literal> inputs = read_inputs(*loaded.module, folder.string());
    const Outcome outcome =
        execute(std::move(loaded.module), inputs, layouts_of(options.layouts), 0, 1);
    row->devices = outcome.devices;
    row->compile_ms = outcome.compile_ms;
    row->run_ms = outcome.run_ms[0];
    row->collectives = collectives_json(outcome);
    row->evaluator_ops = outcome.evaluator_ops;
    row->ok = true;
    const auto deviations = compare_outputs(outcome.results, folder.string(), tol);
    for (std::size_t i = 0; i < deviations.size(); ++i) {
      row->excess = std::max(row->excess, deviations[i].excess);
      if (deviations[i].ok() || !row->ok) continue;
      row->ok = false;
      row->what = "out" + std::to_string(i) + " at " + deviations[i].where;
    }
  } catch (const InternalError& e) {
    row->ok = false;
    row->internal = true;
    row->what = "a fault of Tessera's own, please report it: " + first_line(e.what());
  } catch (const std::exception& e) {
    row->ok = false;
    row->what = first_line(e.what());
  }
}

OrderedJson row_json(const Row& row) {
  OrderedJson out;
  out["case"] = row.name;
  out["variant"] = row.variant;
  out["form"] = row.form;
  out["devices"] = row.devices;
  out["ok"] = row.ok;
  if (!row.ok) out["what"] = row.what;
  out["excess"] = row.excess;
  out["compile_ms"] = row.compile_ms;
  out["run_ms"] = row.run_ms;
  out["collectives"] = row.collectives;
  out["evaluator_ops"] = row.evaluator_ops;
  return out;
}

int check(const CheckArguments& options) {
  std::regex only;
  try {
    only = std::regex(options.only);
  } catch (const std::regex_error& e) {
    throw UsageError("--only '" + options.only + "': " + e.what());
  }
  const fs::path corpus(options.corpus);
  if (!fs::is_directory(corpus)) throw IoError(options.corpus + " is no folder");
  std::vector<std::pair<Row, std::pair<fs::path, fs::path>>> work;
  for (const fs::path& folder : sorted_entries(corpus)) {
    if (!fs::is_directory(folder)) continue;
    for (const fs::path& file : sorted_entries(folder)) {
      if (file.extension() != ".json") continue;
      for (const auto& [form, extension] : {std::pair("stablehlo", ".mlir"), {"hlo", ".hlo"}}) {
        fs::path program = file;
        program.replace_extension(extension);
        Row row;
        row.name = folder.filename().string();
        row.variant = file.stem().string();
        row.form = form;
        if (options.form != "both" && options.form != form) continue;
        if (!std::regex_search(row.name + "/" + row.variant + "." + form, only)) continue;
        if (fs::exists(program)) work.push_back({std::move(row), {folder, program}});
      }
    }
  }
  if (work.empty()) throw ValueError(options.corpus + " holds no case that is asked for");

  // With several processes the first one reports.
  const bool reports = process_index() == 0;
  std::size_t wrong = 0, internal = 0;
  OrderedJson rows = OrderedJson::array();
  if (!options.json && reports) {
    std::printf("%-26s %-8s %-10s %7s %11s %9s  %s\n", "case", "variant", "form", "devices",
                "compile ms", "run ms", "result");
  }
  {
    Progress progress;
    for (std::size_t i = 0; i < work.size(); ++i) {
      Row& row = work[i].first;
      progress.show(std::to_string(i + 1) + "/" + std::to_string(work.size()) + " " + row.name +
                    "/" + row.variant + " " + row.form);
      check_one(work[i].second.first, work[i].second.second, options, &row);
      wrong += !row.ok;
      internal += row.internal;
      if (!reports) continue;
      if (options.json) {
        rows.push_back(row_json(row));
      } else if (!row.ok || !options.quiet) {
        std::printf("%-26s %-8s %-10s %7lld %11.2f %9.3f  %s\n", row.name.c_str(),
                    row.variant.c_str(), row.form.c_str(), static_cast<long long>(row.devices),
                    row.compile_ms, row.run_ms, row.ok ? "ok" : ("WRONG: " + row.what).c_str());
        std::fflush(stdout);
      }
    }
  }
  const std::size_t right = work.size() - wrong;
  if (!reports) {
    // Says nothing.
  } else if (options.json) {
    OrderedJson out;
    out["rows"] = std::move(rows);
    out["right"] = right;
    out["wrong"] = wrong;
    std::cout << out.dump() << "\n" << std::flush;
  } else {
    std::printf("%zu right, %zu wrong\n", right, wrong);
  }
  if (internal > 0) return kInternal;
  return wrong == 0 ? kDone : kFailed;
}

}  // namespace

void add_check(CLI::App& app, std::function<int()>& run) {
  auto options = std::make_shared<CheckArguments>();
  CLI::App* command = app.add_subcommand(
      "check", "Run each case and variant of a corpus folder and compare its results");
  command->add_option("corpus", options->corpus, "Folder with a folder per case")->required();
  command->add_option("--only", options->only,
                      "Regular expression that CASE/VARIANT.FORM must match");
  command->add_option("--form", options->form, "Text form to read")
      ->check(CLI::IsMember({"hlo", "stablehlo", "both"}))
      ->capture_default_str();
  command
      ->add_option("--devices", options->devices,
                   "1: run sharded variants on one device, too (default: as the module says)")
      ->check(CLI::Range(std::int64_t(1), kMaxDevices));
  add_layouts_flag(command, &options->layouts);
  command->add_flag("-q,--quiet", options->quiet, "Print only what is wrong");
  command->add_flag("--json", options->json, "Print one JSON object");
  command->callback([&run, options] { run = [options] { return check(*options); }; });
}

}  // namespace tessera::tool
