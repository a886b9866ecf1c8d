// SPDX-License-Identifier: Apache-2.0
// Buffers of a plugin.
#pragma once

#include <span>
#include <vector>

#include "src/engines/pjrt/api.h"

namespace tessera::engines::pjrt {

using compiler::accelerators::ClientBuffer;
using compiler::accelerators::Done;

/// A device, its memories, and their kinds in DeviceInfo's order.
struct ClientDevice {
  PJRT_Device* device = nullptr;
  std::vector<PJRT_Memory*> memories;
  bool is_local = true;
};

class Buffer final : public ClientBuffer {
 public:
  /// Takes the handle. `made_by`: the function that its contents come from, for messages.
  Buffer(const Api* api, PJRT_Client* client, const std::vector<ClientDevice>* devices,
         std::size_t device, PJRT_Buffer* handle, const char* made_by)
      : api_(api),
        client_(client),
        devices_(devices),
        device_(device),
        handle_(handle),
        made_by_(made_by) {}
  ~Buffer() override;
  PJRT_Buffer* handle() const { return handle_; }

  void when_ready(Done done) const override;
  void read(std::byte* to, std::size_t bytes) const override;
  std::size_t memory() const override;
  std::unique_ptr<ClientBuffer> copy_to(std::size_t device, std::size_t memory) const override;
  std::unique_ptr<ClientBuffer> duplicate() const override;

 private:
  PJRT_Event* ready_event() const;
  std::vector<std::int64_t> dims() const;

  const Api* api_;
  PJRT_Client* client_;                       ///< never destroyed before
  const std::vector<ClientDevice>* devices_;  ///< the client's
  std::size_t device_;
  PJRT_Buffer* handle_;
  const char* made_by_;
};

/// From dense row-major elements of that PJRT_Buffer_Type.
std::unique_ptr<ClientBuffer> buffer_from_host(const Api* api, PJRT_Client* client,
                                               const std::vector<ClientDevice>* devices,
                                               const std::byte* host, std::uint32_t type,
                                               std::span<const std::int64_t> dims,
                                               std::size_t device, std::size_t memory);

}  // namespace tessera::engines::pjrt
