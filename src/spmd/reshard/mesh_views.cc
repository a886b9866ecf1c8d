// SPDX-License-Identifier: Apache-2.0
// How shardings on other meshes are said on one.
#include "src/spmd/reshard/mesh_views.h"

#include "src/base/check.h"
#include "src/spmd/reshard/device_orders.h"

namespace tessera::spmd {

const MeshView& MeshViews::of(const MeshRef& mesh) {
  for (const MeshView& view : views_) {
    if (view.mesh == mesh) return view;
  }
  MeshView view;
  view.mesh = mesh;
  TensorSharding one = TensorSharding::replicated_on(mesh, 1);
  view.representable = representable_on(one, from_);
  for (std::size_t a = 0; view.representable && a < mesh->axes.size(); ++a) {
    one.dims[0].axes = {int(a)};
    view.pieces.push_back(one.on(from_).dims[0].axes);
  }
  return views_.emplace_back(std::move(view));
}

TensorSharding MeshViews::say(const TensorSharding& sharding) {
  TensorSharding s = sharding;
  if (s.kind != TensorSharding::Kind::axes || s.mesh == from_) return s;
  s.mesh = from_;
  if (!sharding.mesh) {
    TESSERA_CHECK(s.is_replicated(), "axes without a mesh");
    return s;
  }
  const MeshView& view = of(sharding.mesh);
  TESSERA_CHECK(view.representable, "a sharding was moved to another mesh");
  const auto translate = [&](IndexList* axes) {
    if (axes->empty()) return;
    IndexList out;
    view.append(*axes, &out);
    *axes = std::move(out);
  };
  for (DimSharding& d : s.dims) translate(&d.axes);
  for (IndexList* axes : {&s.replicated, &s.unreduced, &s.manual}) translate(axes);
  return s;
}

}  // namespace tessera::spmd
