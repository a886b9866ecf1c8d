// SPDX-License-Identifier: Apache-2.0
// Functions of the API that copy between the host and devices, and between memories.
#include <algorithm>
#include <cstring>
#include <functional>

#include "src/base/arrays/small_elements.h"
#include "src/pjrt/dtypes.h"
#include "src/pjrt/memory_layout.h"
#include "src/pjrt/objects.h"

namespace tessera::pjrt {

/// Buffers that the host writes in pieces.
struct Transfers {
  struct Target {
    std::mutex lock;
    Shape shape;
    PJRT_Memory* memory = nullptr;
    /// Written until the last piece is there; then the buffer has it.
    DeviceBuffer data;
    std::shared_ptr<Pending> pending;
    /// Until it is retrieved.
    std::unique_ptr<PJRT_Buffer> buffer;

    /// Unless all is there.
    void fail(Failure failure) {
      const std::lock_guard hold(lock);
      if (!data) return;
      data = {};
      const std::shared_ptr<Event> done = pending->done;
      pending.reset();
      done->fail(std::make_exception_ptr(std::move(failure)));
    }
  };
  PJRT_Memory* memory = nullptr;
  std::vector<std::unique_ptr<Target>> targets;
};

}  // namespace tessera::pjrt

struct PJRT_AsyncHostToDeviceTransferManager {
  tessera::pjrt::Transfers transfers;
};

