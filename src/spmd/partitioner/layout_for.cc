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
  std::vector<Shape> operand_shapes, result_shapes = flatten(source.shape);
  std::vector<TensorSharding> operand_shardings,
      result_shardings = source_.requested_shardings(source);
  operand_shapes.reserve(source.operands().size());
  operand_shardings.reserve(source.operands().size());
  for (const ir::Instruction* o : source.operands()) {
    operand_shapes.push_back(o->shape);
    const Value* v = values_.operand(*o);
    operand_shardings.push_back(v->is_recomputable() ? source_.replicated(o->shape.rank())
                                                     : v->sharding);
  }
  if (std::optional<ComputeLayout> planned = given(source, rule)) return *planned;
  ComputeLayout layout;
  const std::vector<bool> used = used_elements(source, source_.users(source));
  if (contains(used, false) && rule.results.size() == used.size() &&
      result_shapes.size() == used.size()) {
    const std::vector<std::size_t> source_of = layout_sources(rule, used);
    FactorRule without = rule;
    without.results = select_independent(rule.results, source_of);
    layout = module_.choose_layout(
        without, operand_shapes, operand_shardings, select_independent(result_shapes, source_of),
        select_independent(result_shardings, source_of), cost::layout_work(source));
    std::vector<TensorSharding> all(used.size());
    std::size_t next = 0;
    for (std::size_t k = 0; k < all.size(); ++k) {
      if (source_of[k] == k) all[k] = layout.results[next++];
    }
    for (std::size_t k = 0; k < all.size(); ++k) all[k] = all[source_of[k]];
    layout.results = std::move(all);
  } else {
    layout = module_.choose_layout(rule, operand_shapes, operand_shardings, result_shapes,
                                   result_shardings, cost::layout_work(source));
    // What will be gathered anyway costs nothing here.
    bool any = false;
    for (std::size_t k = 0; k < source.operands().size(); ++k) {
      const Value* v = values_.operand(*source.operand(k));
      if (same_layout(operand_shardings[k], layout.operands[k]) ||
          !values_.requires_replication(*v))
        continue;
      operand_shardings[k] = source_.replicated(v->shape.rank());
      any = true;
    }
    if (any) {
      ComputeLayout other =
          module_.choose_layout(rule, operand_shapes, operand_shardings, result_shapes,
                                result_shardings, cost::layout_work(source));
      if (shares(other, *module_.mesh()) >= shares(layout, *module_.mesh()))
        layout = std::move(other);
    }
  }
  return layout;
}

}  // namespace tessera::spmd
