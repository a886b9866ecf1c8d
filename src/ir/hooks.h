// SPDX-License-Identifier: Apache-2.0
// Interfaces that upper layers implement, so that the partitioner can call a user's code without
// knowing the tracer.
#pragma once

#include <cstdint>
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
  /// Factors along which shardings don't propagate, whatever else they are.
  IndexList blocked = {};
  std::string to_string() const;  ///< Shardy's text
};

/// A function of the host that a program calls: jax.pure_callback and its relatives.
class HostCallback {
 public:
  enum class Kind : std::uint8_t {
    pure,   ///< equal operands give equal results, and nothing else happens
    io,     ///< it happens, once for each time that the program gets there
    debug,  ///< it happens, and tells of values: transformations pass it by
  };
  /// How a vmap calls it.
  enum class Batching : std::uint8_t {
    sequential,     ///< for one entry after the other
    expand_dims,    ///< once; operands that aren't batched have a leading dim of 1
    broadcast_all,  ///< once; all operands have the batch as leading dim
  };
  virtual ~HostCallback() = default;
  virtual Kind kind() const = 0;
  virtual Batching batching() const = 0;
  /// Whether its calls happen in the order of the program.
  virtual bool ordered() const { return false; }
  /// Computes the results of a call with these shapes. Serialised by the callee.
  virtual std::vector<Literal> run(const std::vector<Literal>& operands,
                                   const std::vector<Shape>& results) const = 0;
  /// Empty: it takes whole arrays.
  virtual std::optional<FactorRuleSpec> rule(const Instruction& call) const = 0;
};

/// One call of custom_partitioning.
class CustomPartitioner : public std::enable_shared_from_this<CustomPartitioner> {
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
    /// What the padding of uneven shards of each argument holds; unset: any values.
    std::vector<std::optional<double>> arg_padding{};
  };
  /// Calls the user's partition callback with suggested shardings and traces the per-device
  /// function into `module`.
  virtual Partition partition(Module* module, const MeshRef& mesh,
                              const std::vector<ShapeWithSharding>& args,
                              const std::vector<ShapeWithSharding>& results) = 0;

  /// A batch of calls.
  struct Batch {
    std::int64_t size = 0;
    Dims args, results;  ///< the dim of each that holds the batch; -1: it is the same for all
  };
  /// Partitions the calls of a batch as one, as it would each of them: the batch is one more
  /// factor, which is passed through. Null if it can't.
  virtual std::shared_ptr<CustomPartitioner> on_batch(const Batch&) { return nullptr; }
};

/// The backward rule of one custom_vjp that is told which cotangents are zero.
class BackwardRule {
 public:
  virtual ~BackwardRule() = default;
  /// Traces it into the module, as CustomDerivativeAttrs describes, without parameters for
  /// cotangents that are zero. `zero`: one flag per result that has a tangent.
  virtual Computation* trace(Module* module, const std::vector<bool>& zero) = 0;
};

/// The rule of one custom_derivative, given as functions. Its computations have the parameters and
/// results that CustomDerivativeAttrs describes; their roots are tuples. `perturbed` tells for each
/// operand that has a tangent whether that may differ from zero: always, without symbolic_zeros.
/// Tangents that are zero are left out of the parameters of a rule that asks for symbolic zeros.
class DerivativeRules {
 public:
  virtual ~DerivativeRules() = default;
  /// The function's name, for messages.
  virtual std::string name() const = 0;
  /// Traces the rule into the op's module; for ops of the kind jvp.
  virtual Computation* jvp(const Instruction& op, const std::vector<bool>& perturbed) = 0;
  struct Vjp {
    Computation* forward = nullptr;
    Computation* backward = nullptr;
    std::int64_t residuals = 0;
    /// What `backward` is of, if it asks which cotangents are zero; null if it doesn't.
    std::shared_ptr<BackwardRule> rule = nullptr;
  };
  /// The same for those of the kind vjp.
  virtual Vjp vjp(const Instruction& op, const std::vector<bool>& perturbed) = 0;
};

/// What a custom_derivative of the kind batch is on a batch.
class BatchingRule {
 public:
  virtual ~BatchingRule() = default;
  /// The function's name, for messages.
  virtual std::string name() const = 0;
  /// It is run for one entry after the other, and has no `batch`.
  virtual bool sequential() const { return false; }
  struct Batched {
    /// Takes the op's operands, those that are batched with the batch as dim 0; gives a tuple.
    Computation* computation = nullptr;
    std::vector<bool> results;  ///< which leaves are batched, on dim 0
  };
  /// Traces the rule into the op's module. `batched`: one flag per operand.
  virtual Batched batch(const Instruction& op, std::int64_t size,
                        const std::vector<bool>& batched) = 0;
};

/// Frontend attribute of a copy: the name by which policies of remat know a value
/// (checkpoint_name).
inline constexpr const char* kCheckpointName = "checkpoint_name";

}  // namespace tessera::ir