namespace tessera::pjrt {
namespace {

using OnDelete = void (*)(void* device_buffer_ptr, void* user_arg);

Shape shape_of(std::uint32_t type, const std::int64_t* dims, std::size_t rank) {
  check_list(dims, rank, "dims");
  return Shape(dtype_of(type), Dims(dims, dims + rank));
}

PJRT_Memory* memory_or_default(PJRT_Memory* memory, PJRT_Device* device) {
  return memory != nullptr ? memory : checked(device, "device").memories.front();
}

/// Strides of the client's, for the array as it is stored; none: dense and row-major as seen.
Dims strides_as_stored(const Shape& shape, Dims strides) {
  if (shape.layout.empty()) return strides;
  if (strides.empty()) strides = byte_strides(shape.dims, byte_size(shape.dtype));
  return stored(strides, shape.layout);
}

/// How a client has an array of that layout, as it is stored.
HostLayout held_as(const Shape& shape, Dims strides = {}) {
  return {shape.dtype, Box::entire(stored(shape).dims),
          strides_as_stored(shape, std::move(strides))};
}

/// Strides of an array whose client names a layout. Empty: row-major.
Dims strides_of_layout(const Shape& shape, const PJRT_Buffer_MemoryLayout* layout) {
  if (layout == nullptr) return {};
  if (layout->type == PJRT_Buffer_MemoryLayout_Type_Strides) {
    check_list(layout->strides.byte_strides, layout->strides.num_byte_strides, "strides");
    if (layout->strides.num_byte_strides != shape.dims.size()) {
      throw Failure(
          PJRT_Error_Code_INVALID_ARGUMENT,
          std::to_string(layout->strides.num_byte_strides) + " strides for " + shape.to_string());
    }
    return Dims(layout->strides.byte_strides,
                layout->strides.byte_strides + layout->strides.num_byte_strides);
  }
  Shape there = shape;
  there.layout = layout_of(shape, layout);
  if (there.layout.empty()) return {};
  return seen(byte_strides(stored(there).dims, byte_size(shape.dtype)), there.layout);
}

/// A Failure unless an array with these strides stands within so many bytes.
void check_reach(const Shape& shape, const Dims& strides, std::size_t bytes) {
  if (strides.empty() || shape.element_count() == 0) return;
  std::int64_t reach = std::int64_t(byte_size(shape.dtype));
  for (std::size_t d = 0; d < strides.size(); ++d) {
    std::int64_t step = 0;
    const bool far = __builtin_mul_overflow(shape.dims[d] - 1, strides[d], &step) || step < 0 ||
                     __builtin_add_overflow(reach, step, &reach);
    if (far || std::uint64_t(reach) > bytes) {
      throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                    "the host's memory has " + std::to_string(bytes) + " bytes; " +
                        shape.to_string() + " with strides [" + join(strides) +
                        "] stands outside of them");
    }
  }
}

/// Calls a function of the client's when nobody uses its memory any more.
std::shared_ptr<const void> owner(std::function<void()> release) {
  return std::shared_ptr<const void>(static_cast<const void*>("held"),
                                     [f = std::move(release)](const void*) { f(); });
}

/// A copy of the host's elements for one memory. `held`: of the array as it is stored.
DeviceBuffer copied_in(const std::byte* bytes, const HostLayout& held, const Shape& shape,
                       const PJRT_Memory& memory) {
  const PJRT_Device& device = *memory.device;
  const Box all = Box::entire(stored(shape).dims);
  return device.client->engine->copy_in(bytes, held, all, {&device.device, 1}, memory.kind).front();
}

/// Nothing is held, so that all of it is 0; but a scalar, of which no part is nothing.
DeviceBuffer zeros(const Shape& shape, const PJRT_Memory& memory) {
  static constexpr std::byte kScalar[16] = {};
  const Dims none(shape.dims.size(), 0);
  return copied_in(kScalar, {shape.dtype, Box{none, none}}, shape, memory);
}

PJRT_Error* from_host(PJRT_Client_BufferFromHostBuffer_Args* args) {
  return guarded([&] {
    PJRT_Client& client = checked(args->client, "client");
    PJRT_Memory* const memory = memory_or_default(args->memory, args->device);
    Shape shape = shape_of(args->type, args->dims, args->num_dims);
    shape.layout = layout_of(shape, args->device_layout);
    Dims strides;
    if (args->num_byte_strides != 0) {
      check_list(args->byte_strides, args->num_byte_strides, "strides");
      strides = Dims(args->byte_strides, args->byte_strides + args->num_byte_strides);
      if (args->num_byte_strides != args->num_dims) {
        throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                      std::to_string(args->num_byte_strides) + " strides for " + shape.to_string());
      }
    }
    const HostLayout held = held_as(shape, std::move(strides));
    const bool zero_copy =
        args->host_buffer_semantics >= PJRT_HostBufferSemantics_kImmutableZeroCopy;
    const auto* bytes = static_cast<const std::byte*>(args->data);
    const std::size_t size = std::size_t(shape.byte_count());
    check_list(bytes, size, "data");
    auto done = std::make_unique<PJRT_Event>();
    DeviceBuffer data;
    if (zero_copy && size > 0 && held.is_plain() && stands_as_on_devices(shape.dtype)) {
      auto released = std::make_shared<Event>();
      const compiler::HostMemory host{
          const_cast<std::byte*>(bytes), size, owner([released] { released->complete(); }),
          args->host_buffer_semantics == PJRT_HostBufferSemantics_kMutableZeroCopy};
      data = client.engine->adopt(host, stored(shape), memory->device->device, memory->kind);
      if (data) done->event = std::move(released);
    }
    if (!data) data = copied_in(bytes, held, shape, *memory);
    args->buffer = make_buffer(std::move(data), shape, memory);
    args->done_with_host_buffer = done.release();
  });
}

PJRT_Error* view_of_memory(PJRT_Client_CreateViewOfDeviceBuffer_Args* args) {
  return guarded([&] {
    PJRT_Client& client = checked(args->client, "client");
    PJRT_Memory* const memory = memory_or_default(args->memory, args->device);
    const Shape shape = shape_of(args->element_type, args->dims, args->num_dims);
    HostLayout held{shape.dtype, Box::entire(shape.dims), strides_of_layout(shape, args->layout)};
    const auto call = reinterpret_cast<OnDelete>(args->on_delete_callback);
    // A client that gets an error keeps its memory.
    const auto given = std::make_shared<bool>(false);
    const std::shared_ptr<const void> hold =
        owner([call, given, at = args->device_buffer_ptr, user = args->on_delete_callback_arg] {
          if (*given && call != nullptr) call(at, user);
        });
    auto* const bytes = static_cast<std::byte*>(args->device_buffer_ptr);
    check_list(bytes, std::size_t(shape.byte_count()), "device_buffer_ptr");
    DeviceBuffer data;
    if (held.is_plain() && shape.byte_count() > 0 && stands_as_on_devices(shape.dtype)) {
      data = client.engine->adopt({bytes, std::size_t(shape.byte_count()), hold, false}, shape,
                                  memory->device->device, memory->kind);
    }
    if (!data) data = copied_in(bytes, held, shape, *memory);
    args->buffer = make_buffer(std::move(data), shape, memory);
    *given = true;
  });
}

