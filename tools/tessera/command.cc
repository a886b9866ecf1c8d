// SPDX-License-Identifier: Apache-2.0
// What subcommands share: reading and writing files, flags, the progress line.
#include "tools/tessera/command.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>

#include "src/compiler/compile.h"
#include "tools/tessera/open_batch.h"
#include "tools/tessera/placement.h"

namespace tessera::tool {

std::string read_text(const std::string& path) {
  if (path != "-") return compiler::read_file(path);
  std::ostringstream text;
  text << std::cin.rdbuf();
  return std::move(text).str();
}

void write_text(const std::string& path, const std::string& text) {
  if (path == "-") {
    std::cout << text << std::flush;
    if (!std::cout) throw IoError("can't write to standard output");
    return;
  }
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  file << text << std::flush;
  if (!file) throw IoError("can't write " + path + ": " + std::strerror(errno));
}

LoadedModule load_module(const std::string& path, const GivenArguments& given) {
  LoadedModule out = load_open_module(path, given);
  refuse_open_batch(*out.module);
  return out;
}

LoadedModule load_open_module(const std::string& path, const GivenArguments& given) {
  bool asked = false;
  const text::Arguments arguments = [&](const text::Signature& program) {
    asked = true;
    return given.arguments(program);
  };
  const std::string text = read_text(path);
  const auto start = std::chrono::steady_clock::now();
  LoadedModule out;
  const auto form = compiler::text_form(text);
  out.module = compiler::read_module(text, path == "-" ? "<stdin>" : path, form, &arguments);
  out.form = *form;  // a text without a form is refused
  if (given.by_flag && !asked) {
    throw UsageError("--shapes: the sizes of all arguments of " + out.module->name +
                     " are in its text already");
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  out.milliseconds = took.count();
  return out;
}

void add_placement_flags(CLI::App* command, PlacementFlags* flags) {
  command->add_option("--mesh", flags->mesh,
                      "Mesh to run on: data=2,model=4 (default: the module's own)");
  command->add_option("--in-shardings", flags->in_shardings,
                      "A spec per argument: P(\"data\",None);P() (default: the module's own)");
  command
      ->add_option("--devices", flags->devices,
                   "Number of devices (default: the module's or the mesh's)")
      ->check(CLI::Range(std::int64_t(1), kMaxDevices));
}

void add_layouts_flag(CLI::App* command, std::string* value) {
  command
      ->add_option("--layouts", *value,
                   "How intermediate arrays are sharded: as the annotations imply, or as a solver "
                   "finds to be cheaper (default: TESSERA_LAYOUTS, else solved)")
      ->check(CLI::IsMember({"propagated", "solved"}));
}

Layouts layouts_of(const std::string& flag) {
  compiler::Requests requests;
  if (!flag.empty()) requests.layouts = parse_layouts(flag, Location{});
  return compiler::Options(requests).layouts;
}

Progress::Progress() {
  const char* term = std::getenv("TERM");
  on_ = isatty(STDERR_FILENO) != 0 && std::getenv("CI") == nullptr && term != nullptr &&
        std::strcmp(term, "dumb") != 0;
}

void Progress::show(const std::string& line) {
  if (!on_) return;
  std::cerr << '\r' << line;
  if (line.size() < shown_) std::cerr << std::string(shown_ - line.size(), ' ');
  std::cerr << std::flush;
  shown_ = line.size();
}

Progress::~Progress() {
  if (on_ && shown_ > 0) std::cerr << '\r' << std::string(shown_, ' ') << '\r' << std::flush;
}

}  // namespace tessera::tool
