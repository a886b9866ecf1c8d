// SPDX-License-Identifier: Apache-2.0
// The client of a PJRT plugin, and the function by which the library gets it.
#include <algorithm>
#include <numeric>
#include <utility>

#include "src/engines/pjrt/buffer.h"
#include "src/engines/pjrt/event.h"
#include "src/engines/pjrt/gpus.h"
#include "src/engines/pjrt/host_calls.h"
#include "src/engines/pjrt/key_values.h"
#include "src/engines/pjrt/program.h"

namespace tessera::engines::pjrt {
namespace {

using compiler::accelerators::DeviceInfo;

std::uint32_t type_of(DType dtype) {
  switch (dtype) {
#define ELEMENT_TYPE(dtype, type, primitive) \
  case DType::dtype:                         \
    return PJRT_Buffer_Type_##type;
#include "src/pjrt/abi/element_types.inc"
#undef ELEMENT_TYPE
    default:
      break;
  }
  throw PluginFailure("PJRT_Client_BufferFromHostBuffer", PluginFailure::kUnimplemented,
                      "the element type has no number in the PJRT API");
}

Value value_of(const PJRT_NamedValue& given) {
  switch (given.type) {
    case PJRT_NamedValue_kInt64:
      return given.int64_value;
    case PJRT_NamedValue_kInt64List:
      return std::vector<std::int64_t>(given.int64_array_value,
                                       given.int64_array_value + given.value_size);
    case PJRT_NamedValue_kFloat:
      return given.float_value;
    case PJRT_NamedValue_kBool:
      return given.bool_value;
    default:
      return std::string(given.string_value, given.value_size);
  }
}

Values values_of(const PJRT_NamedValue* all, std::size_t count) {
  Values out;
  for (std::size_t i = 0; i < count; ++i) {
    out[std::string(all[i].name, all[i].name_size)] = value_of(all[i]);
  }
  return out;
}

/// As the API has it; `values` stays in place meanwhile.
std::vector<PJRT_NamedValue> named_values(const Values& values) {
  std::vector<PJRT_NamedValue> out;
  for (const auto& [name, value] : values) {
    auto v = sized<PJRT_NamedValue>();
    v.name = name.data();
    v.name_size = name.size();
    v.value_size = 1;
    if (const auto* b = std::get_if<bool>(&value)) {
      v.type = PJRT_NamedValue_kBool;
      v.bool_value = *b;
    } else if (const auto* n = std::get_if<std::int64_t>(&value)) {
      v.type = PJRT_NamedValue_kInt64;
      v.int64_value = *n;
    } else if (const auto* f = std::get_if<float>(&value)) {
      v.type = PJRT_NamedValue_kFloat;
      v.float_value = *f;
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      v.type = PJRT_NamedValue_kString;
      v.string_value = text->data();
      v.value_size = text->size();
    } else {
      const auto& list = std::get<std::vector<std::int64_t>>(value);
      v.type = PJRT_NamedValue_kInt64List;
      v.int64_array_value = list.data();
      v.value_size = list.size();
    }
    out.push_back(v);
  }
  return out;
}

class PluginClient final : public compiler::accelerators::Client {
 public:
  PluginClient(const Api* api, const Values& options,
               const compiler::accelerators::Joining* joining)
      : api_(api), joins_(joining != nullptr) {
    if (api_->has(&PJRT_Api::PJRT_Plugin_Attributes)) {
      auto args = sized<PJRT_Plugin_Attributes_Args>();
      TESSERA_PJRT_CALL(*api_, PJRT_Plugin_Attributes, &args);
      attributes_ = values_of(args.attributes, args.num_attributes);
    }
    Values all = options;
    if (is_for_gpus(*api_)) complete_gpu_options(joining, &all);
    const std::vector<PJRT_NamedValue> given = named_values(all);
    auto args = sized<PJRT_Client_Create_Args>();
    args.create_options = given.data();
    args.num_options = given.size();
    if (joins_) give_key_values(joining->values, &args);
    TESSERA_PJRT_CALL(*api_, PJRT_Client_Create, &args);
    client_ = args.client;
    try {
      describe();
    } catch (...) {
      close();
      throw;
    }
  }
  ~PluginClient() override { close(); }

