// SPDX-License-Identifier: Apache-2.0
// Attention and its gradients, as programs.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "tests/codegen/random_case.h"

namespace tessera::testing {

inline std::int64_t peak_of_module(const ir::Module& module) {
  return codegen::estimate_memory(plan_of(module).plan, {}).peak;
}

/// Whether a step of the plan is done by blocks of rows, as chains with masks are: with fewer units
/// than rows: those are at least 32.
inline bool goes_by_blocks(const ir::Module& module, std::int64_t rows) {
  const codegen::BuiltPlan built = plan_of(module);
  return std::any_of(
      built.plan.entry.steps.begin(), built.plan.entry.steps.end(), [&](const runtime::Step& step) {
        const auto* task = std::get_if<runtime::KernelTask>(&step.what);
        return task != nullptr && task->inputs.size() > 3 && task->units <= (rows + 31) / 32;
      });
}

/// softmax(mask(scale * q k^T + bias)) v, of [batch, queries, keys] scores.
struct Attention {
  Program p;
  DType t;
  Dims scores;
  Instruction* probabilities = nullptr;

  Instruction* over(Instruction* row) { return p.b.broadcast(row, scores, {0, 1}); }
  Instruction* splat(double x) { return p.b.splat(p.b.scalar(t, x), scores); }

  explicit Attention(DType type, Dims dims) : t(type), scores(std::move(dims)) {}

  Instruction* product(Instruction* a, Instruction* b, std::int64_t of_a, std::int64_t of_b) {
    ir::DotAttrs attrs;
    attrs.lhs_batch = attrs.rhs_batch = {0};
    attrs.lhs_contracting = {of_a};
    attrs.rhs_contracting = {of_b};
    return p.b.dot(a, b, attrs);
  }
  Instruction* softmax(Instruction* x) {
    ir::Builder& b = p.b;
    Instruction* most = b.reduce(x, b.scalar(t, -INFINITY), {2},
                                 ir::scalar_computation(&p.module, Opcode::maximum, t));
    Instruction* e = b.unary(Opcode::exponential, b.binary(Opcode::subtract, x, over(most)));
    Instruction* sum =
        b.reduce(e, b.scalar(t, 0), {2}, ir::scalar_computation(&p.module, Opcode::add, t));
    return b.binary(Opcode::divide, e, over(sum));
  }
};

/// The bytes of a tuple and of what it is made of.
inline std::int64_t given_to(const Program& p, const Instruction& root) {
  std::int64_t given = root.shape.byte_count();
  for (const Literal& l : p.arguments) given += std::int64_t(l.byte_count());
  return given;
}

/// The results of attention and its gradients, with products in some order of their sides.
/// `mixes`: what the gradients are made from needs all rows of the result.
inline Instruction* gradients(Attention* a, Random* r, Instruction* q, Instruction* k,
                              Instruction* v, Instruction* x, bool mixes = false) {
  ir::Builder& b = a->p.b;
  const auto turned = [&](Instruction* l, Instruction* other, std::int64_t of_l,
                          std::int64_t of_other) {
    if (r->chance(0.5)) return a->product(l, other, of_l, of_other);
    return b.transpose(a->product(other, l, of_other, of_l), {0, 2, 1});
  };
  Instruction* probabilities = a->softmax(x);
  Instruction* out = turned(probabilities, v, 2, 1);
  Instruction* of_out = mixes ? a->product(out, a->product(out, out, 1, 1), 2, 1) : out;
  Instruction* of_v = turned(probabilities, of_out, 1, 1);
  Instruction* of_p = b.binary(Opcode::multiply, turned(of_out, v, 2, 2), probabilities);
  Instruction* sum = b.reduce(of_p, b.scalar(a->t, 0), {2},
                              ir::scalar_computation(&a->p.module, Opcode::add, a->t));
  Instruction* of_x =
      b.binary(Opcode::subtract, of_p, b.binary(Opcode::multiply, probabilities, a->over(sum)));
  return b.tuple({out, turned(of_x, k, 2, 1), turned(of_x, q, 1, 1), of_v});
}

}  // namespace tessera::testing
