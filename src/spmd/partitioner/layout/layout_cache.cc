// SPDX-License-Identifier: Apache-2.0
// The layouts that were found, by all that they depend on: programs repeat their layers.
#include <cstring>
#include <string>
#include <utility>

#include "src/spmd/partitioner/layout/layout_search.h"

namespace tessera::spmd {
namespace {

constexpr std::size_t kCachedLayouts = 1 << 12;

void append(std::string* key, std::int64_t value) {
  while (value < 0 || value > 127) {
    key->push_back(char(0x80 | (value & 0x7F)));
    value = std::int64_t(std::uint64_t(value) >> 7);
  }
  key->push_back(char(value));
}

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
                   const LayoutCost& cost, const std::vector<double>& operand_shares,
                   const MeshRef& mesh) {
  std::string key;
  key.reserve(256);
  for (const MeshAxis& a : mesh->axes) append(&key, a.size);
  key.push_back(0);
  for (const Factor& f : rule.factors) {
    append(&key, f.size);
    append(&key, std::int64_t(f.kind) + 1);
  }
  key.push_back(0);
  auto tensors = [&](const std::vector<TensorFactors>& factors, const std::vector<Shape>& shapes,
                     const std::vector<TensorSharding>& shardings) {
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      append(&key, std::int64_t(byte_size(shapes[i].dtype)) + 1);
      for (std::size_t d = 0; d < factors[i].size(); ++d) {
        append(&key, shapes[i].dims[d]);
        for (int f : factors[i][d]) append(&key, f + 1);
        key.push_back(0);
        for (int a : shardings[i].dims[d].axes) append(&key, a + 1);
        key.push_back(0);
      }
      for (const auto* list : {&shardings[i].unreduced, &shardings[i].manual}) {
        for (int a : *list) append(&key, a + 1);
        key.push_back(0);
      }
    }
    key.push_back(0);
  };
  tensors(rule.operands, operand_shapes, operand_shardings);
  tensors(rule.results, result_shapes, result_shardings);
  const auto append_bits = [&](double x) {
    char raw[sizeof x];
    std::memcpy(raw, &x, sizeof raw);
    key.append(raw, sizeof raw);
  };
  append_bits(flops);
  append_bits(cost.transfer.latency_bytes);
  append_bits(cost.transfer.bytes_per_peak_byte);
  append_bits(cost.bytes_per_flop);
  append_bits(cost.bytes_per_repeated_flop);
  key.push_back(char(cost.share_copies));
  for (const double share : operand_shares) append_bits(share);
  return key;
}

}  // namespace

LayoutPlanner::LayoutPlanner(ReshardPlanner& reshards)
    : reshards_(reshards), layouts_(kCachedLayouts) {}

ComputeLayout LayoutPlanner::choose(const FactorRule& rule,
                                    const std::vector<Shape>& operand_shapes,
                                    const std::vector<TensorSharding>& operand_shardings,
                                    const std::vector<Shape>& result_shapes,
                                    const std::vector<TensorSharding>& result_shardings,
                                    double flops, const CostModel& model,
                                    const std::vector<double>& operand_shares) {
  MeshRef mesh;
  for (const auto* list : {&operand_shardings, &result_shardings}) {
    for (const TensorSharding& s : *list) {
      if (s.mesh) mesh = s.mesh;
    }
  }
  const LayoutCost cost = layout_cost(rule, operand_shapes, model);
  const auto search = [&] {
    return search_layout(reshards_, rule, operand_shapes, operand_shardings, result_shapes,
                         result_shardings, flops, cost, operand_shares);
  };
  const bool fits = tensors_fit(rule.operands, operand_shapes, operand_shardings) &&
                    tensors_fit(rule.results, result_shapes, result_shardings);
  if (!mesh || !fits) return search();
  std::string key = key_of(rule, operand_shapes, operand_shardings, result_shapes, result_shardings,
                           flops, cost, operand_shares, mesh);
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
