// SPDX-License-Identifier: Apache-2.0
// Interfaces that upper layers implement, so that the partitioner can call a user's code without
// knowing the tracer.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/small_vector.h"
#include "src/ir/module.h"

namespace tessera::ir {

/// A value as a partitioning callback sees it. The sharding is absent for results in
/// infer_sharding_from_operands.
struct ShapeWithSharding {
  Shape shape;
  std::optional<TensorSharding> sharding;
};

/// A user's sharding rule in factors: `([i, k], [k, j]) -> ([i, j])`.
struct FactorRuleSpec {
  std::vector<std::string> factor_names;
  Dims factor_sizes;
  /// operands[o][dim] = factor numbers, major to minor.
  std::vector<std::vector<IndexList>> operands, results;
  IndexList reduction, need_replication, permutation;
  std::string to_string() const;  ///< Shardy's text
};

/// One call of custom_partitioning.
class CustomPartitioner {
 public:
  virtual ~CustomPartitioner() = default;
  /// The function's name, for messages and text.
  virtual std::string name() const = 0;
  /// The rule for these shapes; empty if the user gave callbacks only.
  virtual std::optional<FactorRuleSpec> rule(const MeshRef& mesh,
                                             const std::vector<ShapeWithSharding>& args,
                                             const std::vector<ShapeWithSharding>& results) = 0;
  virtual bool has_infer_callback() const = 0;
  virtual bool has_propagate_callback() const = 0;
  virtual std::vector<TensorSharding> infer_sharding_from_operands(
      const MeshRef& mesh, const std::vector<ShapeWithSharding>& args,
      const std::vector<ShapeWithSharding>& results) = 0;
  /// User shardings of the results (one per result) → shardings to suggest.
  virtual std::vector<TensorSharding> propagate_user_sharding(
      const MeshRef& mesh, const std::vector<ShapeWithSharding>& results) = 0;

  struct Partition {
    std::vector<TensorSharding> args;
    std::vector<TensorSharding> results;
    /// In the module given to partition(): per-device shapes, flat parameters, tuple root.
    Computation* body = nullptr;
  };
  /// Calls the user's partition callback with suggested shardings and traces the per-device
  /// function into `module`.
  virtual Partition partition(Module* module, const MeshRef& mesh,
                              const std::vector<ShapeWithSharding>& args,
                              const std::vector<ShapeWithSharding>& results) = 0;
};

/// custom_call_target of a scan that HLO's scan can't express (ScanAttrs). Its attributes are those
/// of HLO's scan with `length` and `num_constants`.
inline constexpr const char* kScanTarget = "tessera.Scan";

}  // namespace tessera::ir
