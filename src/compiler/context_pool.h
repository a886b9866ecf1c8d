// SPDX-License-Identifier: Apache-2.0
// Contexts of compilations, which outlive them: programs of one process are much like each other.
#pragma once

#include <memory>

#include "src/spmd/partitioner/compile_context.h"

namespace tessera::compiler {

/// A context that nobody else has, by preference one that another compilation has given back. It
/// is given back when the last handle on it goes. May be called from several threads.
std::shared_ptr<spmd::CompileContext> take_context();

}  // namespace tessera::compiler
