// SPDX-License-Identifier: Apache-2.0
// Functions of the API on the plugin and its clients.
#include <algorithm>
#include <optional>
#include <string_view>

#include "src/base/env.h"
#include "src/base/platforms.h"
#include "src/base/processes/processes.h"
#include "src/pjrt/objects.h"

namespace tessera::pjrt {
namespace {

/// What a client says when it is made.
struct Wishes {
  /// Devices of this process.
  std::optional<std::int64_t> devices;
  /// As jax.distributed knows of processes.
  std::optional<std::int64_t> process, processes;
  /// Whether runs may go on after the call.
  bool asynchronous = true;
};

std::int64_t number_of(const PJRT_NamedValue& option, std::int64_t least) {
  if (option.type != PJRT_NamedValue_kInt64 || option.int64_value < least ||
      option.int64_value > kMaxDevices) {
    throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                  "option '" + std::string(text_of(option.name, option.name_size, "a name")) +
                      "' is a number from " + std::to_string(least) + " to " +
                      std::to_string(kMaxDevices));
  }
  return option.int64_value;
}

Wishes read_options(const PJRT_Client_Create_Args& args) {
  Wishes out;
  check_list(args.create_options, args.num_options, "options");
  for (std::size_t i = 0; i < args.num_options; ++i) {
    const PJRT_NamedValue& option = args.create_options[i];
    const std::string_view name = text_of(option.name, option.name_size, "the name of an option");
    if (name == "cpu_device_count") {
      out.devices = number_of(option, 1);
    } else if (name == "node_id") {
      out.process = number_of(option, 0);
    } else if (name == "num_nodes") {
      out.processes = number_of(option, 1);
    } else if (name == "asynchronous") {
      if (option.type != PJRT_NamedValue_kBool) {
        throw Failure(PJRT_Error_Code_INVALID_ARGUMENT, "option 'asynchronous' is true or false");
      }
      out.asynchronous = option.bool_value;
    } else if (name != "partition_index") {
      throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                    "unknown option '" + std::string(name) +
                        "'; there are cpu_device_count, asynchronous, node_id, num_nodes, "
                        "partition_index");
    }
  }
  return out;
}

/// Processes are connected by their launcher, which must say the same of them as jax.distributed.
void check_processes(const Wishes& wishes) {
  const auto check = [](std::optional<std::int64_t> wanted, std::int64_t found, const char* name) {
    if (!wanted || *wanted == found) return;
    throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                  "option '" + std::string(name) + "' is " + std::to_string(*wanted) +
                      ", and the launcher of this process says " + std::to_string(found) +
                      "; valid: to start the program by mpirun or srun, and to call "
                      "jax.distributed.initialize with what these say, or not at all");
  };
  check(wishes.processes, process_count(), "num_nodes");
  check(wishes.process, process_index(), "node_id");
}

/// The devices of all processes, as a client asks for them.
std::vector<Device> wanted_devices(const Wishes& wishes) {
  if (wishes.devices) {
    try {
      set_num_devices(*wishes.devices);
    } catch (const ValueError&) {
      // They are there already. Of one process a client may have any number, as below.
    }
  }
  if (wishes.processes.value_or(1) > 1) init_processes();
  check_processes(wishes);
  std::vector<Device> devices = virtual_devices();
  if (!wishes.devices) return devices;
  if (process_count() == 1) {
    // The engine's memory is that of the process.
    devices.clear();
    for (std::int64_t k = 0; k < *wishes.devices; ++k) devices.push_back(Device{.id = k});
    return devices;
  }
  const auto own = std::count_if(devices.begin(), devices.end(), is_local);
  if (own == *wishes.devices) return devices;
  throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                "option 'cpu_device_count' is " + std::to_string(*wishes.devices) +
                    ", and this process is known to the others as one with " + std::to_string(own) +
                    " devices; the first client says how many there are");
}

