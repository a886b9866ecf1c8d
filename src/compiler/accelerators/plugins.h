// SPDX-License-Identifier: Apache-2.0
// Where plugins are found: what the environment names, and Python packages.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <tessera/accelerators.h>

namespace tessera::compiler::accelerators {

struct NamedPlugin {
  std::string file;
  std::map<std::string, PluginOption> options;
};
/// Reads what TESSERA_PJRT_PLUGINS may have. ValueError that names the item.
std::map<std::string, NamedPlugin> parse_plugins(std::string_view text);

/// The folders in which Python packages may be, the first one being looked at first.
std::vector<std::string> site_packages();
/// The library of the plugin `platform` that is installed in the first of these folders that has
/// one; empty if none has.
std::string find_installed_plugin(const std::string& platform,
                                  const std::vector<std::string>& folders);

}  // namespace tessera::compiler::accelerators
