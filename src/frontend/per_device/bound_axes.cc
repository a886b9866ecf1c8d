// SPDX-License-Identifier: Apache-2.0
// The axes that a collective names: of the mesh of per-device code, or of a vmap.
#include "src/frontend/per_device/bound_axes.h"

#include <set>

#include "src/base/contains.h"
#include "src/ir/channels.h"

namespace tessera {

std::string AxisNames::to_string() const {
  std::string out;
  for (const std::string& n : names_) out += (out.empty() ? "'" : ", '") + n + "'";
  return names_.size() == 1 ? out : "(" + out + ")";
}

}  // namespace tessera

namespace tessera::frontend {

namespace {

std::string quoted(const std::vector<std::string>& names) {
  std::string out;
  std::set<std::string> listed;
  for (const std::string& n : names) {
    if (listed.insert(n).second) out += (out.empty() ? "'" : ", '") + n + "'";
  }
  return out;
}

[[noreturn]] void not_bound(const std::string& op, const AxisNames& names, const std::string& name,
                            const ManualScope& scope, Location location) {
  std::vector<std::string> all;
  for (const MeshAxis& a : scope.mesh->axes) all.push_back(a.name);
  if (!contains(all, name)) {
    throw ValueError(op + " over " + names.to_string() + ": the mesh has no axis '" + name +
                         "'; it has " + quoted(all),
                     location);
  }
  throw ValueError(op + " over " + names.to_string() + ": '" + name +
                       "' is an axis of the mesh and not bound here, where the code is per device "
                       "over " +
                       quoted(scope.axes) + " alone; list it in shard_map's axis_names",
                   location);
}

void check_groups(const std::string& op, const AxisNames& names, const AxisIndexGroups& groups,
                  std::int64_t size, Location location) {
  auto fail = [&](const std::string& why) {
    throw ValueError(op + " over " + names.to_string() + ": axis_index_groups " + why, location);
  };
  std::set<std::int64_t> seen;
  for (const auto& group : groups) {
    if (group.size() != groups[0].size()) {
      fail("must be of one size, got " + std::to_string(groups[0].size()) + " and " +
           std::to_string(group.size()) + " positions");
    }
    for (std::int64_t i : group) {
      if (i < 0 || i >= size) {
        fail("names position " + std::to_string(i) + ", outside of 0 to " +
             std::to_string(size - 1));
      }
      if (!seen.insert(i).second) fail("names position " + std::to_string(i) + " twice");
    }
  }
  if (std::int64_t(seen.size()) != size) {
    fail("must cover all indices exactly once: " + std::to_string(seen.size()) + " of the " +
         std::to_string(size) + " positions are named");
  }
}

const ir::BatchAxis* batch_axis(const std::string& name) {
  const Trace* trace = Trace::current();
  return trace ? trace->batch_axis(name) : nullptr;
}

BoundAxes over_batch(const std::string& op, const ir::BatchAxis& axis, Location location,
                     const AxisIndexGroups& groups) {
  if (!groups.empty()) {
    throw NotImplementedError(
        op + " over '" + axis.name +
            "', the batch of a vmap: axis_index_groups are for axes of a mesh",
        location);
  }
  BoundAxes out;
  out.size = axis.size;
  out.groups.batch = axis;
  return out;
}

void check_once(const std::string& op, const AxisNames& names, const std::string& name, bool first,
                Location location) {
  if (first) return;
  throw ValueError(op + " over " + names.to_string() + ": '" + name + "' stands twice", location);
}

}  // namespace

std::vector<AxisNames> one_by_one(const std::string& op, const AxisNames& names,
                                  Location location) {
  std::vector<AxisNames> out;
  std::set<std::string> seen;
  bool batch = false;
  for (const std::string& name : names.list()) {
    check_once(op, names, name, seen.insert(name).second, location);
    batch = batch || batch_axis(name) != nullptr;
    out.emplace_back(name);
  }
  if (out.size() < 2 || !batch) out.clear();
  return out;
}

BoundAxes bound_axes(const std::string& op, const AxisNames& names, Location location,
                     const AxisIndexGroups& groups) {
  const Trace* trace = Trace::current();
  const ManualScope* scope = trace ? trace->manual_scope() : nullptr;
  if (names.list().empty()) {
    throw ValueError(op + " over no axes: name one of the mesh's axes, or several", location);
  }
  for (const std::string& name : names.list()) {
    const ir::BatchAxis* axis = batch_axis(name);
    if (axis == nullptr) continue;
    if (names.list().size() == 1) return over_batch(op, *axis, location, groups);
    throw NotImplementedError(op + " over " + names.to_string() + ", of which '" + name +
                                  "' is the batch of a vmap; valid: one axis",
                              location);
  }
  if (!scope) {
    const std::string bound = trace ? trace->batch_axes_text() : "";
    throw ValueError(op + " over " + names.to_string() + ": no mesh axes are bound here" +
                         (bound.empty() ? "" : ", and vmaps name " + bound) +
                         "; collectives by name are for functions that run per device, as under "
                         "shard_map and in custom_partitioning's partition callback, and over the "
                         "axis_name of a vmap",
                     location);
  }
  BoundAxes out;
  out.mesh = scope->mesh;
  for (const std::string& name : names.list()) {
    check_once(op, names, name, out.names.insert(name).second, location);
    if (!scope->binds(name)) not_bound(op, names, name, *scope, location);
    for (std::size_t i = 0; i < out.mesh->axes.size(); ++i) {
      if (out.mesh->axes[i].name != name) continue;
      out.axes.push_back(int(i));
      out.size *= out.mesh->axes[i].size;
    }
  }
  out.groups = ir::DeviceGroups::over(out.mesh, out.axes);
  if (groups.empty()) return out;
  check_groups(op, names, groups, out.size, location);
  ir::DeviceGroups cut;
  for (const auto& whole : out.groups.expand(out.mesh->num_devices())) {
    for (const auto& group : groups) {
      cut.lists.emplace_back();
      for (std::int64_t i : group) cut.lists.back().push_back(whole[std::size_t(i)]);
    }
  }
  out.groups = std::move(cut);
  out.size = std::int64_t(groups[0].size());
  return out;
}

ir::CollectiveAttrs attributes(const BoundAxes& axes, Dims dims) {
  ir::CollectiveAttrs attrs;
  attrs.groups = axes.groups;
  attrs.dims = std::move(dims);
  if (attrs.groups.batch) return attrs;
  attrs.channel_id = ir::next_channel_id(Trace::current()->module());
  attrs.use_global_device_ids = true;
  return attrs;
}

}  // namespace tessera::frontend
