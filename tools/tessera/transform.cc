// SPDX-License-Identifier: Apache-2.0
// tessera transform: derivatives and batches of programs.
#include <algorithm>
#include <sstream>

#include "src/passes/control/expand_scans.h"
#include "src/passes/eliminate_common.h"
#include "src/passes/expand_derivative_ops.h"
#include "src/transforms/transform.h"
#include "src/transforms/vmap.h"
#include "tools/tessera/command.h"
#include "tools/tessera/open_batch.h"

namespace tessera::tool {
namespace {

struct TransformArguments {
  std::string module, output = "-", to, shapes;
  std::vector<std::string> steps;
  std::int64_t batch_size = 0;  ///< 0: left open
};

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string item; std::getline(in, item, ',');) out.push_back(item);
  return out;
}

std::int64_t number(const std::string& step, const std::string& item) {
  std::size_t used = 0;
  std::int64_t out = -1;
  try {
    out = std::stoll(item, &used);
  } catch (const std::logic_error&) {
    used = 0;
  }
  if (used == 0 || used != item.size() || out < 0) {
    throw UsageError("step " + step + ": '" + item + "' is no number of an argument or axis");
  }
  return out;
}

std::unique_ptr<ir::Module> apply_step(const std::string& step, const ir::Module& program,
                                       std::int64_t batch_size) {
  const std::size_t colon = step.find(':');
  const std::string name = step.substr(0, colon);
  const bool has_list = colon != std::string::npos;
  const std::vector<std::string> list =
      split_at_commas(has_list ? step.substr(colon + 1) : std::string());
  if (name == "jvp" && !has_list) return transforms::jvp(program);
  if (name == "vjp" && !has_list) return transforms::vjp(program);
  if (name == "remat" && !has_list) return transforms::remat(program);
  if (name == "vmap" && has_list) {
    const std::string axes = step.substr(colon + 1);
    const Dims dims = parse_batch_axes(step, axes, program);
    if (batch_size > 0) return transforms::vmap(program, dims, batch_size);
    std::unique_ptr<ir::Module> out = program.clone();
    open_batch(out.get(), axes);
    return out;
  }
  if (name == "grad") {
    std::vector<std::size_t> wanted;
    for (const std::string& item : list) wanted.push_back(std::size_t(number(step, item)));
    if (!has_list) wanted = {0};
    if (wanted.empty() || step.back() == ',') {
      throw UsageError("step " + step + " names no argument; valid: grad, grad:0, grad:0,2");
    }
    return transforms::grad(program, wanted);
  }
  throw UsageError("'" + step + "' is no step; valid: jvp, vjp, grad, grad:0,2, vmap:0,-,1, remat");
}

int transform(const TransformArguments& options) {
  const auto is_vmap = [](const std::string& step) { return step.starts_with("vmap"); };
  if (options.batch_size > 0 && std::none_of(options.steps.begin(), options.steps.end(), is_vmap)) {
    throw UsageError("--batch-size without a step of vmap");
  }
  LoadedModule loaded = load_module(options.module, arguments_of_flag(options.shapes));
  for (const std::string& step : options.steps) {
    // What is computed twice would be differentiated twice.
    passes::eliminate_common(loaded.module.get());
    if (has_open_batch(*loaded.module)) {
      throw UsageError("step " + step +
                       " follows a vmap of a batch whose size is not known; give "
                       "--batch-size, or let vmap come last");
    }
    loaded.module = apply_step(step, *loaded.module, options.batch_size);
  }
  // No text has a form for them.
  passes::expand_derivative_ops(loaded.module.get());
  passes::expand_scans(loaded.module.get());
  const auto to = options.to.empty() ? loaded.form : compiler::form_named(options.to);
  write_text(options.output, compiler::write_module(*loaded.module, to));
  return kDone;
}

}  // namespace

void add_transform(CLI::App& app, std::function<int()>& run) {
  auto options = std::make_shared<TransformArguments>();
  CLI::App* command = app.add_subcommand(
      "transform", "Differentiate or batch a program: steps are applied from left to right");
  command
      ->add_option("module", options->module,
                   "StableHLO (text or bytecode) or HLO text; - is stdin")
      ->required();
  add_shapes_flag(command, &options->shapes);
  command
      ->add_option(
          "steps", options->steps,
          "jvp (takes tangents, gives tangents), vjp (takes cotangents, gives cotangents), "
          "grad:0,2 (of the first result), vmap:0,-,1 (the axis of each argument that is batched; "
          "results are batched on axis 0), remat")
      ->required();
  command
      ->add_option(
          "--batch-size", options->batch_size,
          "Entries of the batch of vmap (default: left open; tessera run takes it from its "
          "--inputs)")
      ->check(CLI::Range(1, 1 << 30));
  command->add_option("-o,--output", options->output, "File to write; - is stdout");
  command->add_option("--to", options->to, "Form to write (default: that of the module)")
      ->check(CLI::IsMember({"hlo", "stablehlo", "bytecode"}));
  command->callback([&run, options] { run = [options] { return transform(*options); }; });
}

}  // namespace tessera::tool
