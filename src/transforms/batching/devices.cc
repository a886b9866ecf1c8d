// SPDX-License-Identifier: Apache-2.0
// Batches what says how values lie on devices, code per device and its collectives.
#include <algorithm>

#include <tessera/partition_spec.h>

#include "src/base/contains.h"
#include "src/transforms/batching/entries.h"
#include "src/transforms/batching/site.h"

namespace tessera::transforms::batching {

using ir::Instruction;

namespace {

std::string quoted_list(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& n : names) out += (out.empty() ? "'" : ", '") + n + "'";
  return out;
}

/// The numbers of the axes that hold the batch. ValueError if the mesh lacks one.
IndexList batch_axes(const BatchSite& site, const LogicalMesh& mesh) {
  IndexList out;
  for (const std::string& name : site.batcher.options().spmd_axes) {
    const int axis = mesh.find(name);
    if (axis < 0) {
      std::vector<std::string> all;
      for (const MeshAxis& a : mesh.axes) all.push_back(a.name);
      const bool typed = site.batcher.options().spmd_axes_of_types;
      throw ValueError("vmap: " +
                           (typed ? "the batch is split by '" + name + "', which"
                                  : "spmd_axis_name '" + name + "'") +
                           " is no axis of the mesh of " + site.op.describe() + "; it has " +
                           quoted_list(all),
                       site.op.location());
    }
    out.push_back(axis);
  }
  return out;
}

/// The sharding as a user writes it.
std::string spec_text(const TensorSharding& s) {
  std::vector<SpecEntry> entries;
  for (const DimSharding& d : s.dims) {
    std::vector<std::string> names;
    for (const int a : d.axes) names.push_back(s.mesh->axes[std::size_t(a)].name);
    if (names.empty() && d.open) {
      entries.emplace_back(UNCONSTRAINED);
    } else {
      entries.emplace_back(std::move(names));
    }
  }
  while (!entries.empty() && entries.back() == SpecEntry(nullptr)) entries.pop_back();
  return PartitionSpec::from_entries(std::move(entries)).to_string();
}

/// Adds the batch to the sharding of an entry: over those axes, behind none or left `open`.
void add_batch_dim(const BatchSite& site, TensorSharding* s, std::int64_t dim,
                   const IndexList& axes, bool open) {
  for (const DimSharding& d : s->dims) {
    for (const int a : d.axes) {
      if (!tessera::contains(axes, a)) continue;
      const std::string name = "'" + s->mesh->axes[std::size_t(a)].name + "'";
      const std::string where = "vmap: " + spec_text(*s) + " of " +
                                (site.op.opcode == ir::Opcode::sharding_constraint
                                     ? "a constraint"
                                     : "a shard_map's arguments or results") +
                                " names " + name;
      if (site.batcher.options().spmd_axes_of_types) {
        throw ValueError(where +
                             ", which splits the batch of the vmap's arguments; valid: within the "
                             "vmap a spec without " +
                             name + ", as it is of one entry",
                         site.op.location());
      }
      throw ValueError(where + ", which spmd_axis_name gives to the batch; an axis holds one dim",
                       site.op.location());
    }
  }
  DimSharding batch;
  batch.axes = axes;
  batch.open = open;
  s->dims.insert(s->dims.begin() + std::ptrdiff_t(dim), batch);
}

}  // namespace

/// Propagation may split the batch as it likes, unless vmap says how.
Batched batch_sharding_constraint(BatchSite& site) {
  auto attrs = site.op.get<ir::ShardingConstraintAttrs>();
  const std::int64_t dim = site.dim(0);
  attrs.unspecified_dims = shifted(attrs.unspecified_dims, dim);
  const bool by_user = !site.batcher.options().spmd_axes.empty() && site.op.sharding.size() == 1 &&
                       site.op.sharding[0].kind == TensorSharding::Kind::axes &&
                       site.op.sharding[0].mesh != nullptr;
  if (!by_user) {
    attrs.unspecified_dims.push_back(dim);
    std::sort(attrs.unspecified_dims.begin(), attrs.unspecified_dims.end());
    return site.emit({site.array(0)}, attrs, dim);
  }
  TensorSharding sharding = site.op.sharding[0];
  add_batch_dim(site, &sharding, dim, batch_axes(site, *sharding.mesh), false);
  Batched out = site.emit({site.array(0)}, attrs, dim);
  out.array->sharding = {std::move(sharding)};
  return out;
}

Batched batch_propagation_barrier(BatchSite& site) {
  return site.emit({site.array(0)}, site.dim(0));
}