  const std::string& platform() const override { return platform_; }
  const std::string& version() const override { return version_; }
  std::pair<int, int> api_version() const override { return {api_->major(), api_->minor()}; }
  const Values& attributes() const override { return attributes_; }
  const std::vector<DeviceInfo>& devices() const override { return infos_; }

  bool calls_host() const override { return calls_host_; }
  HostCallNumber add_host_call(HostCall call) const override {
    return pjrt::add_host_call(std::move(call));
  }

  std::unique_ptr<ClientProgram> compile(const ProgramText& text) const override {
    std::vector<std::int64_t> ids;
    for (const std::size_t d : text.devices) ids.push_back(infos_.at(d).id);
    return compile_program(api_, client_, &devices_, ids, text, {&turns_, platform_ == "cpu"});
  }

  std::unique_ptr<ClientBuffer> copy_in(const std::byte* host, DType dtype,
                                        std::span<const std::int64_t> dims, std::size_t device,
                                        std::size_t memory) const override {
    return buffer_from_host(api_, client_, &devices_, host, type_of(dtype), dims, device, memory);
  }

  std::optional<MemoryInUse> memory_in_use(std::size_t device) const override {
    if (!api_->has(&PJRT_Api::PJRT_Device_MemoryStats)) return std::nullopt;
    auto args = sized<PJRT_Device_MemoryStats_Args>();
    args.device = devices_.at(device).device;
    try {
      TESSERA_PJRT_CALL(*api_, PJRT_Device_MemoryStats, &args);
    } catch (const PluginFailure& failure) {
      if (failure.code == PluginFailure::kUnimplemented) return std::nullopt;
      throw;
    }
    MemoryInUse out{args.bytes_in_use, std::nullopt};
    if (args.peak_bytes_in_use_is_set) out.peak = args.peak_bytes_in_use;
    return out;
  }

 private:
  void close() noexcept {
    auto args = sized<PJRT_Client_Destroy_Args>();
    args.client = client_;
    api_->call_quietly(&PJRT_Api::PJRT_Client_Destroy, &args);
  }

  void describe() {
    auto name = sized<PJRT_Client_PlatformName_Args>();
    name.client = client_;
    TESSERA_PJRT_CALL(*api_, PJRT_Client_PlatformName, &name);
    platform_.assign(name.platform_name, name.platform_name_size);
    calls_host_ = take_host_calls(*api_, platform_);
    auto version = sized<PJRT_Client_PlatformVersion_Args>();
    version.client = client_;
    TESSERA_PJRT_CALL(*api_, PJRT_Client_PlatformVersion, &version);
    version_.assign(version.platform_version, version.platform_version_size);
    // Our own plugin's objects stay.
    if (version_.rfind("tessera", 0) != 0) api_->end_with_process();
    if (joins_) {
      auto all = sized<PJRT_Client_Devices_Args>();
      all.client = client_;
      TESSERA_PJRT_CALL(*api_, PJRT_Client_Devices, &all);
      for (std::size_t d = 0; d < all.num_devices; ++d) add_device(all.devices[d]);
      order_by_process();
      return;
    }
    auto all = sized<PJRT_Client_AddressableDevices_Args>();
    all.client = client_;
    TESSERA_PJRT_CALL(*api_, PJRT_Client_AddressableDevices, &all);
    for (std::size_t d = 0; d < all.num_addressable_devices; ++d) {
      add_device(all.addressable_devices[d]);
    }
  }

  /// The same order in all processes.
  void order_by_process() {
    std::vector<std::size_t> order(infos_.size());
    std::iota(order.begin(), order.end(), std::size_t(0));
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(infos_[a].process, infos_[a].id) <
             std::pair(infos_[b].process, infos_[b].id);
    });
    std::vector<ClientDevice> devices;
    std::vector<DeviceInfo> infos;
    for (const std::size_t d : order) {
      devices.push_back(std::move(devices_[d]));
      infos.push_back(std::move(infos_[d]));
    }
    devices_ = std::move(devices);
    infos_ = std::move(infos);
  }

