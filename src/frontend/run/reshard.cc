// SPDX-License-Identifier: Apache-2.0
// Types of arrays with their shardings, and reshard, which changes those.
#include <algorithm>

#include <tessera/sharding/explicit_sharding.h>

#include "src/base/at_location.h"
#include "src/base/contains.h"
#include "src/frontend/arrays/array_impl.h"
#include "src/frontend/run/explicit_specs.h"
#include "src/frontend/run/sharding_prefix.h"
#include "src/frontend/trace/explicit_values.h"

namespace tessera {

using frontend::ShardingType;
using frontend::Trace;
using internal::impl_of;

ArrayType type_of(const Array& x, Location location) {
  const internal::ArrayImpl& impl = impl_of(x, location);
  const frontend::AbstractValue value = frontend::abstract_value(x);
  ArrayType out;
  out.shape = value.shape.dims;
  out.dtype = value.shape.dtype;
  out.weak_type = value.weak;
  out.varying.assign(value.varying.begin(), value.varying.end());
  ShardingType type = value.sharding;
  // What says nothing of its own is replicated on the mesh in scope.
  if (!type && !frontend::AutoAxes::active() && impl.kind == internal::ArrayImpl::Kind::tracer) {
    type = ShardingType::of(current_mesh(), PartitionSpec(), value.shape.dims.size());
  }
  if (type) out.sharding = NamedSharding(type.mesh, type.spec(), location);
  return out;
}

std::string ArrayType::to_string() const {
  ShardingType type;
  if (sharding.valid()) type = ShardingType::of(sharding, shape.size());
  return frontend::type_text(Shape(dtype, shape), type, varying);
}

namespace frontend {

void check_explicit(const Mesh& mesh, const PartitionSpec& spec, const std::string& who,
                    Location location) {
  const std::vector<std::string> valid = mesh.explicit_axes();
  std::string listed;
  for (const std::string& a : valid) listed += (listed.empty() ? "'" : ", '") + a + "'";
  const auto check = [&](const std::vector<std::string>& axes) {
    for (const std::string& a : axes) {
      if (!mesh.has_axis(a) || contains(valid, a)) continue;
      const auto at = std::find(mesh.axis_names().begin(), mesh.axis_names().end(), a);
      const AxisType type = mesh.axis_types()[std::size_t(at - mesh.axis_names().begin())];
      throw ShardingTypeError(who + ": " + spec.to_string() + " names '" + a + "', which is " +
                                  tessera::to_string(type) + " in " + mesh.to_string() +
                                  "; valid: " +
                                  (listed.empty() ? "a mesh with Explicit axes, as "
                                                    "make_mesh(sizes, names, {AxisType::Explicit, "
                                                    "...}); with_sharding_constraint is for Auto "
                                                    "axes"
                                                  : "its Explicit axes, " + listed),
                              location);
    }
  };
  for (const SpecEntry& e : spec) check(e.axes());
  check(spec.unreduced());
  check(spec.reduced());
}

ShardingType checked_type(const Mesh& mesh, const PartitionSpec& spec, const Shape& shape,
                          const std::string& who, Location location) {
  const Sharding sharding = named_sharding(mesh, spec, who, location);
  for (const SpecEntry& e : spec) {
    if (!e.is_unconstrained()) continue;
    throw ShardingTypeError(
        who + ": UNCONSTRAINED leaves a choice, which types don't have, got " + spec.to_string(),
        location);
  }
  check_explicit(mesh, spec, who, location);
  check_fits(sharding, shape, who, false, location);
  return ShardingType::of(mesh, spec, shape.dims.size());
}

namespace {

bool includes_all(const std::vector<std::string>& all, const std::vector<std::string>& some) {
  return std::includes(all.begin(), all.end(), some.begin(), some.end());
}

/// Parts are joined as what they are parts of. Those of a maximum or minimum are made by a
/// reduction: of any other value each device has the whole. `spec`: `to`, as the user wrote it.
void check_kinds(const Array& x, const ShardingType& to, const PartitionSpec& spec,
                 const std::string& who, Location location) {
  const ShardingType from = sharding_type_of(x);
  if (to.unreduced.empty()) return;
  const std::string is = who + " is " + type_text(impl_of(x).shape, from);
  if (!from.unreduced.empty() && from.kind != to.kind) {
    throw ShardingTypeError(is + ", " + partial_text(from.kind) + ", and " + spec.to_string() +
                                " is of " + partial_text(to.kind) +
                                "; valid: the same kind, or first reshard() to a spec without "
                                "unreduced axes, which " +
                                joins_text(from.kind) + " the parts",
                            location);
  }
  if (!to.is_extremum() || includes_all(from.unreduced, to.unreduced)) return;
  const std::string op = to_string(to.kind), target = spec.to_string();
  throw ShardingTypeError(is + ", and " + target +
                              " is unreduced over more axes; valid: some of those over which the "
                              "array is unreduced; a result of " +
                              op + "(x, axes, " + target +
                              "); or device_put, which gives all devices the value",
                          location);
}

/// The target of one array: a spec is on the array's mesh, or that in scope.
ShardingType resharded_type(const ShardingTree& leaf, const Array& x, const std::string& who,
                            Location location) {
  const auto checked_target = [&](const Mesh& mesh, const PartitionSpec& spec) {
    ShardingType out = checked_type(mesh, spec, impl_of(x).shape, who, location);
    check_kinds(x, out, spec, who, location);
    return out;
  };
  if (leaf.kind() == ShardingTree::Kind::sharding) {
    if (!leaf.sharding().valid() || !NamedSharding::is(leaf.sharding())) {
      throw TypeError(who + ": a spec or a NamedSharding is needed, got " + leaf.to_string(),
                      location);
    }
    const NamedSharding named(leaf.sharding());
    return checked_target(named.mesh(), named.spec());
  }
  if (leaf.kind() != ShardingTree::Kind::spec) {
    throw ValueError(
        who + ": a spec or a NamedSharding is needed, got " + leaf.to_string() + "; P() replicates",
        location);
  }
  Mesh mesh = sharding_type_of(x).mesh;
  if (mesh.empty()) mesh = current_mesh();
  if (mesh.empty()) {
    throw RuntimeError(
        who + " got " + leaf.spec().to_string() +
            ", and neither has the array a mesh, nor is one in scope: put `MeshScope "
            "scope(mesh);` before, or give NamedSharding(mesh, spec)",
        location);
  }
  return checked_target(mesh, leaf.spec());
}

Array resharded(const Array& x, const ShardingType& type, Location location) {
  Trace& trace = *Trace::current();
  // A partial sum over some axes becomes one over others by way of the sum.
  const ShardingType from = sharding_type_of(x);
  if (from && !from.unreduced.empty() && !includes_all(from.unreduced, type.unreduced)) {
    const ShardingType summed = type.whole();
    const Array sum = resharded(x, summed, location);
    // A wall, so that the two aren't taken for one.
    ir::Instruction* whole =
        trace.builder().unary(ir::Opcode::opt_barrier, trace.lift(sum, location));
    trace.set_sharding_type(whole, summed);
    return resharded(trace.wrap(whole, x.weak_type()), type, location);
  }
  const MetadataScope metadata(trace, location, "reshard");
  ir::Instruction* value = trace.lift(x, location);
  const ShardingType before = sharding_type_of(x);
  if (before == type) return x;
  ir::ShardingConstraintAttrs attrs;
  // Propagation tells the operand nothing of it: it has a type of its own.
  attrs.kind = before ? ir::ShardingConstraintAttrs::Kind::reshard
                      : ir::ShardingConstraintAttrs::Kind::value;
  attrs.reduced = type.reduced;
  ir::Instruction* moved = trace.builder().emit_shaped(ir::Opcode::sharding_constraint,
                                                       value->shape, {value}, std::move(attrs));
  moved->sharding = {type.constraint()};
  trace.set_sharding_type(moved, type);
  const Mesh& mesh = trace.context().shape() == type.mesh.shape() ? trace.context() : type.mesh;
  trace.mesh_uses().push_back({NamedSharding(mesh, type.spec(), location), location});
  const Array out = trace.wrap(moved, x.weak_type());
  set_varying(out, varying_of(x));
  return out;
}

}  // namespace
}  // namespace frontend

namespace internal {

std::vector<Array> reshard_leaves(const std::vector<Array>& leaves,
                                  const std::function<void(TreeVisitor&)>& walk,
                                  const ShardingTree& target, Location location) {
  const auto targets = frontend::broadcast_prefix(target, walk, "reshard's out_sharding", location);
  const std::vector<std::string> paths = leaf_paths(walk);
  std::vector<ShardingType> types;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    types.push_back(
        frontend::resharded_type(targets[i], leaves[i], "reshard's argument" + paths[i], location));
  }
  return frontend::as_one_program("reshard", location, [&] {
    std::vector<Array> out;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      out.push_back(frontend::resharded(leaves[i], types[i], location));
    }
    return out;
  });
}

}  // namespace internal

}  // namespace tessera
