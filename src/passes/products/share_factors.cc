// SPDX-License-Identifier: Apache-2.0
// dot(x[b, m, k], broadcast(w[k, n])[b, k, n]) over the batch b is dot(x[b, m, k], w[k, n]).
#include "src/passes/products/share_factors.h"

#include <algorithm>
#include <utility>

#include "src/base/contains.h"
#include "src/ir/analysis/layouts.h"
#include "src/ir/rewrite/patterns.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

/// A product of the batch has so few rows that a transpose of the result costs less.
constexpr std::int64_t kFewRowsEach = 32;

struct FactorSide {
  Dims batch, contracting;
};

/// Places in the list of batch dims along which an operand is the same.
Dims shared_batches(const Instruction& operand, const Dims& batch) {
  Dims out;
  if (!operand.is(Opcode::broadcast)) return out;
  const Dims& dims = operand.get<ir::DimensionsAttrs>().dims;
  for (std::size_t n = 0; n < batch.size(); ++n) {
    if (!contains(dims, batch[n])) out.push_back(std::int64_t(n));
  }
  return out;
}

/// The broadcast without some dims, which have other numbers then.
Instruction* without_dims(const Instruction& broadcast, const Dims& dropped, ir::Builder& b,
                          Dims* numbers) {
  Dims left;
  numbers->assign(std::size_t(broadcast.shape.rank()), -1);
  for (std::int64_t d = 0; d < broadcast.shape.rank(); ++d) {
    if (contains(dropped, d)) continue;
    (*numbers)[std::size_t(d)] = std::int64_t(left.size());
    left.push_back(broadcast.shape.dim(d));
  }
  Dims dims = broadcast.get<ir::DimensionsAttrs>().dims;
  for (std::int64_t& d : dims) d = (*numbers)[std::size_t(d)];
  Instruction* x = broadcast.operand(0);
  return left == x->shape.dims && std::is_sorted(dims.begin(), dims.end())
             ? x
             : b.broadcast(x, std::move(left), std::move(dims));
}

Dims renumbered_dims(const Dims& dims, const Dims& numbers) {
  Dims out;
  for (const std::int64_t d : dims) {
    if (numbers[std::size_t(d)] >= 0) out.push_back(numbers[std::size_t(d)]);
  }
  return out;
}

/// With `shared` places of the batch made free dims of the operand that is no broadcast.
Instruction* with_free(const Instruction& dot, std::size_t k, const Dims& shared, ir::Builder& b) {
  const auto& a = dot.get<ir::DotAttrs>();
  FactorSide sides[2] = {{a.lhs_batch, a.lhs_contracting}, {a.rhs_batch, a.rhs_contracting}};
  Dims dropped;
  for (const std::int64_t n : shared) dropped.push_back(sides[k].batch[std::size_t(n)]);
  // Numbers of the result's dims as they were, in the order in which they will be.
  Dims kept, order;
  for (std::size_t n = 0; n < a.lhs_batch.size(); ++n) {
    if (!contains(shared, std::int64_t(n))) kept.push_back(std::int64_t(n));
  }
  order = kept;
  auto next = std::int64_t(a.lhs_batch.size());
  std::int64_t rows = 1;
  for (std::size_t s = 0; s < 2; ++s) {
    const Shape& shape = dot.operand(s)->shape;
    for (std::int64_t d = 0; d < shape.rank(); ++d) {
      if (contains(sides[s].contracting, d)) continue;
      const auto& batch = sides[s].batch;
      const auto at = std::find(batch.begin(), batch.end(), d);
      if (at == batch.end()) {
        order.push_back(next++);
        if (s != k) rows *= shape.dim(d);
      } else if (s != k && contains(shared, std::int64_t(at - batch.begin()))) {
        order.push_back(std::int64_t(at - batch.begin()));
      }
    }
  }
  const bool stands = std::is_sorted(order.begin(), order.end());
  if (!stands && rows >= kFewRowsEach) return nullptr;
  Dims numbers;
  Instruction* operands[2] = {dot.operand(0), dot.operand(1)};
  operands[k] = without_dims(*dot.operand(k), dropped, b, &numbers);
  for (std::size_t s = 0; s < 2; ++s) {
    Dims batch;
    for (const std::int64_t n : kept) batch.push_back(sides[s].batch[std::size_t(n)]);
    sides[s].batch = std::move(batch);
  }
  sides[k] = {renumbered_dims(sides[k].batch, numbers),
              renumbered_dims(sides[k].contracting, numbers)};
  ir::DotAttrs out = a;
  out.lhs_batch = sides[0].batch;
  out.rhs_batch = sides[1].batch;
  out.lhs_contracting = sides[0].contracting;
  out.rhs_contracting = sides[1].contracting;
  const Shape made(dot.shape.dtype, ir::permute_dims(dot.shape.dims, order));
  Instruction* product = b.emit_shaped(Opcode::dot, made, {operands[0], operands[1]}, out);
  return stands ? product : b.transpose(product, ir::inverse_order(order));
}

Instruction* shared_factor(const Instruction& dot, ir::Builder& b) {
  if (!dot.control_predecessors().empty()) return nullptr;
  const auto& a = dot.get<ir::DotAttrs>();
  for (const std::size_t k : {1, 0}) {
    const Dims shared = shared_batches(*dot.operand(k), k == 0 ? a.lhs_batch : a.rhs_batch);
    if (shared.empty()) continue;
    if (Instruction* out = with_free(dot, k, shared, b)) return out;
  }
  return nullptr;
}

}  // namespace

std::size_t share_factors(ir::Module* module) {
  static const auto& patterns =
      ir::keep(ir::PatternSet("share-factors").add(Opcode::dot, shared_factor));
  return ir::apply_patterns_greedily(module, patterns);
}

}  // namespace tessera::passes
