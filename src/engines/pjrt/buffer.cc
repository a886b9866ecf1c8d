// SPDX-License-Identifier: Apache-2.0
// Reads and copies buffers of a plugin.
#include "src/engines/pjrt/buffer.h"

#include <algorithm>

#include "src/engines/pjrt/event.h"

namespace tessera::engines::pjrt {

Buffer::~Buffer() {
  auto args = sized<PJRT_Buffer_Destroy_Args>();
  args.buffer = handle_;
  api_->call_quietly(&PJRT_Api::PJRT_Buffer_Destroy, &args);
}

PJRT_Event* Buffer::ready_event() const {
  auto args = sized<PJRT_Buffer_ReadyEvent_Args>();
  args.buffer = handle_;
  TESSERA_PJRT_CALL(*api_, PJRT_Buffer_ReadyEvent, &args);
  return args.event;
}

void Buffer::when_ready(Done done) const {
  when_done(api_, ready_event(), made_by_, std::move(done));
}

std::vector<std::int64_t> Buffer::dims() const {
  auto args = sized<PJRT_Buffer_Dimensions_Args>();
  args.buffer = handle_;
  TESSERA_PJRT_CALL(*api_, PJRT_Buffer_Dimensions, &args);
  return {args.dims, args.dims + args.num_dims};
}

void Buffer::read(std::byte* to, std::size_t bytes) const {
  // The device may hold it in another order.
  std::vector<std::int64_t> order;
  for (std::size_t d = dims().size(); d > 0; --d) order.push_back(std::int64_t(d) - 1);
  auto layout = sized<PJRT_Buffer_MemoryLayout>();
  api_->fit(&layout);
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled.struct_size = sizeof(layout.tiled);
  layout.tiled.extension_start = nullptr;
  layout.tiled.minor_to_major = order.data();
  layout.tiled.minor_to_major_size = order.size();
  layout.tiled.tile_dims = nullptr;
  layout.tiled.tile_dim_sizes = nullptr;
  layout.tiled.num_tiles = 0;
  auto args = sized<PJRT_Buffer_ToHostBuffer_Args>();
  args.src = handle_;
  args.host_layout = order.size() < 2 ? nullptr : &layout;
  args.dst = to;
  args.dst_size = bytes;
  // Without a place to write to it only says how much it would take.
  std::byte nothing{};
  if (to == nullptr) args.dst = &nothing;
  TESSERA_PJRT_CALL(*api_, PJRT_Buffer_ToHostBuffer, &args);
  wait_for(*api_, args.event, "PJRT_Buffer_ToHostBuffer");
}

std::size_t Buffer::memory() const {
  const std::vector<PJRT_Memory*>& all = devices_->at(device_).memories;
  if (all.size() < 2) return 0;
  auto args = sized<PJRT_Buffer_Memory_Args>();
  args.buffer = handle_;
  TESSERA_PJRT_CALL(*api_, PJRT_Buffer_Memory, &args);
  const auto at = std::find(all.begin(), all.end(), args.memory);
  return at == all.end() ? 0 : std::size_t(at - all.begin());
}

// Plugins differ in whether they copy within one memory: the host does.
std::unique_ptr<ClientBuffer> Buffer::duplicate() const {
  auto type = sized<PJRT_Buffer_ElementType_Args>();
  type.buffer = handle_;
  TESSERA_PJRT_CALL(*api_, PJRT_Buffer_ElementType, &type);
  auto size = sized<PJRT_Buffer_ToHostBuffer_Args>();
  size.src = handle_;
  TESSERA_PJRT_CALL(*api_, PJRT_Buffer_ToHostBuffer, &size);
  std::vector<std::byte> bytes(std::max<std::size_t>(1, size.dst_size));
  read(bytes.data(), size.dst_size);
  return buffer_from_host(api_, client_, devices_, bytes.data(), type.type, dims(), device_,
                          memory());
}

std::unique_ptr<ClientBuffer> buffer_from_host(const Api* api, PJRT_Client* client,
                                               const std::vector<ClientDevice>* devices,
                                               const std::byte* host, std::uint32_t type,
                                               std::span<const std::int64_t> dims,
                                               std::size_t device, std::size_t memory) {
  static constexpr std::byte kNothing{};
  constexpr const char* kName = "PJRT_Client_BufferFromHostBuffer";
  auto args = sized<PJRT_Client_BufferFromHostBuffer_Args>();
  args.client = client;
  args.data = host == nullptr ? &kNothing : host;
  args.type = type;
  args.dims = dims.data();
  args.num_dims = dims.size();
  args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
  const ClientDevice& target = devices->at(device);
  args.device = target.device;
  if (memory > 0) args.memory = target.memories.at(memory);
  TESSERA_PJRT_CALL(*api, PJRT_Client_BufferFromHostBuffer, &args);
  auto made = std::make_unique<Buffer>(api, client, devices, device, args.buffer, kName);
  // By these semantics it has been read already.
  wait_for(*api, args.done_with_host_buffer, kName);
  return made;
}

std::unique_ptr<ClientBuffer> Buffer::copy_to(std::size_t device, std::size_t memory) const {
  const ClientDevice& target = devices_->at(device);
  // Some plugins know of no memories.
  if (memory == 0 && (target.memories.empty() || !api_->has(&PJRT_Api::PJRT_Buffer_CopyToMemory))) {
    auto args = sized<PJRT_Buffer_CopyToDevice_Args>();
    args.buffer = handle_;
    args.dst_device = target.device;
    TESSERA_PJRT_CALL(*api_, PJRT_Buffer_CopyToDevice, &args);
    return std::make_unique<Buffer>(api_, client_, devices_, device, args.dst_buffer,
                                    "PJRT_Buffer_CopyToDevice");
  }
  auto args = sized<PJRT_Buffer_CopyToMemory_Args>();
  args.buffer = handle_;
  args.dst_memory = target.memories.at(memory);
  TESSERA_PJRT_CALL(*api_, PJRT_Buffer_CopyToMemory, &args);
  return std::make_unique<Buffer>(api_, client_, devices_, device, args.dst_buffer,
                                  "PJRT_Buffer_CopyToMemory");
}

}  // namespace tessera::engines::pjrt
