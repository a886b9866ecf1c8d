// SPDX-License-Identifier: Apache-2.0
// LAPACK's routines in terms of plain ops, for platforms that don't have them.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::compiler::accelerators {

/// Replaces custom calls of LAPACK's routines that have such a form: Cholesky factors, triangular
/// systems, LU and QR factors. Others stay. Returns how many were replaced.
std::size_t lower_lapack(ir::Module* module);

}  // namespace tessera::compiler::accelerators
