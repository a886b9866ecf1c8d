// SPDX-License-Identifier: Apache-2.0
// The user's partitioning callbacks for a batch of calls.
#include "src/frontend/custom/batched_partitioning.h"

#include <algorithm>
#include <set>

#include "src/base/contains.h"
#include "src/passes/control/expand_scans.h"
#include "src/passes/expand_derivative_ops.h"
#include "src/transforms/batching/batch.h"

namespace tessera::frontend {

using ir::ShapeWithSharding;

namespace {

constexpr std::int64_t kShared = transforms::kNotBatched;

/// Of one entry.
std::vector<ShapeWithSharding> of_entry(std::vector<ShapeWithSharding> values, const Dims& batch) {
  for (std::size_t k = 0; k < values.size(); ++k) {
    if (batch[k] == kShared) continue;
    const auto at = std::ptrdiff_t(batch[k]);
    Dims dims = values[k].shape.dims;
    dims.erase(dims.begin() + at);
    values[k].shape = Shape(values[k].shape.dtype, dims);
    std::optional<TensorSharding>& s = values[k].sharding;
    if (s && s->kind == TensorSharding::Kind::axes) s->dims.erase(s->dims.begin() + at);
  }
  return values;
}

/// The axes on which the first value that is split along its batch holds it.
IndexList axes_of_batch(const std::vector<ShapeWithSharding>& values, const Dims& batch,
                        const MeshRef& mesh) {
  for (std::size_t k = 0; k < values.size(); ++k) {
    const std::optional<TensorSharding>& s = values[k].sharding;
    if (batch[k] == kShared || !s || s->kind != TensorSharding::Kind::axes || !s->mesh) continue;
    if (!same_mesh(s->mesh, mesh) || !(*s->mesh == *mesh)) continue;
    const IndexList& axes = s->dims[std::size_t(batch[k])].axes;
    if (!axes.empty()) return axes;
  }
  return {};
}

void add_used(const TensorSharding& s, std::set<int>* used) {
  for (const DimSharding& d : s.dims) used->insert(d.axes.begin(), d.axes.end());
  used->insert(s.unreduced.begin(), s.unreduced.end());
}

/// The axes along which two devices lie apart.
void add_between(std::int64_t one, std::int64_t other, const LogicalMesh& mesh,
                 std::set<int>* used) {
  for (std::size_t a = 0; a < mesh.axes.size(); ++a) {
    if (mesh.coordinate(one, int(a)) != mesh.coordinate(other, int(a))) used->insert(int(a));
  }
}

/// The axes along which devices communicate in a computation.
void add_communicated(const ir::Computation& computation, const LogicalMesh& mesh,
                      std::set<int>* used) {
  for (const auto& i : computation.instructions()) {
    for (const ir::Computation* c : i->called()) add_communicated(*c, mesh, used);
    if (const auto* permute = i->attrs.get_if<ir::PermuteAttrs>()) {
      for (const auto& [from, to] : permute->source_target_pairs) {
        add_between(from, to, mesh, used);
      }
    }
    const auto* collective = i->attrs.get_if<ir::CollectiveAttrs>();
    if (collective == nullptr) continue;
    const ir::DeviceGroups& groups = collective->groups;
    if (groups.symbolic() && *groups.mesh == mesh) {
      used->insert(groups.axes.begin(), groups.axes.end());
      continue;
    }
    for (const auto& group : groups.expand(mesh.num_devices())) {
      for (const std::int64_t device : group) add_between(group[0], device, mesh, used);
    }
  }
}

/// Those of the axes that are free and split the batch evenly.
IndexList usable(const IndexList& axes, const std::set<int>& used, const LogicalMesh& mesh,
                 std::int64_t size) {
  IndexList out;
  for (const int a : axes) {
    const std::int64_t ways = mesh.axes[std::size_t(a)].size;
    if (used.count(a) != 0 || size % ways != 0) continue;
    size /= ways;
    out.push_back(a);
  }
  return out;
}

/// With the batch on these axes, which an entry's sharding doesn't use.
void add_batch_dims(std::vector<TensorSharding>* entries, const Dims& batch, const IndexList& axes,
                    const MeshRef& mesh) {
  for (std::size_t k = 0; k < entries->size() && k < batch.size(); ++k) {
    TensorSharding& s = (*entries)[k];
    if (batch[k] == kShared || s.kind != TensorSharding::Kind::axes) continue;
    if (s.mesh == nullptr) s.mesh = mesh;
    DimSharding held;
    held.axes = axes;
    s.dims.insert(s.dims.begin() + std::ptrdiff_t(batch[k]), held);
  }
}

}  // namespace

void BatchedPartitioner::bind(const Mesh& mesh, std::vector<Device> devices) {
  if (auto* listener = dynamic_cast<DeviceListener*>(entry_.get())) {
    listener->bind(mesh, std::move(devices));
  }
}

std::shared_ptr<ir::CustomPartitioner> BatchedPartitioner::on_batch(const Batch& batch) {
  return std::make_shared<BatchedPartitioner>(shared_from_this(), batch);
}

std::optional<ir::FactorRuleSpec> BatchedPartitioner::rule(
    const MeshRef& mesh, const std::vector<ShapeWithSharding>& args,
    const std::vector<ShapeWithSharding>& results) {
  auto rule = entry_->rule(mesh, of_entry(args, batch_.args), of_entry(results, batch_.results));
  if (!rule) return rule;
  const int factor = int(rule->factor_sizes.size());
  std::string name = "batch";
  while (contains(rule->factor_names, name)) name += "_";
  rule->factor_names.push_back(std::move(name));
  rule->factor_sizes.push_back(batch_.size);
  const auto add = [&](std::vector<std::vector<IndexList>>* tensors, const Dims& batch) {
    for (std::size_t k = 0; k < tensors->size(); ++k) {
      if (batch[k] == kShared) continue;
      (*tensors)[k].insert((*tensors)[k].begin() + std::ptrdiff_t(batch[k]), IndexList{factor});
    }
  };
  add(&rule->operands, batch_.args);
  add(&rule->results, batch_.results);
  return rule;
}

std::vector<TensorSharding> BatchedPartitioner::infer_sharding_from_operands(
    const MeshRef& mesh, const std::vector<ShapeWithSharding>& args,
    const std::vector<ShapeWithSharding>& results) {
  std::vector<TensorSharding> out = entry_->infer_sharding_from_operands(
      mesh, of_entry(args, batch_.args), of_entry(results, batch_.results));
  std::set<int> used;
  for (const TensorSharding& s : out) add_used(s, &used);
  const IndexList axes = axes_of_batch(args, batch_.args, mesh);
  add_batch_dims(&out, batch_.results, usable(axes, used, *mesh, batch_.size), mesh);
  return out;
}

std::vector<TensorSharding> BatchedPartitioner::propagate_user_sharding(
    const MeshRef& mesh, const std::vector<ShapeWithSharding>& results) {
  std::vector<TensorSharding> out =
      entry_->propagate_user_sharding(mesh, of_entry(results, batch_.results));
  std::set<int> used;
  for (const TensorSharding& s : out) add_used(s, &used);
  const IndexList axes = axes_of_batch(results, batch_.results, mesh);
  add_batch_dims(&out, batch_.results, usable(axes, used, *mesh, batch_.size), mesh);
  return out;
}

ir::CustomPartitioner::Partition BatchedPartitioner::partition(
    ir::Module* module, const MeshRef& mesh, const std::vector<ShapeWithSharding>& args,
    const std::vector<ShapeWithSharding>& results) {
  Partition out = entry_->partition(module, mesh, of_entry(args, batch_.args),
                                    of_entry(results, batch_.results));
  std::set<int> used;
  for (const TensorSharding& s : out.args) add_used(s, &used);
  for (const TensorSharding& s : out.results) add_used(s, &used);
  add_communicated(*out.body, *mesh, &used);
  IndexList axes = axes_of_batch(results, batch_.results, mesh);
  if (axes.empty()) axes = axes_of_batch(args, batch_.args, mesh);
  axes = usable(axes, used, *mesh, batch_.size);
  transforms::BatchOptions local;
  local.size = batch_.size;
  for (const int a : axes) local.size /= mesh->axes[std::size_t(a)].size;
  out.body = transforms::batch(*out.body, batch_.args, local, batch_.results).computation;
  passes::expand_derivative_ops_in(out.body);
  passes::expand_scans_in(out.body);
  add_batch_dims(&out.args, batch_.args, axes, mesh);
  add_batch_dims(&out.results, batch_.results, axes, mesh);
  return out;
}

}  // namespace tessera::frontend
