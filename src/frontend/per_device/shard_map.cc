// SPDX-License-Identifier: Apache-2.0
// shard_map: traces the per-device function and stages it as a manual computation.
#include <tessera/shard_map.h>

#include <algorithm>
#include <set>

#include "src/base/at_location.h"
#include "src/base/contains.h"
#include "src/frontend/arrays/array_impl.h"
#include "src/frontend/per_device/shard_map_specs.h"
#include "src/frontend/run/sharding_prefix.h"
#include "src/frontend/trace/explicit_values.h"
#include "src/frontend/trace/nesting.h"
#include "src/sharding/api/lowering.h"
#include "src/sharding/api/manual_mesh_scope.h"

namespace tessera {

namespace internal {

using frontend::ManualMesh;
using frontend::ManualScope;
using frontend::SpecUse;
using frontend::Trace;
using frontend::VaryingAxes;

struct ShardMapCore::State {
  ShardMapOptions options;
  Location location;
  std::string name;
  std::string who;  ///< "shard_map of 'f'"

  ManualMesh manual_mesh(const ManualScope* around, Location where) const;
  std::vector<Array> stage(Trace& outer, const CallInfo& info, Prototype* prototype,
                           Location where) const;
  std::vector<std::string> argument_names(const CallInfo& info) const;
  /// One per array; in explicit mode those of the arguments' types, unless given.
  std::vector<ShardingTree> argument_specs(const CallInfo& info, const ManualMesh& manual,
                                           Location where) const;
};

namespace {

void check_axis_names(const std::vector<std::string>& names, const Mesh& mesh, Location location) {
  std::set<std::string> seen;
  for (const std::string& axis : names) {
    if (!mesh.has_axis(axis)) {
      throw ValueError("shard_map requires axis_names to be a subset of the mesh's axes: '" + axis +
                           "' of " + frontend::quoted_axes(names) + " is not among " +
                           frontend::quoted_axes(mesh.axis_names()) + ", those of " +
                           mesh.to_string(),
                       location);
    }
    if (!seen.insert(axis).second) {
      throw ValueError("shard_map: axis_names holds '" + axis + "' twice", location);
    }
  }
}

}  // namespace

std::vector<std::string> other_axes(const Mesh& mesh, const std::vector<std::string>& axes,
                                    Location location) {
  for (const std::string& axis : axes) {
    if (mesh.has_axis(axis)) continue;
    throw ShardingError(
        "shard_map: auto_axes holds '" + axis + "', which is no axis of " + mesh.to_string(),
        location);
  }
  std::vector<std::string> out;
  for (const std::string& axis : mesh.axis_names()) {
    if (!contains(axes, axis)) out.push_back(axis);
  }
  if (out.empty() && !mesh.empty()) {
    throw ShardingError("shard_map: auto_axes holds all axes of " + mesh.to_string() +
                            "; none is left to be per device",
                        location);
  }
  return out;
}

ShardMapCore::ShardMapCore(ShardMapOptions options, Location location) {
  auto state = std::make_shared<State>();
  if (options.mesh) {
    if (options.mesh->empty()) {
      throw ValueError("shard_map requires a non-empty mesh, got " + options.mesh->to_string(),
                       location);
    }
    check_axis_names(options.axis_names, *options.mesh, location);
  }
  // On a mesh with Explicit axes they may be left out.
  if (!options.in_specs.is_unspecified() ||
      (options.mesh && options.mesh->explicit_axes().empty())) {
    frontend::check_spec_leaves(options.in_specs, "in_specs", true, location);
  }
  frontend::check_spec_leaves(options.out_specs, "out_specs", false, location);
  state->name = options.name.empty() ? "shard_map" : options.name;
  state->who = "shard_map" + (options.name.empty() ? "" : " of '" + options.name + "'");
  state->options = std::move(options);
  state->location = location;
  state_ = std::move(state);
}

ManualMesh ShardMapCore::State::manual_mesh(const ManualScope* around, Location where) const {
  ManualMesh out;
  const Mesh context = current_mesh();
  if (around && around->user_mesh.empty()) {
    throw ValueError(who +
                         " within a per-device function of custom_partitioning: all axes of the "
                         "mesh are manual there already",
                     where);
  }
  const Mesh enclosing = around ? around->user_mesh : context;
  if (options.mesh) {
    // Within another shard_map the mesh in scope has that one's axes marked as manual.
    const bool fits = context.empty() || (around ? *options.mesh == context
                                                 : options.mesh->shape() == context.shape());
    if (!fits) {
      throw ValueError(
          who + ": the mesh in scope, " + context.to_string() +
              ", should match the mesh passed to shard_map, " + options.mesh->to_string() +
              (around ? "; leave mesh out: within another shard_map its mesh is taken" : ""),
          where);
    }
    out.mesh = around ? enclosing : *options.mesh;
  } else if (enclosing.empty()) {
    throw ValueError(who +
                         ": no mesh was given, and none is in scope: give .mesh, or put `MeshScope "
                         "scope(mesh);` before the call",
                     where);
  } else {
    if (around && !context.empty() && context.shape() != enclosing.shape()) {
      throw ValueError(who + ": the mesh in scope, " + context.to_string() +
                           ", differs from that of the shard_map around it, " +
                           enclosing.to_string(),
                       where);
    }
    out.mesh = enclosing;
  }
  check_axis_names(options.axis_names, out.mesh, location);
  auto named = [&](const std::string& axis) {
    const auto& names = options.axis_names;
    return names.empty() || contains(names, axis);
  };
  for (const std::string& axis : out.mesh.axis_names()) {
    const bool bound = around && around->binds(axis);
    if (bound && !options.axis_names.empty() && named(axis)) {
      throw ValueError(who + ": axis_names holds '" + axis +
                           "', which is manual already in the shard_map around it, over " +
                           frontend::quoted_axes(around->axes),
                       where);
    }
    if (!bound && named(axis)) out.fresh.push_back(axis);
    if (bound || named(axis)) out.all.push_back(axis);
  }
  if (out.fresh.empty()) {
    throw ValueError(who + ": the shard_map around it is manual over all axes of " +
                         out.mesh.to_string() + "; none is left",
                     where);
  }
  frontend::check_spec_axes(options.in_specs, "in_specs", out, location);
  frontend::check_spec_axes(options.out_specs, "out_specs", out, location);
  return out;
}

std::vector<ShardingTree> ShardMapCore::State::argument_specs(const CallInfo& info,
                                                              const ManualMesh& manual,
                                                              Location where) const {
  if (!options.in_specs.is_unspecified() || manual.mesh.explicit_axes().empty()) {
    frontend::check_spec_leaves(options.in_specs, "in_specs", true, location);
    return frontend::broadcast_prefix(options.in_specs, info.walk_args, "in_specs", where);
  }
  std::vector<ShardingTree> out;
  for (const Array& leaf : info.leaves) {
    out.emplace_back(frontend::spec_of_type(frontend::sharding_type_of(leaf), manual));
  }
  return out;
}

std::vector<std::string> ShardMapCore::State::argument_names(const CallInfo& info) const {
  const std::vector<std::string> paths = info.paths();
  std::vector<std::string> out;
  std::size_t leaf = 0;
  for (const auto& [position, count] : info.arg_ranges) {
    const auto p = std::size_t(position);
    const std::string name = p < options.arg_names.size() ? options.arg_names[p]
                                                          : "argument " + std::to_string(position);
    for (int i = 0; i < count; ++i, ++leaf) {
      out.push_back(name + paths[leaf].substr(paths[leaf].find(']') + 1));
    }
  }
  return out;
}

namespace {

ir::ManualComputationAttrs attributes_of(const ManualMesh& manual, std::vector<TensorSharding> in,
                                         std::vector<TensorSharding> out) {
  ir::ManualComputationAttrs attrs;
  attrs.in_shardings = std::move(in);
  attrs.out_shardings = std::move(out);
  attrs.mesh = to_logical_mesh(manual.mesh);
  for (std::size_t a = 0; a < attrs.mesh->axes.size(); ++a) {
    if (contains(manual.fresh, attrs.mesh->axes[a].name)) attrs.manual_axes.push_back(int(a));
  }
  return attrs;
}

/// The results of a body as they are outside of it.
struct Joined {
  std::vector<Shape> shapes;
  std::vector<bool> weak;
  std::vector<VaryingAxes> varying;
  std::vector<frontend::ShardingType> types;
  std::vector<TensorSharding> shardings;
};

Joined joined_results(const std::vector<Array>& results, const std::vector<SpecUse>& uses,
                      const ManualMesh& manual, Location where) {
  Joined out;
  for (const Array& r : results) out.weak.push_back(impl_of(r, where).weak);
  for (const SpecUse& use : uses) {
    out.shapes.emplace_back(use.shape.dtype,
                            frontend::joined_by(use.spec, use.shape.dims, manual.mesh));
    out.shardings.push_back(frontend::boundary(use.spec, manual, use.shape.rank()));
    const VaryingAxes fresh(manual.fresh.begin(), manual.fresh.end());
    out.varying.push_back(frontend::without(use.varying, fresh));
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    out.types.push_back(frontend::joined_type(frontend::sharding_type_of(results[i]), uses[i].spec,
                                              manual, out.shapes[i]));
  }
  return out;
}

}  // namespace

std::vector<Array> ShardMapCore::State::stage(Trace& outer, const CallInfo& info,
                                              Prototype* prototype, Location where) const {
  const ManualScope* around = outer.manual_scope();
  const ManualMesh manual = manual_mesh(around, where);
  const auto specs = argument_specs(info, manual, where);
  const std::vector<std::string> names = argument_names(info);
  std::vector<SpecUse> uses;
  std::vector<Array> operands;
  std::vector<TensorSharding> in;
  for (std::size_t i = 0; i < info.leaves.size(); ++i) {
    const ArrayImpl& impl = impl_of(info.leaves[i], where);
    if (specs[i].kind() == ShardingTree::Kind::none) continue;
    operands.push_back(info.leaves[i]);
    uses.push_back({names[i], impl.shape, specs[i].spec(), {}});
  }
  frontend::check_arguments(who, uses, manual, where);

  const frontend::Nested nested(name, where);
  Trace inner(name, &outer);
  ManualScope scope;
  scope.mesh = to_logical_mesh(manual.mesh);
  scope.axes = manual.all;
  scope.user_mesh = manual.mesh;
  scope.check_vma = options.check_vma;
  inner.bind_manual(std::move(scope));
  std::vector<Array> arguments = info.leaves;
  for (std::size_t i = 0, k = 0; i < arguments.size(); ++i) {
    if (specs[i].kind() == ShardingTree::Kind::none) continue;
    const PartitionSpec& spec = uses[k++].spec;
    frontend::AbstractValue value = frontend::abstract_value(arguments[i]);
    frontend::leave_to_devices(&value.sharding, spec, manual, uses[k - 1], where);
    value.shape = Shape(value.shape.dtype, frontend::cut_by(spec, value.shape.dims, manual.mesh));
    for (const std::string& axis : frontend::axes_of(spec)) value.varying.insert(axis);
    arguments[i] = inner.add_parameter(value);
    in.push_back(frontend::boundary(spec, manual, value.shape.rank()));
  }

  Joined joined;
  ir::Computation* body = nullptr;
  {
    const frontend::ActiveTrace active(&inner);
    const ManualMeshScope in_scope(manual.marked());
    const std::vector<Array> results = info.trace(arguments, prototype);
    const auto walk = [&](TreeVisitor& v) { info.walk_result(*prototype, v); };
    const auto out_specs = frontend::broadcast_prefix(options.out_specs, walk, "out_specs", where);
    const auto paths = leaf_paths(walk);
    uses.clear();
    for (std::size_t i = 0; i < results.size(); ++i) {
      const ArrayImpl& impl = impl_of(results[i], where);
      uses.push_back(
          {"result" + paths[i], impl.shape, out_specs[i].spec(), frontend::varying_of(results[i])});
    }
    frontend::check_results(who, uses, manual, options.check_vma, where);
    joined = joined_results(results, uses, manual, where);
    body = inner.finish(results, where);
  }
  // What it captures is whole on every device.
  for (const Array& captured : inner.captures()) {
    operands.push_back(captured);
    in.push_back(frontend::boundary({}, manual, impl_of(captured).shape.rank()));
  }
  outer.mesh_uses().push_back({NamedSharding(manual.mesh, PartitionSpec()), where});

  const ir::ManualComputationAttrs attrs =
      attributes_of(manual, std::move(in), std::move(joined.shardings));
  const Shape shape = Shape::tuple(joined.shapes);
  std::vector<Array> results =
      frontend::apply_many(ir::Opcode::manual_computation, operands, attrs, where, name, &shape,
                           [&](ir::Module*) { return std::vector<ir::Computation*>{body}; });
  for (std::size_t i = 0; i < results.size(); ++i) {
    impl_of(results[i]).weak = joined.weak[i];
    frontend::set_varying(results[i], joined.varying[i]);
    results[i] = frontend::with_sharding_type(results[i], joined.types[i], where);
  }
  return results;
}

std::vector<Array> ShardMapCore::call(const CallInfo& info, Prototype* prototype,
                                      Location where) const {
  if (!where.known()) where = state_->location;
  return frontend::as_one_program(state_->name, where, [&] {
    return state_->stage(*Trace::current(), info, prototype, where);
  });
}

ShardMapOptions to_shard_map(const SmapOptions& options, Location location) {
  if (options.axis_name.empty()) throw TypeError("smap: axis_name must be given", location);
  if (!options.out_axes.given()) throw TypeError("smap: out_axes must be given", location);
  ShardMapOptions out;
  if (!options.in_axes.given()) {
    throw TypeError("smap: in_axes must be given: a dim, nullptr, or axes_tree(...)", location);
  }
  out.in_specs = options.in_axes.specs(options.axis_name, "smap in_axes", location);
  out.out_specs = options.out_axes.specs(options.axis_name, "smap out_axes", location);
  out.axis_names = {options.axis_name};
  out.name = options.name;
  return out;
}

}  // namespace internal

}  // namespace tessera
