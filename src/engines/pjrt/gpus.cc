// SPDX-License-Identifier: Apache-2.0
// Libraries and options of plugins for GPUs.
#include "src/engines/pjrt/gpus.h"

#include <dlfcn.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

namespace tessera::engines::pjrt {
namespace {

namespace fs = std::filesystem;

/// Each after those that it needs.
constexpr const char* kLibraries[] = {"cudart", "nvrtc",    "nvJitLink",    "cublasLt",
                                      "cublas", "nccl",     "cupti",        "cusparse",
                                      "cufft",  "cusolver", "nvshmem_host", "cudnn"};

bool is_number(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code none;
  for (fs::directory_iterator i(folder, none), end; !none && i != end; i.increment(none)) {
    out.push_back(i->path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// "13" of ".../jax_plugins/xla_cuda13".
std::string version_of(const fs::path& package) {
  const std::string name = package.filename().string();
  const std::size_t digits = name.find_last_not_of("0123456789") + 1;
  return name.substr(digits);
}

/// The folders with libraries for that version: `nvidia/cu13` first, and those of no version.
std::vector<fs::path> library_folders(const fs::path& nvidia, const std::string& version) {
  std::vector<fs::path> out;
  for (const fs::path& part : entries_of(nvidia)) {
    const std::string name = part.filename().string();
    const bool versioned = name.rfind("cu", 0) == 0 && is_number(std::string_view(name).substr(2));
    if (!versioned) {
      out.push_back(part / "lib");
    } else if (name.substr(2) == version) {
      out.insert(out.begin(), part / "lib");
    }
  }
  return out;
}

/// libNAME.so.N of the first of these folders that has one; empty if none has.
fs::path find_library(const std::vector<fs::path>& folders, const std::string& name) {
  const std::string begin = "lib" + name + ".so.";
  for (const fs::path& folder : folders) {
    for (const fs::path& file : entries_of(folder)) {
      const std::string text = file.filename().string();
      if (text.rfind(begin, 0) == 0 && is_number(std::string_view(text).substr(begin.size()))) {
        return file;
      }
    }
  }
  return {};
}

std::optional<std::string> variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr || *text == 0 ? std::nullopt : std::optional<std::string>(text);
}

/// Of a variable that JAX reads, too.
template <class T>
T number_of(const char* name, const std::string& text) {
  T out{};
  const auto [stop, fault] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (fault == std::errc() && stop == text.data() + text.size()) return out;
  throw PluginFailure("PJRT_Client_Create", PluginFailure::kInvalidArgument,
                      std::string(name) + " is '" + text + "'; valid: a number");
}

}  // namespace

void load_packaged_libraries(const std::string& plugin) {
  std::error_code none;
  // Some installers make links to files that stand elsewhere alone.
  for (const fs::path& file : {fs::absolute(plugin, none), fs::canonical(plugin, none)}) {
    const fs::path package = file.parent_path(), plugins = package.parent_path();
    const fs::path nvidia = plugins.parent_path() / "nvidia";
    if (plugins.filename() != "jax_plugins" || !fs::is_directory(nvidia, none)) continue;
    const std::vector<fs::path> folders = library_folders(nvidia, version_of(package));
    for (const char* name : kLibraries) {
      const fs::path library = find_library(folders, name);
      if (!library.empty()) (void)dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    }
    return;
  }
}

bool is_for_gpus(const Api& api) {
  for (const PJRT_Extension_Base* e = api.extensions(); e != nullptr; e = e->next) {
    if (e->type == PJRT_Extension_Type_Gpu_Custom_Call) return true;
  }
  return false;
}

void complete_gpu_options(const compiler::accelerators::Joining* joining, Values* options) {
  Values& all = *options;
  if (joining != nullptr && joining->device) {
    all.try_emplace("visible_devices", std::vector<std::int64_t>{*joining->device});
  }
  if (auto text = variable("XLA_PYTHON_CLIENT_ALLOCATOR")) {
    for (char& c : *text) c = c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c;
    all.try_emplace("allocator", *text);
  }
  if (const auto text = variable("XLA_PYTHON_CLIENT_PREALLOCATE")) {
    all.try_emplace("preallocate", *text != "false" && *text != "False" && *text != "0");
  }
  for (const char* name : {"XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"}) {
    if (all.count("memory_fraction") > 0) break;
    if (const auto text = variable(name)) {
      all.emplace("memory_fraction", number_of<float>(name, *text));
    }
  }
  if (all.count("collective_memory_size") == 0) {
    constexpr const char* kName = "XLA_PYTHON_CLIENT_COLLECTIVE_MEM_SIZE_MB";
    if (const auto text = variable(kName)) {
      all.emplace("collective_memory_size", number_of<std::int64_t>(kName, *text) << 20);
    }
  }
  // `memory_fraction=1` and `visible_devices=0` look like integers.
  if (const auto at = all.find("memory_fraction"); at != all.end()) {
    if (const auto* n = std::get_if<std::int64_t>(&at->second)) at->second = float(*n);
  }
  if (const auto at = all.find("visible_devices"); at != all.end()) {
    if (const auto* n = std::get_if<std::int64_t>(&at->second)) {
      at->second = std::vector<std::int64_t>{*n};
    }
  }
}

}  // namespace tessera::engines::pjrt
