// SPDX-License-Identifier: Apache-2.0
// Collectives, and the pairs of start and done.
#include <algorithm>

#include "src/ir/process_groups.h"
#include "src/ir/shapes/inference_site.h"

namespace tessera::ir::inference {
namespace {

std::vector<Shape> array_shapes(const Site& site) {
  std::vector<Shape> out;
  for (std::size_t i = 0; i < site.operands.size(); ++i) {
    out.emplace_back(site.array(i).dtype, site.shape(i).dims);
  }
  return out;
}

// Groups must be equally large, name each device at most once and only devices that there are.
std::int64_t checked_group_size(const Site& site, const DeviceGroups& groups) {
  if (groups.batch) return groups.batch.size;
  if (groups.symbolic()) {
    for (int axis : groups.axes) {
      if (axis < 0 || std::size_t(axis) >= groups.mesh->axes.size()) {
        site.shape_error("device groups over axis number " + std::to_string(axis) +
                         " of a mesh with " + std::to_string(groups.mesh->axes.size()) + " axes");
      }
    }
    return groups.group_size(site.grid.num_partitions);
  }
  std::vector<std::int64_t> all;
  for (const auto& group : groups.lists) {
    if (group.size() != groups.lists.front().size()) {
      site.shape_error("replica groups of " + std::to_string(groups.lists.front().size()) +
                       " and " + std::to_string(group.size()) + " devices; they must be equal");
    }
    all.insert(all.end(), group.begin(), group.end());
  }
  if (!groups.lists.empty() && groups.lists.front().empty()) {
    site.shape_error("a replica group is empty");
  }
  std::sort(all.begin(), all.end());
  auto twice = std::adjacent_find(all.begin(), all.end());
  if (twice != all.end()) {
    site.shape_error("device " + std::to_string(*twice) + " stands twice in replica_groups");
  }
  if (!all.empty() && all.front() < 0) {
    site.shape_error("device " + std::to_string(all.front()) + " in replica_groups");
  }
  const GroupMode mode = group_mode(site.op, site.attrs, site.grid);
  return devices_of_group(mode, groups.group_size(numbers_of_all(mode, site.grid)), site.grid);
}

std::int64_t one_dim(const Site& site, const CollectiveAttrs& a) {
  if (a.dims.size() != 1) {
    site.shape_error("takes exactly one dimension, not {" + join(a.dims) + "}");
  }
  for (std::size_t i = 0; i < site.operands.size(); ++i) {
    site.check_dim(a.dims[0], site.array(i).rank(), "dimension");
  }
  return a.dims[0];
}

void check_reduction(const Site& site, const std::vector<Shape>& shapes) {
  site.need_called(1);
  Shape scalar(shapes[0].dtype, {});
  std::vector<Shape> two{scalar, scalar};
  site.check_parameters(0, two, "reducer");
  if (site.result_of(0) != scalar) {
    site.shape_error("reducer " + site.called[0]->name() + " gives " +
                     site.result_of(0).to_string() + " and must give " + scalar.to_string());
  }
  for (const Shape& s : shapes) {
    if (s.dtype != shapes[0].dtype) {
      site.dtype_error("all operands must have the reducer's element type " +
                       std::string(name(shapes[0].dtype)));
    }
  }
}

Shape infer_all_gather(const Site& site, const CollectiveAttrs& a, std::int64_t group) {
  auto dim = std::size_t(one_dim(site, a));
  std::vector<Shape> shapes = array_shapes(site);
  // A module that doesn't say how many partitions it is for, and groups of "all": the declared
  // result tells the number.
  if (a.groups.lists.empty() && !a.groups.symbolic() && site.grid.devices() <= 1 &&
      site.declared != nullptr && site.declared->is_array() && site.declared->dims.size() > dim &&
      shapes[0].dims[dim] > 0 && site.declared->dims[dim] % shapes[0].dims[dim] == 0) {
    group = site.declared->dims[dim] / shapes[0].dims[dim];
  }
  for (Shape& s : shapes) {
    if (__builtin_mul_overflow(s.dims[dim], group, &s.dims[dim])) {
      site.shape_error("the gathered dim does not fit 64 bits");
    }
  }
  return one_or_tuple(std::move(shapes));
}

Shape infer_reduce_scatter(const Site& site, const CollectiveAttrs& a, std::int64_t group) {
  auto dim = std::size_t(one_dim(site, a));
  std::vector<Shape> shapes = array_shapes(site);
  check_reduction(site, shapes);
  if (a.groups.lists.empty() && !a.groups.symbolic() && site.grid.devices() <= 1 &&
      site.declared != nullptr && site.declared->is_array() && site.declared->dims.size() > dim &&
      site.declared->dims[dim] > 0 && shapes[0].dims[dim] % site.declared->dims[dim] == 0) {
    group = shapes[0].dims[dim] / site.declared->dims[dim];
  }
  for (Shape& s : shapes) {
    if (s.dims[dim] % group != 0) {
      site.shape_error("dim " + std::to_string(dim) + " of size " + std::to_string(s.dims[dim]) +
                       " can't be split over groups of " + std::to_string(group) + " devices");
    }
    s.dims[dim] /= group;
  }
  return one_or_tuple(std::move(shapes));
}

Shape infer_all_to_all(const Site& site, const CollectiveAttrs& a, std::int64_t group) {
  std::vector<Shape> shapes = array_shapes(site);
  if (a.dims.empty()) {
    for (const Shape& s : shapes) {
      if (s != shapes[0]) site.shape_error("all operands must have equal shapes");
    }
    // A module that doesn't say how many partitions it is for says nothing of groups of "all".
    const bool all = a.groups.lists.empty() && !a.groups.symbolic();
    if (std::int64_t(shapes.size()) != group && !(all && site.grid.devices() <= 1)) {
      site.shape_error("takes an operand for each of the " + std::to_string(group) +
                       " members of a group, not " + std::to_string(shapes.size()));
    }
    if (shapes.size() == 1 && site.declared != nullptr && !site.declared->is_tuple) {
      return shapes[0];
    }
    return Shape::tuple(std::move(shapes));
  }
  site.need_operands(1);
  auto dim = std::size_t(one_dim(site, a));
  if (shapes[0].dims[dim] % group != 0) {
    site.shape_error("dim " + std::to_string(dim) + " of size " +
                     std::to_string(shapes[0].dims[dim]) + " can't be split over groups of " +
                     std::to_string(group) + " devices");
  }
  return shapes[0];
}

Shape infer_ragged_all_to_all(const Site& site, std::int64_t group) {
  site.need_operands(6);
  site.same_dtype(0, 1);
  const Shape &in = site.array(0), &out = site.array(1);
  bool fits = in.rank() == out.rank() && in.rank() > 0;
  for (std::int64_t d = 1; fits && d < in.rank(); ++d) fits = in.dim(d) == out.dim(d);
  if (!fits) site.shape_error("operands 0 and 1 must be equal but for the size of dim 0");
  for (std::size_t i = 2; i < 6; ++i) {
    const Shape& s = site.array(i);
    if (!is_integer(s.dtype) || s.rank() != 1 || s.dims != site.shape(2).dims ||
        s.dims[0] % group != 0) {
      site.shape_error("operand " + std::to_string(i) +
                       " must be a vector of integers, equally many for each of the " +
                       std::to_string(group) + " members of a group");
    }
  }
  return Shape(out.dtype, out.dims);
}

Shape infer_permute(const Site& site) {
  const DevicePairs::Facts& facts = site.get<PermuteAttrs>().source_target_pairs.facts();
  for (const DevicePairs::Side* side : {&facts.sources, &facts.targets}) {
    if (side->twice) {
      site.shape_error("device " + std::to_string(*side->twice) + " stands twice as a " +
                       (side == &facts.sources ? "source" : "target"));
    }
    if (side->least < 0) {
      site.shape_error("device " + std::to_string(side->least) + " in source_target_pairs");
    }
  }
  // In-place form: input, output, and where to read and write.
  if (site.operands.size() == 4 && site.declared != nullptr && *site.declared == site.shape(1)) {
    return site.shape(1);
  }
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < site.operands.size(); ++i) shapes.push_back(site.shape(i));
  return one_or_tuple(std::move(shapes));
}

}  // namespace

