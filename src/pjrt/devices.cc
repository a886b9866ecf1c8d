// SPDX-License-Identifier: Apache-2.0
// Functions of the API on devices, their descriptions and memories.
#include <unistd.h>

#include <cstddef>

#include "src/pjrt/objects.h"

namespace tessera::pjrt {
namespace {

PJRT_Error* description_id(PJRT_DeviceDescription_Id_Args* args) {
  return guarded([&] { args->id = checked(args->device_description, "device description").id; });
}

PJRT_Error* description_process(PJRT_DeviceDescription_ProcessIndex_Args* args) {
  return guarded([&] {
    args->process_index = checked(args->device_description, "device description").process;
  });
}

PJRT_Error* description_attributes(PJRT_DeviceDescription_Attributes_Args* args) {
  return guarded([&] {
    checked(args->device_description, "device description");
    args->attributes = nullptr;
    args->num_attributes = 0;
  });
}

PJRT_Error* description_kind(PJRT_DeviceDescription_Kind_Args* args) {
  return guarded([&] {
    args->device_kind = checked(args->device_description, "device description").kind.data();
    args->device_kind_size = checked(args->device_description, "device description").kind.size();
  });
}

PJRT_Error* description_debug(PJRT_DeviceDescription_DebugString_Args* args) {
  return guarded([&] {
    args->debug_string = checked(args->device_description, "device description").debug_text.data();
    args->debug_string_size =
        checked(args->device_description, "device description").debug_text.size();
  });
}

PJRT_Error* description_text(PJRT_DeviceDescription_ToString_Args* args) {
  return guarded([&] {
    args->to_string = checked(args->device_description, "device description").text.data();
    args->to_string_size = checked(args->device_description, "device description").text.size();
  });
}

PJRT_Error* device_description(PJRT_Device_GetDescription_Args* args) {
  return guarded([&] { args->device_description = &checked(args->device, "device").description; });
}

PJRT_Error* device_addressable(PJRT_Device_IsAddressable_Args* args) {
  return guarded([&] { args->is_addressable = checked(args->device, "device").local; });
}

PJRT_Error* device_hardware_id(PJRT_Device_LocalHardwareId_Args* args) {
  return guarded(
      [&] { args->local_hardware_id = checked(args->device, "device").local_hardware_id; });
}

PJRT_Error* device_memories(PJRT_Device_AddressableMemories_Args* args) {
  return guarded([&] {
    args->memories = checked(args->device, "device").memories.data();
    args->num_memories = checked(args->device, "device").memories.size();
  });
}

PJRT_Error* device_default_memory(PJRT_Device_DefaultMemory_Args* args) {
  return guarded([&] { args->memory = checked(args->device, "device").memories.front(); });
}

/// There are none beside those of the description; nothing is to be freed.
PJRT_Error* device_attributes(PJRT_Device_GetAttributes_Args* args) {
  return guarded([&] {
    checked(args->device, "device");
    args->attributes = nullptr;
    args->num_attributes = 0;
    args->device_attributes = nullptr;
    args->attributes_deleter = reinterpret_cast<decltype(args->attributes_deleter)>(+[](void*) {});
  });
}

PJRT_Error* device_memory_stats(PJRT_Device_MemoryStats_Args* args) {
  return guarded([&] {
    const MemoryStats stats =
        checked(args->device, "device").client->engine->memory_stats(MemoryKind::device);
    args->bytes_in_use = stats.current;
    args->peak_bytes_in_use = stats.peak;
    args->peak_bytes_in_use_is_set = true;
    // Devices share the memory of the machine: each has as much of it as the others.
    const std::int64_t share =
        std::int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE) /
        std::int64_t(checked(args->device, "device").client->addressable_devices.size());
    args->bytes_limit = args->bytes_reservable_limit = share;
    args->bytes_limit_is_set = args->bytes_reservable_limit_is_set = share > 0;
    args->num_allocs_is_set = args->largest_alloc_size_is_set = args->bytes_reserved_is_set =
        args->peak_bytes_reserved_is_set = args->largest_free_block_bytes_is_set =
            args->pool_bytes_is_set = args->peak_pool_bytes_is_set = false;
    if (args->struct_size > offsetof(PJRT_Device_MemoryStats_Args, peak_allocated_bytes_is_set)) {
      args->peak_allocated_bytes_is_set = false;
    }
  });
}

/// Of all devices: they share the memory of the process.
PJRT_Error* device_clear_memory_stats(PJRT_Device_ClearMemoryStats_Args* args) {
  return guarded([&] { checked(args->device, "device").client->engine->reset_peak_memory(); });
}

PJRT_Error* memory_id(PJRT_Memory_Id_Args* args) {
  return guarded([&] { args->id = checked(args->memory, "memory").id; });
}

PJRT_Error* memory_kind(PJRT_Memory_Kind_Args* args) {
  return guarded([&] {
    args->kind = checked(args->memory, "memory").kind_name.data();
    args->kind_size = checked(args->memory, "memory").kind_name.size();
  });
}

PJRT_Error* memory_kind_id(PJRT_Memory_Kind_Id_Args* args) {
  return guarded([&] { args->kind_id = std::int32_t(checked(args->memory, "memory").kind); });
}

PJRT_Error* memory_debug(PJRT_Memory_DebugString_Args* args) {
  return guarded([&] {
    args->debug_string = checked(args->memory, "memory").text.data();
    args->debug_string_size = checked(args->memory, "memory").text.size();
  });
}

PJRT_Error* memory_text(PJRT_Memory_ToString_Args* args) {
  return guarded([&] {
    args->to_string = checked(args->memory, "memory").text.data();
    args->to_string_size = checked(args->memory, "memory").text.size();
  });
}

PJRT_Error* memory_devices(PJRT_Memory_AddressableByDevices_Args* args) {
  return guarded([&] {
    args->devices = &checked(args->memory, "memory").device;
    args->num_devices = 1;
  });
}

}  // namespace

void fill_devices(PJRT_Api& api) {
  api.PJRT_DeviceDescription_Id = description_id;
  api.PJRT_DeviceDescription_ProcessIndex = description_process;
  api.PJRT_DeviceDescription_Attributes = description_attributes;
  api.PJRT_DeviceDescription_Kind = description_kind;
  api.PJRT_DeviceDescription_DebugString = description_debug;
  api.PJRT_DeviceDescription_ToString = description_text;
  api.PJRT_Device_GetDescription = device_description;
  api.PJRT_Device_IsAddressable = device_addressable;
  api.PJRT_Device_LocalHardwareId = device_hardware_id;
  api.PJRT_Device_AddressableMemories = device_memories;
  api.PJRT_Device_DefaultMemory = device_default_memory;
  api.PJRT_Device_GetAttributes = device_attributes;
  api.PJRT_Device_MemoryStats = device_memory_stats;
  api.PJRT_Device_ClearMemoryStats = device_clear_memory_stats;
  api.PJRT_Memory_Id = memory_id;
  api.PJRT_Memory_Kind = memory_kind;
  api.PJRT_Memory_Kind_Id = memory_kind_id;
  api.PJRT_Memory_DebugString = memory_debug;
  api.PJRT_Memory_ToString = memory_text;
  api.PJRT_Memory_AddressableByDevices = memory_devices;
}

}  // namespace tessera::pjrt
