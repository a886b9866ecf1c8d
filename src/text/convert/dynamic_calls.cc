// SPDX-License-Identifier: Apache-2.0
// Custom calls of programs with dims of unknown size, as JAX writes them: what a program says of
// its arguments' sizes, and operations whose attributes are operands.
#include <algorithm>
#include <functional>
#include <optional>

#include "src/text/read/conversions.h"

namespace tessera::text {

using ir::Instruction;
using ir::Opcode;

bool Conversions::dynamic_call(Operation& op, std::string_view target) {
  if (target == "shape_assertion") {
    shape_assertion(op);
  } else if (target == "stablehlo.dynamic_reduce_window") {
    dynamic_reduce_window(op);
  } else if (target == "stablehlo.dynamic_rng_bit_generator") {
    need_operands(op, 2, 2);
    need_results(op, 2);
    close_result(op, 1, Shape(op.results[1]->dtype, constant_integers(op, 1)));
    op.operands.resize(1);
    close_as_operands(op);
    rng_bit_generator(op);
  } else if (target == "stablehlo.dynamic_top_k") {
    need_operands(op, 2, 2);
    need_results(op, 2);
    const std::int64_t k = constant_integers(op, 1).at(0);
    set_results(op, Opcode::topk, {op.operands[0]}, ir::TopKAttrs{k, true});
  } else {
    return false;
  }
  return true;
}

// "... expected {0} ..." with the numbers that follow the condition.
void Conversions::shape_assertion(Operation& op) {
  need_operands(op, 1, std::size_t(1) << 10);
  need_results(op, 0);
  const std::optional<Dims> holds = known_.of(*op.operands[0]);
  if (!holds || holds->size() != 1) {
    not_supported(op, "is of a condition that depends on more than the arguments' sizes");
  }
  if (holds->front() != 0) return;
  std::string message = text(op, "error_message");
  for (std::size_t n = 1; n < op.operands.size(); ++n) {
    const std::optional<Dims> value = known_.of(*op.operands[n]);
    const std::string name = "{" + std::to_string(n - 1) + "}";
    const std::string number = value && value->size() == 1 ? std::to_string(value->front()) : "?";
    for (std::size_t at = message.find(name); at != std::string::npos;
         at = message.find(name, at + number.size())) {
      message.replace(at, name.size(), number);
    }
  }
  throw ShapeError(message, in_.location_at(op.at));
}

// Arrays and what they begin with, then the window: sizes, strides, both dilations, paddings.
void Conversions::dynamic_reduce_window(Operation& op) {
  constexpr std::size_t kOfWindow = 5;
  const std::size_t arrays = op.results.size();
  need_operands(op, 2 * arrays + kOfWindow, 2 * arrays + kOfWindow);
  const std::vector<ir::Computation*> called = called_functions(op);
  if (called.size() != 1) fail(op, "needs one called computation, that reduces");
  const Shape& x = op.operands[0]->shape;
  std::vector<ir::WindowDim> window(x.dims.size());
  const auto part = [&](std::size_t n, std::size_t each) {
    Dims values = constant_integers(op, 2 * arrays + n);
    if (values.size() == each * window.size()) return values;
    fail(op, "has " + std::to_string(values.size()) + " numbers as operand " +
                 std::to_string(2 * arrays + n) + "; expected " + std::to_string(each) +
                 " for each dim of " + mlir_type(x));
  };
  const Dims sizes = part(0, 1), strides = part(1, 1), base = part(2, 1), dilations = part(3, 1),
             paddings = part(4, 2);
  for (std::size_t d = 0; d < window.size(); ++d) {
    window[d].size = sizes[d];
    window[d].stride = strides[d];
    window[d].lhs_dilation = base[d];
    window[d].rhs_dilation = dilations[d];
    window[d].pad_low = paddings[2 * d];
    window[d].pad_high = paddings[2 * d + 1];
  }
  op.operands.resize(2 * arrays);
  op.regions = called;
  reduce_with(op, Opcode::reduce_window, ir::WindowAttrs{std::move(window)});
}

// Operands that say the results' sizes, one for each result.
void Conversions::close_by_shape_operands(Operation& op) {
  const Dims indices = shape_operands(op);
  for (std::size_t n = 0; n < indices.size(); ++n) {
    const Dims dims = constant_integers(op, std::size_t(indices[n]));
    close_result(op, n, Shape(op.results[n]->dtype, dims));
  }
}

Dims Conversions::shape_operands(const Operation& op) {
  const Attribute* places = op.find("indices_of_shape_operands");
  if (places == nullptr) return {};
  Dims indices = dims_of(places->value);
  if (indices.size() != op.results.size()) {
    fail(op, "has " + std::to_string(indices.size()) + " indices_of_shape_operands for " +
                 std::to_string(op.results.size()) + " results");
  }
  for (const std::int64_t at : indices) {
    if (at >= 0 && at < std::int64_t(op.operands.size())) continue;
    fail(op, "has indices_of_shape_operands that name operand " + std::to_string(at) + " of " +
                 std::to_string(op.operands.size()));
  }
  return indices;
}

// They are no operands of what is called.
void Conversions::leave_out_shape_operands(Operation& op, std::vector<Dims>* layouts) {
  Dims indices = shape_operands(op);
  std::sort(indices.begin(), indices.end(), std::greater<>());
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  for (const std::int64_t at : indices) {
    op.operands.erase(op.operands.begin() + at);
    if (std::size_t(at) < layouts->size()) layouts->erase(layouts->begin() + at);
  }
}

}  // namespace tessera::text
