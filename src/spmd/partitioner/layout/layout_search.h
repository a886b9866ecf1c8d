// SPDX-License-Identifier: Apache-2.0
// How the work of one op is shared out: which mesh axes split which factor.
#pragma once

#include <optional>
#include <vector>

#include "src/base/arrays/shape.h"
#include "src/cost/machine.h"
#include "src/sharding/axes/tensor_sharding.h"
#include "src/spmd/bounded_cache.h"
#include "src/spmd/reshard/planner.h"
#include "src/spmd/rules/factor_rule.h"

namespace tessera::spmd {

struct ComputeLayout {
  /// factor → axes, major to minor.
  std::vector<IndexList> factor_axes;
  /// What each operand must be resharded to before the op.
  std::vector<TensorSharding> operands;
  /// What the op then yields. Axes on reduction factors are `unreduced`: the partial results are to
  /// be combined by the op's own monoid (the reshard to the requested sharding says where: its
  /// all_reduce and reduce_scatter steps).
  std::vector<TensorSharding> results;
  /// Of the reshards and the work, in seconds.
  double cost = 0;
};

/// An op whose work is to be shared out. Tuples' leaves are separate entries, as in the rule.
struct LayoutProblem {
  FactorRule rule;
  std::vector<Shape> operand_shapes;
  /// As they are. They may be unreduced: they are reduced by the reshard to the layout's.
  std::vector<TensorSharding> operand_shardings;
  std::vector<Shape> result_shapes;
  std::vector<TensorSharding> result_shardings;  ///< as requested
  double flops = 0;                              ///< of the op before it is shared out
};

/// The cheapest layout of an op's work, among all assignments of mesh axes to its factors, also
/// those that none of its tensors has, and on axes that none of them uses. Work has its price, but
/// an op that contracts nothing is never cut into fewer parts than its largest tensor is, however
/// small, and a contraction into no fewer than its result. A layout that all tensors agree on
/// already is taken as it is, unless devices would repeat a contraction.
///
/// All shardings are on one mesh. need_replication factors get no axes; permutation factors may get
/// some (the op then has to exchange halos). `reshards`: plans what the candidates have to move.
ComputeLayout search_layout(ReshardPlanner& reshards, const LayoutProblem& problem,
                            const cost::Machine& machine);

/// The layout that an op has where its tensors are laid out so, partial results included; none if
/// they don't fit each other.
std::optional<ComputeLayout> agreed_layout(const FactorRule& rule,
                                           const std::vector<TensorSharding>& operands,
                                           const std::vector<TensorSharding>& results);

/// Chooses layouts as search_layout does, and keeps them by all that they depend on.
class LayoutPlanner {
 public:
  explicit LayoutPlanner(ReshardPlanner& reshards);
  LayoutPlanner(const LayoutPlanner&) = delete;
  LayoutPlanner& operator=(const LayoutPlanner&) = delete;

  ComputeLayout choose(const LayoutProblem& problem,
                       const cost::Machine& machine = cost::Machine());

 private:
  ReshardPlanner& reshards_;
  BoundedCache<ComputeLayout> layouts_;
};

}  // namespace tessera::spmd
