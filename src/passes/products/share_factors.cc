// SPDX-License-Identifier: Apache-2.0
// dot(x[b, m, k], broadcast(w[k, n])[b, k, n]) over the batch b is dot(x[b, m, k], w[k, n]); but of
// x[b, k, m] the first is better, as x needn't be moved.
#include "src/passes/products/share_factors.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "src/base/contains.h"
#include "src/ir/analysis/layouts.h"
#include "src/ir/analysis/shared_matrices.h"
#include "src/ir/rewrite/patterns.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

/// A product of the batch has so few rows that a transpose of the result costs less.
constexpr std::int64_t kFewRowsEach = 32;

/// Fewer columns of each product of a batch aren't vectors.
constexpr std::int64_t kFewestColumns = 8;
/// Of more rows each, a product takes so long that moving an operand costs little; but of as many
/// columns it is none the slower for being one of a batch.
constexpr std::int64_t kManyRows = 64, kWide = 32;

bool moving_costs_more(std::int64_t rows, std::int64_t columns) {
  return columns >= kFewestColumns && (rows < kManyRows || columns >= kWide);
}

struct FactorSide {
  Dims batch, contracting;
};

/// How many elements are behind the contracted dims, which are in one piece; 0 if there are no
/// others in front of these as well, so that the array stands as kernels take it.
std::int64_t behind_contracted(const Shape& shape, const Dims& contracting) {
  if (contracting.empty() || contracting.front() == 0) return 0;
  for (std::size_t k = 1; k < contracting.size(); ++k) {
    if (contracting[k] != contracting[k - 1] + 1) return 0;
  }
  std::int64_t front = 1, out = 1;
  for (std::int64_t d = 0; d < contracting.front(); ++d) front *= shape.dim(d);
  for (std::int64_t d = contracting.back() + 1; d < shape.rank(); ++d) out *= shape.dim(d);
  return front > 1 && contracting.back() + 1 < shape.rank() ? out : 0;
}

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

/// How many rows or columns an operand has for each matrix.
std::int64_t free_count(const Instruction& dot, std::size_t k) {
  const auto& a = dot.get<ir::DotAttrs>();
  const Shape& shape = dot.operand(k)->shape;
  std::int64_t out = 1;
  for (std::int64_t d = 0; d < shape.rank(); ++d) {
    const bool free = !contains(k == 0 ? a.lhs_batch : a.rhs_batch, d) &&
                      !contains(k == 0 ? a.lhs_contracting : a.rhs_contracting, d);
    if (free) out *= shape.dim(d);
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
  if (kept.empty() && ir::is_shared_matrix(dot, k)) {
    const Shape& other = dot.operand(1 - k)->shape;
    const bool moves = !stands || behind_contracted(other, sides[1 - k].contracting) == rows;
    if (moves && moving_costs_more(free_count(dot, k), rows)) return nullptr;
  }
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

/// The order of a batched product's dims in which the product had them that wasn't, where that is
/// the order in which it is read, or only swaps the operands. `front`: dims of the second operand
/// that became a batch; `rows`: free dims of the first one.
std::optional<Dims> order_of_reads(const Instruction& dot, std::int64_t front, std::int64_t rows) {
  const bool one = dot.use_count() == 1 && dot.parent->root() != &dot;
  const Instruction* user = one ? dot.users().front() : nullptr;
  if (!one || !user->is(Opcode::transpose)) return std::nullopt;
  const std::int64_t rank = dot.shape.rank();
  Dims order = ir::consecutive_dims(front, front + rows), read,
       swapped = ir::consecutive_dims(0, front);
  for (const std::int64_t d : ir::consecutive_dims(0, front)) order.push_back(d);
  for (const std::int64_t d : ir::consecutive_dims(front + rows, rank)) order.push_back(d);
  for (const std::int64_t d : ir::consecutive_dims(front + rows, rank)) swapped.push_back(d);
  for (const std::int64_t d : ir::consecutive_dims(front, front + rows)) swapped.push_back(d);
  for (const std::int64_t d : user->get<ir::DimensionsAttrs>().dims) {
    read.push_back(order[std::size_t(d)]);
  }
  if (!std::is_sorted(read.begin(), read.end()) && read != swapped) return std::nullopt;
  return order;
}

/// Whether kernels take a matrix as it stands.
bool matrix_stands(const Instruction& matrix, const Dims& contracting) {
  const std::int64_t rank = matrix.shape.rank(), contracted = std::int64_t(contracting.size());
  return contracting == ir::consecutive_dims(0, contracted) ||
         contracting == ir::consecutive_dims(rank - contracted, rank);
}

Instruction* with_batch(const Instruction& dot, std::size_t k, ir::Builder& b) {
  const auto& a = dot.get<ir::DotAttrs>();
  const Dims& contracting = k == 0 ? a.lhs_contracting : a.rhs_contracting;
  Instruction* moved = dot.operand(k);
  Instruction* matrix = dot.operand(1 - k);
  const std::int64_t columns = behind_contracted(moved->shape, contracting);
  const std::int64_t rows = free_count(dot, 1 - k);
  if (columns == 0 || !moving_costs_more(rows, columns) ||
      !matrix_stands(*matrix, k == 0 ? a.rhs_contracting : a.lhs_contracting)) {
    return nullptr;
  }
  const std::int64_t front = contracting.front();
  const std::int64_t free = matrix->shape.rank() - std::int64_t(contracting.size());
  const Dims order = ir::consecutive_dims(0, front);
  std::optional<Dims> to;
  if (k == 1 && !(to = order_of_reads(dot, front, free))) return nullptr;
  Dims sizes(moved->shape.dims.begin(), moved->shape.dims.begin() + std::ptrdiff_t(front));
  sizes.insert(sizes.end(), matrix->shape.dims.begin(), matrix->shape.dims.end());
  Instruction* operands[2] = {moved, moved};
  operands[1 - k] =
      b.broadcast(matrix, sizes, ir::consecutive_dims(front, front + matrix->shape.rank()));
  ir::DotAttrs out = a;
  out.lhs_batch = out.rhs_batch = order;
  for (std::int64_t& d : k == 0 ? out.rhs_contracting : out.lhs_contracting) d += front;
  Instruction* product = b.dot(operands[0], operands[1], std::move(out));
  return to ? b.transpose(product, *to) : product;
}

/// Of a product of two matrices.
Instruction* outer_dims_as_batch(const Instruction& dot, ir::Builder& b) {
  const auto& a = dot.get<ir::DotAttrs>();
  const DType t = dot.shape.dtype;
  const bool same = dot.operand(0)->shape.dtype == t && dot.operand(1)->shape.dtype == t;
  if (!dot.control_predecessors().empty() || !a.lhs_batch.empty() || !same ||
      (!is_floating(t) && !is_complex(t))) {
    return nullptr;
  }
  for (const std::size_t k : {0, 1}) {
    if (Instruction* out = with_batch(dot, k, b)) return out;
  }
  return nullptr;
}

}  // namespace

std::size_t batch_outer_dims(ir::Module* module) {
  static const auto& patterns =
      ir::keep(ir::PatternSet("batch-outer-dims").add(Opcode::dot, outer_dims_as_batch));
  return ir::walk_and_apply_patterns(module, patterns);
}

std::size_t share_factors(ir::Module* module) {
  static const auto& patterns =
      ir::keep(ir::PatternSet("share-factors").add(Opcode::dot, shared_factor));
  return ir::apply_patterns_greedily(module, patterns);
}

}  // namespace tessera::passes
