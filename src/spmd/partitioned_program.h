// SPDX-License-Identifier: Apache-2.0
// Whether a module is already one device's program.
#pragma once

#include "src/ir/module.h"

namespace tessera::spmd {

/// The module is the program of one device already: it has collectives among partitions, or asks
/// which partition it is, outside of manual computations, and nothing in it but its arguments and
/// results has a sharding. NotImplementedError if it runs on several replicas.
bool is_partitioned_program(const ir::Module& module);

}  // namespace tessera::spmd
