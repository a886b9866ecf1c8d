// SPDX-License-Identifier: Apache-2.0
// Plugins by the environment and in Python packages. Nothing of Python is run.
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <system_error>

#include "src/compiler/accelerators/plugins.h"

namespace tessera::compiler::accelerators {
namespace {

namespace fs = std::filesystem;

/// Parts of a text that outlives them.
std::vector<std::string_view> split(std::string&& text, char at) = delete;
std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> out;
  while (true) {
    const std::size_t end = text.find(at);
    out.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
  }
}

template <class T>
bool read_number(std::string_view text, T* to) {
  const auto [stop, fault] = std::from_chars(text.data(), text.data() + text.size(), *to);
  return fault == std::errc() && stop == text.data() + text.size();
}

/// A flag, an integer, a number, integers with colons between (`0:1:`), or a text.
PluginOption option_of(std::string_view text) {
  if (text == "true" || text == "false") return text == "true";
  std::int64_t integer = 0;
  if (read_number(text, &integer)) return integer;
  float number = 0;
  if (read_number(text, &number)) return number;
  if (text.find(':') != std::string_view::npos) {
    std::vector<std::int64_t> list;
    bool all = true;
    std::vector<std::string_view> items = split(text, ':');
    if (items.back().empty()) items.pop_back();
    for (const std::string_view item : items) {
      all = all && read_number(item, &list.emplace_back());
    }
    if (all && !list.empty()) return list;
  }
  return std::string(text);
}

/// Subfolders in the order of their names.
std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code none;
  for (fs::directory_iterator i(folder, none), end; !none && i != end; i.increment(none)) {
    std::error_code unknown;
    if (i->is_directory(unknown)) out.push_back(i->path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// lib/python3.N/site-packages of an installation; newer versions of Python first.
void add_packages_of(const fs::path& prefix, std::vector<std::string>* to) {
  for (const char* lib : {"lib", "lib64"}) {
    std::vector<fs::path> versions;
    for (const fs::path& p : folders_in(prefix / lib)) {
      if (p.filename().string().rfind("python3", 0) == 0) versions.push_back(p);
    }
    std::sort(versions.begin(), versions.end(), [](const fs::path& a, const fs::path& b) {
      const std::string x = a.filename().string(), y = b.filename().string();
      return x.size() != y.size() ? x.size() > y.size() : x > y;
    });
    for (const fs::path& v : versions) {
      to->push_back((v / "site-packages").string());
      to->push_back((v / "dist-packages").string());
    }
  }
}

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

/// A plugin's library in its package: the one named as one.
std::string library_in(const fs::path& folder) {
  std::vector<std::string> found;
  std::error_code none;
  for (fs::directory_iterator i(folder, none), end; !none && i != end; i.increment(none)) {
    const std::string name = i->path().filename().string();
    const bool library = i->path().extension() == ".so";
    if (library && (name.find("plugin") != std::string::npos ||
                    name.find("pjrt") != std::string::npos || name == "libtpu.so")) {
      found.push_back(i->path().string());
    }
  }
  std::sort(found.begin(), found.end());
  return found.empty() ? "" : found.front();
}

/// "cuda" of "xla_cuda13"; packages of a maker's own have the platform's name as it is.
std::string platform_of_package(std::string name) {
  if (name.rfind("xla_", 0) == 0) name = name.substr(4);
  while (!name.empty() && name.back() >= '0' && name.back() <= '9') name.pop_back();
  return name;
}

}  // namespace

std::map<std::string, NamedPlugin> parse_plugins(std::string_view text) {
  std::map<std::string, NamedPlugin> out;
  if (text.empty()) return out;
  for (const std::string_view item : split(text, ',')) {
    const auto refuse = [&](const std::string& why) {
      return ValueError(
          "TESSERA_PJRT_PLUGINS: '" + std::string(item) + "' " + why +
              "; valid: NAME=/path/of/plugin.so, with options NAME=/plugin.so?key=value?key=value "
              "after it, and commas between plugins",
          Location{});
    };
    const std::vector<std::string_view> parts = split(item, '?');
    const std::size_t equals = parts[0].find('=');
    if (equals == std::string_view::npos || equals == 0 || equals + 1 == parts[0].size()) {
      throw refuse("names no platform and file");
    }
    NamedPlugin plugin{std::string(parts[0].substr(equals + 1)), {}};
    for (std::size_t k = 1; k < parts.size(); ++k) {
      const std::size_t at = parts[k].find('=');
      if (at == std::string_view::npos || at == 0) {
        throw refuse("has an option without a value, '" + std::string(parts[k]) + "'");
      }
      plugin.options[std::string(parts[k].substr(0, at))] = option_of(parts[k].substr(at + 1));
    }
    const std::string name(parts[0].substr(0, equals));
    if (!out.try_emplace(name, std::move(plugin)).second) throw refuse("names a platform again");
  }
  return out;
}

std::vector<std::string> site_packages() {
  std::vector<std::string> out;
  if (const std::string env = variable("VIRTUAL_ENV"); !env.empty()) add_packages_of(env, &out);
  const std::string path = variable("PATH");
  for (const std::string_view folder : split(path, ':')) {
    std::error_code none;
    const fs::path python = fs::path(folder) / "python3";
    if (folder.empty() || !fs::exists(python, none)) continue;
    add_packages_of(fs::path(folder).parent_path(), &out);
    // An environment's python3 is a link to the one that it was made of.
    const fs::path real = fs::canonical(python, none);
    if (!none) add_packages_of(real.parent_path().parent_path(), &out);
    break;
  }
  if (const std::string home = variable("HOME"); !home.empty()) {
    add_packages_of(fs::path(home) / ".local", &out);
  }
  add_packages_of("/usr/local", &out);
  add_packages_of("/usr", &out);
  out.push_back("/usr/lib/python3/dist-packages");
  std::vector<std::string> existing;
  std::set<std::string> seen;
  for (const std::string& folder : out) {
    std::error_code none;
    if (fs::is_directory(folder, none) && seen.insert(folder).second) existing.push_back(folder);
  }
  return existing;
}

std::string find_installed_plugin(const std::string& platform,
                                  const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    // Of several versions (xla_cuda12, xla_cuda13) the newest.
    std::vector<fs::path> packages = folders_in(fs::path(folder) / "jax_plugins");
    std::reverse(packages.begin(), packages.end());
    for (const fs::path& p : packages) {
      const std::string name = p.filename().string();
      if (name != platform && platform_of_package(name) != platform) continue;
      if (std::string library = library_in(p); !library.empty()) return library;
    }
    if (platform == "tpu") {
      if (std::string library = library_in(fs::path(folder) / "libtpu"); !library.empty()) {
        return library;
      }
    }
  }
  return "";
}

}  // namespace tessera::compiler::accelerators
