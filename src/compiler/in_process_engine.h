// SPDX-License-Identifier: Apache-2.0
// The engine of "cpu": virtual devices, run in lockstep; those of this process, where there are
// several.
#pragma once

#include <memory>

#include "src/compiler/engine.h"

namespace tessera::compiler {

std::shared_ptr<const Engine> in_process_engine();

}  // namespace tessera::compiler
