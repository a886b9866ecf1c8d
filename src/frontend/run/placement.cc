// SPDX-License-Identifier: Apache-2.0
// device_put and sharding constraints.
#include <tessera/placement.h>

#include <algorithm>
#include <map>
#include <set>

#include "src/base/at_location.h"
#include "src/base/contains.h"
#include "src/base/processes/processes.h"
#include "src/compiler/engine.h"
#include "src/frontend/arrays/array_impl.h"
#include "src/frontend/run/execute.h"
#include "src/frontend/run/sharding_prefix.h"
#include "src/frontend/run/shardings.h"
#include "src/frontend/trace/explicit_values.h"
#include "src/ir/hooks.h"
#include "src/sharding/api/lowering.h"
#include "src/sharding/api/sharding_impl.h"

namespace tessera {

using internal::ArrayImpl;
using internal::impl_of;

namespace internal {

namespace {

bool names_host_memory(const ShardingTree& target) {
  if (target.kind() == ShardingTree::Kind::sharding) {
    return target.sharding().valid() && is_host(memory_of(target.sharding()));
  }
  const auto& children = target.children();
  return std::any_of(children.begin(), children.end(), names_host_memory);
}

/// Within a traced function: arrays move between memories, and do nothing else.
std::vector<Array> put_inside(const frontend::Trace& trace, const std::vector<Array>& leaves,
                              const std::function<void(TreeVisitor&)>& walk,
                              const ShardingTree& target, Location location) {
  if (!trace.uses_host_memory() && !names_host_memory(target)) return leaves;
  const auto targets = frontend::broadcast_formats(target, walk, "device_put's target", location);
  const std::vector<std::string> paths = leaf_paths(walk);
  std::vector<Array> out = leaves;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const std::string who = "device_put's argument" + paths[i];
    const auto sharding = frontend::resolve_leaf(targets[i], who, true, false, location);
    if (sharding) out[i] = frontend::placed_as(leaves[i], *sharding, who, location);
  }
  return out;
}

void check_donation(const std::vector<Array>& leaves, const DevicePutOptions& options,
                    Location location) {
  const std::size_t flags = options.donate_leaves.size();
  if (flags == 0 || flags == leaves.size()) return;
  throw ValueError("device_put: donate_leaves has " + std::to_string(flags) +
                       (flags == 1 ? " entry" : " entries") + ", and the tree has " +
                       std::to_string(leaves.size()) + " arrays",
                   location);
}

void give_away(const std::vector<Array>& leaves, const DevicePutOptions& options,
               Location location) {
  std::vector<ArrayImpl*> given_away;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const bool donates = options.donate_leaves.empty() ? options.donate : options.donate_leaves[i];
    ArrayImpl& impl = impl_of(leaves[i]);
    if (donates && impl.kind == ArrayImpl::Kind::device) given_away.push_back(&impl);
  }
  if (!given_away.empty()) donate(given_away, "donated to device_put", location);
}

}  // namespace

std::vector<Array> transfer_leaves(const std::vector<Array>& leaves,
                                   const std::function<void(TreeVisitor&)>& walk,
                                   const std::string& kind, const DevicePutOptions& options,
                                   Location location) {
  check_donation(leaves, options, location);
  if (frontend::Trace::current()) {
    const auto memory = memory_kind_named(kind);
    if (!memory) check_memory_kind(kind, {default_device()}, location);
    std::vector<Array> out;
    for (const Array& leaf : leaves) {
      out.push_back(frontend::transferred(leaf, *memory, location));
    }
    return out;
  }
  const std::vector<std::string> paths = leaf_paths(walk);
  std::vector<Array> out;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const ArrayImpl& impl = impl_of(leaves[i], location);
    const Sharding sharding = impl.kind == ArrayImpl::Kind::device
                                  ? impl.sharding.with_memory_kind(kind, location)
                                  : SingleDeviceSharding(default_device(), kind, location);
    frontend::check_devices_exist(sharding, "device_put's argument" + paths[i], location);
    auto buffers =
        at_location(location, [&] { return frontend::buffers_as(leaves[i], sharding, location); });
    out.push_back(make_device_array(impl.shape, sharding, std::move(buffers), true, impl.weak));
  }
  give_away(leaves, options, location);
  return out;
}