PJRT_Error* uninitialized(PJRT_Client_CreateUninitializedBuffer_Args* args) {
  return guarded([&] {
    PJRT_Memory* const memory = memory_or_default(args->memory, args->device);
    Shape shape = shape_of(args->shape_element_type, args->shape_dims, args->shape_num_dims);
    shape.layout =
        layout_of(shape, static_cast<const PJRT_Buffer_MemoryLayout*>(args->shape_layout));
    args->buffer = make_buffer(zeros(shape, *memory), shape, memory);
  });
}

PJRT_Error* to_host(PJRT_Buffer_ToHostBuffer_Args* args) {
  return guarded([&] {
    auto* const buffer = &checked(static_cast<PJRT_Buffer*>(args->src), "buffer");
    const auto size = std::size_t(buffer->shape.byte_count());
    if (args->dst == nullptr) {
      args->dst_size = size;
      return;
    }
    if (args->dst_size < size) {
      throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                    "the host's memory has " + std::to_string(args->dst_size) + " bytes; " +
                        buffer->shape.to_string() + " takes " + std::to_string(size));
    }
    const Dims strides = strides_of_layout(buffer->shape, args->host_layout);
    check_reach(buffer->shape, strides, args->dst_size);
    // Without a layout the client gets the array in its own.
    const HostLayout requested =
        args->host_layout == nullptr
            ? HostLayout{buffer->shape.dtype, Box::entire(stored(buffer->shape).dims), {}}
            : held_as(buffer->shape, strides);
    args->event = new PJRT_Event{
        with_data(buffer, [engine = buffer->device()->client->engine, requested,
                           to = static_cast<std::byte*>(args->dst)](const DeviceBuffer& data) {
          engine->copy_out(data, requested.box, to, requested);
        })};
  });
}

PJRT_Error* raw_to_host(PJRT_Buffer_CopyRawToHost_Args* args) {
  return guarded([&] {
    const DeviceBuffer data = data_of(args->buffer);
    const auto size = std::int64_t(data.bytes());
    if (args->offset < 0 || args->transfer_size < 0 || args->offset > size ||
        args->transfer_size > size - args->offset) {
      throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                    std::to_string(args->transfer_size) + " bytes from byte " +
                        std::to_string(args->offset) + " of a buffer of " + std::to_string(size));
    }
    check_list(args->dst, std::size_t(args->transfer_size), "dst");
    data.wait();
    if (args->transfer_size > 0) {
      std::memcpy(args->dst, address_of(args->buffer) + args->offset,
                  std::size_t(args->transfer_size));
    }
    args->event = new PJRT_Event{};
  });
}

PJRT_Buffer* copied_to(PJRT_Buffer* buffer, PJRT_Memory* to) {
  const compiler::Engine& engine = *checked(to, "memory").device->client->engine;
  const auto made = std::make_shared<Pending>();
  made->done = with_data(
      buffer, [made, to, &engine, moves = to->kind != buffer->memory->kind](const DeviceBuffer& b) {
        DeviceBuffer there = engine.on_device(b, to->device->device);
        made->data = moves ? engine.copy({&there, 1}, to->kind).front() : std::move(there);
      });
  return made->done == nullptr ? make_buffer(std::move(made->data), buffer->shape, to)
                               : make_buffer(made, buffer->shape, to);
}

PJRT_Error* to_device(PJRT_Buffer_CopyToDevice_Args* args) {
  return guarded([&] {
    args->dst_buffer =
        copied_to(args->buffer, checked(args->dst_device, "device").memories.front());
  });
}

PJRT_Error* to_memory(PJRT_Buffer_CopyToMemory_Args* args) {
  return guarded([&] { args->dst_buffer = copied_to(args->buffer, args->dst_memory); });
}

