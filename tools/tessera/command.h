// SPDX-License-Identifier: Apache-2.0
// What the subcommands share. Results go to stdout, everything else to stderr; exit codes: 0 done,
// 1 the work failed, 2 wrong usage, 70 a fault of Tessera's own.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <string>

namespace tessera::tool {

/// Adds a subcommand to the application; `run` is set if it was chosen.
using Register = void (*)(CLI::App& app, std::function<int()>& run);
void add_devices(CLI::App& app, std::function<int()>& run);
void add_partition(CLI::App& app, std::function<int()>& run);
void add_sharding(CLI::App& app, std::function<int()>& run);

/// The whole of a file, "-" for stdin. IoError.
std::string read_text(const std::string& path);
/// To a file, "-" for stdout. IoError.
void write_text(const std::string& path, const std::string& text);

}  // namespace tessera::tool