Shape infer_collective(const Site& site) {
  site.need_operands_at_least(1);
  if (site.op == Opcode::collective_permute) return infer_permute(site);
  const auto& a = site.get<CollectiveAttrs>();
  std::int64_t group = checked_group_size(site, a.groups);
  switch (site.op) {
    case Opcode::all_gather:
      return infer_all_gather(site, a, group);
    case Opcode::all_reduce: {
      std::vector<Shape> shapes = array_shapes(site);
      check_reduction(site, shapes);
      return one_or_tuple(std::move(shapes));
    }
    case Opcode::reduce_scatter:
      return infer_reduce_scatter(site, a, group);
    case Opcode::all_to_all:
      return infer_all_to_all(site, a, group);
    case Opcode::ragged_all_to_all:
      return infer_ragged_all_to_all(site, group);
    case Opcode::collective_broadcast:
      return one_or_tuple(array_shapes(site));
    default:
      TESSERA_CHECK(false, std::string(name(site.op)));
  }
  return {};
}

namespace {

const Shape& element(const Site& site, std::size_t i) {
  const Shape& x = site.shape(0);
  if (!x.is_tuple || x.elements.size() <= i) {
    site.shape_error("the operand must be a tuple of at least " + plural(i + 1, "element") +
                     ", the result of the matching start");
  }
  return x.elements[i];
}

Shape infer_async_start(const Site& site) {
  const Shape& out = site.need_declared();
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < site.operands.size(); ++i) shapes.push_back(site.shape(i));
  if (!out.is_tuple || out.elements.size() < 2 || out.elements[0] != Shape::tuple(shapes)) {
    site.shape_error("the result must be ((operands), outputs, state...), not " + out.to_string());
  }
  site.need_called(1);
  site.check_parameters(0, shapes, "callee");
  if (out.elements[1] != site.result_of(0)) {
    site.shape_error("the result holds " + out.elements[1].to_string() + " and " +
                     site.called[0]->name() + " gives " + site.result_of(0).to_string());
  }
  return out;
}

