// SPDX-License-Identifier: Apache-2.0
// In which layout an op is computed: how its operands are laid out, what its users request, its
// work, and the cheapest between them.
#include "src/base/contains.h"
#include "src/spmd/partitioner/layout_chooser.h"

#include <algorithm>

#include "src/cost/work.h"
#include "src/spmd/factor_rule.h"
#include "src/spmd/rules/projection.h"

namespace tessera::spmd {
namespace {

/// Elements of a tuple that are taken from it; all, if something else uses it.
std::vector<bool> used_elements(const ir::Instruction& source,
                                std::span<ir::Instruction* const> users) {
  std::vector<bool> used(source.shape.elements.size(), false);
  for (const ir::Instruction* u : users) {
    if (!u->is(ir::Opcode::get_tuple_element)) return std::vector<bool>(used.size(), true);
    used[std::size_t(u->get<ir::GetTupleElementAttrs>().index)] = true;
  }
  return used;
}

/// By result of a tuple, the result that it is laid out like: itself, or, where nobody uses it (the
/// keys of a sort that was for its values), a used one with the same factors, so that it costs
/// nothing.
std::vector<std::size_t> layout_sources(const FactorRule& rule, const std::vector<bool>& used) {
  std::vector<std::size_t> source_of(rule.results.size());
  for (std::size_t k = 0; k < source_of.size(); ++k) {
    source_of[k] = k;
    for (std::size_t j = 0; j < used.size() && !used[k] && source_of[k] == k; ++j) {
      if (used[j] && rule.results[j] == rule.results[k]) source_of[k] = j;
    }
  }
  return source_of;
}

/// The entries of those results that have a layout of their own.
template <class T>
std::vector<T> select_independent(const std::vector<T>& list,
                                  const std::vector<std::size_t>& source_of) {
  std::vector<T> out;
  for (std::size_t k = 0; k < list.size(); ++k) {
    if (source_of[k] == k) out.push_back(list[k]);
  }
  return out;
}

/// Among how many devices the work is shared out.
std::int64_t shares(const ComputeLayout& layout, const LogicalMesh& mesh) {
  std::int64_t ways = 1;
  for (const IndexList& axes : layout.factor_axes) ways *= ways_of(mesh, axes);
  return ways;
}

}  // namespace

std::optional<ComputeLayout> LayoutChooser::given(const ir::Instruction& source,
                                                  const FactorRule& rule) const {
  if (module_.stage() != PartitionStage::device) return std::nullopt;
  std::vector<TensorSharding> operands;
  for (const ir::Instruction* o : source.operands()) operands.push_back(source_.sharding(*o));
  return agreed_layout(rule, operands, source_.shardings(source));
}

ComputeLayout LayoutChooser::choose(const ir::Instruction& source, const FactorRule& rule) {
  if (std::optional<ComputeLayout> planned = given(source, rule)) return *planned;
  LayoutProblem problem{rule,
                        {},
                        {},
                        flatten(source.shape),
                        source_.requested_shardings(source),
                        cost::layout_work(source)};
  for (const ir::Instruction* o : source.operands()) {
    problem.operand_shapes.push_back(o->shape);
    const Value* v = values_.operand(*o);
    problem.operand_shardings.push_back(v->is_recomputable() ? source_.replicated(o->shape.rank())
                                                             : v->sharding);
  }
  const std::vector<bool> used = used_elements(source, source_.users(source));
  if (contains(used, false) && rule.results.size() == used.size() &&
      problem.result_shapes.size() == used.size()) {
    const std::vector<std::size_t> source_of = layout_sources(rule, used);
    problem.rule.results = select_independent(rule.results, source_of);
    problem.result_shapes = select_independent(problem.result_shapes, source_of);
    problem.result_shardings = select_independent(problem.result_shardings, source_of);
    ComputeLayout layout = module_.choose_layout(problem);
    std::vector<TensorSharding> all(used.size());
    std::size_t next = 0;
    for (std::size_t k = 0; k < all.size(); ++k) {
      if (source_of[k] == k) all[k] = layout.results[next++];
    }
    for (std::size_t k = 0; k < all.size(); ++k) all[k] = all[source_of[k]];
    layout.results = std::move(all);
    return layout;
  }
  ComputeLayout layout = module_.choose_layout(problem);
  // What will be gathered anyway costs nothing here.
  bool any = false;
  for (std::size_t k = 0; k < source.operands().size(); ++k) {
    const Value* v = values_.operand(*source.operand(k));
    if (same_layout(problem.operand_shardings[k], layout.operands[k]) ||
        !values_.requires_replication(*v)) {
      continue;
    }
    problem.operand_shardings[k] = source_.replicated(v->shape.rank());
    any = true;
  }
  if (!any) return layout;
  ComputeLayout other = module_.choose_layout(problem);
  const LogicalMesh& mesh = *module_.mesh();
  return shares(other, mesh) >= shares(layout, mesh) ? other : layout;
}

}  // namespace tessera::spmd
