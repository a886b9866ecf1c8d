// SPDX-License-Identifier: Apache-2.0
// How shardings on other meshes are said on one: found out once per mesh, not for each sharding.
#pragma once

#include <deque>
#include <utility>
#include <vector>

#include "src/sharding/axes/tensor_sharding.h"

namespace tessera::spmd {

/// A mesh as seen from another one.
struct MeshView {
  MeshRef mesh;
  bool representable = false;     ///< as representable_on (device_orders.h)
  std::vector<IndexList> pieces;  ///< by axis of `mesh`: axes of the other one

  void append(const IndexList& axes, IndexList* to) const {
    for (int a : axes) {
      const IndexList& of_axis = pieces[std::size_t(a)];
      to->insert(to->end(), of_axis.begin(), of_axis.end());
    }
  }
};

/// All that were asked for.
class MeshViews {
 public:
  explicit MeshViews(MeshRef from) : from_(std::move(from)) {}

  const MeshView& of(const MeshRef& mesh);
  /// As representable_on.
  bool can_say(const TensorSharding& s) { return !s.mesh || of(s.mesh).representable; }
  /// As TensorSharding::on, of one that can be said.
  TensorSharding say(const TensorSharding& s);

 private:
  MeshRef from_;
  std::deque<MeshView> views_;
};

}  // namespace tessera::spmd
