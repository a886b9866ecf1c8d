// SPDX-License-Identifier: Apache-2.0
// Finds the devices that arguments, results and meshes used inside agree on.
#include "src/frontend/run/choose_devices.h"

#include <set>

#include <tessera/accelerators.h>

#include "src/base/at_location.h"
#include "src/base/processes/processes.h"
#include "src/compiler/engine.h"
#include "src/frontend/arrays/array_impl.h"
#include "src/sharding/api/sharding_impl.h"

namespace tessera::frontend {

using internal::ArrayImpl;
using internal::impl_of;

namespace {

// Of a static library the linker takes only what is referred to: with this function comes what
// finds the plugins of platforms.
[[gnu::used]] auto* const takes_plugins = &load_pjrt_plugin;

std::string device_text(const std::vector<Device>& list) {
  Dims ids;
  for (const Device& d : list) ids.push_back(d.id);
  return "devices " + to_string(ids) + " on " + (list.empty() ? "nothing" : list[0].platform);
}

Mesh mesh_of(const Sharding& s) { return NamedSharding::is(s) ? NamedSharding(s).mesh() : Mesh(); }

class DeviceChooser {
 public:
  DeviceChooser(const std::string& program, Location location)
      : program_(program), location_(location) {}

  void add(const Sharding& sharding, const std::string& who, Location where = {}) {
    if (sharding.is_abstract()) {
      abstract_.push_back({sharding, who, where});
      return;
    }
    std::vector<Device> list = sharding.device_list();
    if (choice_.devices.empty()) {
      choice_ = {std::move(list), who, true, mesh_of(sharding)};
      return;
    }
    if (list == choice_.devices) return;
    const std::set<Device> a(list.begin(), list.end());
    const std::set<Device> b(choice_.devices.begin(), choice_.devices.end());
    throw ValueError("incompatible devices for '" + program_ + "': " + choice_.who + " is on " +
                         device_text(choice_.devices) + ", and " + who + " is on " +
                         device_text(list) +
                         (a == b ? " (the same devices in another order)" : "") +
                         "; all must be on the same devices in the same order (device_put moves "
                         "an array)",
                     where.known() ? where : location_);
  }
  const Choice& choice() const { return choice_; }

  /// Abstract meshes adopt the devices of the others, if there are any.
  Choice with_abstract(Choice choice) const {
    for (const Abstract& a : abstract_) {
      if (choice.devices.empty()) {
        at_location(a.where.known() ? a.where : location_, [&] {
          choice = {a.sharding.impl().devices(), a.who, true, mesh_of(a.sharding)};
        });
      }
      const Mesh mesh = mesh_of(a.sharding);
      const auto count = std::int64_t(choice.devices.size());
      const bool both_abstract = internal::is_placeholder_device(choice.devices[0]);
      if (a.sharding.num_devices() == count &&
          (both_abstract || choice.mesh.empty() || mesh.shape() == choice.mesh.shape())) {
        continue;
      }
      throw ValueError("incompatible devices for '" + program_ + "': " + a.who + " is for " +
                           (mesh.empty() ? a.sharding.to_string() : mesh.to_string()) +
                           " of size " + std::to_string(a.sharding.num_devices()) + ", and " +
                           choice.who + " is on " +
                           (choice.mesh.empty()
                                ? device_text(choice.devices)
                                : choice.mesh.to_string() + " of size " + std::to_string(count)) +
                           "; an abstract mesh stands for devices in a mesh of its own shape",
                       a.where.known() ? a.where : location_);
    }
    return choice;
  }

