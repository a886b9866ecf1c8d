// SPDX-License-Identifier: Apache-2.0
// Programs of a plugin.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "src/engines/pjrt/buffer.h"

namespace tessera::engines::pjrt {

using compiler::accelerators::ClientProgram;
using compiler::accelerators::ProgramText;

/// The turns of a client's programs of several devices. All devices must get these in one order, or
/// the collectives of two programs wait for each other for ever.
struct Turns {
  std::mutex* mutex = nullptr;
  /// Held until a program has run, not only until it has been started: XLA's virtual CPUs share
  /// threads.
  bool until_over = false;
};

/// `device_ids`: of text.devices, as the plugin numbers them.
std::unique_ptr<ClientProgram> compile_program(const Api* api, PJRT_Client* client,
                                               const std::vector<ClientDevice>* devices,
                                               const std::vector<std::int64_t>& device_ids,
                                               const ProgramText& text, Turns turns);

/// xla.CompileOptionsProto for a program that runs once on each of these devices, as a replica.
std::string compile_options(const std::vector<std::int64_t>& device_ids);

}  // namespace tessera::engines::pjrt
