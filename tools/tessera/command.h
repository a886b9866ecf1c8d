// SPDX-License-Identifier: Apache-2.0
// What the subcommands share. Results go to stdout, everything else to stderr; exit codes: 0 done,
// 1 the work failed, 2 wrong usage, 70 a fault of Tessera's own.
#pragma once

#include <tessera/error.h>
#include <tessera/sharding/layouts.h>

#include <CLI/CLI.hpp>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "src/compiler/read_module.h"
#include "tools/tessera/arguments.h"

namespace tessera::tool {

struct PlacementFlags;

using OrderedJson = nlohmann::ordered_json;

/// Adds a subcommand to the application; `run` is set if it was chosen.
using Register = void (*)(CLI::App& app, std::function<int()>& run);
void add_check(CLI::App& app, std::function<int()>& run);
void add_checkpoint(CLI::App& app, std::function<int()>& run);
void add_compile(CLI::App& app, std::function<int()>& run);
void add_completion(CLI::App& app, std::function<int()>& run);
void add_convert(CLI::App& app, std::function<int()>& run);
void add_devices(CLI::App& app, std::function<int()>& run);
void add_explain(CLI::App& app, std::function<int()>& run);
void add_network(CLI::App& app, std::function<int()>& run);
void add_opt(CLI::App& app, std::function<int()>& run);
void add_partition(CLI::App& app, std::function<int()>& run);
void add_report(CLI::App& app, std::function<int()>& run);
void add_run(CLI::App& app, std::function<int()>& run);
void add_sharding(CLI::App& app, std::function<int()>& run);
void add_transform(CLI::App& app, std::function<int()>& run);

inline constexpr int kDone = 0, kFailed = 1, kUsage = 2, kInternal = 70;

/// A flag's value that can't be meant: exit code 2.
class UsageError : public ValueError {
 public:
  using ValueError::ValueError;
};

/// All of a file, "-" for stdin. IoError.
std::string read_text(const std::string& path);
/// To a file, "-" for stdout. IoError.
void write_text(const std::string& path, const std::string& text);

/// A program from a file or, by "-", from stdin, in either form of text.
struct LoadedModule {
  std::unique_ptr<ir::Module> module;
  compiler::TextForm form = compiler::TextForm::hlo;
  double milliseconds = 0;  ///< for reading
};
/// `given`: the arguments of a program whose text leaves sizes open.
LoadedModule load_module(const std::string& path, const GivenArguments& given);
/// The same for one whose batch may have no size yet (open_batch.h), which load_module refuses.
LoadedModule load_open_module(const std::string& path, const GivenArguments& given);

/// --layouts: how intermediate arrays are sharded.
void add_layouts_flag(CLI::App* command, std::string* value);
/// --mesh, --in-shardings and --devices of what runs, or is to.
void add_placement_flags(CLI::App* command, PlacementFlags* flags);
/// As the flag says; if it isn't given, as TESSERA_LAYOUTS does.
Layouts layouts_of(const std::string& flag);

/// One line that is written over again on stderr, if that is a terminal and --quiet is not given.
class Progress {
 public:
  Progress();
  ~Progress();
  void show(const std::string& line);

 private:
  bool on_;
  std::size_t shown_ = 0;
};

}  // namespace tessera::tool
