// SPDX-License-Identifier: Apache-2.0
// Finds batches of tiny products.
#include "src/passes/products/unroll_dots.h"

#include <algorithm>

#include "src/base/contains.h"
#include "src/ir/rewrite/patterns.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

/// Of a product of one batch element: terms of a sum, elements of the result, multiplications.
constexpr std::int64_t kMostTerms = 4, kMostElements = 16, kMostMultiplications = 64;
/// Fewer products take no time.
constexpr std::int64_t kFewestProducts = 64;

std::int64_t count(const Shape& shape, const Dims& dims) {
  std::int64_t n = 1;
  for (const std::int64_t d : dims) n *= shape.dim(d);
  return n;
}

/// As [batch, free, contracting].
struct Operand {
  Instruction* array;
  Dims batch, free, contracting;
  std::int64_t batches, rows, terms;

  Operand(Instruction* x, const Dims& batch_dims, const Dims& contracting_dims)
      : array(x), batch(batch_dims), contracting(contracting_dims) {
    for (std::int64_t d = 0; d < x->shape.rank(); ++d) {
      if (!contains(batch, d) && !contains(contracting, d)) free.push_back(d);
    }
    batches = count(x->shape, batch);
    rows = count(x->shape, free);
    terms = count(x->shape, contracting);
  }
  /// [batches, rows] of one term.
  Instruction* term(ir::Builder& b, Instruction* arranged, std::int64_t k) const {
    Instruction* one = b.slice(arranged, {0, 0, k}, {batches, rows, k + 1});
    return b.reshape(one, {batches, rows});
  }
  Instruction* arranged(ir::Builder& b) const {
    Dims order = batch;
    order.insert(order.end(), free.begin(), free.end());
    order.insert(order.end(), contracting.begin(), contracting.end());
    Instruction* x = std::is_sorted(order.begin(), order.end()) ? array : b.transpose(array, order);
    const Dims dims = {batches, rows, terms};
    return x->shape.dims == dims ? x : b.reshape(x, dims);
  }
};

Instruction* sum_of_terms(const Instruction& dot, ir::Builder& b) {
  const auto& a = dot.get<ir::DotAttrs>();
  const DType t = dot.shape.dtype;
  // Narrower ones are summed in a wider type.
  const bool held_as_it_is = (is_floating(t) || is_integer(t)) && byte_size(t) >= 4;
  if (!held_as_it_is || !dot.control_predecessors().empty() || dot.operand(0)->shape.dtype != t ||
      dot.operand(1)->shape.dtype != t) {
    return nullptr;
  }
  const Operand left(dot.operand(0), a.lhs_batch, a.lhs_contracting);
  const Operand right(dot.operand(1), a.rhs_batch, a.rhs_contracting);
  const std::int64_t elements = left.rows * right.rows;
  if (left.batches < kFewestProducts || left.terms < 1 || left.terms > kMostTerms || elements < 1 ||
      elements > kMostElements || elements * left.terms > kMostMultiplications) {
    return nullptr;
  }
  Instruction *x = left.arranged(b), *y = right.arranged(b);
  const Dims dims = {left.batches, left.rows, right.rows};
  // A sum starts at zero: it is never -0.
  Instruction* sum = b.splat(b.zero(t), dims);
  for (std::int64_t k = 0; k < left.terms; ++k) {
    Instruction* of_x = b.broadcast(left.term(b, x, k), dims, {0, 1});
    Instruction* of_y = b.broadcast(right.term(b, y, k), dims, {0, 2});
    sum = b.binary(Opcode::add, sum, b.binary(Opcode::multiply, of_x, of_y));
  }
  return sum->shape.dims == dot.shape.dims ? sum : b.reshape(sum, dot.shape.dims);
}

}  // namespace

std::size_t unroll_dots(ir::Module* module) {
  static const auto& patterns =
      ir::keep(ir::PatternSet("unroll-dots").add(Opcode::dot, sum_of_terms));
  return ir::apply_patterns_greedily(module, patterns);
}

}  // namespace tessera::passes