/// One that is written in pieces.
Transfers::Target& target_of(PJRT_AsyncHostToDeviceTransferManager* manager, std::int32_t index) {
  Transfers& t = checked(manager, "transfer manager").transfers;
  if (index < 0 || std::size_t(index) >= t.targets.size()) {
    throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                  "there is no buffer " + std::to_string(index) + " among the " +
                      std::to_string(t.targets.size()) + " of a transfer manager");
  }
  return *t.targets[std::size_t(index)];
}

PJRT_Error* create_transfers(PJRT_Client_CreateBuffersForAsyncHostToDevice_Args* args) {
  return guarded([&] {
    PJRT_Client& client = checked(args->client, "client");
    auto made = std::make_unique<PJRT_AsyncHostToDeviceTransferManager>();
    Transfers& t = made->transfers;
    t.memory = args->memory != nullptr ? args->memory
                                       : client.addressable_devices.front()->memories.front();
    check_list(args->shape_specs, args->num_shape_specs, "shapes");
    for (std::size_t i = 0; i < args->num_shape_specs; ++i) {
      const PJRT_ShapeSpec& spec = args->shape_specs[i];
      Shape shape = shape_of(spec.element_type, spec.dims, spec.num_dims);
      // The client's pieces are of that layout, too.
      if (args->device_layouts != nullptr && i < args->num_device_layouts) {
        shape.layout = layout_of(shape, args->device_layouts[i]);
      }
      auto target = std::make_unique<Transfers::Target>();
      target->data = zeros(shape, *t.memory);
      target->pending = std::make_shared<Pending>(Pending{std::make_shared<tessera::Event>(), {}});
      target->buffer.reset(make_buffer(target->pending, shape, t.memory));
      target->shape = shape;
      target->memory = t.memory;
      t.targets.push_back(std::move(target));
    }
    args->transfer_manager = made.release();
  });
}

/// Copies at once; the buffer is there after the last piece.
void write_piece(Transfers::Target& target, const void* from, std::int64_t offset,
                 std::int64_t size, bool last) {
  const std::lock_guard hold(target.lock);
  if (!target.data) {
    throw Failure(PJRT_Error_Code_FAILED_PRECONDITION,
                  "all of " + target.shape.to_string() + " has been transferred, or it has failed");
  }
  const auto bytes = std::int64_t(target.data.bytes());
  if (offset < 0 || size < 0 || offset > bytes || size > bytes - offset) {
    throw Failure(PJRT_Error_Code_INVALID_ARGUMENT, std::to_string(size) + " bytes to byte " +
                                                        std::to_string(offset) +
                                                        " of a buffer of " + std::to_string(bytes));
  }
  check_list(from, std::size_t(size), "data");
  if (size > 0) {
    std::byte* const to = target.memory->device->client->engine->host_address(target.data);
    std::memcpy(to + offset, from, std::size_t(size));
  }
  if (!last) return;
  target.pending->data = std::move(target.data);
  target.data = {};
  const std::shared_ptr<tessera::Event> done = target.pending->done;
  target.pending.reset();
  done->complete();
}

PJRT_Error* transfer_data(PJRT_AsyncHostToDeviceTransferManager_TransferData_Args* args) {
  return guarded([&] {
    Transfers::Target& target = target_of(args->transfer_manager, args->buffer_index);
    auto done = std::make_unique<PJRT_Event>();
    write_piece(target, args->data, args->offset, args->transfer_size, args->is_last_transfer);
    args->done_with_h2d_transfer = done.release();
  });
}

PJRT_Error* transfer_literal(PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args* args) {
  return guarded([&] {
    Transfers::Target& target = target_of(args->transfer_manager, args->buffer_index);
    Shape shape = shape_of(args->shape_element_type, args->shape_dims, args->shape_num_dims);
    shape.layout =
        layout_of(shape, static_cast<const PJRT_Buffer_MemoryLayout*>(args->shape_layout));
    if (shape != target.shape || !same_layout(shape, target.shape)) {
      throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                    "a literal of " + shape.to_string() + memory_layout(shape).text +
                        " for a buffer of " + target.shape.to_string() +
                        memory_layout(target.shape).text + "; valid: the same shape and layout");
    }
    auto done = std::make_unique<PJRT_Event>();
    write_piece(target, args->data, 0, shape.byte_count(), true);
    args->done_with_h2d_transfer = done.release();
  });
}

