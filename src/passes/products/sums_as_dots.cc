// SPDX-License-Identifier: Apache-2.0
// reduce(add, multiply(broadcast(x[i, k]), broadcast(y[j, k])), {k}) is dot(x[i, k], y[j, k]).
#include "src/passes/products/sums_as_dots.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "src/base/contains.h"
#include "src/ir/analysis/layouts.h"
#include "src/ir/analysis/splat_constants.h"
#include "src/ir/rewrite/patterns.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

/// Fewer rows or columns are loops over one operand rather than products of matrices.
constexpr std::int64_t kFewestLines = 4;
/// Sums of fewer products are part of the loops around them; a transpose of the result is worth
/// more.
constexpr std::int64_t kFewestTerms = 8, kFewestTermsMoved = 16;

/// What is multiplied, without the dims along which a broadcast made it the same.
struct SumFactor {
  explicit SumFactor(Instruction* i)
      : x(i->is(Opcode::broadcast) ? i->operand(0) : i),
        dims(i->is(Opcode::broadcast) ? i->get<ir::DimensionsAttrs>().dims
                                      : ir::consecutive_dims(0, i->shape.rank())) {}
  bool has(std::int64_t d) const { return contains(dims, d); }
  std::int64_t number(std::int64_t d) const {
    return std::find(dims.begin(), dims.end(), d) - dims.begin();
  }

  Instruction* x;
  Dims dims;  // those of the product, for each of x
};

struct ProductDims {
  Dims batch, left, right, contracted;  // of the product's dims
  Dims none;                            // along which both are the same
};

/// Nothing if a dim that only one of them has is summed up.
std::optional<ProductDims> dims_of_product(const Shape& shape, const Dims& reduced,
                                           const SumFactor& x, const SumFactor& y) {
  ProductDims out;
  for (std::int64_t d = 0; d < shape.rank(); ++d) {
    const bool both = x.has(d) && y.has(d);
    if (contains(reduced, d)) {
      if (!both) return std::nullopt;
      out.contracted.push_back(d);
    } else {
      (both ? out.batch : x.has(d) ? out.left : y.has(d) ? out.right : out.none).push_back(d);
    }
  }
  return out;
}

std::int64_t count_of(const Shape& shape, const Dims& dims) {
  std::int64_t out = 1;
  for (const std::int64_t d : dims) out *= shape.dim(d);
  return out;
}

Dims numbers_in(const SumFactor& f, const Dims& dims) {
  Dims out;
  for (const std::int64_t d : dims) out.push_back(f.number(d));
  return out;
}

/// Free dims in the order that the factor has them, which is theirs in the result.
Dims in_order_of(const SumFactor& f, const Dims& free) {
  Dims out;
  for (const std::int64_t d : f.dims) {
    if (contains(free, d)) out.push_back(d);
  }
  return out;
}

Instruction* sum_as_dot(const Instruction& i, ir::Builder& b) {
  if (!i.shape.is_array() || i.operands().size() != 2 || !i.control_predecessors().empty()) {
    return nullptr;
  }
  const Instruction& product = *i.operand(0);
  const DType t = i.shape.dtype;
  if (!product.is(Opcode::multiply) || product.users().size() != 1 ||
      (t != DType::f32 && t != DType::f64) ||
      ir::as_binary_reducer(*i.called().at(0)) != Opcode::add) {
    return nullptr;
  }
  SumFactor x(product.operand(0)), y(product.operand(1));
  const Dims& reduced = i.get<ir::DimensionsAttrs>().dims;
  std::optional<ProductDims> dims = dims_of_product(product.shape, reduced, x, y);
  if (!dims || count_of(product.shape, dims->left) < kFewestLines ||
      count_of(product.shape, dims->right) < kFewestLines) {
    return nullptr;
  }
  if (dims->right.front() < dims->left.front()) {
    std::swap(x, y);
    std::swap(dims->left, dims->right);
  }
  Dims made = dims->batch;  // the product's dims, as the dot has them
  for (const std::int64_t d : in_order_of(x, dims->left)) made.push_back(d);
  for (const std::int64_t d : in_order_of(y, dims->right)) made.push_back(d);
  const bool stands = std::is_sorted(made.begin(), made.end());
  const std::int64_t terms = count_of(product.shape, dims->contracted);
  if (terms < (stands ? kFewestTerms : kFewestTermsMoved)) return nullptr;
  ir::DotAttrs attrs;
  attrs.lhs_batch = numbers_in(x, dims->batch);
  attrs.rhs_batch = numbers_in(y, dims->batch);
  attrs.lhs_contracting = numbers_in(x, dims->contracted);
  attrs.rhs_contracting = numbers_in(y, dims->contracted);
  Instruction* out = b.dot(x.x, y.x, std::move(attrs));
  if (!stands) {
    Dims order = ir::consecutive_dims(0, std::int64_t(made.size()));
    std::sort(order.begin(), order.end(), [&](std::int64_t p, std::int64_t q) {
      return made[std::size_t(p)] < made[std::size_t(q)];
    });
    out = b.transpose(out, order);
    std::sort(made.begin(), made.end());
  }
  if (!dims->none.empty()) {
    for (std::int64_t& d : made) {
      d -= std::count_if(reduced.begin(), reduced.end(), [&](std::int64_t r) { return r < d; });
    }
    out = b.broadcast(out, i.shape.dims, made);
  }
  if (ir::is_splat_of(*i.operand(1), 0)) return out;
  return b.binary(Opcode::add, out, b.splat(i.operand(1), i.shape.dims));
}

}  // namespace

std::size_t sums_as_dots(ir::Module* module) {
  static const auto& patterns =
      ir::keep(ir::PatternSet("sums-as-dots").add(Opcode::reduce, sum_as_dot));
  return ir::walk_and_apply_patterns(module, patterns);
}

}  // namespace tessera::passes
