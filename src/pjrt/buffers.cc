// SPDX-License-Identifier: Apache-2.0
// Functions of the API that ask what a buffer is, and let go of it.
#include <memory>
#include <utility>

#include "src/pjrt/dtypes.h"
#include "src/pjrt/ffi/python_lock.h"
#include "src/pjrt/memory_layout.h"
#include "src/pjrt/objects.h"

namespace tessera::pjrt {

namespace {

[[noreturn]] void fail_deleted(const PJRT_Buffer& b) {
  throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                "Array has been deleted or donated: " + b.shape.to_string());
}

}  // namespace

DeviceBuffer data_of(PJRT_Buffer* buffer) {
  PJRT_Buffer& b = checked(buffer, "buffer");
  std::shared_ptr<Pending> pending;
  {
    const std::lock_guard hold(b.lock);
    if (b.data) return b.data;
    if (!b.pending) fail_deleted(b);
    pending = b.pending;
  }
  if (pending->done->is_complete()) {
    pending->done->wait();
  } else {
    const ffi::WithoutPythonLock without;
    pending->done->wait();
  }
  const std::lock_guard hold(b.lock);
  // Whoever waits for the same result takes a handle from there; the last one leaves none behind,
  // so that memory can be donated.
  if (b.pending == pending) {
    b.pending.reset();
    b.data = pending.use_count() == 1 ? std::move(pending->data) : pending->data;
  }
  if (!b.data) fail_deleted(b);
  return b.data;
}

std::shared_ptr<Pending> pending_of(PJRT_Buffer* buffer) {
  PJRT_Buffer& b = checked(buffer, "buffer");
  const std::lock_guard hold(b.lock);
  return b.pending != nullptr && !b.pending->done->is_complete() ? b.pending : nullptr;
}

std::shared_ptr<Event> with_data(PJRT_Buffer* buffer,
                                 std::function<void(const DeviceBuffer&)> work) {
  std::shared_ptr<Pending> pending = pending_of(buffer);
  if (pending == nullptr) {
    work(data_of(buffer));
    return nullptr;
  }
  auto done = std::make_shared<Event>();
  const std::shared_ptr<Event> before = pending->done;
  before->when_complete([pending = std::move(pending), done,
                         work = std::move(work)](const std::exception_ptr& error) mutable {
    std::exception_ptr failed = error;
    if (!failed) {
      try {
        work(pending->data);
      } catch (...) {
        failed = std::current_exception();
      }
    }
    pending.reset();
    work = nullptr;
    failed ? done->fail(failed) : done->complete();
  });
  return done;
}

std::byte* address_of(PJRT_Buffer* buffer) {
  const DeviceBuffer data = data_of(buffer);
  std::byte* const out = buffer->device()->client->engine->host_address(data);
  if (out == nullptr && data.bytes() > 0) {
    throw Failure(PJRT_Error_Code_UNIMPLEMENTED, "the host can't address the device's memory");
  }
  return out;
}

PJRT_Buffer* make_buffer(DeviceBuffer data, const Shape& shape, PJRT_Memory* memory) {
  auto out = std::make_unique<PJRT_Buffer>();
  out->memory = memory;
  out->shape = shape;
  out->data = std::move(data);
  return out.release();
}

PJRT_Buffer* make_buffer(std::shared_ptr<Pending> pending, const Shape& shape,
                         PJRT_Memory* memory) {
  auto out = std::make_unique<PJRT_Buffer>();
  out->memory = memory;
  out->shape = shape;
  out->pending = std::move(pending);
  return out.release();
}

