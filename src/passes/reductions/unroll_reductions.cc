// SPDX-License-Identifier: Apache-2.0
// Reductions of stacked arrays, as one sees in choices (the first condition that holds) and small
// sums: each array is combined with what the ones before it gave. And small ones in loops.
#include "src/passes/reductions/unroll_reductions.h"

#include <algorithm>
#include <set>
#include <vector>

#include "src/ir/rewrite/on_arrays.h"
#include "src/ir/rewrite/patterns.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

/// All are computed in one loop.
constexpr std::int64_t kMostArrays = 8;

/// One array after the other, each with that dim of one.
bool is_stack(const Instruction& i, std::int64_t dim) {
  return i.is(Opcode::concatenate) && i.get<ir::DimensionsAttrs>().dims.at(0) == dim &&
         i.operands().size() > 1 &&
         std::all_of(i.operands().begin(), i.operands().end(),
                     [dim](const Instruction* o) { return o->shape.dim(dim) == 1; });
}

/// Of an iota or a broadcast scalar, which need no memory.
bool is_made(const Instruction& i) {
  return i.is(Opcode::iota) || (i.is(Opcode::broadcast) && i.operand(0)->shape.is_scalar());
}

/// What stands at place k of the dim, without it.
Instruction* layer(ir::Builder& b, Instruction& of, std::int64_t dim, std::int64_t k,
                   const Dims& dims) {
  const DType t = of.shape.dtype;
  if (of.is(Opcode::concatenate)) return b.reshape(of.operand(std::size_t(k)), dims);
  if (of.is(Opcode::broadcast)) return b.splat(of.operand(0), dims);
  const std::int64_t along = of.get<ir::IotaAttrs>().dim;
  if (along == dim) return b.splat(b.scalar(t, double(k)), dims);
  return b.iota(Shape(t, dims), along > dim ? along - 1 : along);
}

Instruction* unrolled(const Instruction& reduce, ir::Builder& b) {
  const Dims& reduced = reduce.get<ir::DimensionsAttrs>().dims;
  if (reduced.size() != 1 || !reduce.control_predecessors().empty()) return nullptr;
  const std::size_t arrays = reduce.operands().size() / 2;
  const std::int64_t dim = reduced[0], count = reduce.operand(0)->shape.dim(dim);
  if (count > kMostArrays || ir::not_on_arrays(*reduce.called().front())) return nullptr;
  bool any = false;
  for (std::size_t k = 0; k < arrays; ++k) {
    const Instruction& o = *reduce.operand(k);
    const bool stack = is_stack(o, dim) && o.users().size() == 1;
    if (!stack && !is_made(o)) return nullptr;
    any = any || stack;
  }
  const std::vector<Shape> results = flatten(reduce.shape);
  for (std::size_t k = 0; k < arrays; ++k) {
    if (results.at(k).dtype != reduce.operand(k)->shape.dtype) return nullptr;
  }
  if (!any) return nullptr;
  const Dims& dims = results[0].dims;
  std::vector<Instruction*> so_far;
  for (std::size_t k = 0; k < arrays; ++k) {
    so_far.push_back(b.splat(reduce.operand(arrays + k), dims));
  }
  for (std::int64_t n = 0; n < count; ++n) {
    for (std::size_t k = 0; k < arrays; ++k) {
      so_far.push_back(layer(b, *reduce.operand(k), dim, n, dims));
    }
    so_far = ir::on_arrays(b, *reduce.called().front(), so_far);
  }
  return reduce.shape.is_tuple ? b.tuple(so_far) : so_far[0];
}

/// What loops run again and again.
std::set<const ir::Computation*> in_loops(const ir::Module& module) {
  std::set<const ir::Computation*> out;
  std::vector<const ir::Computation*> open;
  const auto add_called = [&](const Instruction& i) {
    for (const ir::Computation* c : i.called()) {
      if (out.insert(c).second) open.push_back(c);
    }
  };
  for (const auto& c : module.computations()) {
    for (const auto& i : c->instructions()) {
      if (i->is(Opcode::while_)) add_called(*i);
    }
  }
  while (!open.empty()) {
    const ir::Computation* c = open.back();
    open.pop_back();
    for (const auto& i : c->instructions()) {
      if (i->is(Opcode::conditional)) add_called(*i);
    }
  }
  return out;
}

/// The elements that one result is of, one array for each place.
std::vector<Instruction*> layers(ir::Builder& b, Instruction* of, const Dims& reduced,
                                 const Dims& kept) {
  const std::int64_t rank = of->shape.rank();
  std::vector<Instruction*> out;
  Dims first(std::size_t(rank), 0);
  for (;;) {
    Dims limit = of->shape.dims;
    for (const std::int64_t d : reduced) limit[std::size_t(d)] = first[std::size_t(d)] + 1;
    out.push_back(b.reshape(b.slice(of, first, limit), kept));
    std::size_t k = reduced.size();
    while (k > 0) {
      const auto d = std::size_t(reduced[k - 1]);
      if (++first[d] < of->shape.dim(std::int64_t(d))) break;
      first[d] = 0;
      --k;
    }
    if (k == 0) return out;
  }
}

/// Accumulated in their own type.
bool is_exact_enough(DType t) { return t != DType::f16 && t != DType::bf16 && byte_size(t) > 0; }

/// By halves, which takes the least time.
Instruction* unrolled_in_loop(const Instruction& reduce, ir::Builder& b) {
  constexpr std::int64_t kMostElements = 64, kMostPlaces = 16;
  const ir::Computation& reducer = *reduce.called().front();
  Instruction* array = reduce.operand(0);
  const Dims& reduced = reduce.get<ir::DimensionsAttrs>().dims;
  if (reduce.operands().size() != 2 || reduce.shape.is_tuple || reduced.empty() ||
      !reduce.control_predecessors().empty() || reduce.shape.dtype != array->shape.dtype ||
      !is_exact_enough(array->shape.dtype) || reducer.instructions().size() != 3 ||
      reducer.root()->operands().size() != 2 ||
      reducer.root()->operand(0) == reducer.root()->operand(1) || ir::not_on_arrays(reducer)) {
    return nullptr;
  }
  std::int64_t places = 1;
  for (const std::int64_t d : reduced) places *= array->shape.dim(d);
  if (places == 0 || places > kMostPlaces || array->shape.element_count() > kMostElements) {
    return nullptr;
  }
  const Dims& dims = reduce.shape.dims;
  std::vector<Instruction*> parts = layers(b, array, reduced, dims);
  const auto combined = [&](Instruction* x, Instruction* y) {
    Instruction* const both[] = {x, y};
    return ir::on_arrays(b, reducer, both).at(0);
  };
  while (parts.size() > 1) {
    std::vector<Instruction*> halves;
    for (std::size_t k = 0; k + 1 < parts.size(); k += 2) {
      halves.push_back(combined(parts[k], parts[k + 1]));
    }
    if (parts.size() % 2 == 1) halves.push_back(parts.back());
    parts = std::move(halves);
  }
  return combined(b.splat(reduce.operand(1), dims), parts[0]);
}

}  // namespace

std::size_t unroll_reductions(ir::Module* module) {
  const std::set<const ir::Computation*> loops = in_loops(*module);
  ir::PatternSet patterns("unroll-reductions");
  patterns.add(Opcode::reduce, unrolled, 2);
  patterns.add(Opcode::reduce, [&](const Instruction& reduce, ir::Builder& b) {
    return loops.count(reduce.parent) > 0 ? unrolled_in_loop(reduce, b) : nullptr;
  });
  return ir::apply_patterns_greedily(module, patterns);
}

}  // namespace tessera::passes
