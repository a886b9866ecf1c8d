// SPDX-License-Identifier: Apache-2.0
// XLA's select-and-scatter expander does the same.
#include "src/passes/reductions/expand_selections.h"

#include <utility>
#include <vector>

#include "src/ir/cloner.h"
#include "src/ir/rewrite/patterns.h"

namespace tessera::passes {
namespace {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

bool is_comparison(const Computation& c) {
  const Instruction& root = *c.root();
  if (!root.is(Opcode::compare)) return false;
  const auto& a = root.get<ir::CompareAttrs>();
  return a.type != ir::ComparisonType::total_order && a.direction != ir::Direction::eq &&
         a.direction != ir::Direction::ne && root.operand(0)->is(Opcode::parameter) &&
         root.operand(1)->is(Opcode::parameter) && root.operand(0) != root.operand(1);
}

/// As codegen/kernels/reductions/windows/select_and_scatter.h has them: gradients of pooling.
bool has_kernel(const Instruction& i) {
  if (!is_comparison(*i.called(0)) || ir::as_binary_reducer(*i.called(1)) != Opcode::add) {
    return false;
  }
  for (const ir::WindowDim& w : i.get<ir::WindowAttrs>().dims) {
    if (w.lhs_dilation != 1 || w.rhs_dilation != 1 || w.reversal || w.size == 0) return false;
  }
  switch (i.shape.dtype) {
    case DType::f16:
    case DType::bf16:
    case DType::f32:
    case DType::f64:
    case DType::s32:
    case DType::s64:
      return true;
    default:
      return false;
  }
}

/// Of (element, place) and the same of the next element: the one that is selected. No place, no
/// element.
Computation* selector(const Instruction& i, ir::Module* module) {
  const Computation& select = *i.called(0);
  Computation* out = module->add_computation(select.name() + ".place");
  ir::Builder b(out);
  const Shape element(i.shape.dtype, {}), place(DType::s32, {});
  Instruction* x = b.parameter(0, element);
  Instruction* at = b.parameter(1, place);
  Instruction* next = b.parameter(2, element);
  Instruction* next_at = b.parameter(3, place);
  Instruction* stays = ir::inline_computation(out, select, std::vector<Instruction*>{x, next});
  Instruction* zero = b.zero(DType::s32);
  Instruction* is_first = b.compare(ir::Direction::lt, at, zero);
  Instruction* is_none = b.compare(ir::Direction::lt, next_at, zero);
  stays = b.binary(Opcode::and_, stays, b.unary(Opcode::not_, is_first));
  stays = b.binary(Opcode::or_, stays, is_none);
  out->set_root(b.tuple({b.select(stays, x, next), b.select(stays, at, next_at)}));
  return out;
}

/// A scatter gives what is there, then the update; here it is the other way round.
Computation* combiner(const Instruction& i, ir::Module* module) {
  Computation* combine = i.called(1);
  if (ir::as_binary_reducer(*combine)) return combine;
  Computation* out = module->add_computation(combine->name() + ".turned");
  ir::Builder b(out);
  const Shape element(i.shape.dtype, {});
  Instruction* there = b.parameter(0, element);
  Instruction* update = b.parameter(1, element);
  out->set_root(ir::inline_computation(out, *combine, std::vector<Instruction*>{update, there}));
  return out;
}

Instruction* as_scatter(const Instruction& i, ir::Builder& b) {
  const std::int64_t count = i.shape.element_count();
  if (has_kernel(i) || !i.control_predecessors().empty() || count == 0 ||
      count > std::numeric_limits<std::int32_t>::max()) {
    return nullptr;
  }
  Instruction* x = i.operand(0);
  Instruction* source = i.operand(1);
  const std::int64_t windows = source->shape.element_count();
  Instruction* start = b.splat(i.operand(2), {count});
  if (windows == 0) return b.reshape(start, i.shape.dims);
  Instruction* places = b.reshape(b.iota(Shape(DType::s32, {count}), 0), x->shape.dims);
  Instruction* found =
      b.emit(Opcode::reduce_window, {x, places, b.zero(i.shape.dtype), b.scalar(DType::s32, -1)},
             i.attrs, {selector(i, b.module())});
  Instruction* chosen = b.reshape(b.get_tuple_element(found, 1), {windows});
  ir::ScatterAttrs a;
  a.inserted_window_dims = a.scatter_dims_to_operand_dims = {0};
  a.index_vector_dim = 1;
  Instruction* out = b.emit(Opcode::scatter, {start, chosen, b.reshape(source, {windows})}, a,
                            {combiner(i, b.module())});
  return b.reshape(out, i.shape.dims);
}

}  // namespace

std::size_t expand_selections(ir::Module* module) {
  static const auto& patterns =
      ir::keep(ir::PatternSet("expand-selections").add(Opcode::select_and_scatter, as_scatter));
  const std::size_t count = ir::walk_and_apply_patterns(module, patterns);
  if (count > 0) module->remove_dead_computations();
  return count;
}

}  // namespace tessera::passes
