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
/// custom_call_target of a manual computation (shard_map): code that is written per device along
/// some axes of the mesh. Operands and results are global arrays. called[0] is the body: its
/// parameters and results have the shapes of shards along the manual axes, and are whole along all
/// others. It returns a tuple of the local results, and the call's shape is a tuple of the global
/// ones; a single result may stand without a tuple on both sides. Replica groups and permutes in
/// the body name partition ids of the whole program.
///
/// CustomCallAttrs::other has these entries:
///   in_shardings, out_shardings: sdy's lists, `[<@mesh, [{"x"}, {}]>, <@mesh, [{}]>]`, one entry
///     per operand and per result; `[]` if there are none. `@mesh` may be a whole mesh in place,
///     `mesh<["x"=2, "y"=4]>`, as it is printed; a mere name stands for the module's mesh.
///   manual_axes: `["x", "y"]`; whole named axes, none for `[]`. On every dim they come before the
///     axes that stay automatic.
inline constexpr const char* kManualComputationTarget = "tessera.ManualComputation";
inline constexpr const char* kManualInShardings = "in_shardings";
inline constexpr const char* kManualOutShardings = "out_shardings";
inline constexpr const char* kManualAxes = "manual_axes";

}  // namespace tessera::ir
