// SPDX-License-Identifier: Apache-2.0
// Registration of the custom calls that this library implements itself.
#pragma once

namespace tessera::codegen {

/// Registers the custom calls that this layer computes: LAPACK's routines under the names that JAX
/// gives them on CPU, of today and of the older form. Cheap after the first time; whoever compiles
/// or looks for shardings calls it before.
void register_builtin_custom_calls();
/// Those of them that call the host.
void register_host_callbacks();
/// Those that multiply sparse matrices.
void register_sparse_products();

}  // namespace tessera::codegen
