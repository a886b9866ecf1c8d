// SPDX-License-Identifier: Apache-2.0
// Outer products and products of two vectors become elementwise multiplications (and a sum), which
// fuse with their producers and consumers, so that the product is never materialised.
#include "src/passes/products/strength_reduce_dots.h"

#include <algorithm>
#include <numeric>

#include "src/base/contains.h"
#include "src/ir/analysis/dot_kind.h"
#include "src/ir/rewrite/patterns.h"

namespace tessera::passes {

using ir::Instruction;
using ir::Opcode;

namespace {

/// The operand's dims in the order of the dot's result: batch, free, contracting.
struct Side {
  Dims batch, free, contracting;

  Side(const Shape& shape, const Dims& batch_dims, const Dims& contracting_dims)
      : batch(batch_dims), contracting(contracting_dims) {
    for (std::int64_t d = 0; d < shape.rank(); ++d) {
      const auto has = [d](const Dims& dims) { return contains(dims, d); };
      if (!has(batch) && !has(contracting)) free.push_back(d);
    }
  }
};

Dims dims_of(const Shape& shape, const Dims& dims) {
  Dims out;
  for (const std::int64_t d : dims) out.push_back(shape.dim(d));
  return out;
}

class SmallDots {
 public:
  explicit SmallDots(ir::Builder& builder) : builder_(builder) {}

  Instruction* expand(const Instruction& i) {
    const ir::DotKind kind = ir::kind_of_dot(i);
    if (kind == ir::DotKind::general || !i.control_predecessors().empty()) return nullptr;
    const auto& a = i.get<ir::DotAttrs>();
    const Side left(i.operand(0)->shape, a.lhs_batch, a.lhs_contracting);
    const Side right(i.operand(1)->shape, a.rhs_batch, a.rhs_contracting);
    return kind == ir::DotKind::outer ? outer_product(i, left, right)
                                      : vector_product(i, left, right);
  }

 private:
  /// With its dims in that order; the others are of size 1 and go.
  Instruction* arranged(Instruction* x, const Dims& kept, const Dims& dropped) {
    Dims perm = kept;
    perm.insert(perm.end(), dropped.begin(), dropped.end());
    const Dims dims = dims_of(x->shape, kept);
    if (!std::is_sorted(perm.begin(), perm.end())) x = builder_.transpose(x, perm);
    return x->shape.dims == dims ? x : builder_.reshape(x, dims);
  }

  static Dims joined(Dims a, const Dims& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }

  Instruction* outer_product(const Instruction& i, const Side& left, const Side& right) {
    Dims of_left(left.batch.size() + left.free.size());
    std::iota(of_left.begin(), of_left.end(), 0);
    Dims of_right(right.batch.size());
    std::iota(of_right.begin(), of_right.end(), 0);
    for (std::size_t k = 0; k < right.free.size(); ++k) {
      of_right.push_back(std::int64_t(of_left.size() + k));
    }
    Instruction* x = arranged(i.operand(0), joined(left.batch, left.free), left.contracting);
    Instruction* y = arranged(i.operand(1), joined(right.batch, right.free), right.contracting);
    if (x->shape.dims != i.shape.dims) x = builder_.broadcast(x, i.shape.dims, of_left);
    if (y->shape.dims != i.shape.dims) y = builder_.broadcast(y, i.shape.dims, of_right);
    Instruction* product = builder_.binary(Opcode::multiply, x, y);
    if (is_integer(i.shape.dtype)) return product;
    // A sum starts at zero: it is never -0.
    Instruction* zero = builder_.splat(builder_.zero(i.shape.dtype), i.shape.dims);
    return builder_.binary(Opcode::add, product, zero);
  }

  Instruction* vector_product(const Instruction& i, const Side& left, const Side& right) {
    Instruction* x = arranged(i.operand(0), joined(left.batch, left.contracting), left.free);
    Instruction* y = arranged(i.operand(1), joined(right.batch, right.contracting), right.free);
    Dims summed(left.contracting.size());
    std::iota(summed.begin(), summed.end(), std::int64_t(left.batch.size()));
    const DType t = i.shape.dtype;
    Instruction* sum =
        builder_.reduce(builder_.binary(Opcode::multiply, x, y), builder_.zero(t), summed,
                        ir::scalar_computation(builder_.module(), Opcode::add, t));
    return sum->shape.dims == i.shape.dims ? sum : builder_.reshape(sum, i.shape.dims);
  }

  ir::Builder& builder_;
};

Instruction* expanded(const Instruction& dot, ir::Builder& b) { return SmallDots(b).expand(dot); }

}  // namespace

std::size_t strength_reduce_dots(ir::Module* module) {
  static const auto& patterns =
      ir::keep(ir::PatternSet("strength-reduce-dots").add(Opcode::dot, expanded));
  const std::size_t count = ir::apply_patterns_greedily(module, patterns);
  if (count > 0) module->remove_dead_computations();
  return count;
}

}  // namespace tessera::passes
