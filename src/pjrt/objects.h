// SPDX-License-Identifier: Apache-2.0
// What stands behind the handles of the API.
#pragma once

#include <tessera/device.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/arrays/shape.h"
#include "src/base/threads/event.h"
#include "src/compiler/engine.h"
#include "src/pjrt/abi/api.h"
#include "src/pjrt/ffi/user_data.h"
#include "src/pjrt/run_queue.h"
#include "src/pjrt/status.h"

/// Null: it has happened.
struct PJRT_Event {
  std::shared_ptr<tessera::Event> event;
};

/// One kind of memory of one device.
struct PJRT_Memory {
  /// Clients look for functions of the object here; null: the API's own are all there are.
  const void* functions = nullptr;
  std::int32_t id = 0;
  tessera::MemoryKind kind = tessera::MemoryKind::device;
  PJRT_Device* device = nullptr;
  std::string kind_name, text;
};

struct PJRT_DeviceDescription {
  std::int32_t id = 0, process = 0;
  std::string kind, debug_text, text;
};

struct PJRT_Device {
  PJRT_Client* client = nullptr;
  tessera::Device device;
  bool local = true;
  std::int32_t local_hardware_id = 0;
  PJRT_DeviceDescription description;
  /// The default one first.
  std::vector<PJRT_Memory*> memories;
};

/// The devices of a client, or of none.
struct PJRT_TopologyDescription {
  std::string platform = "cpu", version = "tessera";
  std::vector<PJRT_DeviceDescription> devices;
  std::vector<PJRT_DeviceDescription*> pointers;
  /// As it is serialized.
  std::string text;
  std::uint64_t fingerprint = 0;
};

struct PJRT_Client {
  const tessera::compiler::Engine* engine = nullptr;
  std::string platform, version;
  std::int32_t process = 0;
  /// Device k has id k.
  std::vector<std::unique_ptr<PJRT_Device>> all_devices;
  std::vector<std::unique_ptr<PJRT_Memory>> all_memories;
  std::vector<PJRT_Device*> devices, addressable_devices;
  std::vector<PJRT_Memory*> addressable_memories;
  std::unique_ptr<PJRT_TopologyDescription> topology;
  /// Whether programs may be run after Execute has returned.
  bool asynchronous = true;
  /// Programs that wait for their turn. The last member: the others are there until all have run.
  std::unique_ptr<tessera::pjrt::RunQueue> runs;
};

namespace tessera::pjrt {

/// What a buffer will hold. `data` is set before `done` happens; if that fails, it stays empty.
struct Pending {
  std::shared_ptr<Event> done;
  DeviceBuffer data;
};

}  // namespace tessera::pjrt

struct PJRT_Buffer {
  PJRT_Memory* memory = nullptr;
  /// As clients see it, with its layout: `data` is the array as it is stored (memory_layout.h).
  tessera::Shape shape;
  /// One of both, none once it was deleted or donated, which `lock` guards.
  tessera::DeviceBuffer data;
  std::shared_ptr<tessera::pjrt::Pending> pending;
  std::mutex lock;
  /// Held while the count of external references isn't 0.
  tessera::DeviceBuffer external;
  std::int64_t external_references = 0;
  PJRT_Device* device() const { return memory->device; }
};

/// What handlers of custom calls find in a run.
struct PJRT_ExecuteContext {
  tessera::pjrt::ffi::UserData user_data;
};

namespace tessera::pjrt {

/// The buffer's memory, a handle of the caller's own. Waits for what makes it, and throws what
/// happened if that failed. A Failure if it was deleted or donated.
DeviceBuffer data_of(PJRT_Buffer* buffer);

/// What the buffer waits for; null: its memory is there, or it was deleted.
std::shared_ptr<Pending> pending_of(PJRT_Buffer* buffer);

/// Does `work` with the buffer's memory, later if something makes that still; then the event says
/// when it is done, or why not. Null: it is done.
std::shared_ptr<Event> with_data(PJRT_Buffer* buffer,
                                 std::function<void(const DeviceBuffer&)> work);

/// Where the host can read it. A Failure if it can't.
std::byte* address_of(PJRT_Buffer* buffer);

/// A new handle on the client's side.
PJRT_Buffer* make_buffer(DeviceBuffer data, const Shape& shape, PJRT_Memory* memory);
PJRT_Buffer* make_buffer(std::shared_ptr<Pending> pending, const Shape& shape, PJRT_Memory* memory);

/// Null pointers in place of arguments are errors of the client, and said as such.
template <class T>
T& checked(T* pointer, const char* what) {
  if (pointer == nullptr) {
    throw Failure(PJRT_Error_Code_INVALID_ARGUMENT, std::string(what) + " is a null pointer");
  }
  return *pointer;
}

/// So many things stand there. A Failure if there are some, and the pointer is null.
inline void check_list(const void* first, std::size_t count, const char* what) {
  if (first != nullptr || count == 0) return;
  throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                std::string(what) + ": a null pointer in place of " + std::to_string(count));
}

/// The client's text or bytes.
inline std::string_view text_of(const void* data, std::size_t size, const char* what) {
  check_list(data, size, what);
  return {static_cast<const char*>(data), data == nullptr ? 0 : size};
}

PJRT_DeviceDescription describe_device(const Device& device);
std::unique_ptr<PJRT_TopologyDescription> topology_of(const PJRT_Client& client);
std::unique_ptr<PJRT_Client> make_client(const std::vector<Device>& devices);

// Each fills in its part of the table.
void fill_errors_and_events(PJRT_Api& api);
void fill_client(PJRT_Api& api);
void fill_devices(PJRT_Api& api);
void fill_topologies(PJRT_Api& api);
void fill_buffers(PJRT_Api& api);
void fill_transfers(PJRT_Api& api);
void fill_executables(PJRT_Api& api);
void fill_execution(PJRT_Api& api);
/// The head of the chain of extensions.
PJRT_Extension_Base* extensions();

}  // namespace tessera::pjrt
