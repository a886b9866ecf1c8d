// SPDX-License-Identifier: Apache-2.0
// The layouts that were found, by all that they depend on: programs repeat their layers.
#include <string>
#include <utility>

#include "src/base/key_writer.h"
#include "src/spmd/partitioner/layout/layout_search.h"

namespace tessera::spmd {
namespace {

constexpr std::size_t kCachedLayouts = 1 << 12;

/// Whether there is a shape and a sharding for each tensor.
bool tensors_fit(const std::vector<TensorFactors>& factors, const std::vector<Shape>& shapes,
                 const std::vector<TensorSharding>& shardings) {
  if (factors.size() != shapes.size() || shapes.size() != shardings.size()) return false;
  for (std::size_t i = 0; i < factors.size(); ++i) {
    if (shapes[i].dims.size() != factors[i].size() ||
        shardings[i].dims.size() != factors[i].size()) {
      return false;
    }
  }
  return true;
}

/// All that the choice depends on. Of the mesh only the axes' sizes.
std::string key_of(const LayoutProblem& p, const cost::Machine& machine, const MeshRef& mesh) {
  KeyWriter key;
  key.add(mesh->axes.size());
  for (const MeshAxis& a : mesh->axes) key.add(a.size);
  key.add(p.rule.factors.size());
  for (const Factor& f : p.rule.factors) key.add_all(f.size, f.kind);
  const auto tensors = [&](const std::vector<TensorFactors>& factors,
                           const std::vector<Shape>& shapes,
                           const std::vector<TensorSharding>& shardings) {
    key.add(shapes.size());
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      key.add_all(byte_size(shapes[i].dtype), factors[i].size());
      for (std::size_t d = 0; d < factors[i].size(); ++d) {
        key.add_all(shapes[i].dims[d], factors[i][d], shardings[i].dims[d].axes);
      }
      key.add_all(shardings[i].unreduced, shardings[i].manual);
    }
  };
  tensors(p.rule.operands, p.operand_shapes, p.operand_shardings);
  tensors(p.rule.results, p.result_shapes, p.result_shardings);
  key.add_all(p.flops, machine.network().flops_per_second);
  add_transfers_to_key(key, machine, *mesh);
  return key.take();
}

/// Known layouts are on no mesh: the key doesn't know which it was.
void set_mesh(ComputeLayout* layout, const MeshRef& mesh) {
  for (auto* list : {&layout->operands, &layout->results}) {
    for (TensorSharding& s : *list) s.mesh = mesh;
  }
}

}  // namespace

LayoutPlanner::LayoutPlanner(ReshardPlanner& reshards)
    : reshards_(reshards), layouts_(kCachedLayouts) {}

ComputeLayout LayoutPlanner::choose(const LayoutProblem& p, const cost::Machine& machine) {
  MeshRef mesh;
  for (const auto* list : {&p.operand_shardings, &p.result_shardings}) {
    for (const TensorSharding& s : *list) {
      if (s.mesh) mesh = s.mesh;
    }
  }
  const bool fits = tensors_fit(p.rule.operands, p.operand_shapes, p.operand_shardings) &&
                    tensors_fit(p.rule.results, p.result_shapes, p.result_shardings);
  if (!mesh || !fits) return search_layout(reshards_, p, machine);
  std::string key = key_of(p, machine, mesh);
  const ComputeLayout* known = layouts_.find(key);
  if (!known) {
    ComputeLayout found = search_layout(reshards_, p, machine);
    set_mesh(&found, nullptr);
    known = &layouts_.add(std::move(key), std::move(found));
  }
  ComputeLayout layout = *known;
  set_mesh(&layout, mesh);
  return layout;
}

}  // namespace tessera::spmd
