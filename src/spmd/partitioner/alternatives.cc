// SPDX-License-Identifier: Apache-2.0
// Shardings with which less might move than with those that propagation chose.
#include "src/spmd/partitioner/alternatives.h"

#include <algorithm>

#include "src/base/contains.h"
#include "src/ir/rewrite/while_view.h"
#include "src/spmd/rules/projection.h"
#include "src/spmd/sharding_util.h"

namespace tessera::spmd {
namespace {

/// So many ops back from an array that moves.
constexpr int kSteps = 8;

/// The one array that another is made of, element by element. Null: there is none, or more.
const ir::Instruction* made_of(const ir::Instruction& array) {
  if (array.is(ir::Opcode::dynamic_update_slice) || array.is(ir::Opcode::scatter)) {
    return array.shape.is_array() ? array.operand(0) : nullptr;
  }
  if (!ir::is_elementwise(array.opcode)) return nullptr;
  const ir::Instruction* found = nullptr;
  for (const ir::Instruction* o : array.operands()) {
    if (o->shape.dims != array.shape.dims || o->is(ir::Opcode::constant) ||
        o->is(ir::Opcode::broadcast) || o->is(ir::Opcode::iota)) {
      continue;
    }
    if (found && found != o) return nullptr;
    found = o;
  }
  return found;
}

/// Whether a loop's body hands an array of its parameter on as it is.
bool stays(const ir::Instruction& parameter, std::size_t leaf) {
  if (!parameter.is(ir::Opcode::parameter) || !parameter.shape.is_tuple) return false;
  const ir::Instruction* root = parameter.parent->root();
  if (!root->is(ir::Opcode::tuple) || leaf >= root->operands().size()) return false;
  const ir::Instruction& next = *root->operand(leaf);
  return ir::WhileView::carry_of(next) == leaf && next.shape.is_array();
}

}  // namespace

void AlternativeCollector::suggest(const ir::Instruction& array, const TensorSharding& s,
                                   double bytes) {
  if (out_) out_->push_back({&array, 0, s, bytes});
}

void AlternativeCollector::suggest_ends(const ir::Instruction& value, std::size_t leaf,
                                        const Shape& shape, const TensorSharding& from,
                                        const TensorSharding& to, double bytes) {
  auto suggest = [&](TensorSharding s) { out_->push_back({&value, leaf, std::move(s), bytes}); };
  suggest(reduced(to));
  suggest(reduced(from));
  // Several arrays that are made of one: it moves once, and they needn't.
  const ir::Instruction* source = value.shape.is_array() ? made_of(value) : nullptr;
  for (int k = 0; source && k < kSteps; ++k, source = made_of(*source)) {
    if (source_.users(*source).size() > 1) {
      out_->push_back({source, 0, reduced(to), bytes, true});
    }
  }
  // What a loop doesn't change may be gathered once, for all that happens to it there.
  if (stays(value, leaf)) {
    out_->push_back({&value, leaf, source_.replicated(shape.rank()), bytes, true});
  }
  // What is gathered, along another dim instead.
  const IndexList before = used_axes(from), after = used_axes(to);
  IndexList dropped;
  for (int a : before) {
    if (!contains(after, a)) dropped.push_back(a);
  }
  for (std::size_t d = 0; d < to.dims.size() && !dropped.empty(); ++d) {
    TensorSharding s = reduced(to);
    s.dims[d].axes.insert(s.dims[d].axes.end(), dropped.begin(), dropped.end());
    if (shape.dims[d] % s.shards(std::int64_t(d)) == 0) suggest(std::move(s));
  }
  // Partial sums that are scattered, rather than summed up on each device.
  for (std::size_t d = 0; d < from.dims.size() && !from.unreduced.empty(); ++d) {
    TensorSharding s = from;
    s.dims[d].axes.insert(s.dims[d].axes.end(), s.unreduced.begin(), s.unreduced.end());
    if (shape.dims[d] % s.shards(std::int64_t(d)) == 0) suggest(reduced(std::move(s)));
  }
}

void AlternativeCollector::suggest_results(const ir::Instruction& op, const FactorRule& rule,
                                           const std::vector<TensorSharding>& operands,
                                           const ComputeLayout& layout) {
  bool moves = false;
  double bytes = 0;
  for (std::size_t t = 0; t < operands.size(); ++t) {
    if (same_layout(operands[t], layout.operands[t])) continue;
    moves = true;
    bytes = std::max(bytes, double(op.operand(t)->shape.byte_count()));
  }
  if (!moves) return;
  const std::vector<Shape> shapes = flatten(op.shape);
  const LogicalMesh& mesh = *source_.mesh();
  for (std::size_t t = 0; t < operands.size(); ++t) {
    if (same_layout(operands[t], layout.operands[t])) continue;
    const Projection seen = project(mesh, rule, rule.operands[t], operands[t]);
    std::vector<IndexList> axes(rule.factors.size());
    for (std::size_t f = 0; f < axes.size(); ++f) {
      if (rule.factors[f].kind == FactorKind::pass_through) axes[f] = seen.factors[f].axes;
    }
    for (std::size_t r = 0; r < rule.results.size(); ++r) {
      if (!shapes[r].is_array()) continue;
      TensorSharding s = source_.replicated(shapes[r].rank());
      for (std::size_t d = 0; d < s.dims.size(); ++d) {
        s.dims[d].axes = dim_axes(mesh, rule, rule.results[r][d], axes);
      }
      out_->push_back({&op, r, std::move(s), bytes / 8});
    }
  }
}

}  // namespace tessera::spmd
