// SPDX-License-Identifier: Apache-2.0
#include <tessera/collectives.h>

#include <algorithm>
#include <set>

#include <tessera/ops/elementwise.h>

#include "src/frontend/ops_internal.h"

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

/// The axes of a collective on the mesh that is bound.
struct BoundAxes {
  MeshRef mesh;
  std::vector<int> axes;
  std::int64_t size = 1;
  DeviceGroups groups() const { return DeviceGroups::over(mesh, axes); }
};

BoundAxes bound_axes(const std::string& op, const AxisNames& names, Location location) {
  const Trace* trace = Trace::current();
  const MeshRef mesh = trace ? trace->manual_mesh() : nullptr;
  if (!mesh) {
    throw ValueError(op + " over " + names.to_string() +
                         ": no mesh axes are bound here; collectives by name are for functions "
                         "that run per device, as in custom_partitioning's partition callback",
                     location);
  }
  BoundAxes out;
  out.mesh = mesh;
  std::set<std::string> seen;
  for (const std::string& name : names.list()) {
    if (!seen.insert(name).second) {
      throw ValueError(op + " over " + names.to_string() + ": '" + name + "' stands twice",
                       location);
    }
    bool found = false;
    for (std::size_t i = 0; i < mesh->axes.size(); ++i) {
      if (mesh->axes[i].name != name) continue;
      out.axes.push_back(int(i));
      out.size *= mesh->axes[i].size;
      found = true;
    }
    if (!found) {
      std::string known;
      std::set<std::string> listed;
      for (const MeshAxis& a : mesh->axes) {
        if (listed.insert(a.name).second) known += (known.empty() ? "'" : ", '") + a.name + "'";
      }
      throw ValueError(op + ": the mesh has no axis '" + name + "'; it has " + known, location);
    }
  }
  return out;
}

Array reduce_all(Opcode reducer, const Operand& x, const AxisNames& names, const std::string& op) {
  const BoundAxes axes = bound_axes(op, names, x.location);
  Array value = x.array;
  if (impl_of(value, x.location).shape.dtype == DType::pred && reducer == Opcode::add) {
    value = frontend::converted(value, s32, x.location);
  }
  const std::vector<Array> operands{value};
  ir::CollectiveAttrs attrs;
  attrs.groups = axes.groups();
  Trace& trace = *Trace::current();
  attrs.channel_id = ir::next_channel_id(trace.module());
  attrs.use_global_device_ids = true;
  const DType dtype = value.dtype();
  return apply(Opcode::all_reduce, operands, attrs, x.location, op, nullptr, [&](ir::Module* m) {
    return std::vector<ir::Computation*>{ir::scalar_computation(m, reducer, dtype)};
  });
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

Array psum(Operand x, const AxisNames& axis) { return reduce_all(Opcode::add, x, axis, "psum"); }
Array pmax(Operand x, const AxisNames& axis) {
  return reduce_all(Opcode::maximum, x, axis, "pmax");
}
Array pmin(Operand x, const AxisNames& axis) {
  return reduce_all(Opcode::minimum, x, axis, "pmin");
}
Array pmean(Operand x, const AxisNames& axis) {
  const double n = double(axis_size(axis, x.location));
  const Array total = psum(x, axis);
  return divide({total, x.location},
                {frontend::constant(frontend::to_inexact(total.dtype()), n), x.location});
}

Array all_gather(Operand x, const AxisNames& axis_name, AllGatherOptions options) {
  const BoundAxes axes = bound_axes("all_gather", axis_name, x.location);
  const Location l = x.location;
  Array value = x.array;
  const std::int64_t rank = impl_of(value, l).shape.rank();
  const std::int64_t dim =
      frontend::normalize_axis("all_gather", options.axis, rank + (options.tiled ? 0 : 1), l);
  if (!options.tiled) {
    Dims dims = value.shape();
    dims.insert(dims.begin() + dim, 1);
    value = frontend::reshaped(value, dims, l);
  }
  ir::CollectiveAttrs attrs;
  attrs.groups = axes.groups();
  attrs.dims = {dim};
  attrs.channel_id = ir::next_channel_id(Trace::current()->module());
  attrs.use_global_device_ids = true;
  Shape shape(value.dtype(), value.shape());
  shape.dims[std::size_t(dim)] *= axes.size;
  const std::vector<Array> operands{value};
  return apply(Opcode::all_gather, operands, attrs, l, "all_gather", &shape);
}

Array psum_scatter(Operand x, const AxisNames& axis_name, ScatterOptions options) {
  const BoundAxes axes = bound_axes("psum_scatter", axis_name, x.location);
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
  ir::CollectiveAttrs attrs;
  attrs.groups = axes.groups();
  attrs.dims = {dim};
  attrs.channel_id = ir::next_channel_id(Trace::current()->module());
  attrs.use_global_device_ids = true;
  Shape shape(value.dtype(), value.shape());
  shape.dims[std::size_t(dim)] /= axes.size;
  const std::vector<Array> operands{value};
  Array out =
      apply(Opcode::reduce_scatter, operands, attrs, l, "psum_scatter", &shape, [&](ir::Module* m) {
        return std::vector<ir::Computation*>{ir::scalar_computation(m, Opcode::add, shape.dtype)};
      });
  if (!options.tiled) {
    shape.dims.erase(shape.dims.begin() + dim);
    out = frontend::reshaped(out, shape.dims, l);
  }
  return out;
}

Array all_to_all(Operand x, const AxisNames& axis_name, std::int64_t split_axis,
                 std::int64_t concat_axis, bool tiled) {
  const BoundAxes axes = bound_axes("all_to_all", axis_name, x.location);
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
  ir::CollectiveAttrs attrs;
  attrs.groups = axes.groups();
  attrs.dims = {0};
  attrs.channel_id = ir::next_channel_id(Trace::current()->module());
  const std::vector<Array> operands{value};
  Array out = apply(Opcode::all_to_all, operands, attrs, l, "all_to_all");
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
  for (const std::vector<std::int64_t>& group : axes.groups().expand(axes.mesh->num_devices())) {
    for (const auto& [from, to] : pairs) {
      attrs.source_target_pairs.emplace_back(group[std::size_t(from)], group[std::size_t(to)]);
    }
  }
  std::sort(attrs.source_target_pairs.begin(), attrs.source_target_pairs.end());
  attrs.channel_id = ir::next_channel_id(Trace::current()->module());
  const std::vector<Array> operands{x.array};
  return apply(Opcode::collective_permute, operands, attrs, x.location, "ppermute");
}

Array axis_index(const AxisNames& axis_name, Location location) {
  const BoundAxes axes = bound_axes("axis_index", axis_name, location);
  Trace& trace = *Trace::current();
  const frontend::MetadataScope metadata(trace, location, "axis_index");
  ir::Builder& b = trace.builder();
  // A table from partition id to position: right for any order of devices.
  const std::int64_t n = axes.mesh->num_devices();
  Literal table(Shape(s32, {n}));
  for (const std::vector<std::int64_t>& group : axes.groups().expand(n)) {
    for (std::size_t i = 0; i < group.size(); ++i) {
      table.mutable_data<std::int32_t>()[std::size_t(group[i])] = std::int32_t(i);
    }
  }
  Instruction* id = b.convert(b.partition_id(), s32);
  Instruction* row = b.dynamic_slice(b.constant(table), {id}, {1});
  return trace.wrap(b.reshape(row, {}), false);
}

std::int64_t axis_size(const AxisNames& axis_name, Location location) {
  return bound_axes("axis_size", axis_name, location).size;
}

}  // namespace tessera
