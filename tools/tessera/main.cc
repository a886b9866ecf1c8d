// SPDX-License-Identifier: Apache-2.0
#include <tessera/error.h>

#include <fstream>
#include <iostream>
#include <sstream>

#include "tools/tessera/command.h"

namespace tessera::tool {

std::string read_text(const std::string& path) {
  std::ostringstream text;
  if (path == "-") {
    text << std::cin.rdbuf();
    return text.str();
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) throw IoError("can't read " + path);
  text << file.rdbuf();
  if (file.bad()) throw IoError("can't read " + path);
  return text.str();
}

void write_text(const std::string& path, const std::string& text) {
  if (path == "-") {
    std::cout << text << std::flush;
    if (!std::cout) throw IoError("can't write to standard output");
    return;
  }
  std::ofstream file(path, std::ios::binary);
  file << text << std::flush;
  if (!file) throw IoError("can't write " + path);
}

namespace {
constexpr int kFailed = 1, kUsage = 2, kInternal = 70;
}

}  // namespace tessera::tool

int main(int argc, char** argv) {
  using namespace tessera;
  CLI::App app{"Tessera: sharded array programs", "tessera"};
  app.set_version_flag("--version", "tessera " TESSERA_VERSION);
  app.require_subcommand(1);
  std::function<int()> run;
  for (tool::Register add : {tool::add_devices, tool::add_partition, tool::add_sharding}) {
    add(app, run);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e, std::cout, std::cerr);
    return code == 0 ? 0 : tool::kUsage;
  }
  try {
    return run();
  } catch (const InternalError& e) {
    std::cerr << "tessera: a fault of Tessera's own, please report it: " << e.what() << "\n";
    return tool::kInternal;
  } catch (const std::exception& e) {
    std::cerr << "tessera: " << e.what() << "\n";
    return tool::kFailed;
  }
}