PJRT_Error* retrieve(PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args* args) {
  return guarded([&] {
    Transfers::Target& target = target_of(args->transfer_manager, args->buffer_index);
    const std::lock_guard hold(target.lock);
    if (target.buffer == nullptr) {
      throw Failure(PJRT_Error_Code_FAILED_PRECONDITION,
                    "buffer " + std::to_string(args->buffer_index) + " has been retrieved");
    }
    args->buffer_out = target.buffer.release();
  });
}

PJRT_Error* device_of_transfers(PJRT_AsyncHostToDeviceTransferManager_Device_Args* args) {
  return guarded([&] {
    args->device_out = checked(args->transfer_manager, "transfer manager").transfers.memory->device;
  });
}

PJRT_Error* count_of_transfers(PJRT_AsyncHostToDeviceTransferManager_BufferCount_Args* args) {
  return guarded([&] {
    args->buffer_count =
        checked(args->transfer_manager, "transfer manager").transfers.targets.size();
  });
}

PJRT_Error* size_of_transfer(PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args* args) {
  return guarded([&] {
    args->buffer_size =
        std::size_t(target_of(args->transfer_manager, args->buffer_index).shape.byte_count());
  });
}

PJRT_Error* fail_transfer(PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args* args) {
  return guarded([&] {
    target_of(args->transfer_manager, args->buffer_index)
        .fail(Failure(
            PJRT_Error_Code(args->error_code),
            std::string(text_of(args->error_message, args->error_message_size, "a message"))));
  });
}

/// Nobody asks for it again.
PJRT_Error* add_metadata(PJRT_AsyncHostToDeviceTransferManager_AddMetadata_Args* args) {
  return guarded([&] { checked(args->transfer_manager, "transfer manager"); });
}

PJRT_Error* destroy_transfers(PJRT_AsyncHostToDeviceTransferManager_Destroy_Args* args) {
  return guarded([&] {
    if (args->transfer_manager == nullptr) return;
    for (const auto& target : args->transfer_manager->transfers.targets) {
      target->fail(Failure(
          PJRT_Error_Code_CANCELLED,
          "the transfer manager is gone before the last piece of " + target->shape.to_string()));
    }
    delete args->transfer_manager;
  });
}

}  // namespace

void fill_transfers(PJRT_Api& api) {
  api.PJRT_Client_CreateBuffersForAsyncHostToDevice = create_transfers;
  api.PJRT_AsyncHostToDeviceTransferManager_TransferData = transfer_data;
  api.PJRT_AsyncHostToDeviceTransferManager_TransferLiteral = transfer_literal;
  api.PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer = retrieve;
  api.PJRT_AsyncHostToDeviceTransferManager_Device = device_of_transfers;
  api.PJRT_AsyncHostToDeviceTransferManager_BufferCount = count_of_transfers;
  api.PJRT_AsyncHostToDeviceTransferManager_BufferSize = size_of_transfer;
  api.PJRT_AsyncHostToDeviceTransferManager_SetBufferError = fail_transfer;
  api.PJRT_AsyncHostToDeviceTransferManager_AddMetadata = add_metadata;
  api.PJRT_AsyncHostToDeviceTransferManager_Destroy = destroy_transfers;
  api.PJRT_Client_BufferFromHostBuffer = from_host;
  api.PJRT_Client_CreateViewOfDeviceBuffer = view_of_memory;
  api.PJRT_Client_CreateUninitializedBuffer = uninitialized;
  api.PJRT_Buffer_ToHostBuffer = to_host;
  api.PJRT_Buffer_CopyRawToHost = raw_to_host;
  api.PJRT_Buffer_CopyToDevice = to_device;
  api.PJRT_Buffer_CopyToMemory = to_memory;
}

}  // namespace tessera::pjrt
