// SPDX-License-Identifier: Apache-2.0
// Transposes of collectives.
#include <algorithm>

#include "src/base/contains.h"
#include "src/transforms/transpose/site.h"
#include "src/transforms/transpose/varying_types.h"

namespace tessera::transforms {

using ir::Instruction;
using ir::Opcode;

namespace {

const char* const kOutside =
    "it is code per device, and no shard_map around it is part of what is differentiated";

}  // namespace

void transpose_all_gather(TransposeSite& s) {
  const auto& a = s.get<ir::CollectiveAttrs>();
  if (s.op.operands().size() != 1) s.refuse("all-gathers of several arrays have no transpose");
  ir::Computation* adder = ir::scalar_computation(s.b.module(), Opcode::add, s.op.shape.dtype);
  s.give(0, s.b.reduce_scatter(s.ct.array, adder, a.dims[0], a.groups));
}

void transpose_reduce_scatter(TransposeSite& s) {
  const auto& a = s.get<ir::CollectiveAttrs>();
  if (s.op.operands().size() != 1) s.refuse("reduce-scatters of several arrays have no transpose");
  s.give(0, s.b.all_gather(s.ct.array, a.dims[0], a.groups));
}

void transpose_all_to_all(TransposeSite& s) {
  const auto& a = s.get<ir::CollectiveAttrs>();
  if (s.op.operands().size() != 1 || a.dims.empty()) {
    s.refuse("all-to-alls of several arrays have no transpose");
  }
  // Block i of device j goes to place j of device i: its own inverse.
  s.give(0, s.clone_on({s.ct.array}));
}

void transpose_collective_permute(TransposeSite& s) {
  const auto& a = s.get<ir::PermuteAttrs>();
  auto pairs = a.source_target_pairs.pairs();
  for (auto& [source, target] : pairs) std::swap(source, target);
  s.give(0, s.b.collective_permute(s.ct.array, std::move(pairs), a.batch));
}

/// Sums of what each device has: of its own value, or of one that all devices share.
void transpose_all_reduce(TransposeSite& s) {
  const auto mark = s.op.frontend_attributes->find(kSumIs);
  const auto& a = s.get<ir::CollectiveAttrs>();
  if (mark == s.op.frontend_attributes->end() && !a.groups.batch) s.refuse(kOutside);
  if (s.op.operands().size() != 1) s.refuse("all-reduces of several arrays have no transpose");
  // Each entry of a batch has a value of its own.
  if (a.groups.batch || mark->second == "different") {
    ir::Computation* adder = ir::scalar_computation(s.b.module(), Opcode::add, s.op.shape.dtype);
    s.give(0, s.b.all_reduce(s.ct.array, adder, a.groups));
    return;
  }
  ir::PvaryAttrs attrs;
  attrs.mesh = a.groups.mesh;
  for (const int axis : a.groups.axes) {
    attrs.axes.push_back(attrs.mesh->axes[std::size_t(axis)].name);
  }
  std::sort(attrs.axes.begin(), attrs.axes.end());
  s.give(0, s.b.emit(Opcode::pvary, {s.ct.array}, std::move(attrs)));
}

/// Each device has a part of the cotangent of the one value that all of them were given.
void transpose_pvary(TransposeSite& s) {
  const auto& a = s.get<ir::PvaryAttrs>();
  if (a.mesh == nullptr) s.refuse(kOutside);
  IndexList axes;
  for (std::size_t k = 0; k < a.mesh->axes.size(); ++k) {
    if (tessera::contains(a.axes, a.mesh->axes[k].name)) axes.push_back(int(k));
  }
  ir::Computation* adder = ir::scalar_computation(s.b.module(), Opcode::add, s.op.shape.dtype);
  s.give(0, s.b.all_reduce(s.ct.array, adder, ir::DeviceGroups::over(a.mesh, axes)));
}

}  // namespace tessera::transforms
