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

/// `device_ids`: of text.devices, as the plugin numbers them. `turns`: null, or what a program of
/// several devices holds until it has run.
std::unique_ptr<ClientProgram> compile_program(const std::shared_ptr<const Api>& api,
                                               PJRT_Client* client,
                                               const std::vector<ClientDevice>* devices,
                                               const std::vector<std::int64_t>& device_ids,
                                               const ProgramText& text, std::mutex* turns);

/// xla.CompileOptionsProto for a program that runs once on each of these devices, as a replica.
std::string compile_options(const std::vector<std::int64_t>& device_ids);

}  // namespace tessera::engines::pjrt