void add_device(PJRT_Client& client, const Device& device) {
  auto made = std::make_unique<PJRT_Device>();
  PJRT_Device& d = *made;
  d.client = &client;
  d.device = device;
  d.local = device.process_index == client.process;
  d.local_hardware_id = d.local ? std::int32_t(client.addressable_devices.size()) : -1;
  d.description = describe_device(device);
  for (const MemoryKind kind : client.engine->memory_kinds()) {
    auto memory = std::make_unique<PJRT_Memory>();
    memory->id = std::int32_t(client.all_memories.size());
    memory->kind = kind;
    memory->device = &d;
    memory->kind_name = tessera::name(kind);
    memory->text = memory->kind_name + " of " + d.description.text;
    d.memories.push_back(memory.get());
    if (d.local) client.addressable_memories.push_back(memory.get());
    client.all_memories.push_back(std::move(memory));
  }
  client.devices.push_back(&d);
  if (d.local) client.addressable_devices.push_back(&d);
  client.all_devices.push_back(std::move(made));
}

PJRT_Error* plugin_initialize(PJRT_Plugin_Initialize_Args*) { return nullptr; }

PJRT_NamedValue attribute(const char* name, std::size_t size, const std::int64_t* numbers,
                          std::size_t count) {
  PJRT_NamedValue out{};
  out.struct_size = sizeof(PJRT_NamedValue);
  out.name = name;
  out.name_size = size;
  out.type = PJRT_NamedValue_kInt64List;
  out.int64_array_value = numbers;
  out.value_size = count;
  return out;
}

PJRT_Error* plugin_attributes(PJRT_Plugin_Attributes_Args* args) {
  // The version in which programs are to be written: one that the reader of bytecode knows whole.
  static constexpr std::int64_t current[] = {1, 13, 7}, minimum[] = {0, 9, 0};
  static const PJRT_NamedValue all[] = {
      attribute("stablehlo_current_version", 25, current, 3),
      attribute("stablehlo_minimum_version", 25, minimum, 3),
  };
  args->attributes = all;
  args->num_attributes = std::size(all);
  return nullptr;
}

PJRT_Error* client_create(PJRT_Client_Create_Args* args) {
  return guarded([&] {
    // First of all: it says how many devices there are to be.
    const Wishes wishes = read_options(*args);
    std::unique_ptr<PJRT_Client> client = make_client(wanted_devices(wishes));
    client->asynchronous = wishes.asynchronous;
    args->client = client.release();
  });
}

PJRT_Error* client_destroy(PJRT_Client_Destroy_Args* args) {
  delete args->client;
  return nullptr;
}

PJRT_Error* platform_name(PJRT_Client_PlatformName_Args* args) {
  return guarded([&] {
    args->platform_name = checked(args->client, "client").platform.data();
    args->platform_name_size = checked(args->client, "client").platform.size();
  });
}

PJRT_Error* platform_version(PJRT_Client_PlatformVersion_Args* args) {
  return guarded([&] {
    args->platform_version = checked(args->client, "client").version.data();
    args->platform_version_size = checked(args->client, "client").version.size();
  });
}

PJRT_Error* client_process(PJRT_Client_ProcessIndex_Args* args) {
  return guarded([&] { args->process_index = checked(args->client, "client").process; });
}

/// What jax.distributed hears of processes. Here their connections tell who is there.
PJRT_Error* client_process_info(PJRT_Client_UpdateGlobalProcessInfo_Args* args) {
  return guarded([&] { checked(args->client, "client"); });
}

PJRT_Error* client_devices(PJRT_Client_Devices_Args* args) {
  return guarded([&] {
    args->devices = checked(args->client, "client").devices.data();
    args->num_devices = checked(args->client, "client").devices.size();
  });
}

PJRT_Error* addressable_devices(PJRT_Client_AddressableDevices_Args* args) {
  return guarded([&] {
    args->addressable_devices = checked(args->client, "client").addressable_devices.data();
    args->num_addressable_devices = checked(args->client, "client").addressable_devices.size();
  });
}

