// SPDX-License-Identifier: Apache-2.0
// psum, all_gather, ppermute and the other collectives of per-device code.
#include <tessera/collectives.h>

#include <algorithm>
#include <complex>
#include <set>

#include <tessera/ops/elementwise.h>

#include "src/base/contains.h"
#include "src/base/literal_util.h"
#include "src/frontend/ops/internal.h"

namespace tessera {

using frontend::apply;
using frontend::Trace;
using internal::impl_of;
using ir::DeviceGroups;
using ir::Instruction;
using ir::Opcode;

std::string AxisNames::to_string() const {
  std::string out;
  for (const std::string& n : names_) out += (out.empty() ? "'" : ", '") + n + "'";
  return names_.size() == 1 ? out : "(" + out + ")";
}

namespace {

using frontend::ManualScope;
using frontend::varying_of;
using frontend::VaryingAxes;

/// The axes of a collective on the mesh that is bound.
struct BoundAxes {
  MeshRef mesh;
  VaryingAxes names;
  std::vector<int> axes;
  std::int64_t size = 1;  ///< of one group
  DeviceGroups groups;

  /// The value's type, with the axes.
  VaryingAxes with(const VaryingAxes& varying) const {
    VaryingAxes out = varying;
    out.insert(names.begin(), names.end());
    return out;
  }
};

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

BoundAxes bound_axes(const std::string& op, const AxisNames& names, Location location,
                     const AxisIndexGroups& groups = {}) {
  const Trace* trace = Trace::current();
  const ManualScope* scope = trace ? trace->manual_scope() : nullptr;
  if (names.list().empty()) {
    throw ValueError(op + " over no axes: name one of the mesh's axes, or several", location);
  }
  if (!scope) {
    throw ValueError(op + " over " + names.to_string() +
                         ": no mesh axes are bound here; collectives by name are for functions "
                         "that run per device, as under shard_map and in custom_partitioning's "
                         "partition callback",
                     location);
  }
  BoundAxes out;
  out.mesh = scope->mesh;
  for (const std::string& name : names.list()) {
    if (!out.names.insert(name).second) {
      throw ValueError(op + " over " + names.to_string() + ": '" + name + "' stands twice",
                       location);
    }
    if (!scope->binds(name)) not_bound(op, names, name, *scope, location);
    for (std::size_t i = 0; i < out.mesh->axes.size(); ++i) {
      if (out.mesh->axes[i].name != name) continue;
      out.axes.push_back(int(i));
      out.size *= out.mesh->axes[i].size;
    }
  }
  out.groups = DeviceGroups::over(out.mesh, out.axes);
  if (groups.empty()) return out;
  check_groups(op, names, groups, out.size, location);
  DeviceGroups cut;
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
  attrs.channel_id = ir::next_channel_id(Trace::current()->module());
  attrs.use_global_device_ids = true;
  return attrs;
}

Array cast_to_varying(const std::string& op, const Operand& x, const VaryingAxes& more) {
  const Array& value = x.array;
  const std::vector<Array> operands{value};
  ir::PvaryAttrs attrs;
  attrs.axes.assign(more.begin(), more.end());
  return apply(Opcode::pvary, operands, attrs, x.location, op, nullptr, nullptr, value.weak_type());
}

/// What a collective gives varies over `axes`, even where all devices happen to have equal values.
Array as_varying(const Array& x, const VaryingAxes& axes, Location location) {
  const VaryingAxes more = frontend::without(axes, varying_of(x));
  return more.empty() ? x : cast_to_varying("pvary", {x, location}, more);
}

/// A plain number, the same on all devices, summed: a plain number again. Empty if x is none.
Array sum_of_number(const Array& x, std::int64_t n) {
  const Literal* value = frontend::constant_value(x);
  if (!value || !x.weak_type()) return {};
  const auto& precise = impl_of(x).precise;
  if (precise) value = &*precise;
  if (is_complex(x.dtype())) return Array(to_scalar<std::complex<double>>(*value) * double(n));
  if (is_floating(x.dtype())) return Array(to_scalar<double>(*value) * double(n));
  return Array(to_scalar<std::int64_t>(*value) * n);
}

Array reduce_all(Opcode reducer, const Operand& x, const AxisNames& names, const std::string& op,
                 const CollectiveOptions& options) {
  const BoundAxes axes = bound_axes(op, names, x.location, options.axis_index_groups);
  Array value = x.array;
  (void)impl_of(value, x.location);
  if (reducer == Opcode::add) {
    if (Array number = sum_of_number(value, axes.size); number.valid()) return number;
  } else if (frontend::constant_value(value) && value.weak_type()) {
    return value;
  }
  if (value.dtype() == DType::pred && reducer == Opcode::add) {
    value = frontend::converted(value, s32, x.location);
  }
  const VaryingAxes varying = varying_of(value);
  const std::vector<Array> operands{value};
  const DType dtype = value.dtype();
  Array out =
      apply(Opcode::all_reduce, operands, attributes(axes, {}), x.location, op, nullptr,
            [&](ir::Module* m) {
              return std::vector<ir::Computation*>{ir::scalar_computation(m, reducer, dtype)};
            });
  return options.axis_index_groups.empty() ? out : as_varying(out, axes.with(varying), x.location);
}

std::int64_t checked_dim(const std::string& op, std::int64_t dim, const Array& x, Location l) {
  return frontend::normalize_axis(op, dim, x.ndim(), l);
}

Array moved(const Array& x, std::int64_t from, std::int64_t to, Location l) {
  if (from == to) return x;
  Dims perm;
  for (std::int64_t d = 0; d < x.ndim(); ++d) {
    if (d != from) perm.push_back(d);
  }
  perm.insert(perm.begin() + to, from);
  const std::vector<Array> operands{x};
  return apply(Opcode::transpose, operands, ir::DimensionsAttrs{perm}, l, "transpose");
}

}  // namespace

Array psum(Operand x, const AxisNames& axis, const CollectiveOptions& options) {
  return reduce_all(Opcode::add, x, axis, "psum", options);
}
Array pmax(Operand x, const AxisNames& axis, const CollectiveOptions& options) {
  return reduce_all(Opcode::maximum, x, axis, "pmax", options);
}
Array pmin(Operand x, const AxisNames& axis, const CollectiveOptions& options) {
  return reduce_all(Opcode::minimum, x, axis, "pmin", options);
}
Array pmean(Operand x, const AxisNames& axis, const CollectiveOptions& options) {
  const double n = double(bound_axes("pmean", axis, x.location, options.axis_index_groups).size);
  const Array total = reduce_all(Opcode::add, x, axis, "pmean", options);
  return divide({total, x.location},
                {frontend::constant(frontend::to_inexact(total.dtype()), n), x.location});
}

Array all_gather(Operand x, const AxisNames& axis_name, const AllGatherOptions& options) {
  const BoundAxes axes = bound_axes("all_gather", axis_name, x.location, options.axis_index_groups);
  const Location l = x.location;
  Array value = x.array;
  const std::int64_t rank = impl_of(value, l).shape.rank();
  const std::int64_t dim =
      frontend::normalize_axis("all_gather", options.axis, rank + (options.tiled ? 0 : 1), l);
  if (options.to != "varying" && options.to != "invarying") {
    throw ValueError("all_gather over " + axis_name.to_string() + ": to is '" + options.to +
                         "'; the result may be 'varying' or 'invarying'",
                     l);
  }
  if (options.to == "invarying" && !options.axis_index_groups.empty()) {
    throw ValueError("all_gather over " + axis_name.to_string() +
                         ": with axis_index_groups the result differs from group to group and "
                         "can't be 'invarying'",
                     l);
  }
  const VaryingAxes varying = varying_of(value);
  if (!options.tiled) {
    Dims dims = value.shape();
    dims.insert(dims.begin() + dim, 1);
    value = frontend::reshaped(value, dims, l);
  }
  Shape shape(value.dtype(), value.shape());
  shape.dims[std::size_t(dim)] *= axes.size;
  const std::vector<Array> operands{value};
  Array out = apply(Opcode::all_gather, operands, attributes(axes, {dim}), l, "all_gather", &shape);
  return options.to == "invarying" ? out : as_varying(out, axes.with(varying), l);
}

Array psum_scatter(Operand x, const AxisNames& axis_name, const ScatterOptions& options) {
  const BoundAxes axes =
      bound_axes("psum_scatter", axis_name, x.location, options.axis_index_groups);
  const Location l = x.location;
  const Array& value = x.array;
  (void)impl_of(value, l);
  const std::int64_t dim = checked_dim("psum_scatter", options.scatter_dimension, value, l);
  const std::int64_t n = value.shape()[std::size_t(dim)];
  if (options.tiled ? n % axes.size != 0 : n != axes.size) {
    throw ShapeError("psum_scatter over " + axis_name.to_string() + ": dim " + std::to_string(dim) +
                         " of " + value.type_string() + " must be " +
                         (options.tiled ? "a multiple of " : "") + std::to_string(axes.size),
                     l);
  }
  Shape shape(value.dtype(), value.shape());
  shape.dims[std::size_t(dim)] /= axes.size;
  const std::vector<Array> operands{value};
  Array out = apply(
      Opcode::reduce_scatter, operands, attributes(axes, {dim}), l, "psum_scatter", &shape,
      [&](ir::Module* m) {
        return std::vector<ir::Computation*>{ir::scalar_computation(m, Opcode::add, shape.dtype)};
      });
  out = as_varying(out, axes.with(varying_of(value)), l);
  if (!options.tiled) {
    shape.dims.erase(shape.dims.begin() + dim);
    out = frontend::reshaped(out, shape.dims, l);
  }
  return out;
}

Array all_to_all(Operand x, const AxisNames& axis_name, std::int64_t split_axis,
                 std::int64_t concat_axis, bool tiled, const AxisIndexGroups& axis_index_groups) {
  const BoundAxes axes = bound_axes("all_to_all", axis_name, x.location, axis_index_groups);
  const Location l = x.location;
  Array value = x.array;
  (void)impl_of(value, l);
  const std::int64_t split = checked_dim("all_to_all", split_axis, value, l);
  const std::int64_t concat = checked_dim("all_to_all", concat_axis, value, l);
  const std::int64_t n = value.shape()[std::size_t(split)];
  if (tiled ? n % axes.size != 0 : n != axes.size) {
    throw ShapeError("all_to_all over " + axis_name.to_string() + ": dim " + std::to_string(split) +
                         " of " + value.type_string() + " must be " +
                         (tiled ? "a multiple of " : "") + std::to_string(axes.size),
                     l);
  }
  // The parts go to a leading dim, are exchanged along it, and are joined at concat.
  Dims dims = value.shape();
  dims[std::size_t(split)] = n / axes.size;
  dims.insert(dims.begin() + split, axes.size);
  value = moved(frontend::reshaped(value, dims, l), split, 0, l);
  ir::CollectiveAttrs attrs = attributes(axes, {0});
  attrs.use_global_device_ids = false;  // its groups name partitions as they are
  const std::vector<Array> operands{value};
  Array out = apply(Opcode::all_to_all, operands, attrs, l, "all_to_all");
  out = as_varying(out, axes.with(varying_of(value)), l);
  if (!tiled) {
    // Dim `split` is of size 1 now; the parts stand at concat of what is left.
    Dims rest = out.shape();
    rest.erase(rest.begin() + 1 + split);
    out = frontend::reshaped(out, rest, l);
    return moved(out, 0, concat, l);
  }
  out = moved(out, 0, concat, l);
  Dims joined = out.shape();
  joined[std::size_t(concat) + 1] *= axes.size;
  joined.erase(joined.begin() + concat);
  return frontend::reshaped(out, joined, l);
}

Array pswapaxes(Operand x, const AxisNames& axis_name, std::int64_t axis,
                const AxisIndexGroups& axis_index_groups) {
  return all_to_all(x, axis_name, axis, axis, false, axis_index_groups);
}

Array ppermute(Operand x, const AxisNames& axis_name,
               const std::vector<std::pair<std::int64_t, std::int64_t>>& pairs) {
  const BoundAxes axes = bound_axes("ppermute", axis_name, x.location);
  std::set<std::int64_t> sources, targets;
  for (const auto& [from, to] : pairs) {
    if (from < 0 || to < 0 || from >= axes.size || to >= axes.size) {
      throw ValueError("ppermute over " + axis_name.to_string() + ": pair (" +
                           std::to_string(from) + ", " + std::to_string(to) +
                           ") is outside of 0 to " + std::to_string(axes.size - 1),
                       x.location);
    }
    if (!sources.insert(from).second || !targets.insert(to).second) {
      throw ValueError("ppermute over " + axis_name.to_string() +
                           ": sources and targets must be unique, (" + std::to_string(from) + ", " +
                           std::to_string(to) + ") repeats one",
                       x.location);
    }
  }
  ir::PermuteAttrs attrs;
  for (const std::vector<std::int64_t>& group : axes.groups.expand(axes.mesh->num_devices())) {
    for (const auto& [from, to] : pairs) {
      attrs.source_target_pairs.emplace_back(group[std::size_t(from)], group[std::size_t(to)]);
    }
  }
  std::sort(attrs.source_target_pairs.begin(), attrs.source_target_pairs.end());
  attrs.channel_id = ir::next_channel_id(Trace::current()->module());
  (void)impl_of(x.array, x.location);
  const std::vector<Array> operands{x.array};
  const Array out = apply(Opcode::collective_permute, operands, attrs, x.location, "ppermute");
  return as_varying(out, axes.with(varying_of(x.array)), x.location);
}

Array pshuffle(Operand x, const AxisNames& axis_name,
               const std::vector<std::int64_t>& permutation) {
  const BoundAxes axes = bound_axes("pshuffle", axis_name, x.location);
  const std::set<std::int64_t> seen(permutation.begin(), permutation.end());
  if (std::int64_t(permutation.size()) != axes.size || std::int64_t(seen.size()) != axes.size ||
      *seen.begin() != 0 || *seen.rbegin() != axes.size - 1) {
    throw ValueError("pshuffle over " + axis_name.to_string() + ": " +
                         tessera::to_string(Dims(permutation)) + " is no permutation of 0 to " +
                         std::to_string(axes.size - 1),
                     x.location);
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    pairs.emplace_back(permutation[i], std::int64_t(i));
  }
  return ppermute(x, axis_name, pairs);
}

Array pbroadcast(Operand x, const AxisNames& axis_name, std::int64_t source) {
  const BoundAxes axes = bound_axes("pbroadcast", axis_name, x.location);
  if (source < 0 || source >= axes.size) {
    throw ValueError("pbroadcast over " + axis_name.to_string() + ": source " +
                         std::to_string(source) + " is outside of 0 to " +
                         std::to_string(axes.size - 1),
                     x.location);
  }
  (void)impl_of(x.array, x.location);
  // Who sends comes first in its group.
  ir::CollectiveAttrs attrs = attributes(axes, {});
  attrs.use_global_device_ids = false;
  attrs.groups = {};
  for (std::vector<std::int64_t>& group : axes.groups.expand(axes.mesh->num_devices())) {
    std::rotate(group.begin(), group.begin() + source, group.begin() + source + 1);
    attrs.groups.lists.push_back(std::move(group));
  }
  const std::vector<Array> operands{x.array};
  return apply(Opcode::collective_broadcast, operands, attrs, x.location, "pbroadcast");
}

namespace {
/// From a table of all devices' positions: right for any order of devices.
Instruction* position_from_table(ir::Builder& b, const BoundAxes& axes, Instruction* id) {
  const std::int64_t n = axes.mesh->num_devices();
  Literal table(Shape(s32, {n}));
  for (const std::vector<std::int64_t>& group : axes.groups.expand(n)) {
    for (std::size_t i = 0; i < group.size(); ++i) {
      table.mutable_data<std::int32_t>()[std::size_t(group[i])] = std::int32_t(i);
    }
  }
  return b.reshape(b.dynamic_slice(b.constant(table), {id}, {1}), {});
}

/// From the device's number, where the devices stand in order.
Instruction* position_from_number(ir::Builder& b, const BoundAxes& axes, Instruction* id) {
  const Dims strides = axes.mesh->strides();
  Instruction* out = nullptr;
  for (int axis : axes.axes) {
    const std::int64_t stride = strides[std::size_t(axis)];
    const std::int64_t size = axes.mesh->axes[std::size_t(axis)].size;
    if (size == 1) continue;
    Instruction* at = id;
    if (stride > 1) at = b.binary(Opcode::divide, at, b.scalar(s32, double(stride)));
    if (stride * size < axes.mesh->num_devices()) {
      at = b.binary(Opcode::remainder, at, b.scalar(s32, double(size)));
    }
    if (out) out = b.binary(Opcode::multiply, out, b.scalar(s32, double(size)));
    out = out ? b.binary(Opcode::add, out, at) : at;
  }
  return out ? out : b.scalar(s32, 0);
}
}  // namespace

Array axis_index(const AxisNames& axis_name, Location location) {
  const BoundAxes axes = bound_axes("axis_index", axis_name, location);
  Trace& trace = *Trace::current();
  const frontend::MetadataScope metadata(trace, location, "axis_index");
  ir::Builder& b = trace.builder();
  Instruction* id = b.convert(b.partition_id(), s32);
  Instruction* at = axes.mesh->device_ids.empty() ? position_from_number(b, axes, id)
                                                  : position_from_table(b, axes, id);
  return as_varying(trace.wrap(at, false), axes.names, location);
}

std::int64_t axis_size(const AxisNames& axis_name, Location location) {
  return bound_axes("axis_size", axis_name, location).size;
}

Array pcast(Operand x, const AxisNames& axis_name, const PcastOptions& options) {
  const BoundAxes axes = bound_axes("pcast", axis_name, x.location);
  const std::string who = "pcast of " + x.array.type_string() + " over " + axis_name.to_string();
  if (options.to == "reduced" || options.to == "unreduced") {
    throw NotImplementedError(
        who + ": values whose type is '" + options.to + "' are not supported; to may be 'varying'",
        x.location);
  }
  if (options.to != "varying") {
    throw ValueError(who + ": to is '" + options.to + "', which is no type; to may be 'varying'" +
                         (options.to == "invarying"
                              ? " (psum, pmax, all_gather with to 'invarying' and others make "
                                "values that don't vary)"
                              : ""),
                     x.location);
  }
  const VaryingAxes have = varying_of(x.array);
  for (const std::string& name : axis_name.list()) {
    if (have.count(name)) {
      throw ValueError(who + ": the value varies over " + frontend::axes_text(have) + ", '" + name +
                           "' included, already",
                       x.location);
    }
  }
  return cast_to_varying("pcast", x, axes.names);
}

Array pvary(Operand x, const AxisNames& axis_name) {
  const BoundAxes axes = bound_axes("pvary", axis_name, x.location);
  (void)impl_of(x.array, x.location);
  const VaryingAxes more = frontend::without(axes.names, varying_of(x.array));
  return more.empty() ? x.array : cast_to_varying("pvary", x, more);
}

std::vector<std::string> varying_axes(const Array& x) {
  const VaryingAxes axes = varying_of(x);
  return {axes.begin(), axes.end()};
}

}  // namespace tessera
