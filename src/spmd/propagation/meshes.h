// SPDX-License-Identifier: Apache-2.0
// The one mesh of a module: fine enough for propagation, as coarse as can be afterwards.
#pragma once

#include "src/ir/module.h"

namespace tessera::spmd::propagation {

/// Puts all shardings on one mesh whose axes are prime pieces, so that any axis can be taken in
/// part. It is made of the mesh that most shardings are on (module->mesh at a tie, or if there is
/// none). Shardings on another device order keep their mesh, unless they can be expressed on this
/// one. Returns the mesh, and in `coarse` the coarsest one that expresses all shardings of the
/// module.
MeshRef unify_meshes(ir::Module* module, MeshRef* coarse);

/// The coarsest refinement of `coarse` on which these shardings, as far as they are on `fine`, can
/// be expressed.
MeshRef coarsest_mesh(const std::vector<TensorSharding>& shardings, const MeshRef& fine,
                      const MeshRef& coarse);

/// The sharding on a mesh that `sharding.mesh` refines. Pieces that only are parts of an axis there
/// are dropped, with all that follows them on their dim.
TensorSharding coarsened(const TensorSharding& sharding, const MeshRef& coarse);
void coarsen(TensorSharding* sharding, const MeshRef& coarse);

/// A dim's axes on `fine` up to the last one where whole axes of `coarse`, which it refines, end.
IndexList whole_axes(const LogicalMesh& fine, const LogicalMesh& coarse, const IndexList& axes);

}  // namespace tessera::spmd::propagation