std::vector<Array> device_put_leaves(const std::vector<Array>& leaves,
                                     const std::function<void(TreeVisitor&)>& walk,
                                     const ShardingTree& target, const DevicePutOptions& options,
                                     Location location) {
  check_donation(leaves, options, location);
  if (const frontend::Trace* trace = frontend::Trace::current()) {
    if (trace->manual_scope() && !target.is_unspecified() &&
        target.kind() != ShardingTree::Kind::none) {
      throw ValueError("device_put to " + target.to_string() +
                           " within per-device code, where each device has its own value; without "
                           "a target it does nothing, and TransferToMemoryKind is valid",
                       location);
    }
    return put_inside(*trace, leaves, walk, target, location);
  }
  const auto targets = frontend::broadcast_formats(target, walk, "device_put's target", location);
  const std::vector<std::string> paths = leaf_paths(walk);
  std::vector<std::optional<Sharding>> shardings(leaves.size());
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const std::string who = "device_put's argument" + paths[i];
    shardings[i] = frontend::resolve_leaf(targets[i], who, true, false, location);
    if (!shardings[i]) shardings[i] = SingleDeviceSharding(default_device());
    frontend::check_devices_exist(*shardings[i], who, location);
    frontend::check_fits(*shardings[i], impl_of(leaves[i], location).shape, who, false, location);
    if (!targets[i].layout()) continue;
    if (targets[i].layout()->is_auto()) {
      throw ValueError(who +
                           ": Layout.AUTO is for programs, whose compiler chooses; valid: the "
                           "layout of a compiled program's input_formats(), or Layout({...})",
                       location);
    }
    frontend::check_layout_fits(targets[i], impl_of(leaves[i]).shape.rank(), who, location);
  }
  std::vector<Array> out;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const ArrayImpl& impl = impl_of(leaves[i], location);
    frontend::check_across_processes(leaves[i], *shardings[i], "device_put's argument" + paths[i],
                                     location);
    auto buffers = at_location(
        location, [&] { return frontend::buffers_as(leaves[i], *shardings[i], location); });
    out.push_back(
        make_device_array(impl.shape, *shardings[i], std::move(buffers), true, impl.weak));
    impl_of(out.back()).layout = targets[i].layout();
  }
  give_away(leaves, options, location);
  return out;
}

std::vector<Array> constrain_leaves(const std::vector<Array>& leaves,
                                    const std::function<void(TreeVisitor&)>& walk,
                                    const ShardingTree& target, Location location) {
  const auto targets =
      frontend::broadcast_prefix(target, walk, "with_sharding_constraint's sharding", location);
  const std::vector<std::string> paths = leaf_paths(walk);
  std::vector<Array> out;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const std::string who = "with_sharding_constraint's argument" + paths[i];
    const auto sharding = frontend::resolve_leaf(targets[i], who, true, true, location);
    if (!sharding) {
      throw ValueError(
          who + ": a sharding is needed, got " + targets[i].to_string() + "; P() replicates",
          location);
    }
    out.push_back(frontend::constrain(leaves[i], *sharding, who, location));
  }
  return out;
}

}  // namespace internal

