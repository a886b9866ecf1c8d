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
std::string key_of(const FactorRule& rule, const std::vector<Shape>& operand_shapes,
                   const std::vector<TensorSharding>& operand_shardings,
                   const std::vector<Shape>& result_shapes,
                   const std::vector<TensorSharding>& result_shardings, double flops,
                   const cost::Machine& machine, const MeshRef& mesh) {
  KeyWriter key;
  key.add(mesh->axes.size());
  for (const MeshAxis& a : mesh->axes) key.add(a.size);
  key.add(rule.factors.size());
  for (const Factor& f : rule.factors) key.add_all(f.size, f.kind);
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
  tensors(rule.operands, operand_shapes, operand_shardings);
  tensors(rule.results, result_shapes, result_shardings);
  key.add_all(flops, machine.network().flops_per_second);
  add_transfers_to_key(key, machine, *mesh);
  return key.take();
}

}  // namespace

LayoutPlanner::LayoutPlanner(ReshardPlanner& reshards)
    : reshards_(reshards), layouts_(kCachedLayouts) {}

ComputeLayout LayoutPlanner::choose(const FactorRule& rule,
                                    const std::vector<Shape>& operand_shapes,
                                    const std::vector<TensorSharding>& operand_shardings,
                                    const std::vector<Shape>& result_shapes,
                                    const std::vector<TensorSharding>& result_shardings,
                                    double flops, const cost::Machine& machine) {
  MeshRef mesh;
  for (const auto* list : {&operand_shardings, &result_shardings}) {
    for (const TensorSharding& s : *list) {
      if (s.mesh) mesh = s.mesh;
    }
  }
  const auto search = [&] {
    return search_layout(reshards_, rule, operand_shapes, operand_shardings, result_shapes,
                         result_shardings, flops, machine);
  };
  const bool fits = tensors_fit(rule.operands, operand_shapes, operand_shardings) &&
                    tensors_fit(rule.results, result_shapes, result_shardings);
  if (!mesh || !fits) return search();
  std::string key = key_of(rule, operand_shapes, operand_shardings, result_shapes, result_shardings,
                           flops, machine, mesh);
  const ComputeLayout* known = layouts_.find(key);
  if (!known) {
    ComputeLayout found = search();
    for (auto* list : {&found.operands, &found.results}) {
      for (TensorSharding& s : *list) s.mesh = nullptr;
    }
    known = &layouts_.add(std::move(key), std::move(found));
  }
  ComputeLayout layout = *known;
  for (auto* list : {&layout.operands, &layout.results}) {
    for (TensorSharding& s : *list) s.mesh = mesh;
  }
  return layout;
}

}  // namespace tessera::spmd
