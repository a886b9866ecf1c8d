// SPDX-License-Identifier: Apache-2.0
// Writes the stages of a compilation to the TESSERA_DUMP_TO folder.
#include "src/compiler/dump.h"

#include <fmt/format.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <tessera/error.h>

#include "src/base/env.h"

namespace tessera::compiler {

Dump::Dump(const std::string& module_name) {
  const auto folder = env_text("TESSERA_DUMP_TO");
  if (!folder) return;
  std::error_code error;
  // The last folder only: a wrong path shall not leave a tree of folders behind.
  std::filesystem::create_directory(*folder, error);
  if (error) {
    throw IoError("can't make the folder " + *folder + " of TESSERA_DUMP_TO: " + error.message());
  }
  // Names may hold anything; files of two modules of one name must not meet.
  static std::atomic<int> modules{0};
  std::string name;
  for (const char c : module_name) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
    name += plain ? c : '_';
  }
  prefix_ = fmt::format("{}/{:04}.{}", *folder, modules++, name);
}

void Dump::write(const std::string& stage, const std::string& text) {
  if (!enabled()) return;
  const std::string path = fmt::format("{}.{:02}.{}.txt", prefix_, count_++, stage);
  errno = 0;
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) throw IoError("can't write " + path + ": " + std::strerror(errno));
}

}  // namespace tessera::compiler