namespace frontend {

namespace {
/// In per-device code, constraints refer to the axes that are still automatic; empty if there are
/// none.
std::optional<Sharding> automatic_part(const Sharding& sharding, const ManualScope& scope,
                                       const std::string& who, Location location) {
  const Mesh& mesh = scope.user_mesh;
  std::vector<std::string> automatic;
  for (const std::string& axis : mesh.axis_names()) {
    if (!scope.binds(axis)) automatic.push_back(axis);
  }
  std::string valid;
  for (const std::string& axis : automatic) valid += (valid.empty() ? "'" : ", '") + axis + "'";
  valid = automatic.empty() ? "no axis of the mesh is left automatic"
                            : "a spec of the automatic axes is valid: " + valid;
  if (!NamedSharding::is(sharding) || NamedSharding(sharding).mesh().shape() != mesh.shape()) {
    throw ShardingError(who + ": " + sharding.to_string() + " within a shard_map over " +
                            mesh.to_string() + ": " + valid,
                        location);
  }
  const PartitionSpec& spec = NamedSharding(sharding).spec();
  for (const SpecEntry& entry : spec) {
    for (const std::string& axis : entry.axes()) {
      if (!scope.binds(axis)) continue;
      throw ShardingError(who + ": " + spec.to_string() + " refers to '" + axis +
                              "', which is manual here: a device has its own part along it; " +
                              valid,
                          location);
    }
  }
  if (automatic.empty()) return std::nullopt;
  return NamedSharding(mesh, spec, location);
}
}  // namespace

namespace {

/// A constraint on a value with a sharding in its type. Where all axes are Explicit it states what
/// must be so, and true is returned; otherwise it may name Auto axes only.
bool asserts_type(const Sharding& sharding, const ShardingType& type, const Shape& shape,
                  const std::string& who, Location location) {
  if (!NamedSharding::is(sharding)) {
    throw ShardingError(who + " is " + type_text(shape, type) + ", and " + sharding.to_string() +
                            " is no NamedSharding; valid: reshard() to one",
                        location);
  }
  const PartitionSpec& spec = NamedSharding(sharding).spec();
  if (type.mesh.auto_axes().empty()) {
    bool same = spec.unreduced() == type.unreduced &&
                (type.unreduced.empty() || spec.unreduced_kind() == type.kind);
    for (std::size_t d = 0; d < type.dims.size(); ++d) {
      const SpecEntry entry = d < spec.size() ? spec[d] : SpecEntry();
      same = same && (entry.is_unconstrained() || entry.axes() == type.dims[d]);
    }
    if (same) return true;
    throw ShardingError(who + " is sharded as " + type.spec().to_string() + " in its type, " +
                            type_text(shape, type) + ", and the constraint says " +
                            spec.to_string() +
                            ": on a mesh whose axes are all Explicit a constraint states what is "
                            "so; valid: reshard(), which moves it",
                        location);
  }
  const std::vector<std::string> is_explicit = type.mesh.explicit_axes();
  const auto check = [&](const std::vector<std::string>& axes) {
    for (const std::string& a : axes) {
      if (!contains(is_explicit, a)) continue;
      throw ShardingError(who + ": " + spec.to_string() + " names '" + a +
                              "', which is Explicit in " + type.mesh.to_string() +
                              "; valid: Auto axes; reshard() for Explicit ones",
                          location);
    }
  };
  for (const SpecEntry& e : spec) check(e.axes());
  check(spec.unreduced());
  if (!type.unreduced.empty() && spec.unreduced_kind().value_or(type.kind) != type.kind) {
    throw ShardingError(who + " is " + type_text(shape, type) + ", " + partial_text(type.kind) +
                            ", and " + spec.to_string() + " would make it " +
                            partial_text(*spec.unreduced_kind()) +
                            " as well; valid: unreduced axes of one kind",
                        location);
  }
  return false;
}

/// The Explicit axes of the type, then the constraint's Auto axes.
Sharding with_type(const NamedSharding& sharding, const ShardingType& type) {
  std::vector<SpecEntry> entries;
  for (std::size_t d = 0; d < type.dims.size(); ++d) {
    const SpecEntry entry = d < sharding.spec().size() ? sharding.spec()[d] : SpecEntry();
    if (entry.is_unconstrained() && type.dims[d].empty()) {
      entries.push_back(entry);
      continue;
    }
    std::vector<std::string> axes = type.dims[d];
    axes.insert(axes.end(), entry.axes().begin(), entry.axes().end());
    entries.emplace_back(std::move(axes));
  }
  std::vector<std::string> parts = type.unreduced;
  parts.insert(parts.end(), sharding.spec().unreduced().begin(), sharding.spec().unreduced().end());
  PartitionSpec spec = PartitionSpec::from_entries(std::move(entries));
  const UnreducedKind kind = sharding.spec().unreduced_kind().value_or(type.kind);
  if (!parts.empty()) spec = spec.with_unreduced(std::move(parts), kind, Location{});
  return NamedSharding(sharding.mesh(), spec, Location{});
}

/// With the dims that are UNCONSTRAINED split as those of the array are, by axes that the others
/// leave.
Sharding settled(const NamedSharding& wanted, const ArrayImpl& impl) {
  std::vector<SpecEntry> entries(wanted.spec().begin(), wanted.spec().end());
  std::vector<std::string> taken = wanted.spec().unreduced();
  for (const SpecEntry& e : entries) {
    taken.insert(taken.end(), e.axes().begin(), e.axes().end());
  }
  const bool alike =
      NamedSharding::is(impl.sharding) && NamedSharding(impl.sharding).mesh() == wanted.mesh();
  for (std::size_t d = 0; d < entries.size(); ++d) {
    if (!entries[d].is_unconstrained()) continue;
    std::vector<std::string> axes;
    if (alike && d < NamedSharding(impl.sharding).spec().size()) {
      for (const std::string& a : NamedSharding(impl.sharding).spec()[d].axes()) {
        if (contains(taken, a)) break;  // what follows would be of another part
        axes.push_back(a);
      }
    }
    taken.insert(taken.end(), axes.begin(), axes.end());
    entries[d] = SpecEntry(std::move(axes));
  }
  PartitionSpec spec = PartitionSpec::from_entries(std::move(entries));
  if (const auto kind = wanted.spec().unreduced_kind()) {
    spec = spec.with_unreduced(wanted.spec().unreduced(), *kind, Location{});
  }
  return NamedSharding(wanted.mesh(), spec, Location{});
}

}  // namespace

Array transferred(const Array& x, MemoryKind to, Location location) {
  const MemoryKind from = memory_of(x);
  if (from == to) return x;
  const ArrayImpl& impl = impl_of(x, location);
  ir::DevicePlacementAttrs attrs;
  attrs.memory = to;
  attrs.source = from;
  const std::vector<Array> operands{x};
  return apply(ir::Opcode::device_placement, operands, attrs, location, "device_put", &impl.shape,
               nullptr, impl.weak);
}

Array placed_as(const Array& x, const Sharding& sharding, const std::string& who,
                Location location) {
  const MemoryKind from = memory_of(x), to = internal::memory_of(sharding);
  if (from == to) return x;
  const auto sharded = [&](const Array& a) {
    return NamedSharding::is(sharding)
               ? constrain(a, internal::in_memory(sharding, MemoryKind::device), who, location)
               : a;
  };
  // Devices exchange what is in their own memory.
  if (is_host(to)) return transferred(sharded(x), to, location);
  return sharded(transferred(x, to, location));
}

Array constrain(const Array& x, const Sharding& given, const std::string& who, Location location) {
  const ArrayImpl& impl = impl_of(x, location);
  Trace* trace = Trace::current();
  Sharding sharding = given;
  if (const ManualScope* scope = trace ? trace->manual_scope() : nullptr;
      scope && !scope->user_mesh.empty()) {
    const auto part = automatic_part(given, *scope, who, location);
    if (!part) return x;
    sharding = *part;
  }
  check_fits(sharding, impl.shape, who, trace != nullptr, location);
  const MemoryKind memory = memory_of(x);
  if (is_host(internal::memory_of(sharding)) && internal::memory_of(sharding) != memory) {
    throw ValueError(who + " is in " + name(memory) + ", and " + sharding.to_string() +
                         " is a sharding in " + sharding.memory_kind() +
                         "; a constraint moves nothing to another memory, device_put does",
                     location);
  }
  const ShardingType type = sharding_type_of(x);
  if (type && asserts_type(sharding, type, impl.shape, who, location)) return x;
  if (!trace) {
    if (NamedSharding::is(sharding)) {
      if (type) sharding = with_type(NamedSharding(sharding), type);
      const PartitionSpec& spec = NamedSharding(sharding).spec();
      if (std::any_of(spec.begin(), spec.end(),
                      [](const SpecEntry& e) { return e.is_unconstrained(); })) {
        sharding = settled(NamedSharding(sharding), impl);
      }
      check_fits(sharding, impl.shape.dims, who, /*allow_uneven=*/false, location);
    }
    sharding = internal::in_memory(sharding, memory);
    Program program;
    program.name = "with_sharding_constraint";
    program.location = location;
    Trace identity(program.name, static_cast<Trace*>(nullptr));
    {
      const ActiveTrace active(&identity);
      identity.finish(std::vector<Array>{identity.add_parameter(abstract_value(x))}, location);
    }
    program.module = identity.take_module();
    program.parameters = {{std::nullopt, who}};
    program.results = {{sharding, who}};
    program.result_weak = {impl.weak};
    program.donated = {false};
    const std::vector<Array> args{x};
    return run_program(bind_program(std::move(program), args), args, location)[0];
  }
  if (type) sharding = with_type(NamedSharding(sharding), type);
  const std::vector<Array> operands{x};
  Array result = apply(ir::Opcode::sharding_constraint, operands, ir::ShardingConstraintAttrs{},
                       location, "with_sharding_constraint", &impl.shape, nullptr, impl.weak);
  impl_of(result).instruction->sharding = {to_tensor_sharding(sharding, impl.shape.rank())};
  if (type) trace->set_sharding_type(impl_of(result).instruction, type);
  trace->mesh_uses().push_back({sharding, location});
  return result;
}

}  // namespace frontend

