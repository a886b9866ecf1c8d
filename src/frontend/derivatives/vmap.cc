// SPDX-License-Identifier: Apache-2.0
// vmap: traces the function on one entry and batches what it traced to.
#include <tessera/vmap.h>

#include <numeric>
#include <optional>

#include "src/base/contains.h"
#include "src/frontend/run/sharding_prefix.h"
#include "src/frontend/trace/explicit_values.h"
#include "src/frontend/trace/rule_captures.h"
#include "src/frontend/trace/trace.h"
#include "src/frontend/trace/traced_function.h"
#include "src/transforms/batching/batch.h"

namespace tessera::internal {

using frontend::AbstractValue;
using frontend::Trace;
using ir::Instruction;

namespace {

constexpr const char* kFromFront = "batch";
constexpr const char* kFromEnd = "batch from the end";

/// The dim that a leaf of the axes says of an array of that rank, or kNotBatched.
std::int64_t dim_of(const ShardingTree& leaf, std::int64_t rank, const std::string& what,
                    Location location) {
  if (leaf.kind() != ShardingTree::Kind::spec) return transforms::kNotBatched;
  const PartitionSpec& spec = leaf.spec();
  const auto size = std::int64_t(spec.size());
  if (size == 0) return transforms::kNotBatched;
  const bool from_end = spec[std::size_t(size - 1)] == SpecEntry(kFromEnd);
  if (rank == 0) throw ValueError(what + ": a scalar holds no batch; valid: nullptr", location);
  if (size > rank) {
    throw ValueError(what + " is " + std::to_string(from_end ? -size : size - 1) +
                         " for an array of rank " + std::to_string(rank) +
                         "; valid: " + std::to_string(-rank) + " to " + std::to_string(rank - 1),
                     location);
  }
  return from_end ? rank - size : size - 1;
}

/// The axes as they are written: "(0, nullptr)".
std::string shown(const ShardingTree& axes) {
  if (axes.is_leaf()) {
    if (axes.kind() != ShardingTree::Kind::spec || axes.spec().size() == 0) return "nullptr";
    const auto size = std::int64_t(axes.spec().size());
    const bool from_end = axes.spec()[std::size_t(size - 1)] == SpecEntry(kFromEnd);
    return std::to_string(from_end ? -size : size - 1);
  }
  std::string out;
  for (const ShardingTree& child : axes.children()) out += (out.empty() ? "" : ", ") + shown(child);
  return "(" + out + ")";
}

Instruction* moved_to(ir::Builder& b, const transforms::BatchedArray& x, std::int64_t to,
                      std::int64_t size) {
  if (x.dim == transforms::kNotBatched) {
    Dims dims = x.value->shape.dims, places(dims.size());
    std::iota(places.begin(), places.end(), 0);
    for (std::int64_t& p : places) p += p >= to ? 1 : 0;
    dims.insert(dims.begin() + to, size);
    return b.broadcast(x.value, dims, places);
  }
  if (x.dim == to) return x.value;
  Dims perm(x.value->shape.dims.size());
  std::iota(perm.begin(), perm.end(), 0);
  perm.erase(perm.begin() + x.dim);
  perm.insert(perm.begin() + to, x.dim);
  return b.transpose(x.value, perm);
}

/// Where each leaf of the arguments holds the batch, and its size.
struct InAxes {
  Dims dims;
  std::int64_t size = -1;
};

InAxes in_axes(const CallInfo& info, const VmapOptions& options, Location location) {
  const std::string who = options.name + ": in_axes";
  const ShardingTree tree = options.in_axes.specs(kFromFront, kFromEnd, who, location);
  const std::vector<ShardingTree> leaves =
      frontend::broadcast_prefix(tree, info.walk_args, who, location, shown);
  const std::vector<std::string> paths = info.paths();
  InAxes out;
  std::string first;
  if (options.axis_size) {
    if (*options.axis_size < 0) {
      throw ValueError(options.name + ": axis_size is " + std::to_string(*options.axis_size) +
                           "; valid: a number of entries",
                       location);
    }
    out.size = *options.axis_size;
    first = "axis_size";
  }
  for (std::size_t k = 0; k < info.leaves.size(); ++k) {
    const Shape shape = frontend::abstract_value(info.leaves[k]).shape;
    const std::string what = who + " of argument" + paths[k];
    out.dims.push_back(dim_of(leaves[k], shape.rank(), what, location));
    if (out.dims[k] == transforms::kNotBatched) continue;
    const std::int64_t size = shape.dim(out.dims[k]);
    if (out.size >= 0 && size != out.size) {
      throw ValueError(options.name + ": argument" + paths[k] + ", " + shape.to_string() +
                           ", holds " + std::to_string(size) + " entries along dim " +
                           std::to_string(out.dims[k]) + ", and " + first + " " +
                           std::to_string(out.size),
                       location);
    }
    if (out.size < 0) first = "argument" + paths[k];
    out.size = size;
  }
  if (out.size < 0) {
    throw ValueError(who + " names no dimension; valid: at least one, or axis_size", location);
  }
  return out;
}

/// In explicit mode, the axes that split the batch: those of the batch dim of each argument, which
/// is taken from its type.
frontend::ShardingType::AxisList take_batch_axes(std::vector<AbstractValue>* entries,
                                                 const InAxes& in, const VmapOptions& options,
                                                 const std::vector<std::string>& paths,
                                                 Location location) {
  std::optional<frontend::ShardingType::AxisList> out;
  std::string first;
  for (std::size_t k = 0; k < entries->size(); ++k) {
    frontend::ShardingType& type = (*entries)[k].sharding;
    if (in.dims[k] == transforms::kNotBatched || !type) continue;
    const auto place = type.dims.begin() + in.dims[k];
    const std::string mine = "argument" + paths[k] + "'s as " + SpecEntry(*place).to_string();
    if (out && *out != *place) {
      throw ShardingTypeError(options.name + ": the batch dims are split differently, " + first +
                                  " and " + mine +
                                  "; valid: reshard() of one, so that both are split alike",
                              location);
    }
    out = *place;
    first = mine;
    type.dims.erase(place);
  }
  if (!out) return {};
  if (!out->empty() && !options.spmd_axis_name.list().empty()) {
    throw ValueError(options.name +
                         ": spmd_axis_name is given, and the batch is split by Explicit "
                         "axes already, " +
                         first + "; valid: one of both",
                     location);
  }
  for (std::size_t k = 0; k < entries->size(); ++k) {
    const frontend::ShardingType& type = (*entries)[k].sharding;
    for (const auto& axes : type.dims) {
      for (const std::string& a : axes) {
        if (!contains(*out, a)) continue;
        throw ShardingTypeError(options.name + ": argument" + paths[k] + " is " +
                                    frontend::type_text((*entries)[k].shape, type) +
                                    ", split by '" + a +
                                    "', which splits the batch; valid: reshard() of it",
                                location);
      }
    }
  }
  return *out;
}

}  // namespace

std::vector<Array> vmap_core(const CallInfo& info, Prototype* prototype, const VmapOptions& options,
                             Location location) {
  const InAxes in = in_axes(info, options, location);
  const auto batched = [&] {
    Trace& outer = *Trace::current();
    std::vector<AbstractValue> entries = frontend::abstract_values(info.leaves);
    for (std::size_t k = 0; k < entries.size(); ++k) {
      Dims& dims = entries[k].shape.dims;
      if (in.dims[k] != transforms::kNotBatched) dims.erase(dims.begin() + in.dims[k]);
    }
    const auto split_by = take_batch_axes(&entries, in, options, info.paths(), location);
    std::vector<std::string> batch_axes = options.spmd_axis_name.list();
    batch_axes.insert(batch_axes.end(), split_by.begin(), split_by.end());
    const frontend::TracedFunction f = frontend::trace_function(
        outer, options.name, entries,
        [&](const std::vector<Array>& leaves) { return info.trace(leaves, prototype); }, location,
        {options.axis_name, in.size});
    std::vector<transforms::BatchedArray> arguments;
    const std::vector<Instruction*> given = frontend::lift_all(outer, info.leaves, location);
    for (std::size_t k = 0; k < given.size(); ++k) arguments.push_back({given[k], in.dims[k]});
    for (Instruction* c : frontend::lift_all(outer, f.captures, location)) {
      arguments.push_back({c, transforms::kNotBatched});
    }
    ir::Builder& b = outer.builder();
    const std::vector<transforms::BatchedArray> results = transforms::batch_into(
        b, *f.computation, arguments, {in.size, options.axis_name, batch_axes, !split_by.empty()});

    const std::string who = options.name + ": out_axes";
    const auto walk = [&](TreeVisitor& v) { info.walk_result(*prototype, v); };
    const std::vector<ShardingTree> axes = frontend::broadcast_prefix(
        options.out_axes.specs(kFromFront, kFromEnd, who, location), walk, who, location, shown);
    const std::vector<std::string> paths = leaf_paths(walk);
    std::vector<Array> out;
    for (std::size_t k = 0; k < results.size(); ++k) {
      const bool batched = results[k].dim != transforms::kNotBatched;
      const std::int64_t rank = f.results[k].shape.rank() + 1;
      const std::string what = who + " of result" + paths[k];
      const std::int64_t to = dim_of(axes[k], rank, what, location);
      if (to == transforms::kNotBatched && batched) {
        throw ValueError(what + " is nullptr, and the result depends on the batch; valid: " +
                             std::to_string(-rank) + " to " + std::to_string(rank - 1),
                         location);
      }
      Instruction* value =
          to == transforms::kNotBatched ? results[k].value : moved_to(b, results[k], to, in.size);
      frontend::ShardingType type = f.results[k].sharding;
      if (type && to != transforms::kNotBatched) {
        type.dims.insert(type.dims.begin() + to,
                         batched ? split_by : frontend::ShardingType::AxisList());
      }
      out.push_back(
          frontend::with_sharding_type(outer.wrap(value, f.results[k].weak), type, location));
    }
    return out;
  };
  return frontend::with_captures_of_rules(
      [&] { return frontend::as_one_program(options.name, location, batched); });
}

std::vector<std::int64_t> joined_shape(const Array& a, const Array& b) {
  std::vector<std::int64_t> out = a.shape();
  out.insert(out.end(), b.shape().begin(), b.shape().end());
  return out;
}

Array standard_basis(const Array& x, Location location) {
  return frontend::as_one_program("standard_basis", location, [&] {
    Trace& t = *Trace::current();
    ir::Builder& b = t.builder();
    const Shape shape = frontend::abstract_value(x).shape;
    const std::int64_t n = shape.element_count();
    const Shape places(DType::s32, {n, n});
    Instruction* same = b.compare(ir::Direction::eq, b.iota(places, 0), b.iota(places, 1));
    Dims dims = shape.dims;
    dims.insert(dims.begin(), n);
    return std::vector<Array>{t.wrap(b.reshape(b.convert(same, shape.dtype), dims), false)};
  })[0];
}

}  // namespace tessera::internal
