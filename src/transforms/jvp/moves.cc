// SPDX-License-Identifier: Apache-2.0
// Derivatives of ops that choose elements by value: scatter, sort, top-k; and of barriers.
#include "src/base/contains.h"
#include "src/ir/cloner.h"
#include "src/transforms/jvp/site.h"
#include "src/transforms/utils/indexing.h"

namespace tessera::transforms {

using ir::Computation;
using ir::Direction;
using ir::Instruction;
using ir::Opcode;

// ------------------------------------------------------------------ scatter

namespace {

/// Whether the computation gives its second parameter.
bool replaces(const Computation& c) {
  return c.parameters().size() == 2 && c.root() == c.parameter(1);
}

Computation* replacer(ir::Module* module, DType dtype) {
  Computation* c = module->add_computation("replace");
  ir::Builder b(c);
  b.parameter(0, Shape(dtype, {}));
  c->set_root(b.parameter(1, Shape(dtype, {})));
  return c;
}

Instruction* scatter(const JvpSite& s, Instruction* operand, Instruction* updates,
                     Computation* combiner) {
  return s.b.emit(Opcode::scatter, {operand, s.x[1], updates}, s.get<ir::ScatterAttrs>(),
                  {combiner});
}

Instruction* adding(const JvpSite& s, Instruction* operand, Instruction* updates) {
  const DType dtype = operand->shape.dtype;
  return scatter(s, operand, updates, ir::scalar_computation(s.b.module(), Opcode::add, dtype));
}

/// What the scatter took from the array at the places of its updates.
Instruction* read_back(const JvpSite& s, Instruction* from) {
  const auto& a = s.get<ir::ScatterAttrs>();
  ir::GatherAttrs back;
  back.offset_dims = a.update_window_dims;
  back.collapsed_slice_dims = a.inserted_window_dims;
  back.start_index_map = a.scatter_dims_to_operand_dims;
  back.operand_batching_dims = a.input_batching_dims;
  back.start_indices_batching_dims = a.scatter_indices_batching_dims;
  back.index_vector_dim = a.index_vector_dim;
  back.slice_sizes = ir::indexed_dims(a, s.x[0]->shape, s.x[2]->shape).sizes;
  return s.b.emit(Opcode::gather, {from, s.x[1]}, back);
}

/// The last update of each place stays, the others leave nothing: each is known by its number.
Tangent jvp_replacing(JvpSite& s) {
  ir::Builder& b = s.b;
  const auto& a = s.get<ir::ScatterAttrs>();
  const Shape &to = s.x[0]->shape, &from = s.x[2]->shape;
  Tangent out;
  if (!s.dx[0].is_zero()) {
    Instruction* ones = full(b, to, 1);
    Instruction* kept = scatter(s, ones, zeros(b, from), replacer(b.module(), to.dtype));
    out = s.mul(s.dx[0].array, kept);
  }
  if (s.dx[2].is_zero()) return out;
  Instruction* updates = s.dx[2].array;
  if (!a.unique_indices) {
    const DType number = DType::s32;
    Instruction* numbers = b.iota(Shape(number, {from.element_count()}), 0);
    Instruction* own = b.reshape(numbers, from.dims);
    Instruction* nobody = full(b, Shape(number, to.dims), -1);
    Instruction* winners = scatter(s, nobody, own, replacer(b.module(), number));
    Instruction* won = b.compare(Direction::eq, read_back(s, winners), own);
    updates = b.select(won, updates, zeros(b, from));
  }
  Instruction* onto = out.is_zero() ? zeros(b, to) : out.array;
  return adding(s, onto, updates);
}

/// Of the operand and all updates of a place, equal shares for those that are the extremum.
Tangent jvp_extremal(JvpSite& s) {
  ir::Builder& b = s.b;
  Instruction* y = s.primal();
  const Shape &to = s.x[0]->shape, &from = s.x[2]->shape;
  Instruction* mine = b.convert(b.compare(Direction::eq, s.x[0], y), to.dtype);
  Instruction* theirs = b.convert(b.compare(Direction::eq, s.x[2], read_back(s, y)), from.dtype);
  Instruction* share = s.div(full(b, to, 1), adding(s, mine, theirs));
  Tangent out;
  if (!s.dx[0].is_zero()) out = s.mul(s.dx[0].array, s.mul(mine, share));
  if (s.dx[2].is_zero()) return out;
  Instruction* of_updates = s.mul(s.dx[2].array, s.mul(theirs, read_back(s, share)));
  return adding(s, out.is_zero() ? zeros(b, to) : out.array, of_updates);
}

/// Each place is multiplied by at most one update.
Tangent jvp_multiplying(JvpSite& s) {
  ir::Builder& b = s.b;
  Tangent out;
  if (!s.dx[0].is_zero()) {
    out = s.mul(s.dx[0].array, scatter(s, full(b, s.x[0]->shape, 1), s.x[2], s.op.called(0)));
  }
  if (s.dx[2].is_zero()) return out;
  if (!s.get<ir::ScatterAttrs>().unique_indices) {
    s.refuse("a scatter that multiplies has a derivative for its updates only if unique_indices");
  }
  Instruction* spread = adding(s, zeros(b, s.x[0]->shape), s.dx[2].array);
  return sum(b, out, s.mul(spread, s.x[0]));
}

}  // namespace

Tangent jvp_scatter(JvpSite& s) {
  if (s.x.size() != 3) s.refuse("scatters of several arrays have no derivative");
  if (!has_tangent(s.shape())) return {};
  if (replaces(*s.op.called(0))) return jvp_replacing(s);
  const std::optional<Opcode> combiner = ir::as_binary_reducer(*s.op.called(0));
  if (combiner == Opcode::add) return jvp_linear(s);
  if (combiner == Opcode::multiply) return jvp_multiplying(s);
  if (combiner == Opcode::maximum || combiner == Opcode::minimum) return jvp_extremal(s);
  s.refuse("it combines by " + s.op.called(0)->name() +
           "; scatters that replace, add, multiply or take an extremum have derivatives");
}

// ------------------------------------------------------------------ sort, top-k

namespace {

/// The comparator of a sort with one more operand, which it doesn't look at.
Computation* with_passenger(const Computation& comparator, DType dtype) {
  Computation* out = comparator.module()->add_computation(comparator.name());
  ir::Cloner cloner(comparator, out);
  out->set_root(cloner.clone_all());
  ir::Builder b(out);
  const auto count = std::int64_t(comparator.parameters().size());
  b.parameter(count, Shape(dtype, {}));
  b.parameter(count + 1, Shape(dtype, {}));
  return out;
}

}  // namespace

Tangent jvp_sort(JvpSite& s) {
  ir::Builder& b = s.b;
  const auto& a = s.get<ir::SortAttrs>();
  const Shape places(DType::s32, s.x[0]->shape.dims);
  std::vector<Instruction*> operands = s.x;
  operands.push_back(b.iota(places, a.dim));
  Computation* comparator = with_passenger(*s.op.called(0), DType::s32);
  std::vector<Instruction*> sorted =
      elements_of(b, b.emit(Opcode::sort, operands, a, {comparator}));
  Instruction* origin = sorted.back();
  sorted.pop_back();
  s.result = sorted.size() == 1 ? sorted[0] : b.tuple(sorted);
  std::vector<Tangent> tangents;
  for (const Tangent& dx : s.dx) {
    tangents.push_back(dx.is_zero() ? dx : Tangent(take_along(b, dx.array, origin, a.dim)));
  }
  return tangents.size() == 1 ? tangents[0] : Tangent::tuple(std::move(tangents));
}

Tangent jvp_topk(JvpSite& s) {
  Instruction* places = s.b.get_tuple_element(s.primal(), 1);
  Tangent of_values = take_along(s.b, s.dx[0].array, places, s.x[0]->shape.rank() - 1);
  return Tangent::tuple({of_values, {}});
}

// ------------------------------------------------------------------ collectives, barriers

Tangent jvp_all_reduce(JvpSite& s) {
  const std::optional<Opcode> combiner = ir::as_binary_reducer(*s.op.called(0));
  if (combiner != Opcode::add) {
    s.refuse("it combines by " + s.op.called(0)->name() +
             "; only sums over devices have a derivative");
  }
  return jvp_linear(s);
}

Tangent jvp_opt_barrier(JvpSite& s) {
  ir::Builder& b = s.b;
  if (!s.op.shape.is_tuple) return s.clone_on({s.dx[0].array});
  std::vector<Tangent> out(s.op.shape.elements.size());
  std::vector<Instruction*> known;
  for (std::size_t k = 0; k < out.size(); ++k) {
    if (!s.dx[0].element(k).is_zero()) known.push_back(s.dx[0].element(k).array);
  }
  Instruction* behind = b.unary(Opcode::opt_barrier, b.tuple(known));
  std::size_t next = 0;
  for (std::size_t k = 0; k < out.size(); ++k) {
    if (s.dx[0].element(k).is_zero()) continue;
    out[k] = b.get_tuple_element(behind, std::int64_t(next++));
  }
  return Tangent::tuple(std::move(out));
}

}  // namespace tessera::transforms
