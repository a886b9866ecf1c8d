// SPDX-License-Identifier: Apache-2.0
// psum, all_gather, ppermute and the other collectives of per-device code.
#include <tessera/collectives.h>

#include <algorithm>
#include <complex>
#include <set>

#include <tessera/ops/elementwise.h>

#include "src/base/arrays/literal_util.h"
#include "src/frontend/ops/internal.h"
#include "src/frontend/per_device/bound_axes.h"

namespace tessera {

using frontend::apply;
using frontend::Trace;
using internal::impl_of;
using ir::Instruction;
using ir::Opcode;

namespace {

using frontend::attributes;
using frontend::bound_axes;
using frontend::BoundAxes;
using frontend::one_by_one;
using frontend::varying_of;
using frontend::VaryingAxes;

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
  if (const auto axes = one_by_one(op, names, x.location); !axes.empty()) {
    Array out = x.array;
    for (const AxisNames& axis : axes) {
      out = reduce_all(reducer, {out, x.location}, axis, op, options);
    }
    return out;
  }
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

/// Of one axis or all of several.
std::int64_t size_of(const std::string& op, const AxisNames& names, Location location) {
  const auto axes = one_by_one(op, names, location);
  if (axes.empty()) return bound_axes(op, names, location).size;
  std::int64_t out = 1;
  for (const AxisNames& axis : axes) out *= bound_axes(op, axis, location).size;
  return out;
}

/// With a dim of size 1 that all_gather stacks along.
Array with_new_dim(const Operand& x, std::int64_t axis) {
  const std::int64_t rank = impl_of(x.array, x.location).shape.rank();
  const std::int64_t dim = frontend::normalize_axis("all_gather", axis, rank + 1, x.location);
  Dims dims = x.array.shape();
  dims.insert(dims.begin() + dim, 1);
  return frontend::reshaped(x.array, dims, x.location);
}

void check_scatter(const Operand& x, const AxisNames& names, std::int64_t dim, std::int64_t parts,
                   bool tiled) {
  const std::int64_t n = x.array.shape()[std::size_t(dim)];
  if (tiled ? n % parts == 0 : n == parts) return;
  throw ShapeError("psum_scatter over " + names.to_string() + ": dim " + std::to_string(dim) +
                       " of " + x.array.type_string() + " must be " +
                       (tiled ? "a multiple of " : "") + std::to_string(parts),
                   x.location);
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
  const double n = options.axis_index_groups.empty() ? double(size_of("pmean", axis, x.location))
                                                     : double(options.axis_index_groups[0].size());
  const Array total = reduce_all(Opcode::add, x, axis, "pmean", options);
  return divide({total, x.location},
                {frontend::constant(frontend::to_inexact(total.dtype()), n), x.location});
}

Array all_gather(Operand x, const AxisNames& axis_name, const AllGatherOptions& options) {
  if (auto axes = one_by_one("all_gather", axis_name, x.location); !axes.empty()) {
    // The last axis is the minor one.
    std::reverse(axes.begin(), axes.end());
    AllGatherOptions each = options;
    each.tiled = true;
    Array out = options.tiled ? x.array : with_new_dim(x, options.axis);
    for (const AxisNames& axis : axes) out = all_gather({out, x.location}, axis, each);
    return out;
  }
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
  if (!options.tiled) value = with_new_dim(x, options.axis);
  Shape shape(value.dtype(), value.shape());
  shape.dims[std::size_t(dim)] *= axes.size;
  const std::vector<Array> operands{value};
  Array out = apply(Opcode::all_gather, operands, attributes(axes, {dim}), l, "all_gather", &shape);
  return options.to == "invarying" ? out : as_varying(out, axes.with(varying), l);
}

Array psum_scatter(Operand x, const AxisNames& axis_name, const ScatterOptions& options) {
  if (const auto axes = one_by_one("psum_scatter", axis_name, x.location); !axes.empty()) {
    const std::int64_t n = size_of("psum_scatter", axis_name, x.location);
    const std::int64_t dim =
        checked_dim("psum_scatter", options.scatter_dimension, x.array, x.location);
    check_scatter(x, axis_name, dim, n, options.tiled);
    ScatterOptions each = options;
    each.tiled = true;
    Array out = x.array;
    for (const AxisNames& axis : axes) out = psum_scatter({out, x.location}, axis, each);
    if (options.tiled) return out;
    Dims dims = out.shape();
    dims.erase(dims.begin() + dim);
    return frontend::reshaped(out, dims, x.location);
  }
  const BoundAxes axes =
      bound_axes("psum_scatter", axis_name, x.location, options.axis_index_groups);
  const Location l = x.location;
  const Array& value = x.array;
  (void)impl_of(value, l);
  const std::int64_t dim = checked_dim("psum_scatter", options.scatter_dimension, value, l);
  check_scatter(x, axis_name, dim, axes.size, options.tiled);
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
  attrs.batch = axes.groups.batch;
  std::vector<DevicePairs::Pair> devices;
  if (attrs.batch) {
    devices = pairs;
  } else {
    for (const std::vector<std::int64_t>& group : axes.groups.expand(axes.mesh->num_devices())) {
      for (const auto& [from, to] : pairs) {
        devices.emplace_back(group[std::size_t(from)], group[std::size_t(to)]);
      }
    }
    attrs.channel_id = ir::next_channel_id(Trace::current()->module());
  }
  std::sort(devices.begin(), devices.end());
  attrs.source_target_pairs = std::move(devices);
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
  if (axes.groups.batch) {
    const Array all = all_gather(x, axis_name);
    Dims starts(std::size_t(all.ndim()), 0), limits = all.shape();
    starts[0] = source;
    limits[0] = source + 1;
    const std::vector<Array> operands{all};
    const Array one = apply(Opcode::slice, operands,
                            ir::SliceAttrs{starts, limits, Dims(starts.size(), 1)}, x.location);
    return frontend::reshaped(one, x.array.shape(), x.location);
  }
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
  if (const auto all = one_by_one("axis_index", axis_name, location); !all.empty()) {
    Array out;
    for (const AxisNames& axis : all) {
      const Array at = axis_index(axis, location);
      out = out.valid() ? add(multiply(out, std::int32_t(axis_size(axis, location))), at) : at;
    }
    return out;
  }
  const BoundAxes axes = bound_axes("axis_index", axis_name, location);
  Trace& trace = *Trace::current();
  const frontend::MetadataScope metadata(trace, location, "axis_index");
  ir::Builder& b = trace.builder();
  if (axes.groups.batch) {
    // Of the places that all entries have in common each is given its own.
    ir::CollectiveAttrs attrs = attributes(axes, {0});
    Instruction* own = b.emit(Opcode::reduce_scatter, {b.iota(Shape(s32, {axes.size}), 0)}, attrs,
                              {ir::scalar_computation(trace.module(), Opcode::maximum, s32)});
    return trace.wrap(b.reshape(own, {}), false);
  }
  Instruction* id = b.convert(b.partition_id(), s32);
  Instruction* at = axes.mesh->device_ids.empty() ? position_from_number(b, axes, id)
                                                  : position_from_table(b, axes, id);
  return as_varying(trace.wrap(at, false), axes.names, location);
}

std::int64_t axis_size(const AxisNames& axis_name, Location location) {
  return size_of("axis_size", axis_name, location);
}

namespace {
void refuse_batch(const std::string& op, const BoundAxes& axes, Location location) {
  if (!axes.groups.batch) return;
  throw ValueError(op + " over '" + axes.groups.batch.name +
                       "': a vmap names its batch so, and types say over which axes of a mesh "
                       "values vary; valid: axes of a shard_map's mesh",
                   location);
}
}  // namespace

Array pcast(Operand x, const AxisNames& axis_name, const PcastOptions& options) {
  const BoundAxes axes = bound_axes("pcast", axis_name, x.location);
  refuse_batch("pcast", axes, x.location);
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
  refuse_batch("pvary", axes, x.location);
  (void)impl_of(x.array, x.location);
  const VaryingAxes more = frontend::without(axes.names, varying_of(x.array));
  return more.empty() ? x.array : cast_to_varying("pvary", x, more);
}

std::vector<std::string> varying_axes(const Array& x) {
  const VaryingAxes axes = varying_of(x);
  return {axes.begin(), axes.end()};
}

}  // namespace tessera
