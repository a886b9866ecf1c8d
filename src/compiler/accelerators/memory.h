// SPDX-License-Identifier: Apache-2.0
// A plugin's buffers as memory of devices, and its failures as errors.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include <tessera/error.h>

#include "src/base/arrays/device_buffer.h"
#include "src/compiler/accelerators/client.h"

namespace tessera::compiler::accelerators {

/// What fails, for messages.
struct Work {
  std::string what;  ///< "program 'step' on platform 'cuda'"
  Location location{};
};

/// The error of a failure: NotImplementedError of what the plugin can't, else a RuntimeError.
std::exception_ptr error_of(const PluginFailure& failure, const Work& work);
[[noreturn]] void throw_error(const PluginFailure& failure, const Work& work);

class Memory final : public DeviceMemory {
 public:
  /// `device`: its number among the client's.
  Memory(std::size_t bytes, std::unique_ptr<ClientBuffer> buffer, const Client* client,
         std::size_t device, std::shared_ptr<const Work> made_by)
      : DeviceMemory(bytes),
        client(client),
        device(device),
        buffer_(std::move(buffer)),
        made_by_(std::move(made_by)) {}

  /// The event is made when somebody asks: most results go straight into the next program.
  std::shared_ptr<Event> ready() const override;
  const ClientBuffer& buffer() const { return *buffer_; }

  const Client* const client;
  const std::size_t device;

 private:
  std::unique_ptr<ClientBuffer> buffer_;
  std::shared_ptr<const Work> made_by_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<Event> ready_;
};

}  // namespace tessera::compiler::accelerators