namespace internal {

Array on_mesh_in_scope(const Array& array, Location location, const std::string& who) {
  const ArrayImpl& impl = impl_of(array, location);
  if (!impl.spec) return array;
  const Mesh mesh = current_mesh();
  if (mesh.empty()) {
    throw TypeError("a shape_dtype_struct (" + impl.shape.to_string() + ") with the spec " +
                        impl.spec->to_string() +
                        " has a sharding only while a mesh is in scope: put `MeshScope "
                        "scope(mesh);` before, or give it a NamedSharding(mesh, spec)",
                    location);
  }
  return shape_dtype_struct(impl.shape.dims, impl.shape.dtype,
                            frontend::named_sharding(mesh, *impl.spec, who, location), location);
}

}  // namespace internal

Array copy(Operand x) {
  const ArrayImpl& impl = impl_of(x.array, x.location);
  if (frontend::Trace::current()) return x.array;
  if (impl.kind != ArrayImpl::Kind::device) {
    return frontend::from_literal(frontend::to_literal(x.array, x.location), impl.weak);
  }
  const auto parts = internal::shared_buffers(impl, x.location);
  auto buffers = compiler::engine_of(impl.sharding.impl().devices().front())
                     .copy(parts, internal::memory_of(impl.sharding));
  const Array out = internal::make_device_array(impl.shape, impl.sharding, std::move(buffers),
                                                impl.committed, impl.weak);
  impl_of(out).layout = impl.layout;
  return out;
}

