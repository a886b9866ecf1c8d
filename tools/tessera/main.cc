// SPDX-License-Identifier: Apache-2.0
// The tessera command: subcommands and exit codes.
#include <cstdio>
#include <iostream>

#include "tools/tessera/command.h"

int main(int argc, char** argv) {
  using namespace tessera;
  CLI::App app{"Tessera: sharded array programs", "tessera"};
  app.set_version_flag("--version", "tessera " TESSERA_VERSION);
  app.require_subcommand(1);
  std::function<int()> run;
  for (const tool::Register add :
       {tool::add_run, tool::add_partition, tool::add_explain, tool::add_opt, tool::add_convert,
        tool::add_check, tool::add_checkpoint, tool::add_compile, tool::add_completion,
        tool::add_devices, tool::add_network, tool::add_report, tool::add_sharding,
        tool::add_transform}) {
    add(app, run);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const auto is_named = [&](const CLI::App* command) { return command->get_name() == argv[1]; };
    if (argc > 1 && argv[1][0] != '-' && app.get_subcommands(is_named).empty()) {
      std::cerr << "tessera: there is no subcommand '" << argv[1] << "'; --help lists them\n";
      return tool::kUsage;
    }
    const int code = app.exit(e, std::cout, std::cerr);
    return code == 0 ? tool::kDone : tool::kUsage;
  }
  try {
    const int code = run();
    // A full disk, or a closed pipe whose signal is ignored, would else go unnoticed.
    std::cout << std::flush;
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || !std::cout) {
      throw IoError("can't write to standard output");
    }
    return code;
  } catch (const InternalError& e) {
    std::cerr << "tessera: a fault of Tessera's own, please report it: " << e.what() << "\n";
    return tool::kInternal;
  } catch (const tool::UsageError& e) {
    std::cerr << "tessera: " << e.what() << "\nRun with --help for more information.\n";
    return tool::kUsage;
  } catch (const std::bad_alloc&) {
    std::cerr << "tessera: there is not enough memory for this\n";
    return tool::kFailed;
  } catch (const std::exception& e) {
    std::cerr << "tessera: " << e.what() << "\n";
    return tool::kFailed;
  }
}