namespace {

/// Each device has all entries of its shards, but for those that lie over axes of `held`;
/// automatic axes may split them.
void add_batch(const BatchSite& site, std::vector<TensorSharding>* shardings, const Dims& dims,
               const ir::ManualComputationAttrs& attrs, const IndexList& held) {
  const bool automatic =
      attrs.mesh != nullptr && attrs.manual_axes.size() < attrs.mesh->axes.size();
  for (std::size_t k = 0; k < dims.size() && k < shardings->size(); ++k) {
    TensorSharding& s = (*shardings)[k];
    if (dims[k] == kNotBatched || s.kind != TensorSharding::Kind::axes) continue;
    add_batch_dim(site, &s, dims[k], held, automatic && held.empty() && s.mesh != nullptr);
  }
}

/// How many devices along manual axes hold different entries.
std::int64_t parts_of_batch(const BatchSite& site, const ir::ManualComputationAttrs& attrs,
                            const IndexList& held) {
  std::int64_t parts = 1;
  for (const int a : held) {
    if (tessera::contains(attrs.manual_axes, a)) parts *= attrs.mesh->axes[std::size_t(a)].size;
  }
  if (site.size() % parts != 0) {
    throw ValueError("vmap: a batch of " + std::to_string(site.size()) +
                         " entries can't be split over " +
                         (site.batcher.options().spmd_axes_of_types ? "" : "spmd_axis_name ") +
                         quoted_list(site.batcher.options().spmd_axes) + ", " +
                         std::to_string(parts) + " devices",
                     site.op.location());
  }
  return parts;
}

}  // namespace

Batched batch_manual_computation(BatchSite& site) {
  Dims dims = site.operand_dims();
  std::vector<Instruction*> operands = site.packed_operands();
  auto attrs = site.op.get<ir::ManualComputationAttrs>();
  const IndexList held = attrs.mesh != nullptr ? batch_axes(site, *attrs.mesh) : IndexList();
  BatchedComputation body;
  if (const std::int64_t parts = parts_of_batch(site, attrs, held); parts == 1) {
    body = site.batcher.computation(*site.op.called(0), dims);
  } else {
    if (site.batcher.dependence().names_batch(site.op)) {
      site.not_implemented("it communicates over axis_name '" + site.batcher.options().axis_name +
                           "', whose entries " +
                           (site.batcher.options().spmd_axes_of_types
                                ? "the arguments' shardings spread"
                                : "spmd_axis_name spreads") +
                           " over its devices");
    }
    BatchOptions local = site.batcher.options();
    local.size /= parts;
    Batcher inner(site.batcher.module(), local);
    body = inner.computation(*site.op.called(0), dims);
  }
  add_batch(site, &attrs.in_shardings, dims, attrs, held);
  add_batch(site, &attrs.out_shardings, body.out_dims, attrs, held);
  const Shape shape = batched_shape(site.op.shape, body.out_dims, site.size());
  Instruction* made =
      site.emit_calling(shape, std::move(operands), std::move(attrs), {body.computation});
  return unpacked(site.b, made, body.out_dims);
}

namespace {

/// A collective that treats all elements of an operand alike: each stays as it is.
Batched each_as_it_is(BatchSite& site) {
  std::vector<Instruction*> operands;
  Dims dims;
  for (std::size_t i = 0; i < site.operand_count(); ++i) {
    operands.push_back(site.array(i));
    dims.push_back(site.dim(i));
  }
  return site.emit(std::move(operands), site.op.attrs, dims);
}

/// A collective that joins or splits one dim, the same of all operands.
Batched along_dim(BatchSite& site) {
  auto attrs = site.op.get<ir::CollectiveAttrs>();
  std::int64_t& along = attrs.dims.at(0);
  if (site.operand_count() == 1) {
    along = shifted(along, site.dim(0));
    return site.emit({site.array(0)}, attrs, site.dim(0));
  }
  std::vector<Instruction*> operands;
  Dims dims;
  for (std::size_t i = 0; i < site.operand_count(); ++i) {
    dims.push_back(site.batched(i) ? std::max(site.dim(i), along + 1) : kNotBatched);
    operands.push_back(site.batched(i) ? site.at(i, dims.back()) : site.array(i));
  }
  return site.emit(std::move(operands), attrs, dims);
}

}  // namespace

Batched batch_all_reduce(BatchSite& site) {
  return of_batch(site) ? reduced_over_batch(site) : each_as_it_is(site);
}

Batched batch_collective(BatchSite& site) {
  if (of_batch(site)) return permuted_in_batch(site);
  if (flatten(site.op.shape).size() != site.operand_count()) {
    site.not_implemented("it writes into an operand in place");
  }
  return each_as_it_is(site);
}

Batched batch_all_gather(BatchSite& site) {
  return of_batch(site) ? gathered_from_batch(site) : along_dim(site);
}
Batched batch_reduce_scatter(BatchSite& site) {
  return of_batch(site) ? scattered_over_batch(site) : along_dim(site);
}

Batched batch_all_to_all(BatchSite& site) {
  if (of_batch(site)) return exchanged_in_batch(site);
  if (!site.op.get<ir::CollectiveAttrs>().dims.empty()) return along_dim(site);
  // One operand for each device, all of one shape.
  const std::int64_t dim = site.common_dim();
  std::vector<Instruction*> operands;
  for (std::size_t i = 0; i < site.operand_count(); ++i) operands.push_back(site.at(i, dim));
  return site.emit(std::move(operands), dim);
}

}  // namespace tessera::transforms::batching
