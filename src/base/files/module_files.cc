// SPDX-License-Identifier: Apache-2.0
// Asks the loader where this code is.
#include "src/base/files/module_files.h"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>
#include <system_error>

namespace tessera {

std::string own_file() {
  Dl_info info;
  link_map* map = nullptr;
  const bool found = dladdr1(reinterpret_cast<const void*>(&own_file), &info,
                             reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) != 0;
  if (!found) return "";
  // A program has no name there; what it was called as may be anything.
  if (map == nullptr || map->l_name == nullptr || map->l_name[0] == '\0') {
    std::error_code error;
    const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
    if (!error) return program.string();
  }
  return info.dli_fname != nullptr ? info.dli_fname : "";
}

std::vector<std::string> module_files(const char* name, const char* installed) {
  std::vector<std::string> out;
  if (const std::string own = own_file(); !own.empty()) {
    const auto folder = std::filesystem::path(own).parent_path();
    out.push_back((folder.empty() ? "." : folder) / name);
    // Where it is installed: modules are no libraries for others to link with.
    out.push_back((folder.empty() ? "." : folder) / "tessera" / name);
  }
  out.push_back(std::filesystem::path(installed) / "tessera" / name);
  return out;
}

}  // namespace tessera