 private:
  struct Abstract {
    Sharding sharding;
    std::string who;
    Location where;
  };
  const std::string& program_;
  Location location_;
  Choice choice_;
  std::vector<Abstract> abstract_;
};

}  // namespace

Choice choose_devices(const Program& program, std::span<const Array> args,
                      const std::vector<std::size_t>& kept) {
  DeviceChooser chooser(program.name, program.location);
  for (std::size_t i : kept) {
    const ArrayImpl& impl = impl_of(args[i], program.location);
    const std::string who = program.parameters[i].who + " (" + impl.shape.to_string() + ")";
    const auto& requested = program.parameters[i].sharding;
    if (requested) chooser.add(*requested, who);
    if (impl.committed && (!requested || requested->is_abstract())) chooser.add(impl.sharding, who);
  }
  for (const RequestedSharding& result : program.results) {
    if (result.sharding) chooser.add(*result.sharding, result.who);
  }
  for (const Trace::MeshUse& use : program.mesh_uses) {
    chooser.add(use.sharding, "the sharding used inside at " + use.location.to_string(),
                use.location);
  }
  // Single operations outside of jit run on the devices of their operands.
  const Mesh context = program.is_jit ? current_mesh() : Mesh();
  Choice choice = chooser.choice();
  if (context.is_abstract() && !context.empty()) {
    chooser.add(NamedSharding(context, PartitionSpec()), "the mesh in scope");
  } else if (!context.empty() && choice.devices.empty()) {
    choice = {context.devices(), "the mesh in scope", true, context};
  } else if (!context.empty()) {
    const std::set<Device> a(choice.devices.begin(), choice.devices.end());
    const std::set<Device> b(context.devices().begin(), context.devices().end());
    if (a != b) {
      throw ValueError("incompatible devices for '" + program.name + "': " + choice.who +
                           " is on " + device_text(choice.devices) + ", and the mesh in scope " +
                           context.to_string() + " has " + device_text(context.devices()),
                       program.location);
    }
  }
  choice = chooser.with_abstract(std::move(choice));
  if (choice.devices.empty()) return {{default_device()}, "the default device", false, {}};
  return choice;
}

Mesh choose_mesh(const Program& program, std::span<const Array> args,
                 const std::vector<Device>& list) {
  auto fits = [&](const Sharding& s) { return NamedSharding::is(s) && s.impl().devices() == list; };
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (program.parameters[i].sharding && fits(*program.parameters[i].sharding)) {
      return NamedSharding(*program.parameters[i].sharding).mesh();
    }
    const ArrayImpl& impl = impl_of(args[i]);
    if (impl.committed && fits(impl.sharding)) return NamedSharding(impl.sharding).mesh();
  }
  for (const RequestedSharding& result : program.results) {
    if (result.sharding && fits(*result.sharding)) return NamedSharding(*result.sharding).mesh();
  }
  for (const Trace::MeshUse& use : program.mesh_uses) {
    if (fits(use.sharding)) return NamedSharding(use.sharding).mesh();
  }
  const Mesh context = current_mesh();
  return !context.empty() && internal::MeshAccess::devices(context) == list ? context : Mesh();
}

std::string missing_devices(const std::vector<Device>& list) {
  const compiler::Engine* engine = nullptr;
  for (const Device& d : list) {
    if (engine == nullptr || engine->platform() != d.platform) {
      engine = compiler::find_engine(d.platform);
    }
    const std::vector<Device>& all = engine != nullptr ? engine->devices() : devices();
    if (d.id >= 0 && d.id < std::int64_t(all.size()) && all[std::size_t(d.id)] == d &&
        all[std::size_t(d.id)].process_index == d.process_index) {
      continue;
    }
    return d.to_string() + ", a device that this process doesn't have; there are " +
           all.front().to_string() + " to " + all.back().to_string();
  }
  return "";
}

void check_devices_exist(const Sharding& sharding, const std::string& who, Location location) {
  if (sharding.is_abstract()) {
    throw ValueError(who + " can't be placed as " + sharding.to_string() +
                         ": its mesh is abstract, which means that there are no devices behind it; "
                         "a Mesh has devices",
                     location);
  }
  const std::string missing = missing_devices(sharding.impl().devices());
  if (!missing.empty()) throw ValueError(who + " is on " + missing, location);
}

}  // namespace tessera::frontend