PJRT_Error* addressable_memories(PJRT_Client_AddressableMemories_Args* args) {
  return guarded([&] {
    args->addressable_memories = checked(args->client, "client").addressable_memories.data();
    args->num_addressable_memories = checked(args->client, "client").addressable_memories.size();
  });
}

template <class T>
T* found(const std::vector<T*>& all, std::int64_t number, const char* what) {
  if (number >= 0 && number < std::int64_t(all.size())) return all[std::size_t(number)];
  throw Failure(PJRT_Error_Code_INVALID_ARGUMENT, "there is no " + std::string(what) + " " +
                                                      std::to_string(number) + "; there are " +
                                                      std::to_string(all.size()));
}

PJRT_Error* lookup_device(PJRT_Client_LookupDevice_Args* args) {
  return guarded(
      [&] { args->device = found(checked(args->client, "client").devices, args->id, "device"); });
}

PJRT_Error* lookup_addressable_device(PJRT_Client_LookupAddressableDevice_Args* args) {
  return guarded([&] {
    args->addressable_device = found(checked(args->client, "client").addressable_devices,
                                     args->local_hardware_id, "addressable device");
  });
}

PJRT_Error* default_device_assignment(PJRT_Client_DefaultDeviceAssignment_Args* args) {
  return guarded([&] {
    const std::int64_t n = std::int64_t(args->num_replicas) * args->num_partitions;
    if (n < 1 || n > std::int64_t(checked(args->client, "client").devices.size()) ||
        args->default_assignment_size < std::size_t(n)) {
      throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                    std::to_string(args->num_replicas) + " replicas of " +
                        std::to_string(args->num_partitions) + " partitions need " +
                        std::to_string(n) + " devices; there are " +
                        std::to_string(checked(args->client, "client").devices.size()));
    }
    check_list(args->default_assignment, std::size_t(n), "device assignment");
    for (std::int64_t k = 0; k < n; ++k) args->default_assignment[k] = std::int32_t(k);
  });
}

}  // namespace

std::unique_ptr<PJRT_Client> make_client(const std::vector<Device>& devices) {
  auto client = std::make_unique<PJRT_Client>();
  client->engine = compiler::find_engine(virtual_platform());
  client->platform = virtual_platform();
  client->version = "tessera";
  client->process = std::int32_t(process_index());
  for (const Device& d : devices) add_device(*client, d);
  client->topology = topology_of(*client);
  client->runs = std::make_unique<RunQueue>(client->devices.size() + 1);
  return client;
}

PJRT_DeviceDescription describe_device(const Device& device) {
  const std::string id = std::to_string(device.id);
  return {std::int32_t(device.id), std::int32_t(device.process_index), "cpu",
          "TesseraCpu(id=" + id + ",process=" + std::to_string(device.process_index) + ")",
          "CpuDevice(id=" + id + ")"};
}

void fill_client(PJRT_Api& api) {
  api.PJRT_Plugin_Initialize = plugin_initialize;
  api.PJRT_Plugin_Attributes = plugin_attributes;
  api.PJRT_Client_Create = client_create;
  api.PJRT_Client_Destroy = client_destroy;
  api.PJRT_Client_PlatformName = platform_name;
  api.PJRT_Client_PlatformVersion = platform_version;
  api.PJRT_Client_ProcessIndex = client_process;
  api.PJRT_Client_UpdateGlobalProcessInfo = client_process_info;
  api.PJRT_Client_Devices = client_devices;
  api.PJRT_Client_AddressableDevices = addressable_devices;
  api.PJRT_Client_AddressableMemories = addressable_memories;
  api.PJRT_Client_LookupDevice = lookup_device;
  api.PJRT_Client_LookupAddressableDevice = lookup_addressable_device;
  api.PJRT_Client_DefaultDeviceAssignment = default_device_assignment;
}

}  // namespace tessera::pjrt
