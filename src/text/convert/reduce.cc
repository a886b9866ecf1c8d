// SPDX-License-Identifier: Apache-2.0
// Operations with a function on scalars: reduce, reduce_window, sort, map, scatter's joining.
//
// HLO's functions see their arguments only. What one uses from outside becomes an operand of its
// own, spread over the others' elements and passed on unchanged.
#include <algorithm>
#include <unordered_map>

#include "src/ir/cloner.h"
#include "src/text/read/conversions.h"

namespace tessera::text {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

void Conversions::join_captured(Operation& op, std::size_t own, Join join) {
  const Computation& read = *op.regions[0];
  std::size_t extra = op.captured.size();
  Computation* c = module_->add_computation("region_" + std::to_string(next_number_++));
  ir::Cloner cloner(read, c);
  std::int64_t number = 0;
  auto parameter = [&](const Instruction& like, bool used) {
    auto copy = std::make_unique<Instruction>(like);
    copy->attrs = ir::ParameterAttrs{number++};
    if (!used) copy->name = "unused." + std::to_string(++next_number_);
    Instruction* p = c->add(std::move(copy));
    if (used) cloner.map(&like, p);
  };
  // As read: the first halves, the second halves, what is captured.
  auto captured = [&](std::size_t n) -> const Instruction& { return *read.parameter(2 * own + n); };
  if (join == Join::compared) {
    for (std::size_t n = 0; n < 2 * own; ++n) parameter(*read.parameter(n), true);
    for (std::size_t n = 0; n < extra; ++n) {
      parameter(captured(n), true);
      parameter(captured(n), false);
    }
  } else {
    for (bool first : {true, false}) {
      for (std::size_t n = 0; n < own; ++n) {
        parameter(*read.parameter(first ? n : own + n), true);
      }
      for (std::size_t n = 0; n < extra; ++n) parameter(captured(n), first);
    }
  }
  Instruction* root = cloner.clone_all();
  if (join == Join::reduced) {
    // What was captured comes out as it came in.
    auto all = std::make_unique<Instruction>();
    all->opcode = Opcode::tuple;
    all->name = "tuple." + std::to_string(++next_number_);
    all->set_operands(own == 1 ? std::vector<Instruction*>{root} : root->operands());
    for (std::size_t n = 0; n < extra; ++n) all->add_operand(cloner[&captured(n)]);
    std::vector<Shape> shapes;
    for (const Instruction* i : all->operands()) shapes.push_back(i->shape);
    all->shape = Shape::tuple(std::move(shapes));
    root = c->add(std::move(all));
  }
  c->set_root(root);
  op.regions[0] = c;
}

void Conversions::promote(Operation& op, std::size_t operand, const Computation& by,
                          std::size_t as) {
  if (operand >= op.operands.size() || as >= by.parameters().size()) return;
  Instruction*& x = op.operands[operand];
  const Shape& to = by.parameter(std::int64_t(as))->shape;
  if (!x->shape.is_array() || !to.is_array() || !is_promotable(x->shape.dtype, to.dtype)) return;
  x = add(op, Opcode::convert, Shape(to.dtype, x->shape.dims), {x});
}

void Conversions::need_scalars_captured(const Operation& op) {
  for (const Instruction* i : op.captured) {
    if (i->shape.is_array() && i->shape.dims.empty() && i->shape.dtype != DType::token) continue;
    not_supported(op, "has a region that uses " + mlir_type(i->shape) +
                          " from outside; valid: scalars and constants");
  }
}

void Conversions::need_none_captured(const Operation& op) {
  if (op.captured.empty()) return;
  not_supported(op,
                "has a region that uses a value from outside that is no constant; it may only "
                "use its arguments");
}

void Conversions::set_joined(Operation& op, Opcode opcode, std::vector<Instruction*> operands,
                             ir::Attributes attributes) {
  if (open_) close_results(op, opcode, operands, attributes, op.regions);
  std::vector<Shape> shapes;
  for (const Shape* s : op.results) shapes.push_back(*s);
  for (const Instruction* i : op.captured) {
    shapes.emplace_back(i->shape.dtype, op.results[0]->dims);
  }
  Instruction* all = add(op, opcode, Shape::tuple(std::move(shapes)), std::move(operands),
                         std::move(attributes), op.regions);
  unpack(op, all, op.results.size());
}

void Conversions::need_arguments(const Operation& op, std::size_t count) {
  std::size_t has = op.regions[0]->parameters().size() - op.captured.size();
  if (has == count) return;
  fail(op,
       "has a region of " + std::to_string(has) + " arguments; expected " + std::to_string(count));
}

void Conversions::need_returned(const Operation& op, std::size_t count) {
  const Instruction* root = op.regions[0]->root();
  std::size_t has = root->shape.is_tuple ? root->shape.elements.size() : 1;
  if (has == count && (count == 1) == !root->shape.is_tuple) return;
  fail(op, "has a region that returns " + std::to_string(has) + " values; expected " +
               std::to_string(count));
}

void Conversions::sort(Operation& op) {
  need_operands(op, 1, std::size_t(1) << 20);
  need_regions(op, 1);
  const Dims dims = op.operands[0]->shape.dims;
  std::int64_t dim = integer_or(op, "dimension", -1);
  if (dim < 0) dim += std::int64_t(dims.size());
  ir::SortAttrs attributes{dim, flag(op, "is_stable", false)};
  if (op.captured.empty()) {
    set_results(op, Opcode::sort, op.operands, attributes, op.regions);
    return;
  }
  need_scalars_captured(op);
  need_results(op, op.operands.size());
  need_arguments(op, 2 * op.operands.size());
  join_captured(op, op.operands.size(), Join::compared);
  std::vector<Instruction*> operands = op.operands;
  for (Instruction* i : op.captured) operands.push_back(splat(op, i, dims));
  set_joined(op, Opcode::sort, std::move(operands), attributes);
}

void Conversions::map(Operation& op) {
  need_operands(op, 1, std::size_t(1) << 20);
  need_regions(op, 1);
  need_scalars_captured(op);
  need_arguments(op, op.operands.size());
  std::vector<Instruction*> operands = op.operands;
  for (Instruction* i : op.captured) operands.push_back(splat(op, i, op.operands[0]->shape.dims));
  set(op, Opcode::map, std::move(operands), ir::DimensionsAttrs{integers(op, "dimensions")},
      op.regions);
}

void Conversions::reduce_with(Operation& op, Opcode opcode, ir::Attributes attributes) {
  for (std::size_t n = 0, count = op.operands.size(); n < count; ++n) {
    promote(op, n, *op.regions[0], n % std::max<std::size_t>(count / 2, 1));
  }
  if (op.captured.empty()) {
    set_results(op, opcode, op.operands, std::move(attributes), op.regions);
    return;
  }
  need_scalars_captured(op);
  std::size_t own = op.results.size();
  need_operands(op, 2 * own, 2 * own);
  need_arguments(op, 2 * own);
  need_returned(op, own);
  join_captured(op, own, Join::reduced);
  const Dims dims = op.operands[0]->shape.dims;
  std::vector<Instruction*> operands(op.operands.begin(),
                                     op.operands.begin() + std::ptrdiff_t(own));
  for (Instruction* i : op.captured) operands.push_back(splat(op, i, dims));
  operands.insert(operands.end(), op.operands.begin() + std::ptrdiff_t(own), op.operands.end());
  operands.insert(operands.end(), op.captured.begin(), op.captured.end());
  set_joined(op, opcode, std::move(operands), std::move(attributes));
}

void Conversions::reduce(Operation& op) {
  need_operands(op, 2, std::size_t(1) << 20);
  need_regions(op, 1);
  reduce_with(op, Opcode::reduce, ir::DimensionsAttrs{integers(op, "dimensions")});
}

void Conversions::reduce_window(Operation& op) {
  need_operands(op, 2, std::size_t(1) << 20);
  need_regions(op, 1);
  reduce_with(op, Opcode::reduce_window,
              ir::WindowAttrs{window(op, op.operands[0]->shape.dims.size())});
}

void Conversions::select_and_scatter(Operation& op) {
  need_operands(op, 3, 3);
  need_regions(op, 2);
  need_none_captured(op);
  // The select sees elements as they were, so that they must survive being widened.
  const DType narrow = op.operands[0]->shape.dtype;
  const Computation &select = *op.regions[0], &scatter = *op.regions[1];
  const DType wide = scatter.parameters().empty() ? narrow : scatter.parameter(0)->shape.dtype;
  if (!is_floating(wide) || byte_size(wide) > 2) {
    for (std::size_t n = 0; n < 3; ++n) promote(op, n, scatter, 0);
  }
  if (op.operands[0]->shape.dtype != narrow && select.parameters().size() == 2) {
    Computation* c = module_->add_computation("region_" + std::to_string(next_number_++));
    ir::Cloner cloner(select, c);
    for (const Instruction* p : select.parameters()) {
      auto copy = std::make_unique<Instruction>(*p);
      copy->shape = Shape(wide, {});
      auto back = std::make_unique<Instruction>();
      back->opcode = Opcode::convert;
      back->name = "convert." + std::to_string(++next_number_);
      back->shape = p->shape;
      back->set_operands({c->add(std::move(copy))});
      cloner.map(p, c->add(std::move(back)));
    }
    c->set_root(cloner.clone_all());
    op.regions[0] = c;
  }
  set(op, Opcode::select_and_scatter, op.operands,
      ir::WindowAttrs{window(op, op.operands[0]->shape.dims.size())}, op.regions);
}

void Conversions::scatter_with(Operation& op, ir::ScatterAttrs attributes) {
  for (std::size_t n = 0, count = op.operands.size() / 2; n < count; ++n) {
    promote(op, n, *op.regions[0], n);
    promote(op, count + 1 + n, *op.regions[0], count + n);
  }
  if (op.captured.empty()) {
    set_results(op, Opcode::scatter, op.operands, std::move(attributes), op.regions);
    return;
  }
  need_scalars_captured(op);
  std::size_t own = op.results.size();
  need_operands(op, 2 * own + 1, 2 * own + 1);
  need_arguments(op, 2 * own);
  need_returned(op, own);
  join_captured(op, own, Join::reduced);
  std::vector<Instruction*> operands;
  for (std::size_t n = 0; n < own; ++n) operands.push_back(op.operands[n]);
  for (Instruction* i : op.captured) {
    operands.push_back(splat(op, i, op.operands[0]->shape.dims));
  }
  for (std::size_t n = own; n < op.operands.size(); ++n) operands.push_back(op.operands[n]);
  for (Instruction* i : op.captured) {
    operands.push_back(splat(op, i, op.operands[own + 1]->shape.dims));
  }
  set_joined(op, Opcode::scatter, std::move(operands), std::move(attributes));
}

}  // namespace tessera::text
