// SPDX-License-Identifier: Apache-2.0
// Operations between devices.
#include <algorithm>

#include "src/base/arrays/literal_util.h"
#include "src/base/env.h"
#include "src/ir/limits.h"
#include "src/sharding/axes/axis_refs.h"
#include "src/sharding/axes/sdy_text.h"
#include "src/text/read/conversions.h"

namespace tessera::text {

using ir::Instruction;
using ir::Opcode;

namespace {

/// Those that groups are of: as many as they name if the module doesn't say how many there are.
std::int64_t devices_of(const ir::Module& module, const ir::CollectiveAttrs& a) {
  std::int64_t devices = a.channel_id ? module.num_partitions : module.replica_count;
  if (devices > 1) return devices;
  for (const Dims& row : a.groups.lists) {
    for (const std::int64_t d : row) devices = std::max(devices, std::min(d, kMaxDevices - 1) + 1);
  }
  return devices;
}

}  // namespace

std::optional<std::int64_t> Conversions::channel(const Operation& op) {
  const Attribute* a = op.find("channel_handle");
  if (a == nullptr) a = op.find("channel_id");
  if (a == nullptr) return std::nullopt;
  std::int64_t id = 0;
  if (a->key == "channel_id") {
    id = integer(op, "channel_id");
  } else {
    const Operation parts = fields_of(op, *a);
    id = integer(parts, "handle");
  }
  // 0 means none.
  if (id <= 0) return std::nullopt;
  if (id > ir::kMaxChannel) {
    fail(op, "has channel " + std::to_string(id) + "; valid: at most " +
                 std::to_string(ir::kMaxChannel));
  }
  return id;
}

AxisRef Conversions::axis_of_group(const Operation& op, std::string_view written) {
  AxisRef out;
  if (!written.empty() && written[0] == '"') {
    out.name = unescape(written.substr(1, written.size() - 2));
    return out;
  }
  if (written.find("axis_ref") == std::string_view::npos) {
    in_.fail_at(written.data(),
                "expected an axis such as #stablehlo.axis_ref<name = \"x\">, not '" +
                    std::string(written) + "'");
  }
  const Operation parts = fields_of(op, Attribute{"axis", written});
  out.name = text(parts, "name");
  const Attribute* sub = parts.find("sub_axis_info");
  if (sub == nullptr) return out;
  // (2)4, also #stablehlo.sub_axis_info<(2)4>: after axes of a size of 2, one of 4.
  const std::string_view value = expanded(sub->value);
  const std::size_t open = value.find('(');
  if (open == std::string_view::npos) {
    in_.fail_at(value.data(), "expected a sub-axis such as (2)4: (the sizes before it)its size");
  }
  at_value(value.substr(open + 1), [&] {
    out.pre = in_.integer("the product of the sizes before the sub-axis");
    in_.expect(')', "after the sizes before the sub-axis");
    out.size = in_.integer("the size of the sub-axis");
  });
  if (out.pre < 1 || out.size < 1) {
    in_.fail_at(value.data(), "sizes of sub-axes are at least 1");
  }
  return out;
}

// #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "x">, ...]>
ir::DeviceGroups Conversions::groups_by_axes(const Operation& op, const Attribute& a) {
  const Operation parts = fields_of(op, a);
  const Attribute* mesh = parts.find("mesh_name");
  if (mesh == nullptr) mesh = parts.find("mesh");
  if (mesh == nullptr) in_.fail_at(expanded(a.value).data(), "expected mesh = @mesh");
  std::string_view name = expanded(mesh->value);
  if (!name.empty() && name[0] == '@') name.remove_prefix(1);
  MeshRef found = mesh_in_place(op, *mesh);
  for (const DeclaredMesh& declared : meshes_) {
    if (declared.name == name) found = declared.mesh;
  }
  if (!found) in_.fail_at(mesh->value.data(), "there is no mesh @" + std::string(name));
  const std::string_view axes = expanded(need(parts, "axes").value);
  NamedAxesSharding named;
  named.dims.emplace_back();
  at_value(axes, [&] {
    in_.expect('[', "before the axes");
    in_.items(']', "after the axes", [&] {
      in_.skip();
      named.dims[0].axes.push_back(axis_of_group(op, expanded(in_.value())));
    });
  });
  ir::DeviceGroups out;
  try {
    const TensorSharding split = resolve_axes(named, found);
    out.lists =
        ir::DeviceGroups::over(split.mesh, split.dims[0].axes).expand(module_->num_partitions);
  } catch (const InternalError&) {
    throw;
  } catch (const Error& e) {
    in_.fail_at(axes.data(), "replica_groups: " + e.message());
  }
  return out;
}

ir::DeviceGroups Conversions::groups(const Operation& op) {
  const Attribute& a = need(op, "replica_groups");
  if (expanded(a.value).find("mesh_axes") != std::string_view::npos) return groups_by_axes(op, a);
  ir::DeviceGroups out;
  for (Dims& row : integer_rows(op, "replica_groups")) {
    // Groups of different sizes are filled up with -1.
    row.erase(std::remove(row.begin(), row.end(), -1), row.end());
    out.lists.push_back(std::move(row));
  }
  return out;
}

void Conversions::device_id(Operation& op) {
  need_operands(op, 0, 0);
  set(op, op.info->opcode, {});
}

void Conversions::all_gather(Operation& op) {
  need_operands(op, 1, std::size_t(1) << 20);
  ir::CollectiveAttrs a;
  a.groups = groups(op);
  a.channel_id = channel(op);
  a.use_global_device_ids = flag(op, "use_global_device_ids", false);
  a.dims = {integer(op, "all_gather_dim")};
  set_results(op, Opcode::all_gather, op.operands, a);
}

void Conversions::all_reduce(Operation& op) {
  need_operands(op, 1, std::size_t(1) << 20);
  need_regions(op, 1);
  need_none_captured(op);
  for (std::size_t n = 0; n < op.operands.size(); ++n) promote(op, n, *op.regions[0], 0);
  ir::CollectiveAttrs a;
  a.groups = groups(op);
  a.channel_id = channel(op);
  a.use_global_device_ids = flag(op, "use_global_device_ids", false);
  set_results(op, Opcode::all_reduce, op.operands, a, op.regions);
}

void Conversions::cross_replica_sum(Operation& op) {
  need_operands(op, 1, 1);
  ir::CollectiveAttrs a;
  a.groups = groups(op);
  set(op, Opcode::all_reduce, op.operands, a,
      {binary_computation(Opcode::add, op.operands[0]->shape.dtype)});
}

void Conversions::reduce_scatter(Operation& op) {
  need_operands(op, 1, std::size_t(1) << 20);
  need_regions(op, 1);
  need_none_captured(op);
  for (std::size_t n = 0; n < op.operands.size(); ++n) promote(op, n, *op.regions[0], 0);
  ir::CollectiveAttrs a;
  a.groups = groups(op);
  a.channel_id = channel(op);
  a.use_global_device_ids = flag(op, "use_global_device_ids", false);
  a.dims = {integer(op, "scatter_dimension")};
  set_results(op, Opcode::reduce_scatter, op.operands, a, op.regions);
}

void Conversions::all_to_all(Operation& op) {
  need_operands(op, 1, std::size_t(1) << 20);
  need_results(op, op.operands.size());
  std::int64_t split = integer(op, "split_dimension"), concat = integer(op, "concat_dimension"),
               count = integer(op, "split_count");
  ir::CollectiveAttrs a;
  a.groups = groups(op);
  a.channel_id = channel(op);
  a.dims = {split};
  for (std::size_t n = 0; n < op.operands.size(); ++n) {
    Instruction* x = op.operands[n];
    const Dims& dims = x->shape.dims;
    if (split < 0 || split >= x->shape.rank() || concat < 0 || concat >= x->shape.rank() ||
        count < 1 || dims[std::size_t(split)] % count != 0) {
      fail(op, "can't split dim " + std::to_string(split) + " of " + mlir_type(x->shape) + " in " +
                   std::to_string(count) + " parts and join dim " + std::to_string(concat));
    }
    x = add(op, Opcode::all_to_all, x->shape, {x}, a);
    if (split != concat) {
      // HLO leaves what came from each device along the split dim: move it to the other one.
      Dims parted = dims, permutation, moved;
      parted[std::size_t(split)] /= count;
      parted.insert(parted.begin() + split, count);
      x = add(op, Opcode::reshape, Shape(x->shape.dtype, parted), {x});
      for (std::int64_t d = 0; d < std::int64_t(parted.size()); ++d) {
        if (d != split) permutation.push_back(d);
      }
      // `concat` counts dims without the new one.
      permutation.insert(permutation.begin() + concat, split);
      for (std::int64_t d : permutation) moved.push_back(parted[std::size_t(d)]);
      x = add(op, Opcode::transpose, Shape(x->shape.dtype, moved), {x},
              ir::DimensionsAttrs{permutation});
      moved.erase(moved.begin() + concat);
      moved[std::size_t(concat)] *= count;
      x = add(op, Opcode::reshape, Shape(x->shape.dtype, moved), {x});
    }
    if (!(x->shape == *op.results[n])) {
      fail(op, "gives " + mlir_type(x->shape) + ", not " + mlir_type(*op.results[n]));
    }
    op.values.push_back(x);
  }
}

void Conversions::collective_permute(Operation& op) {
  need_operands(op, 1, std::size_t(1) << 20);
  need_results(op, op.operands.size());
  ir::PermuteAttrs a;
  a.channel_id = channel(op);
  std::vector<DevicePairs::Pair> pairs;
  for (const Dims& row : integer_rows(op, "source_target_pairs")) {
    if (row.size() != 2) fail(op, "needs pairs of a source and a target");
    pairs.emplace_back(row[0], row[1]);
  }
  a.source_target_pairs = std::move(pairs);
  for (std::size_t n = 0; n < op.operands.size(); ++n) {
    op.values.push_back(add(op, Opcode::collective_permute, *op.results[n], {op.operands[n]}, a));
  }
}

ir::DeviceGroups Conversions::all_in_groups(const Operation& op, const ir::CollectiveAttrs& a) {
  // None given: all devices, in order.
  ir::DeviceGroups out = a.groups;
  const std::int64_t devices = devices_of(*module_, a);
  if (out.lists.empty()) {
    out.lists.emplace_back();
    for (std::int64_t d = 0; d < devices; ++d) out.lists[0].push_back(d);
  }
  std::int64_t members = 0;
  for (const Dims& row : out.lists) members += std::int64_t(row.size());
  if (members < devices) {
    not_supported(op, "needs each of " + std::to_string(devices) + " devices in a group; " +
                          std::to_string(members) + " are");
  }
  return out;
}

Instruction* Conversions::place_in_group(const Operation& op, const ir::CollectiveAttrs& a) {
  const std::int64_t devices = devices_of(*module_, a);
  std::vector<std::int32_t> places(std::size_t(devices), -1);
  for (const Dims& row : a.groups.lists) {
    for (std::size_t n = 0; n < row.size(); ++n) {
      if (row[n] < 0 || row[n] >= devices) {
        fail(op, "names device " + std::to_string(row[n]) + "; valid: 0 to " +
                     std::to_string(devices - 1));
      }
      places[std::size_t(row[n])] = std::int32_t(n);
    }
  }
  Instruction* table = add(op, Opcode::constant, Shape(DType::s32, {devices}), {},
                           ir::ConstantAttrs{make_literal(DType::s32, {devices}, places)});
  Instruction* id =
      add(op, a.channel_id ? Opcode::partition_id : Opcode::replica_id, Shape(DType::u32, {}), {});
  Instruction* one = add(op, Opcode::dynamic_slice, Shape(DType::s32, {1}), {table, id},
                         ir::DynamicSliceAttrs{{1}});
  return add(op, Opcode::reshape, Shape(DType::s32, {}), {one});
}

Instruction* Conversions::only_at(const Operation& op, Instruction* x, Instruction* source,
                                  Instruction* place, ir::Direction direction) {
  Instruction* here = add(op, Opcode::compare, Shape(DType::pred, {}), {place, source},
                          ir::CompareAttrs{direction, ir::ComparisonType::by_dtype});
  Instruction* zero = splat(op, scalar_constant(op, x->shape.dtype, 0), x->shape.dims);
  return add(op, Opcode::select, x->shape, {splat(op, here, x->shape.dims), x, zero});
}

void Conversions::collective_broadcast(Operation& op) {
  bool dynamic = flag(op, "has_dynamic_root", false);
  need_operands(op, dynamic ? 2 : 1, std::size_t(1) << 20);
  std::size_t count = op.operands.size() - (dynamic ? 1 : 0);
  need_results(op, count);
  ir::CollectiveAttrs a;
  a.groups = groups(op);
  a.channel_id = channel(op);
  if (!dynamic) {
    for (std::size_t n = 0; n < count; ++n) {
      op.values.push_back(
          add(op, Opcode::collective_broadcast, *op.results[n], {op.operands[n]}, a));
    }
    return;
  }
  // Whose values are sent is known at run time: of all of the group's, the root's.
  a.groups = all_in_groups(op, a);
  Instruction* place = place_in_group(op, a);
  const auto size = std::int64_t(a.groups.lists[0].size());
  for (std::size_t n = 0; n < count; ++n) {
    Instruction* x = op.operands[n];
    Dims one = x->shape.dims;
    one.insert(one.begin(), 1);
    Dims all = one;
    all[0] = size;
    x = add(op, Opcode::reshape, Shape(x->shape.dtype, one), {x});
    ir::CollectiveAttrs gather = a;
    gather.dims = {0};
    x = add(op, Opcode::all_gather, Shape(x->shape.dtype, all), {x}, gather);
    std::vector<Instruction*> sliced = {x, root_of(op, n)};
    for (std::size_t d = 1; d < one.size(); ++d) {
      sliced.push_back(scalar_constant(op, DType::s32, 0));
    }
    x = add(op, Opcode::dynamic_slice, Shape(x->shape.dtype, one), std::move(sliced),
            ir::DynamicSliceAttrs{one});
    x = add(op, Opcode::reshape, *op.results[n], {x});
    op.values.push_back(
        only_at(op, x, scalar_constant(op, DType::s32, 0), place, ir::Direction::ge));
  }
}

Instruction* Conversions::root_of(const Operation& op, std::size_t operand) {
  Instruction* roots = op.operands.back();
  if (!(roots->shape == Shape(DType::s32, {std::int64_t(op.operands.size()) - 1}))) {
    fail(op, "needs the roots of its other operands as its last one: " +
                 mlir_type(Shape(DType::s32, {std::int64_t(op.operands.size()) - 1})) + ", not " +
                 mlir_type(roots->shape));
  }
  auto at = std::int64_t(operand);
  Instruction* one =
      add(op, Opcode::slice, Shape(DType::s32, {1}), {roots}, ir::SliceAttrs{{at}, {at + 1}, {1}});
  return add(op, Opcode::reshape, Shape(DType::s32, {}), {one});
}

void Conversions::collective_reduce(Operation& op) {
  bool dynamic = flag(op, "has_dynamic_root", false);
  need_operands(op, dynamic ? 2 : 1, std::size_t(1) << 20);
  need_regions(op, 1);
  need_none_captured(op);
  std::size_t count = op.operands.size() - (dynamic ? 1 : 0);
  need_results(op, count);
  for (std::size_t n = 0; n < count; ++n) promote(op, n, *op.regions[0], 0);
  ir::CollectiveAttrs a;
  a.groups = groups(op);
  a.channel_id = channel(op);
  a.use_global_device_ids = flag(op, "use_global_device_ids", false);
  a.groups = all_in_groups(op, a);
  Instruction* place = place_in_group(op, a);
  for (std::size_t n = 0; n < count; ++n) {
    Instruction* x = add(op, Opcode::all_reduce, *op.results[n], {op.operands[n]}, a, op.regions);
    Instruction* root = dynamic ? root_of(op, n) : scalar_constant(op, DType::s32, 0);
    op.values.push_back(only_at(op, x, root, place, ir::Direction::eq));
  }
}

}  // namespace tessera::text
