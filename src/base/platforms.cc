// SPDX-License-Identifier: Apache-2.0
// The table of platforms.
#include "src/base/platforms.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "src/base/env.h"
#include "src/base/platform_scope.h"
#include "src/base/processes/processes.h"

namespace tessera {
namespace {

constinit PlatformFinder platform_finder;

struct Platforms {
  std::mutex mutex;
  std::map<std::string, Platform> all;

  Platforms() {
    all[virtual_platform()] = {virtual_platform(), all_memory_kinds(), virtual_devices};
  }
};

// Never destroyed, as programs may still run when static objects are.
Platforms& platforms() {
  static auto& p = *new Platforms;
  return p;
}

const Platform& platform_of_environment() {
  const std::string wanted = env_text("TESSERA_PLATFORM").value_or(virtual_platform());
  const Platform* found = find_platform(wanted);
  if (found == nullptr) {
    throw ValueError("TESSERA_PLATFORM=" + wanted + ": there is no such platform; there are " +
                     list_of_platforms());
  }
  const std::vector<Device>& all = found->devices();
  if (process_count() > 1 && std::all_of(all.begin(), all.end(), [](const Device& d) {
        return d.process_index == process_index();
      })) {
    // Each would compute with its own devices what is meant for those of all.
    throw NotImplementedError(
        "TESSERA_PLATFORM=" + wanted + ": this is one of " + std::to_string(process_count()) +
        " processes that run a program together, and devices of this platform are each process's "
        "own; valid: a plugin that joins them (docs/accelerators.md), one process, which has all "
        "devices of its machine, or TESSERA_ENGINE=in_process for processes that don't run "
        "together");
  }
  return *found;
}

}  // namespace

void register_platform(Platform platform) {
  Platforms& p = platforms();
  const std::lock_guard lock(p.mutex);
  const std::string name = platform.name;
  if (p.all.try_emplace(name, std::move(platform)).second) return;
  throw ValueError("there is a platform '" + name + "' already");
}

void set_platform_finder(PlatformFinder finder) { platform_finder = finder; }

namespace {

const Platform* known_platform(const std::string& name) {
  Platforms& p = platforms();
  const std::lock_guard lock(p.mutex);
  const auto found = p.all.find(name);
  return found == p.all.end() ? nullptr : &found->second;
}

}  // namespace

const Platform* find_platform(const std::string& name) {
  if (const Platform* known = known_platform(name)) return known;
  if (platform_finder.find == nullptr) return nullptr;
  platform_finder.find(name);
  return known_platform(name);
}

std::string list_of_platforms() {
  std::set<std::string> names;
  if (platform_finder.names != nullptr) {
    for (std::string& name : platform_finder.names()) names.insert(std::move(name));
  }
  {
    Platforms& p = platforms();
    const std::lock_guard lock(p.mutex);
    for (const auto& [name, platform] : p.all) names.insert(name);
  }
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "'" : ", '") + name + "'";
  return out;
}

const std::string& virtual_platform() {
  static const auto& name = *new const std::string(Device().platform);
  return name;
}

namespace {
thread_local const Platform* platform_in_scope = nullptr;
}  // namespace

VirtualDevicesScope::VirtualDevicesScope() : before_(platform_in_scope) {
  platform_in_scope = find_platform(virtual_platform());
}
VirtualDevicesScope::~VirtualDevicesScope() { platform_in_scope = before_; }

const Platform& default_platform() {
  if (platform_in_scope != nullptr) return *platform_in_scope;
  static const Platform& chosen = platform_of_environment();
  return chosen;
}

const std::vector<MemoryKind>& all_memory_kinds() {
  static const auto& all = *new const std::vector<MemoryKind>{
      MemoryKind::device, MemoryKind::pinned_host, MemoryKind::unpinned_host};
  return all;
}

const std::vector<MemoryKind>& memory_kinds_of(const std::string& platform) {
  static const auto& one = *new const std::vector<MemoryKind>{MemoryKind::device};
  const Platform* found = find_platform(platform);
  return found == nullptr ? one : found->memory_kinds;
}

}  // namespace tessera
