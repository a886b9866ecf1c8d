// SPDX-License-Identifier: Apache-2.0
// The engine of "cpu": virtual devices inside this process, run in lockstep.
#pragma once

#include <memory>

#include "src/compiler/engine.h"

namespace tessera::compiler {

std::shared_ptr<const Engine> in_process_engine();

}  // namespace tessera::compiler
