// SPDX-License-Identifier: Apache-2.0
// Compiled alone: has a definition of its own. Loads plugins, and finds those that platforms are
// asked of.
#include "src/compiler/accelerators/plugins.h"

#include <dlfcn.h>

#include <exception>
#include <mutex>

#include "src/base/at_location.h"
#include "src/base/env.h"
#include "src/base/files/module_files.h"
#include "src/base/log.h"
#include "src/base/platforms.h"
#include "src/base/processes/plugin_threads.h"
#include "src/compiler/accelerators/accelerator_engine.h"
#include "src/compiler/accelerators/multi_process.h"
#include "src/compiler/engine.h"
#include "src/cost/machines.h"

namespace tessera {
namespace compiler::accelerators {
namespace {

constexpr const char* kModule = "libtessera-accelerators.so";

ClientFactory* load_factory() {
  std::string reasons;
  for (const std::string& file : module_files(kModule, TESSERA_MODULE_FOLDER)) {
    if (void* module = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      if (void* factory = dlsym(module, kClientFactory)) {
        return reinterpret_cast<ClientFactory*>(factory);
      }
      reasons += "\n  " + file + ": it has no " + std::string(kClientFactory);
    } else {
      const char* why = dlerror();
      reasons += "\n  " + std::string(why == nullptr ? file : why);
    }
  }
  throw RuntimeError("PJRT plugins can't be loaded without " + std::string(kModule) + ":" +
                     reasons);
}

struct Loaded {
  std::recursive_mutex mutex;
  /// What loading a platform's plugin failed of: it isn't tried again.
  std::map<std::string, std::exception_ptr> failed;
};
Loaded& loaded() {
  static Loaded& l = *new Loaded;
  return l;
}

const std::vector<Device>& load(const std::string& file, const PluginOptions& options) {
  if (find_engine(options.platform) != nullptr) {
    throw ValueError("there is a platform '" + options.platform + "' already; the plugin " + file +
                     " needs another name (PluginOptions::platform)");
  }
  expect_plugins();
  static ClientFactory* const factory = load_factory();
  Values values = options.values;
  JoinedProcesses joined(options.platform, &values);
  const bool joins = joined.joining() != nullptr;
  std::unique_ptr<Client> client;  // gone before what it uses of the others
  try {
    factory(file, values, joined.joining(), &client);
  } catch (const PluginFailure& failure) {
    throw RuntimeError("PJRT plugin " + file + ": " + failure.function + ": " + failure.what() +
                       (joins ? hint_of_processes() : ""));
  }
  if (client->devices().empty()) {
    throw RuntimeError("PJRT plugin " + file + ": PJRT_Client_AddressableDevices: platform '" +
                       client->platform() + "' has no device in this process");
  }
  if (joins) check_joined(*client, file);
  const std::string platform = options.platform.empty() ? client->platform() : options.platform;
  if (platform.empty() || find_engine(platform) != nullptr) {
    throw ValueError("there is a platform '" + platform + "' already; the plugin " + file +
                     " needs another name (PluginOptions::platform)");
  }
  const auto [major, minor] = client->api_version();
  log_info("platform '" + platform + "' has " + std::to_string(client->devices().size()) + " of " +
           client->devices().front().kind + ", by PJRT " + std::to_string(major) + "." +
           std::to_string(minor) + " (" + file + ")");
  register_engine(accelerator_engine(platform, std::move(client)));
  joined.keep();
  return find_engine(platform)->devices();
}

std::map<std::string, NamedPlugin> named_by_environment() {
  return parse_plugins(env_text("TESSERA_PJRT_PLUGINS").value_or(""));
}

/// Whether there is a plugin for the name, which is loaded then.
void find(const std::string& platform) {
  if (platform.empty()) return;
  Loaded& l = loaded();
  const std::lock_guard lock(l.mutex);
  if (find_engine(platform) != nullptr) return;
  if (const auto failed = l.failed.find(platform); failed != l.failed.end()) {
    std::rethrow_exception(failed->second);
  }
  const std::map<std::string, NamedPlugin> named = named_by_environment();
  const auto by_name = named.find(platform);
  NamedPlugin plugin;
  if (by_name != named.end()) {
    plugin = by_name->second;
  } else {
    plugin.file = find_installed_plugin(platform, site_packages());
  }
  if (plugin.file.empty()) return;
  try {
    (void)load(plugin.file, {platform, plugin.options});
  } catch (...) {
    l.failed[platform] = std::current_exception();
    throw;
  }
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const auto& [name, plugin] : named_by_environment()) out.push_back(name);
  return out;
}

/// Before static objects are made, which may ask for devices.
__attribute__((constructor(150))) void set_finder() { set_platform_finder({find, names}); }

}  // namespace
}  // namespace compiler::accelerators

const std::vector<Device>& load_pjrt_plugin(const std::string& file, PluginOptions options,
                                            Location location) {
  return at_location(location, [&]() -> const std::vector<Device>& {
    const std::lock_guard lock(compiler::accelerators::loaded().mutex);
    return compiler::accelerators::load(file, options);
  });
}

std::string device_kind(const Device& device) {
  return compiler::engine_of(device).device_kind(device);
}

Network machine_named(const std::string& name, Location location) {
  if (const auto found = cost::find_machine(name)) return *found;
  throw ValueError("no machine '" + name + "' is known; there are " + cost::list_of_machines() +
                       " (Network describes any other)",
                   location);
}

}  // namespace tessera
