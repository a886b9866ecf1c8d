// SPDX-License-Identifier: Apache-2.0
// chlo.scan: a body with a carry goes along one dim; a loop, or a window where the body is a sum.
#include "src/base/literal_util.h"
#include "src/ir/rewrite/builder.h"
#include "src/text/read/reader.h"

namespace tessera::text {

using ir::Builder;
using ir::Computation;
using ir::Instruction;
using ir::Opcode;

namespace {

Dims without(Dims dims, std::int64_t dim) {
  dims.erase(dims.begin() + dim);
  return dims;
}

// The op if a body is (x, carry) -> (r, r) with r = op(x, carry) for an op with a neutral element.
std::optional<Opcode> cumulative(const Computation& body) {
  const Instruction* root = body.root();
  if (!root->is(Opcode::tuple) || root->operands().size() != 2) return std::nullopt;
  const Instruction* r = root->operand(0);
  if (r != root->operand(1) || body.parameters().size() != 2 || r->operands().size() != 2 ||
      !ir::is_commutative(r->opcode) || !ir::identity_of(r->opcode, r->shape.dtype)) {
    return std::nullopt;
  }
  const Instruction* x = body.parameter(0);
  const Instruction* carry = body.parameter(1);
  bool both = (r->operand(0) == x && r->operand(1) == carry) ||
              (r->operand(0) == carry && r->operand(1) == x);
  return both ? std::optional(r->opcode) : std::nullopt;
}

}  // namespace

void Reader::scan(Operation& op) {
  need_regions(op, 1);
  Computation* body = op.regions[0];
  std::size_t inputs = 0;
  if (op.scanned) {
    inputs = *op.scanned;
  } else {
    Dims parts = integers(op, "operandSegmentSizes");
    if (parts.size() == 2 && parts[0] >= 0 &&
        parts[0] + parts[1] == std::int64_t(op.operands.size())) {
      inputs = std::size_t(parts[0]);
    }
  }
  if (inputs == 0 || inputs > op.operands.size()) {
    fail(op, "needs at least one operand to go over");
  }
  std::size_t carries = op.operands.size() - inputs;
  if (op.results.size() < carries) {
    fail(op, "gives " + std::to_string(op.results.size()) + " results and has " +
                 std::to_string(carries) + " carried values");
  }
  std::size_t outputs = op.results.size() - carries;
  std::int64_t dim = integer(op, "dimension");
  const Shape first = op.operands[0]->shape;
  if (dim < 0 || dim >= first.rank()) {
    fail(op, "goes along dim " + std::to_string(dim) + " of " + mlir_type(first));
  }
  const std::int64_t size = first.dim(dim);
  auto slice_of = [&](const Shape& whole) {
    if (dim >= whole.rank() || whole.dim(dim) != size) {
      fail(op, "goes along dim " + std::to_string(dim) + " of " + mlir_type(first) + " and of " +
                   mlir_type(whole));
    }
    return Shape(whole.dtype, without(whole.dims, dim));
  };
  std::vector<Shape> given, wanted;
  for (std::size_t n = 0; n < inputs; ++n) given.push_back(slice_of(op.operands[n]->shape));
  for (std::size_t n = 0; n < outputs; ++n) wanted.push_back(slice_of(*op.results[n]));
  for (std::size_t n = 0; n < carries; ++n) {
    given.push_back(op.operands[inputs + n]->shape);
    wanted.push_back(*op.results[outputs + n]);
    if (!(given.back() == wanted.back())) {
      fail(op, "carries " + mlir_type(given.back()) + " and gives " + mlir_type(wanted.back()));
    }
  }
  bool fits = body->parameters().size() == given.size();
  for (std::size_t n = 0; fits && n < given.size(); ++n) {
    fits = body->parameter(n)->shape == given[n];
  }
  const Shape returned = wanted.size() == 1 ? wanted[0] : Shape::tuple(wanted);
  if (!fits || !(body->root()->shape == returned)) {
    fail(op,
         "has a body that doesn't fit: it takes a slice of each operand and what is carried, "
         "and returns a slice of each result and what is carried on");
  }
  bool reverse = flag(op, "is_reverse", false);
  if (size == 0) {
    for (std::size_t n = 0; n < outputs; ++n) {
      const Shape& whole = *op.results[n];
      op.values.push_back(splat(op, scalar_constant(op, whole.dtype, 0), whole.dims));
    }
    for (std::size_t n = 0; n < carries; ++n) op.values.push_back(op.operands[inputs + n]);
    return;
  }

  std::optional<Opcode> sum = cumulative(*body);
  if (sum && inputs == 1 &&
      (flag(op, "is_associative", false) || !is_floating(first.dtype) || *sum == Opcode::maximum ||
       *sum == Opcode::minimum)) {
    // All prefixes at once, then the carry from outside.
    Instruction* zero = add(op, Opcode::constant, Shape(first.dtype, {}), {},
                            ir::ConstantAttrs{*ir::identity_of(*sum, first.dtype)});
    ir::WindowAttrs a;
    a.dims.resize(first.dims.size());
    ir::WindowDim& w = a.dims[std::size_t(dim)];
    w.size = size;
    (reverse ? w.pad_high : w.pad_low) = size - 1;
    Instruction* sums = add(op, Opcode::reduce_window, first, {op.operands[0], zero}, std::move(a),
                            {binary_computation(*sum, first.dtype)});
    Dims kept;
    for (std::int64_t d = 0; d < first.rank(); ++d) {
      if (d != dim) kept.push_back(d);
    }
    Instruction* from =
        add(op, Opcode::broadcast, first, {op.operands[1]}, ir::DimensionsAttrs{std::move(kept)});
    sums = add(op, *sum, first, {sums, from});
    ir::SliceAttrs last;
    last.starts.assign(first.dims.size(), 0);
    last.limits = first.dims;
    last.strides.assign(first.dims.size(), 1);
    last.starts[std::size_t(dim)] = reverse ? 0 : size - 1;
    last.limits[std::size_t(dim)] = last.starts[std::size_t(dim)] + 1;
    Shape thin = first;
    thin.dims[std::size_t(dim)] = 1;
    Instruction* carry = add(op, Opcode::slice, thin, {sums}, std::move(last));
    op.values = {sums, add(op, Opcode::reshape, given[1], {carry})};
    return;
  }

  // State: the trip, what is carried, the results so far, the operands.
  std::vector<Instruction*> state = {scalar_constant(op, DType::s64, 0)};
  for (std::size_t n = 0; n < carries; ++n) state.push_back(op.operands[inputs + n]);
  for (std::size_t n = 0; n < outputs; ++n) {
    const Shape& whole = *op.results[n];
    state.push_back(splat(op, scalar_constant(op, whole.dtype, 0), whole.dims));
  }
  for (std::size_t n = 0; n < inputs; ++n) state.push_back(op.operands[n]);
  std::vector<Shape> shapes;
  for (const Instruction* i : state) shapes.push_back(i->shape);
  const Shape shape = Shape::tuple(std::move(shapes));

  auto computation = [&] {
    return module_->add_computation("region_" + std::to_string(next_number_++));
  };
  Builder condition(computation());
  condition.metadata = metadata_of(op.location);
  Instruction* at = condition.parameter(0, shape);
  condition.computation()->set_root(condition.compare(ir::Direction::lt,
                                                      condition.get_tuple_element(at, 0),
                                                      condition.scalar(DType::s64, double(size))));

  Builder b(computation());
  b.metadata = metadata_of(op.location);
  at = b.parameter(0, shape);
  Instruction* trip = b.get_tuple_element(at, 0);
  Instruction* place = trip;
  if (reverse) {
    place = b.binary(Opcode::subtract, b.scalar(DType::s64, double(size - 1)), trip);
  }
  auto starts = [&](const Shape& whole) {
    std::vector<Instruction*> out(whole.dims.size());
    for (Instruction*& i : out) i = b.scalar(DType::s64, 0);
    out[std::size_t(dim)] = place;
    return out;
  };
  std::vector<Instruction*> arguments,
      next = {b.binary(Opcode::add, trip, b.scalar(DType::s64, 1))};
  for (std::size_t n = 0; n < inputs; ++n) {
    Instruction* whole = b.get_tuple_element(at, std::int64_t(1 + carries + outputs + n));
    Dims one = whole->shape.dims;
    one[std::size_t(dim)] = 1;
    Instruction* slice = b.dynamic_slice(whole, starts(whole->shape), std::move(one));
    arguments.push_back(b.reshape(slice, given[n].dims));
  }
  for (std::size_t n = 0; n < carries; ++n) {
    arguments.push_back(b.get_tuple_element(at, std::int64_t(1 + n)));
  }
  Instruction* done = b.call(body, std::move(arguments));
  auto result = [&](std::size_t n) {
    return wanted.size() == 1 ? done : b.get_tuple_element(done, std::int64_t(n));
  };
  for (std::size_t n = 0; n < carries; ++n) next.push_back(result(outputs + n));
  for (std::size_t n = 0; n < outputs; ++n) {
    Instruction* whole = b.get_tuple_element(at, std::int64_t(1 + carries + n));
    Dims one = whole->shape.dims;
    one[std::size_t(dim)] = 1;
    next.push_back(
        b.dynamic_update_slice(whole, b.reshape(result(n), std::move(one)), starts(whole->shape)));
  }
  for (std::size_t n = 0; n < inputs; ++n) {
    next.push_back(b.get_tuple_element(at, std::int64_t(1 + carries + outputs + n)));
  }
  b.computation()->set_root(b.tuple(std::move(next)));

  Instruction* packed = add(op, Opcode::tuple, shape, std::move(state));
  Instruction* loop = add(op, Opcode::while_, shape, {packed}, ir::WhileAttrs{size},
                          {condition.computation(), b.computation()});
  for (std::size_t n = 0; n < outputs; ++n) {
    op.values.push_back(element(op, loop, 1 + carries + n));
  }
  for (std::size_t n = 0; n < carries; ++n) op.values.push_back(element(op, loop, 1 + n));
}

}  // namespace tessera::text
