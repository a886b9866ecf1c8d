// SPDX-License-Identifier: Apache-2.0
// tessera checkpoint: what a directory of checkpoints has, and whether it is as it was written.
#include <tessera/checkpoint.h>

#include <cstdio>
#include <iostream>
#include <optional>

#include "tools/tessera/command.h"

namespace tessera::tool {
namespace {

struct CheckpointArguments {
  std::string directory;
  std::optional<std::int64_t> step;
  bool verify = false;
  bool json = false;
};

std::string type_of(const CheckpointArray& a) {
  std::string out(name(a.dtype));
  out += "[";
  for (std::size_t i = 0; i < a.shape.size(); ++i) {
    out += (i ? "," : "") + std::to_string(a.shape[i]);
  }
  return out + "]";
}

OrderedJson report_of(const CheckpointArguments& options) {
  OrderedJson out;
  out["steps"] = all_steps(options.directory, Location{});
  const CheckpointInfo info = checkpoint_info(options.directory, options.step, Location{});
  out["step"] = info.step;
  out["bytes"] = info.bytes;
  out["metadata"] = info.metadata;
  out["arrays"] = OrderedJson::array();
  for (const CheckpointArray& a : info.arrays) {
    OrderedJson array = {{"path", a.path}, {"type", type_of(a)}};
    if (a.spec) {
      array["spec"] = a.spec->to_string();
      array["mesh"] = OrderedJson::object();
      for (const auto& [axis, size] : a.mesh) array["mesh"][axis] = size;
    }
    out["arrays"].push_back(std::move(array));
  }
  return out;
}

void print_lines(const OrderedJson& report) {
  std::printf("steps:");
  for (const auto& step : report["steps"]) {
    std::printf(" %lld", static_cast<long long>(step.get<std::int64_t>()));
  }
  std::printf("\nstep: %lld, %lld bytes\n",
              static_cast<long long>(report["step"].get<std::int64_t>()),
              static_cast<long long>(report["bytes"].get<std::int64_t>()));
  for (const auto& [key, text] : report["metadata"].items()) {
    std::printf("metadata: %s = %s\n", key.c_str(), text.get<std::string>().c_str());
  }
  for (const auto& a : report["arrays"]) {
    std::printf("%-14s %s", a["type"].get<std::string>().c_str(),
                a["path"].get<std::string>().c_str());
    if (a.contains("spec")) {
      std::printf("  %s on %s", a["spec"].get<std::string>().c_str(), a["mesh"].dump().c_str());
    }
    std::printf("\n");
  }
}

int show_checkpoint(const CheckpointArguments& options) {
  if (options.step && *options.step < 0) throw UsageError("--step: steps count from 0 on");
  std::vector<std::string> damages;
  if (options.verify) damages = verify_checkpoint(options.directory, options.step, Location{});
  OrderedJson report;
  // The manifest of a damaged one may not be readable.
  if (damages.empty()) report = report_of(options);
  if (options.verify) report["damages"] = damages;
  if (options.json) {
    std::cout << report.dump() << "\n";
  } else {
    if (damages.empty()) print_lines(report);
    if (options.verify && damages.empty()) std::printf("all of it is as it was written\n");
  }
  for (const std::string& damage : damages) std::cerr << "tessera: " << damage << "\n";
  return damages.empty() ? kDone : kFailed;
}

}  // namespace

void add_checkpoint(CLI::App& app, std::function<int()>& run) {
  auto options = std::make_shared<CheckpointArguments>();
  CLI::App* command =
      app.add_subcommand("checkpoint", "Show what is in a checkpoint, or look for damage");
  command->add_option("directory", options->directory, "Directory of the checkpoints")->required();
  command->add_option("--step", options->step, "The step (default: the latest one)");
  command->add_flag("--verify", options->verify, "Read all of it and compare the checksums");
  command->add_flag("--json", options->json, "Print one JSON object");
  command->callback([&run, options] { run = [options] { return show_checkpoint(*options); }; });
}

}  // namespace tessera::tool
