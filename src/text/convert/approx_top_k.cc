// SPDX-License-Identifier: Apache-2.0
// ApproxTopK: what jax.lax.approx_max_k is where no hardware approximates, a sort and the first of
// each row.
#include <algorithm>
#include <optional>

#include "src/text/read/conversions.h"

namespace tessera::text {

using ir::Instruction;
using ir::Opcode;

namespace {

// Whether a comparator says which of its first two arguments is larger (or smaller), and nothing
// else; empty if it says something else or is still to be read.
std::optional<bool> prefers_larger(const ir::Computation& comparator) {
  const Instruction* root = comparator.root();
  if (root == nullptr || !root->is(Opcode::compare) || comparator.parameters().size() < 2 ||
      root->operand(0) != comparator.parameter(0) || root->operand(1) != comparator.parameter(1)) {
    return std::nullopt;
  }
  const auto& compare = root->get<ir::CompareAttrs>();
  if (compare.type != ir::ComparisonType::by_dtype) return std::nullopt;
  if (compare.direction == ir::Direction::gt) return true;
  if (compare.direction == ir::Direction::lt) return false;
  return std::nullopt;
}

}  // namespace

// The best of values and what comes with them, their places: a top-k, exact as it is allowed to be.
void Conversions::approx_top_k(Operation& op) {
  const std::size_t count = op.results.size();
  // How many are taken may be an operand; the results say it, too.
  const bool counted = call_target(op) != "ApproxTopK";
  need_operands(op, 2 * count + counted, 2 * count + counted);
  op.operands.resize(2 * count);
  const std::vector<ir::Computation*> called = called_functions(op);
  if (called.size() != 1) fail(op, "needs one called computation, that compares");
  const Attribute* config = op.find("mhlo.backend_config");
  if (config == nullptr) config = &need(op, "backend_config");
  Operation fields;
  fields.at = op.at;
  fields.name = op.name;
  fields.attributes = dictionary(*config, "before the fields of ApproxTopK");
  const std::int64_t dim = integer(fields, "reduction_dim");
  const std::vector<Instruction*> values(op.operands.begin(),
                                         op.operands.begin() + std::ptrdiff_t(count));
  std::vector<Shape> shapes;
  for (std::size_t n = 0; n < count; ++n) {
    const Shape& from = values[n]->shape;
    if (const Shape& type = *op.results[n]; is_open(type) && type.rank() == from.rank()) {
      Dims sizes = from.dims;
      if (dim >= 0 && dim < type.rank() && type.dim(dim) != kOpenSize) {
        sizes[std::size_t(dim)] = type.dim(dim);
      }
      close_result(op, n, Shape(type.dtype, sizes));
    }
    const Shape& to = *op.results[n];
    Dims want = from.dims;
    if (dim >= 0 && dim < from.rank() && to.rank() == from.rank()) {
      want[std::size_t(dim)] = std::min(from.dim(dim), to.dim(dim));
    }
    if (dim < 0 || dim >= from.rank() || want != to.dims) {
      fail(op, "can't give " + mlir_type(to) + " of " + mlir_type(from) + " with reduction_dim " +
                   std::to_string(dim));
    }
    shapes.push_back(from);
  }
  if (std::optional<bool> larger = prefers_larger(*called[0]);
      larger && count == 2 && dim + 1 == shapes[0].rank() && values[1]->is(Opcode::iota) &&
      values[1]->get<ir::IotaAttrs>().dim == dim && shapes[1].dtype == DType::s32 &&
      !is_complex(shapes[0].dtype)) {
    // The values with their places, as JAX requests them.
    set_results(op, Opcode::topk, {values[0]}, ir::TopKAttrs{op.results[0]->dim(dim), *larger});
    return;
  }
  Instruction* sorted = add(op, Opcode::sort, count == 1 ? shapes[0] : Shape::tuple(shapes), values,
                            ir::SortAttrs{dim, true}, called);
  for (std::size_t n = 0; n < count; ++n) {
    const Dims& limits = op.results[n]->dims;
    Instruction* all = count == 1 ? sorted : element(op, sorted, n);
    op.values.push_back(
        add(op, Opcode::slice, *op.results[n], {all},
            ir::SliceAttrs{Dims(limits.size(), 0), limits, Dims(limits.size(), 1)}));
  }
}

}  // namespace tessera::text
