// SPDX-License-Identifier: Apache-2.0
// Functions of the API on topologies: which devices there are, told without a client.
#include <xxhash.h>

#include <charconv>
#include <string_view>

#include "src/base/env.h"
#include "src/pjrt/objects.h"
#include "src/pjrt/stored_topology.h"

namespace tessera::pjrt {
namespace {

std::unique_ptr<PJRT_TopologyDescription> make(std::vector<PJRT_DeviceDescription> devices) {
  auto out = std::make_unique<PJRT_TopologyDescription>();
  out->devices = std::move(devices);
  StoredTopology stored;
  for (PJRT_DeviceDescription& d : out->devices) {
    out->pointers.push_back(&d);
    stored.processes.push_back(d.process);
  }
  out->text = write_stored_topology(stored);
  out->fingerprint = XXH3_64bits(out->text.data(), out->text.size());
  return out;
}

PJRT_Error* create(PJRT_TopologyDescription_Create_Args* args) {
  return guarded([&] {
    const std::string_view name =
        text_of(args->topology_name, args->topology_name_size, "topology_name");
    std::int64_t n = 0;
    constexpr std::string_view kPrefix = "cpu:";
    if (name.substr(0, kPrefix.size()) == kPrefix) {
      const char* const end = name.data() + name.size();
      const auto [at, error] = std::from_chars(name.data() + kPrefix.size(), end, n);
      if (error != std::errc() || at != end) n = 0;
    }
    if (name.empty()) {
      throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                    "topology_name is not specified; 'cpu:8' are 8 devices");
    }
    if (n < 1 || n > kMaxDevices) {
      throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                    "there is no topology '" + std::string(name) +
                        "'; 'cpu:8' are 8 devices, of which there may be " +
                        std::to_string(kMaxDevices));
    }
    std::vector<PJRT_DeviceDescription> devices;
    for (std::int64_t k = 0; k < n; ++k) devices.push_back(describe_device(Device{.id = k}));
    args->topology = make(std::move(devices)).release();
  });
}

PJRT_Error* deserialize(PJRT_TopologyDescription_Deserialize_Args* args) {
  return guarded([&] {
    const StoredTopology stored = read_stored_topology(text_of(
        args->serialized_topology, args->serialized_topology_size, "the bytes of a topology"));
    std::vector<PJRT_DeviceDescription> devices;
    for (const std::int32_t process : stored.processes) {
      devices.push_back(
          describe_device(Device{.id = std::int64_t(devices.size()), .process_index = process}));
    }
    args->topology = make(std::move(devices)).release();
  });
}

PJRT_Error* destroy(PJRT_TopologyDescription_Destroy_Args* args) {
  delete args->topology;
  return nullptr;
}

PJRT_Error* platform_name(PJRT_TopologyDescription_PlatformName_Args* args) {
  return guarded([&] {
    const std::string& platform = checked(args->topology, "topology").platform;
    args->platform_name = platform.data();
    args->platform_name_size = platform.size();
  });
}

PJRT_Error* platform_version(PJRT_TopologyDescription_PlatformVersion_Args* args) {
  return guarded([&] {
    const std::string& version = checked(args->topology, "topology").version;
    args->platform_version = version.data();
    args->platform_version_size = version.size();
  });
}

PJRT_Error* descriptions(PJRT_TopologyDescription_GetDeviceDescriptions_Args* args) {
  return guarded([&] {
    const PJRT_TopologyDescription& t = checked(args->topology, "topology");
    args->descriptions = t.pointers.data();
    args->num_descriptions = t.pointers.size();
  });
}

PJRT_Error* attributes(PJRT_TopologyDescription_Attributes_Args* args) {
  return guarded([&] {
    checked(args->topology, "topology");
    args->attributes = nullptr;
    args->num_attributes = 0;
  });
}

PJRT_Error* fingerprint(PJRT_TopologyDescription_Fingerprint_Args* args) {
  return guarded([&] { args->fingerprint = checked(args->topology, "topology").fingerprint; });
}

/// A copy, since the topology may be gone before it.
PJRT_Error* serialize(PJRT_TopologyDescription_Serialize_Args* args) {
  return guarded([&] {
    auto* const held = new std::string(checked(args->topology, "topology").text);
    args->serialized_bytes = held->data();
    args->serialized_bytes_size = held->size();
    args->serialized_topology = reinterpret_cast<decltype(args->serialized_topology)>(held);
    args->serialized_topology_deleter = reinterpret_cast<void*>(
        +[](void* serialized) { delete static_cast<std::string*>(serialized); });
  });
}

PJRT_Error* of_client(PJRT_Client_TopologyDescription_Args* args) {
  return guarded([&] { args->topology = checked(args->client, "client").topology.get(); });
}

}  // namespace

std::unique_ptr<PJRT_TopologyDescription> topology_of(const PJRT_Client& client) {
  std::vector<PJRT_DeviceDescription> devices;
  for (const PJRT_Device* d : client.devices) devices.push_back(d->description);
  return make(std::move(devices));
}

void fill_topologies(PJRT_Api& api) {
  api.PJRT_TopologyDescription_Create = create;
  api.PJRT_TopologyDescription_Deserialize = deserialize;
  api.PJRT_TopologyDescription_Destroy = destroy;
  api.PJRT_TopologyDescription_PlatformName = platform_name;
  api.PJRT_TopologyDescription_PlatformVersion = platform_version;
  api.PJRT_TopologyDescription_GetDeviceDescriptions = descriptions;
  api.PJRT_TopologyDescription_Attributes = attributes;
  api.PJRT_TopologyDescription_Fingerprint = fingerprint;
  api.PJRT_TopologyDescription_Serialize = serialize;
  api.PJRT_Client_TopologyDescription = of_client;
}

}  // namespace tessera::pjrt