Array shape_dtype_struct(const Array& like, Location location) {
  const ArrayImpl& impl = impl_of(like, location);
  const Array out = shape_dtype_struct(impl.shape.dims, impl.shape.dtype,
                                       impl.committed ? impl.sharding : Sharding(), location);
  impl_of(out).weak = impl.weak;
  impl_of(out).spec = impl.spec;
  return out;
}

Array shape_dtype_struct(const Array& like, const ShapeDtypeChanges& changes, Location location) {
  const Array old = shape_dtype_struct(like, location);
  const ArrayImpl& from = impl_of(old);
  const Array out = shape_dtype_struct(changes.shape.value_or(from.shape.dims),
                                       changes.dtype.value_or(from.shape.dtype),
                                       changes.sharding.value_or(from.sharding), location);
  impl_of(out).weak = from.weak && !changes.dtype;
  if (!changes.sharding) impl_of(out).spec = from.spec;
  return out;
}

Array shape_dtype_struct(std::vector<std::int64_t> shape, DType dtype, const PartitionSpec& spec,
                         Location location) {
  if (spec.size() > shape.size()) {
    throw ShardingError("a shape_dtype_struct of shape " + to_string(shape) + ": " +
                            spec.to_string() + " needs rank " + std::to_string(spec.size()) +
                            " or more",
                        location);
  }
  const Array out = shape_dtype_struct(std::move(shape), dtype, Sharding(), location);
  impl_of(out).spec = spec;
  return out;
}

}  // namespace tessera
