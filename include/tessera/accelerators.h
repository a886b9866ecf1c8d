// SPDX-License-Identifier: Apache-2.0
// Accelerators: platforms that PJRT plugins bring.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include <tessera/device.h>
#include <tessera/network.h>

namespace tessera {

/// The value of an option that a PJRT plugin takes.
using PluginOption =
    std::variant<bool, std::int64_t, float, std::string, std::vector<std::int64_t>>;

/// How a plugin is loaded.
struct PluginOptions {
  /// The name of its platform in this program: `Device::platform`, `devices(name)`. Empty: as the
  /// plugin says, for example "cuda".
  std::string platform{};
  /// What the plugin is given when its client is made. XLA's plugins for GPUs take
  /// `memory_fraction` (float), `preallocate` (bool), `visible_devices` (a list) and `allocator`
  /// (a text), those for CPUs `cpu_device_count` (int64).
  std::map<std::string, PluginOption> values{};
};

/// Loads a PJRT plugin and makes its devices a platform of this program (JAX's
/// `xla_bridge.register_plugin`). Returns its devices. It stays for the life of the process. The
/// environment variable TESSERA_PJRT_PLUGINS names plugins that are loaded when `devices(name)`
/// asks for them; so are those that are installed as Python packages
/// ([accelerators](accelerators.md)).
/// @code
/// const std::vector<Device>& gpus = load_pjrt_plugin("/opt/xla_cuda_plugin.so");
/// Array x = device_put(ones({4, 4}), gpus[0]);
/// @endcode
/// @throws RuntimeError, which names the file, the function of the API and what it says, if the
/// file can't be loaded, is no plugin, is of another major version of the API, or has no device.
/// @throws ValueError if there is a platform of that name already, or if `num_nodes` or `node_id`
/// contradict the launcher of several processes.
const std::vector<Device>& load_pjrt_plugin(const std::string& file, PluginOptions options = {},
                                            Location location = Location::current());

/// Returns what a device is, as its maker names it (jax.Device.device_kind): "NVIDIA H100 80GB
/// HBM3"; "cpu" of virtual devices.
std::string device_kind(const Device& device);

/// Returns the description of a machine of such devices, by a name or by what `device_kind` says:
/// "H100", "A100", "TPU v4", "TPU v5e". Programs are compiled for that of their devices, unless
/// `TESSERA_NETWORK` or the user says otherwise.
/// @throws ValueError, which lists the names, if there is none.
Network machine_named(const std::string& name, Location location = Location::current());

}  // namespace tessera
