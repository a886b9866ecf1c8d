// SPDX-License-Identifier: Apache-2.0
// Asks the loader where this code is.
#include "src/base/module_files.h"

#include <dlfcn.h>

#include <filesystem>

namespace tessera {

std::vector<std::string> module_files(const char* name, const char* installed) {
  std::vector<std::string> out;
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&module_files), &info) != 0 &&
      info.dli_fname != nullptr) {
    const auto folder = std::filesystem::path(info.dli_fname).parent_path();
    out.push_back((folder.empty() ? "." : folder) / name);
  }
  out.push_back(std::filesystem::path(installed) / name);
  return out;
}

}  // namespace tessera
