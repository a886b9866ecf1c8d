// SPDX-License-Identifier: Apache-2.0
// LAPACK's routines in terms of plain ops, for platforms that don't have them.
#pragma once

#include <cstddef>

#include "src/ir/module.h"

namespace tessera::compiler::accelerators {

enum class LapackForms {
  of_stablehlo,  ///< those that are an operation: Cholesky factors, triangular systems
  formulas,      ///< LU and QR factors, symmetric eigenvalues and singular values, too
};

/// Replaces custom calls of LAPACK's routines that have such a form. Others stay. Returns how many
/// were replaced.
std::size_t lower_lapack(ir::Module* module, LapackForms forms);

}  // namespace tessera::compiler::accelerators
