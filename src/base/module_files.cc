// SPDX-License-Identifier: Apache-2.0
// Asks the loader where this code is.
#include "src/base/module_files.h"

#include <dlfcn.h>

#include <filesystem>

namespace tessera {

std::string own_file() {
  Dl_info info;
  const bool found = dladdr(reinterpret_cast<const void*>(&own_file), &info) != 0;
  return found && info.dli_fname != nullptr ? info.dli_fname : "";
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
