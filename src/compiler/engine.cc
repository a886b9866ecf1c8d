// SPDX-License-Identifier: Apache-2.0
// The engines of this process, by platform.
#include "src/compiler/engine.h"

#include <map>
#include <mutex>
#include <string_view>

#include "src/base/check.h"
#include "src/base/platforms.h"
#include "src/compiler/in_process_engine.h"

namespace tessera::compiler {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const Engine>> engines;

  Registry() {
    auto local = in_process_engine();
    engines[local->platform()] = std::move(local);
  }
};

// Never destroyed: arrays may outlive static objects.
Registry& registry() {
  static Registry& r = *new Registry;
  return r;
}

[[noreturn]] void refuse(const Engine& engine, const char* what) {
  throw NotImplementedError("the engine of platform '" + engine.platform() + "' can't " + what);
}

}  // namespace

DeviceBuffer Engine::adopt(const HostMemory&, const Shape&, const Device&, MemoryKind) const {
  return {};
}
MemoryStats Engine::memory_stats(MemoryKind) const {
  refuse(*this, "tell how much memory is in use");
}
void Engine::reset_peak_memory() const { refuse(*this, "count memory"); }

void register_engine(std::shared_ptr<const Engine> engine) {
  TESSERA_CHECK(engine != nullptr, "no engine given to register");
  const std::string platform = engine->platform();
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  if (r.engines.count(platform) > 0) {
    throw ValueError("there is an engine for platform '" + platform + "' already");
  }
  const Engine* known = engine.get();  // never destroyed
  register_platform({platform, known->memory_kinds(),
                     [known]() -> const std::vector<Device>& { return known->devices(); }});
  r.engines[platform] = std::move(engine);
}

const Engine* find_engine(const std::string& platform) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  const auto found = r.engines.find(platform);
  return found == r.engines.end() ? nullptr : found->second.get();
}

const Engine& engine_of(const Device& device) {
  if (const Engine* engine = find_engine(device.platform)) return *engine;
  std::string known;
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  for (const auto& [platform, engine] : r.engines) {
    known += (known.empty() ? "'" : ", '") + platform + "'";
  }
  throw ValueError("device " + device.to_string() + " is of platform '" + device.platform +
                   "', for which there is no engine; there are engines for " + known);
}

const Engine& engine_of(std::span<const Device> devices) {
  TESSERA_CHECK(!devices.empty(), "the engine of no devices");
  for (const Device& d : devices) {
    if (d.platform == devices[0].platform) continue;
    throw ValueError("devices " + devices[0].to_string() + " and " + d.to_string() +
                     " are of different platforms; an array or program is on devices of one");
  }
  return engine_of(devices[0]);
}

}  // namespace tessera::compiler
