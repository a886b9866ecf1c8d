// SPDX-License-Identifier: Apache-2.0
// The engine of a plugin's devices.
#pragma once

#include <memory>
#include <string>

#include "src/compiler/accelerators/client.h"
#include "src/compiler/engine.h"

namespace tessera::compiler::accelerators {

std::shared_ptr<const Engine> accelerator_engine(const std::string& platform,
                                                 std::unique_ptr<Client> client);

}  // namespace tessera::compiler::accelerators
