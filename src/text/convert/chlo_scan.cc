// SPDX-License-Identifier: Apache-2.0
// chlo.scan: a body with a carry goes along one dim; a loop, or a window where the body is a sum.
#include "src/base/arrays/literal_util.h"
#include "src/ir/rewrite/builder.h"
#include "src/text/read/conversions.h"

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

/// A scan as the text gives it: operands are the inputs and the first carried values, results the
/// outputs and the last carried values.
struct Conversions::Scan {
  Computation* body = nullptr;
  std::size_t inputs = 0, outputs = 0, carries = 0;
  std::int64_t dim = 0, size = 0;
  bool reverse = false;
  std::vector<Shape> arguments, returned;  ///< of the body

  // The loop's state: the trip, what is carried, the results so far, the operands.
  std::int64_t carry_at(std::size_t n) const { return std::int64_t(1 + n); }
  std::int64_t output_at(std::size_t n) const { return std::int64_t(1 + carries + n); }
  std::int64_t input_at(std::size_t n) const { return std::int64_t(1 + carries + outputs + n); }
};

Conversions::Scan Conversions::read_scan(const Operation& op) {
  Scan s;
  s.body = op.regions[0];
  if (op.scanned) {
    s.inputs = *op.scanned;
  } else {
    Dims parts = integers(op, "operandSegmentSizes");
    if (parts.size() == 2 && parts[0] >= 0 &&
        parts[0] + parts[1] == std::int64_t(op.operands.size())) {
      s.inputs = std::size_t(parts[0]);
    }
  }
  if (s.inputs == 0 || s.inputs > op.operands.size()) {
    fail(op, "needs at least one operand to go over");
  }
  s.carries = op.operands.size() - s.inputs;
  if (op.results.size() < s.carries) {
    fail(op, "gives " + std::to_string(op.results.size()) + " results and has " +
                 std::to_string(s.carries) + " carried values");
  }
  s.outputs = op.results.size() - s.carries;
  s.dim = integer(op, "dimension");
  const Shape& first = op.operands[0]->shape;
  if (s.dim < 0 || s.dim >= first.rank()) {
    fail(op, "goes along dim " + std::to_string(s.dim) + " of " + mlir_type(first));
  }
  s.size = first.dim(s.dim);
  check_scan_body(op, &s);
  s.reverse = flag(op, "is_reverse", false);
  return s;
}

// Finds what the body must take and return, and that it does.
void Conversions::check_scan_body(const Operation& op, Scan* s) {
  const Shape& first = op.operands[0]->shape;
  auto slice_of = [&](const Shape& full) {
    if (s->dim >= full.rank() || full.dim(s->dim) != s->size) {
      fail(op, "goes along dim " + std::to_string(s->dim) + " of " + mlir_type(first) + " and of " +
                   mlir_type(full));
    }
    return Shape(full.dtype, without(full.dims, s->dim));
  };
  for (std::size_t n = 0; n < s->inputs; ++n) {
    s->arguments.push_back(slice_of(op.operands[n]->shape));
  }
  for (std::size_t n = 0; n < s->outputs; ++n) s->returned.push_back(slice_of(*op.results[n]));
  for (std::size_t n = 0; n < s->carries; ++n) {
    const Shape& given = s->arguments.emplace_back(op.operands[s->inputs + n]->shape);
    const Shape& result = s->returned.emplace_back(*op.results[s->outputs + n]);
    if (!(given == result)) {
      fail(op, "carries " + mlir_type(given) + " and gives " + mlir_type(result));
    }
  }
  bool fits = s->body->parameters().size() == s->arguments.size();
  for (std::size_t n = 0; fits && n < s->arguments.size(); ++n) {
    fits = s->body->parameter(n)->shape == s->arguments[n];
  }
  const Shape returned = s->returned.size() == 1 ? s->returned[0] : Shape::tuple(s->returned);
  if (!fits || !(s->body->root()->shape == returned)) {
    fail(op,
         "has a body that doesn't fit: it takes a slice of each operand and what is carried, "
         "and returns a slice of each result and what is carried on");
  }
}

std::vector<Instruction*> Conversions::zero_outputs(const Operation& op, const Scan& s) {
  std::vector<Instruction*> out;
  for (std::size_t n = 0; n < s.outputs; ++n) {
    const Shape& shape = *op.results[n];
    out.push_back(splat(op, scalar_constant(op, shape.dtype, 0), shape.dims));
  }
  return out;
}

// All prefixes of the one input at once, then the carry from outside.
void Conversions::scan_as_window(Operation& op, const Scan& s, Opcode sum) {
  const Shape shape = op.operands[0]->shape;
  const auto dim = std::size_t(s.dim);
  Instruction* neutral = add(op, Opcode::constant, Shape(shape.dtype, {}), {},
                             ir::ConstantAttrs{*ir::identity_of(sum, shape.dtype)});
  ir::WindowAttrs a;
  a.dims.resize(shape.dims.size());
  ir::WindowDim& w = a.dims[dim];
  w.size = s.size;
  (s.reverse ? w.pad_high : w.pad_low) = s.size - 1;
  Instruction* sums = add(op, Opcode::reduce_window, shape, {op.operands[0], neutral}, std::move(a),
                          {binary_computation(sum, shape.dtype)});
  Dims kept;
  for (std::int64_t d = 0; d < shape.rank(); ++d) {
    if (d != s.dim) kept.push_back(d);
  }
  Instruction* from =
      add(op, Opcode::broadcast, shape, {op.operands[1]}, ir::DimensionsAttrs{std::move(kept)});
  sums = add(op, sum, shape, {sums, from});
  ir::SliceAttrs last;
  last.starts.assign(shape.dims.size(), 0);
  last.limits = shape.dims;
  last.strides.assign(shape.dims.size(), 1);
  last.starts[dim] = s.reverse ? 0 : s.size - 1;
  last.limits[dim] = last.starts[dim] + 1;
  Shape thin = shape;
  thin.dims[dim] = 1;
  Instruction* carry = add(op, Opcode::slice, thin, {sums}, std::move(last));
  op.values = {sums, add(op, Opcode::reshape, s.arguments[1], {carry})};
}