  /// Whose a device is, where there are several processes.
  void find_owner(PJRT_Device* device, PJRT_DeviceDescription* description,
                  DeviceInfo* info) const {
    auto process = sized<PJRT_DeviceDescription_ProcessIndex_Args>();
    process.device_description = description;
    TESSERA_PJRT_CALL(*api_, PJRT_DeviceDescription_ProcessIndex, &process);
    info->process = process.process_index;
    auto local = sized<PJRT_Device_IsAddressable_Args>();
    local.device = device;
    TESSERA_PJRT_CALL(*api_, PJRT_Device_IsAddressable, &local);
    info->is_local = local.is_addressable;
  }

  void add_device(PJRT_Device* device) {
    auto description = sized<PJRT_Device_GetDescription_Args>();
    description.device = device;
    TESSERA_PJRT_CALL(*api_, PJRT_Device_GetDescription, &description);
    DeviceInfo info;
    auto id = sized<PJRT_DeviceDescription_Id_Args>();
    id.device_description = description.device_description;
    TESSERA_PJRT_CALL(*api_, PJRT_DeviceDescription_Id, &id);
    info.id = id.id;
    auto kind = sized<PJRT_DeviceDescription_Kind_Args>();
    kind.device_description = description.device_description;
    TESSERA_PJRT_CALL(*api_, PJRT_DeviceDescription_Kind, &kind);
    info.kind.assign(kind.device_kind, kind.device_kind_size);
    if (joins_) find_owner(device, description.device_description, &info);
    ClientDevice made{device, {}, info.is_local};
    if (info.is_local) made.memories = memories_of(device);
    for (PJRT_Memory* m : made.memories) {
      auto of = sized<PJRT_Memory_Kind_Args>();
      of.memory = m;
      TESSERA_PJRT_CALL(*api_, PJRT_Memory_Kind, &of);
      info.memories.emplace_back(of.kind, of.kind_size);
    }
    if (info.memories.empty()) info.memories.emplace_back("device");
    devices_.push_back(std::move(made));
    infos_.push_back(std::move(info));
  }

  /// The default one first; none where the plugin knows of no memories.
  std::vector<PJRT_Memory*> memories_of(PJRT_Device* device) const {
    if (!api_->has(&PJRT_Api::PJRT_Device_AddressableMemories) ||
        !api_->has(&PJRT_Api::PJRT_Device_DefaultMemory)) {
      return {};
    }
    auto all = sized<PJRT_Device_AddressableMemories_Args>();
    all.device = device;
    TESSERA_PJRT_CALL(*api_, PJRT_Device_AddressableMemories, &all);
    std::vector<PJRT_Memory*> out(all.memories, all.memories + all.num_memories);
    if (out.empty()) return out;
    auto first = sized<PJRT_Device_DefaultMemory_Args>();
    first.device = device;
    TESSERA_PJRT_CALL(*api_, PJRT_Device_DefaultMemory, &first);
    const auto at = std::find(out.begin(), out.end(), first.memory);
    if (at != out.end()) std::rotate(out.begin(), at, at + 1);
    return out;
  }

  const Api* api_;
  bool joins_;  ///< with those of other processes
  PJRT_Client* client_ = nullptr;
  std::string platform_, version_;
  bool calls_host_ = false;
  /// Of programs of several devices (Turns).
  mutable std::mutex turns_;
  Values attributes_;
  std::vector<ClientDevice> devices_;
  std::vector<DeviceInfo> infos_;
};

}  // namespace
}  // namespace tessera::engines::pjrt

extern "C" __attribute__((visibility("default"))) void tessera_make_pjrt_client(
    const std::string& file, const tessera::compiler::accelerators::Values& options,
    const tessera::compiler::accelerators::Joining* joining,
    std::unique_ptr<tessera::compiler::accelerators::Client>* made) {
  tessera::engines::pjrt::load_packaged_libraries(file);
  *made = std::make_unique<tessera::engines::pjrt::PluginClient>(
      tessera::engines::pjrt::Api::open(file), options, joining);
}