namespace {

const std::int64_t* dims_of(const PJRT_Buffer& b) { return b.shape.dims.data(); }

PJRT_Error* buffer_destroy(PJRT_Buffer_Destroy_Args* args) {
  delete args->buffer;
  return nullptr;
}

PJRT_Error* buffer_delete(PJRT_Buffer_Delete_Args* args) {
  return guarded([&] {
    PJRT_Buffer& b = checked(args->buffer, "buffer");
    DeviceBuffer gone;
    std::shared_ptr<Pending> never;
    const std::lock_guard hold(b.lock);
    gone = std::exchange(b.data, {});
    never = std::exchange(b.pending, {});
  });
}

PJRT_Error* buffer_is_deleted(PJRT_Buffer_IsDeleted_Args* args) {
  return guarded([&] {
    PJRT_Buffer& b = checked(args->buffer, "buffer");
    const std::lock_guard hold(b.lock);
    args->is_deleted = !b.data && !b.pending;
  });
}

PJRT_Error* buffer_type(PJRT_Buffer_ElementType_Args* args) {
  return guarded([&] { args->type = type_of(checked(args->buffer, "buffer").shape.dtype); });
}

PJRT_Error* buffer_dims(PJRT_Buffer_Dimensions_Args* args) {
  return guarded([&] {
    args->dims = dims_of(checked(args->buffer, "buffer"));
    args->num_dims = checked(args->buffer, "buffer").shape.dims.size();
  });
}

PJRT_Error* buffer_unpadded_dims(PJRT_Buffer_UnpaddedDimensions_Args* args) {
  return guarded([&] {
    args->unpadded_dims = dims_of(checked(args->buffer, "buffer"));
    args->num_dims = checked(args->buffer, "buffer").shape.dims.size();
  });
}

PJRT_Error* buffer_dynamic_dims(PJRT_Buffer_DynamicDimensionIndices_Args* args) {
  return guarded([&] {
    checked(args->buffer, "buffer");
    args->dynamic_dim_indices = nullptr;
    args->num_dynamic_dims = 0;
  });
}

PJRT_Error* buffer_layout(PJRT_Buffer_GetMemoryLayout_Args* args) {
  return guarded([&] {
    const Dims& order = memory_layout(checked(args->buffer, "buffer").shape).minor_to_major;
    args->layout = {};
    args->layout.struct_size = sizeof(PJRT_Buffer_MemoryLayout);
    args->layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
    args->layout.tiled.struct_size = sizeof(PJRT_Buffer_MemoryLayout_Tiled);
    args->layout.tiled.minor_to_major = order.data();
    args->layout.tiled.minor_to_major_size = order.size();
  });
}

PJRT_Error* buffer_bytes(PJRT_Buffer_OnDeviceSizeInBytes_Args* args) {
  return guarded([&] {
    args->on_device_size_in_bytes = pending_of(args->buffer) != nullptr
                                        ? std::size_t(args->buffer->shape.byte_count())
                                        : data_of(args->buffer).bytes();
  });
}

PJRT_Error* buffer_device(PJRT_Buffer_Device_Args* args) {
  return guarded([&] { args->device = checked(args->buffer, "buffer").device(); });
}

PJRT_Error* buffer_memory(PJRT_Buffer_Memory_Args* args) {
  return guarded([&] { args->memory = checked(args->buffer, "buffer").memory; });
}

PJRT_Error* buffer_on_cpu(PJRT_Buffer_IsOnCpu_Args* args) {
  return guarded([&] {
    checked(args->buffer, "buffer");
    args->is_on_cpu = true;
  });
}

PJRT_Error* buffer_unsafe_pointer(PJRT_Buffer_UnsafePointer_Args* args) {
  return guarded([&] {
    data_of(args->buffer).wait();
    args->buffer_pointer = reinterpret_cast<std::uintptr_t>(address_of(args->buffer));
  });
}

PJRT_Error* buffer_opaque_pointer(PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args* args) {
  return guarded([&] { args->device_memory_ptr = address_of(args->buffer); });
}

PJRT_Error* buffer_increase(PJRT_Buffer_IncreaseExternalReferenceCount_Args* args) {
  return guarded([&] {
    DeviceBuffer data = data_of(args->buffer);
    const std::lock_guard hold(args->buffer->lock);
    if (args->buffer->external_references++ == 0) args->buffer->external = std::move(data);
  });
}

PJRT_Error* buffer_decrease(PJRT_Buffer_DecreaseExternalReferenceCount_Args* args) {
  return guarded([&] {
    PJRT_Buffer& b = checked(args->buffer, "buffer");
    DeviceBuffer gone;
    const std::lock_guard hold(b.lock);
    if (b.external_references == 0) {
      throw Failure(PJRT_Error_Code_FAILED_PRECONDITION, "the buffer has no external references");
    }
    if (--b.external_references == 0) gone = std::exchange(b.external, {});
  });
}

PJRT_Error* buffer_ready(PJRT_Buffer_ReadyEvent_Args* args) {
  return guarded([&] {
    PJRT_Buffer& b = checked(args->buffer, "buffer");
    {
      const std::lock_guard hold(b.lock);
      // Also if it has failed: the event says why.
      if (b.pending != nullptr) {
        args->event = new PJRT_Event{b.pending->done};
        return;
      }
    }
    args->event = new PJRT_Event{data_of(&b).memory->ready()};
  });
}

}  // namespace

void fill_buffers(PJRT_Api& api) {
  api.PJRT_Buffer_Destroy = buffer_destroy;
  api.PJRT_Buffer_Delete = buffer_delete;
  api.PJRT_Buffer_IsDeleted = buffer_is_deleted;
  api.PJRT_Buffer_ElementType = buffer_type;
  api.PJRT_Buffer_Dimensions = buffer_dims;
  api.PJRT_Buffer_UnpaddedDimensions = buffer_unpadded_dims;
  api.PJRT_Buffer_DynamicDimensionIndices = buffer_dynamic_dims;
  api.PJRT_Buffer_GetMemoryLayout = buffer_layout;
  api.PJRT_Buffer_OnDeviceSizeInBytes = buffer_bytes;
  api.PJRT_Buffer_Device = buffer_device;
  api.PJRT_Buffer_Memory = buffer_memory;
  api.PJRT_Buffer_IsOnCpu = buffer_on_cpu;
  api.PJRT_Buffer_UnsafePointer = buffer_unsafe_pointer;
  api.PJRT_Buffer_OpaqueDeviceMemoryDataPointer = buffer_opaque_pointer;
  api.PJRT_Buffer_IncreaseExternalReferenceCount = buffer_increase;
  api.PJRT_Buffer_DecreaseExternalReferenceCount = buffer_decrease;
  api.PJRT_Buffer_ReadyEvent = buffer_ready;
}

}  // namespace tessera::pjrt