Computation* Conversions::scan_condition(const Operation& op, const Scan& s, const Shape& state) {
  Builder b(module_->add_computation("region_" + std::to_string(next_number_++)));
  b.metadata = metadata_of(op.location);
  Instruction* parameter = b.parameter(0, state);
  Instruction* trips = b.scalar(DType::s64, double(s.size));
  Instruction* trip = b.get_tuple_element(parameter, 0);
  b.computation()->set_root(b.compare(ir::Direction::lt, trip, trips));
  return b.computation();
}

Computation* Conversions::scan_step(const Operation& op, const Scan& s, const Shape& state) {
  Builder b(module_->add_computation("region_" + std::to_string(next_number_++)));
  b.metadata = metadata_of(op.location);
  Instruction* parameter = b.parameter(0, state);
  Instruction* trip = b.get_tuple_element(parameter, 0);
  Instruction* place = trip;
  if (s.reverse) {
    place = b.binary(Opcode::subtract, b.scalar(DType::s64, double(s.size - 1)), trip);
  }
  auto starts = [&](const Shape& shape) {
    std::vector<Instruction*> out(shape.dims.size());
    for (Instruction*& i : out) i = b.scalar(DType::s64, 0);
    out[std::size_t(s.dim)] = place;
    return out;
  };
  auto thin = [&](const Shape& shape) {
    Dims out = shape.dims;
    out[std::size_t(s.dim)] = 1;
    return out;
  };
  std::vector<Instruction*> arguments,
      next = {b.binary(Opcode::add, trip, b.scalar(DType::s64, 1))};
  for (std::size_t n = 0; n < s.inputs; ++n) {
    Instruction* input = b.get_tuple_element(parameter, s.input_at(n));
    Instruction* slice = b.dynamic_slice(input, starts(input->shape), thin(input->shape));
    arguments.push_back(b.reshape(slice, s.arguments[n].dims));
  }
  for (std::size_t n = 0; n < s.carries; ++n) {
    arguments.push_back(b.get_tuple_element(parameter, s.carry_at(n)));
  }
  Instruction* called = b.call(s.body, std::move(arguments));
  auto result = [&](std::size_t n) {
    return s.returned.size() == 1 ? called : b.get_tuple_element(called, std::int64_t(n));
  };
  for (std::size_t n = 0; n < s.carries; ++n) next.push_back(result(s.outputs + n));
  for (std::size_t n = 0; n < s.outputs; ++n) {
    Instruction* output = b.get_tuple_element(parameter, s.output_at(n));
    std::vector<Instruction*> indices = starts(output->shape);
    Instruction* slice = b.reshape(result(n), thin(output->shape));
    next.push_back(b.dynamic_update_slice(output, slice, std::move(indices)));
  }
  for (std::size_t n = 0; n < s.inputs; ++n) {
    next.push_back(b.get_tuple_element(parameter, s.input_at(n)));
  }
  b.computation()->set_root(b.tuple(std::move(next)));
  return b.computation();
}

void Conversions::scan_as_loop(Operation& op, const Scan& s) {
  std::vector<Instruction*> state = {scalar_constant(op, DType::s64, 0)};
  const auto inputs_end = op.operands.begin() + std::ptrdiff_t(s.inputs);
  state.insert(state.end(), inputs_end, op.operands.end());
  const std::vector<Instruction*> outputs = zero_outputs(op, s);
  state.insert(state.end(), outputs.begin(), outputs.end());
  state.insert(state.end(), op.operands.begin(), inputs_end);
  std::vector<Shape> shapes;
  for (const Instruction* i : state) shapes.push_back(i->shape);
  const Shape shape = Shape::tuple(std::move(shapes));

  Computation* condition = scan_condition(op, s, shape);
  Computation* step = scan_step(op, s, shape);
  Instruction* packed = add(op, Opcode::tuple, shape, std::move(state));
  Instruction* loop =
      add(op, Opcode::while_, shape, {packed}, ir::WhileAttrs{s.size}, {condition, step});
  for (std::size_t n = 0; n < s.outputs; ++n) {
    op.values.push_back(element(op, loop, std::size_t(s.output_at(n))));
  }
  for (std::size_t n = 0; n < s.carries; ++n) {
    op.values.push_back(element(op, loop, std::size_t(s.carry_at(n))));
  }
}

void Conversions::scan(Operation& op) {
  need_regions(op, 1);
  const Scan s = read_scan(op);
  if (s.size == 0) {
    op.values = zero_outputs(op, s);
    op.values.insert(op.values.end(), op.operands.begin() + std::ptrdiff_t(s.inputs),
                     op.operands.end());
    return;
  }
  const std::optional<Opcode> sum = cumulative(*s.body);
  const bool reorders =
      sum && (flag(op, "is_associative", false) || !is_floating(op.operands[0]->shape.dtype) ||
              *sum == Opcode::maximum || *sum == Opcode::minimum);
  if (reorders && s.inputs == 1) return scan_as_window(op, s, *sum);
  scan_as_loop(op, s);
}

}  // namespace tessera::text