/// (operands, results, state...), where the results are those of `plain`, the form without -start.
Shape infer_collective_start(const Site& site, Opcode plain) {
  const Shape& out = site.need_declared();
  if (!out.is_tuple || out.elements.size() < 2) {
    site.shape_error("the result must be a tuple of operands, results and state, not " +
                     out.to_string());
  }
  std::vector<Shape> operands;
  for (std::size_t i = 0; i < site.operands.size(); ++i) operands.push_back(site.shape(i));
  // In place: input, output, and where to read and write.
  if (plain == Opcode::collective_permute && operands.size() == 4 &&
      out.elements[0] == operands[0] && out.elements[1] == operands[1]) {
    return out;
  }
  const Shape carried = one_or_tuple(std::move(operands));
  if (out.elements[0] != carried) {
    site.shape_error("the result carries " + out.elements[0].to_string() +
                     " and the operands are " + carried.to_string());
  }
  Site whole = site;
  whole.op = plain;
  whole.declared = &out.elements[1];
  const Shape results = infer_collective(whole);
  if (out.elements[1] != results) {
    site.shape_error("the result holds " + out.elements[1].to_string() + " and " +
                     std::string(name(plain)) + " gives " + results.to_string());
  }
  return out;
}

// What comes from outside has the shape that is declared, with `rest` behind it.
Shape received(const Site& site, std::vector<Shape> rest) {
  const Shape& declared = site.need_declared();
  bool fits = declared.is_tuple && declared.elements.size() == rest.size() + 1;
  for (std::size_t n = 0; fits && n < rest.size(); ++n) {
    fits = declared.elements[n + 1] == rest[n];
  }
  if (!fits) {
    std::string valid = "(data";
    for (const Shape& s : rest) valid += ", " + s.to_string();
    site.shape_error("the result is declared as " + declared.to_string() + "; valid: " + valid +
                     ")");
  }
  return declared;
}

}  // namespace

Shape infer_asynchronous(const Site& site) {
  switch (site.op) {
    case Opcode::all_reduce_start: {
      std::vector<Shape> shapes = array_shapes(site);
      site.need_operands_at_least(1);
      checked_group_size(site, site.get<CollectiveAttrs>().groups);
      check_reduction(site, shapes);
      return one_or_tuple(std::move(shapes));
    }
    case Opcode::all_gather_start:
      return infer_collective_start(site, Opcode::all_gather);
    case Opcode::collective_permute_start:
      return infer_collective_start(site, Opcode::collective_permute);
    case Opcode::async_start:
      return infer_async_start(site);
    case Opcode::all_reduce_done:
    case Opcode::async_update:
      return site.shape(0);
    case Opcode::all_gather_done:
    case Opcode::collective_permute_done:
    case Opcode::async_done:
      return element(site, 1);
    case Opcode::copy_start:
      return Shape::tuple({site.shape(0), site.shape(0), Shape(DType::u32, {})});
    case Opcode::copy_done:
    case Opcode::send_done:
    case Opcode::recv_done: {
      if (site.op == Opcode::copy_done) return element(site, 0);
      if (site.op == Opcode::send_done) return Shape::token();
      return Shape::tuple({element(site, 0), Shape::token()});
    }
    case Opcode::send:
      return Shape::tuple({site.shape(0), Shape(DType::u32, {}), Shape::token()});
    case Opcode::recv:
      return received(site, {Shape(DType::u32, {}), Shape::token()});
    case Opcode::infeed:
      return received(site, {Shape::token()});
    case Opcode::outfeed:
      return Shape::token();
    default:
      TESSERA_CHECK(false, std::string(name(site.op)));
  }
  return {};
}

}  // namespace tessera::ir::inference
