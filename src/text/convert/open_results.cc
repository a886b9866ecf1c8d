// SPDX-License-Identifier: Apache-2.0
// Sizes of results whose types leave them open. Most follow from shape inference, once a conversion
// has read the attributes; here are those of operations whose results say what is made, as a
// reshape does, and of conversions that look at their results.
#include <algorithm>
#include <optional>

#include "src/ir/shapes/shape_inference.h"
#include "src/text/read/conversions.h"

namespace tessera::text {

using ir::Instruction;
using ir::Opcode;

namespace {

using R = Conversions;

/// `limit` minus `start` where it is known, also if neither of them is.
std::optional<Dims> difference(KnownIntegers& known, const Instruction& limit,
                               const Instruction& start, int depth = 0) {
  constexpr int kMostDepth = 16;
  if (depth > kMostDepth || !(limit.shape == start.shape)) return std::nullopt;
  const std::optional<Dims> l = known.of(limit), s = known.of(start);
  if (l && s) {
    Dims out = *l;
    for (std::size_t n = 0; n < out.size(); ++n) out[n] -= (*s)[n];
    return out;
  }
  if (limit.is(Opcode::add)) {
    for (const std::size_t n : {0, 1}) {
      if (limit.operand(n) == &start) return known.of(*limit.operand(1 - n));
    }
  }
  if (limit.opcode != start.opcode || limit.operands().size() != start.operands().size() ||
      !(limit.attrs == start.attrs)) {
    return std::nullopt;
  }
  if (!limit.is(Opcode::concatenate) && !limit.is(Opcode::reshape) && !limit.is(Opcode::convert)) {
    return std::nullopt;
  }
  Dims out;
  for (std::size_t n = 0; n < limit.operands().size(); ++n) {
    const auto part = difference(known, *limit.operand(n), *start.operand(n), depth + 1);
    if (!part) return part;
    out.insert(out.end(), part->begin(), part->end());
  }
  return out;
}

}  // namespace

void InstructionBuilder::fail_open(const Operation& op, const Shape& type, const std::string& why) {
  not_supported(op, "gives " + mlir_type(type) +
                        ", whose sizes must be known before the program runs: " + why);
}

void InstructionBuilder::close_result(Operation& op, std::size_t n, const Shape& actual) {
  const Shape* type = op.results[n];
  if (!is_open(*type)) return;
  const Shape as = actual.is_tuple ? actual : Shape(type->dtype, actual.dims);
  if (!fits(*type, as)) {
    fail(op, "gives " + mlir_type(as) + " for these arguments, and is written with a result " +
                 mlir_type(*type));
  }
  op.results[n] = types_.closed(type, as);
}

void InstructionBuilder::close_results(Operation& op, Opcode opcode,
                                       const std::vector<Instruction*>& operands,
                                       const ir::Attributes& attributes,
                                       const std::vector<ir::Computation*>& called) {
  const auto open = std::find_if(op.results.begin(), op.results.end(),
                                 [](const Shape* s) { return is_open(*s); });
  if (open == op.results.end()) return;
  switch (opcode) {
    case Opcode::iota:
    case Opcode::reshape:
    case Opcode::broadcast:
    case Opcode::bitcast_convert:
    case Opcode::custom_call:
    case Opcode::rng:
    case Opcode::rng_bit_generator:
      fail_open(op, **open, "they don't follow from the arguments' sizes");
    default:
      break;
  }
  const Shape actual = inferred(op, opcode, operands, attributes, called, nullptr);
  for (std::size_t n = 0; n < op.results.size(); ++n) {
    if (op.results.size() == 1 && !(actual.is_tuple && !op.results[n]->is_tuple)) {
      close_result(op, n, actual);
    } else if (n < actual.elements.size()) {
      close_result(op, n, actual.elements[n]);
    }
  }
}

void Conversions::close_as_operands(Operation& op) {
  for (std::size_t n = 0; n < op.results.size() && n < op.operands.size(); ++n) {
    close_result(op, n, op.operands[n]->shape);
  }
}

void Conversions::close_as_second(Operation& op) {
  if (op.operands.size() > 1 && op.results.size() == 1) close_result(op, 0, op.operands[1]->shape);
}

void Conversions::close_by_shape(Operation& op) {
  const bool alone = op.info->convert == &R::iota;
  const std::size_t n = alone ? 0 : op.info->convert == &R::rng ? 2 : 1;
  if (n >= op.operands.size() || op.results.size() != 1) return;
  const Shape type = *op.results[0];
  if (const std::optional<Dims> dims = known_.of(*op.operands[n])) {
    return close_result(op, 0, Shape(type.dtype, *dims));
  }
  if (op.info->convert == &R::reshape &&
      std::count(type.dims.begin(), type.dims.end(), kOpenSize) == 1) {
    // What the others leave.
    Dims dims = type.dims;
    std::erase(dims, kOpenSize);
    const std::int64_t others = element_count(dims), all = op.operands[0]->shape.element_count();
    if (others > 0 && all % others == 0) {
      dims = type.dims;
      *std::find(dims.begin(), dims.end(), kOpenSize) = all / others;
      return close_result(op, 0, Shape(type.dtype, dims));
    }
  }
  fail_open(
      op, type,
      "operand " + std::to_string(n) + ", its shape, depends on more than the arguments' sizes");
}

void Conversions::close_broadcast(Operation& op) {
  if (op.operands.size() != 1 || op.results.size() != 1) return;
  Dims dims = integers(op, "broadcast_sizes");
  const Dims& x = op.operands[0]->shape.dims;
  dims.insert(dims.end(), x.begin(), x.end());
  close_result(op, 0, Shape(op.results[0]->dtype, dims));
}

// Of equal sizes one, and of 1 and another the other.
void Conversions::close_chlo_broadcast(Operation& op) {
  if (op.results.size() != 1) return;
  const std::int64_t rank = op.results[0]->rank();
  Dims sizes(std::size_t(rank), 1);
  std::int64_t most = 0;
  for (const Instruction* x : op.operands) most = std::max(most, x->shape.rank());
  for (const Instruction* x : op.operands) {
    const std::int64_t own = x->shape.rank();
    Dims dims;
    for (std::int64_t d = 0; d < own; ++d) dims.push_back(rank - own + d);
    if (op.find("broadcast_dimensions") != nullptr && own < most) {
      dims = integers(op, "broadcast_dimensions");
    }
    for (std::size_t d = 0; d < dims.size() && d < std::size_t(own); ++d) {
      const std::int64_t size = x->shape.dims[d];
      if (dims[d] >= 0 && dims[d] < rank && size != 1) sizes[std::size_t(dims[d])] = size;
    }
  }
  close_result(op, 0, Shape(op.results[0]->dtype, sizes));
}

void Conversions::close_bitcast(Operation& op) {
  if (op.operands.size() != 1 || op.results.size() != 1) return;
  const Shape &from = op.operands[0]->shape, &to = *op.results[0];
  Dims dims = from.dims;
  if (to.rank() + 1 == from.rank()) dims.pop_back();
  if (to.rank() == from.rank() + 1) dims.push_back(to.dims.back());
  close_result(op, 0, Shape(to.dtype, dims));
}

// Sizes that starts and limits have between them, also where neither is known.
void Conversions::close_slice(Operation& op) {
  if (op.operands.size() != 4 || op.results.size() != 1) return;
  const std::optional<Dims> sizes = difference(known_, *op.operands[2], *op.operands[1]);
  const std::optional<Dims> strides = known_.of(*op.operands[3]);
  if (!sizes || !strides || strides->size() != sizes->size()) {
    fail_open(op, *op.results[0], "where the slice begins and ends depends on more than them");
  }
  Dims dims;
  for (std::size_t d = 0; d < sizes->size(); ++d) {
    if ((*strides)[d] < 1) fail(op, "has the stride " + std::to_string((*strides)[d]));
    dims.push_back(ceil_div(std::max<std::int64_t>((*sizes)[d], 0), (*strides)[d]));
  }
  close_result(op, 0, Shape(op.results[0]->dtype, dims));
}

void Conversions::close_gather(Operation& op) {
  if (op.operands.size() != 3 || known_.of(*op.operands[2])) return;
  fail_open(op, *op.results.at(0), "the sizes of its slices, operand 2, depend on more than them");
}

// The rows that are taken in the place of a dim.
void Conversions::close_index_select(Operation& op) {
  if (op.operands.size() != 2 || op.results.size() != 1) return;
  const std::int64_t dim = integer(op, "dim"), batch = integer_or(op, "batch_dims", 0);
  const Dims &x = op.operands[0]->shape.dims, &index = op.operands[1]->shape.dims;
  if (dim < 0 || dim >= std::int64_t(x.size()) || batch < 0 ||
      batch > std::min(dim, std::int64_t(index.size()))) {
    return;
  }
  Dims dims(x.begin(), x.begin() + std::ptrdiff_t(dim));
  dims.insert(dims.end(), index.begin() + std::ptrdiff_t(batch), index.end());
  dims.insert(dims.end(), x.begin() + std::ptrdiff_t(dim) + 1, x.end());
  close_result(op, 0, Shape(op.results[0]->dtype, dims));
}

void Conversions::close_before_conversion(Operation& op) {
  if (std::none_of(op.results.begin(), op.results.end(),
                   [](const Shape* s) { return is_open(*s); })) {
    return;
  }
  struct Rule {
    void (Conversions::*convert)(Operation&);
    void (Conversions::*close)(Operation&);
  };
  static constexpr Rule kRules[] = {
      {&R::elementwise, &R::close_as_operands},
      {&R::identity, &R::close_as_operands},
      {&R::convert, &R::close_as_operands},
      {&R::compare, &R::close_as_operands},
      {&R::reduce_precision, &R::close_as_operands},
      {&R::uniform_quantize, &R::close_as_operands},
      {&R::uniform_dequantize, &R::close_as_operands},
      {&R::chlo_unary, &R::close_as_operands},
      {&R::chlo_binary, &R::close_as_operands},
      {&R::chlo_trigonometric, &R::close_as_operands},
      {&R::chlo_constant_like, &R::close_as_operands},
      {&R::while_loop, &R::close_as_operands},
      {&R::optimization_barrier, &R::close_as_operands},
      {&R::sort, &R::close_as_operands},
      {&R::scatter, &R::close_as_operands},
      {&R::cast, &R::close_as_operands},
      {&R::all_reduce, &R::close_as_operands},
      {&R::collective_permute, &R::close_as_operands},
      {&R::collective_broadcast, &R::close_as_operands},
      {&R::collective_reduce, &R::close_as_operands},
      {&R::cross_replica_sum, &R::close_as_operands},
      {&R::data_flow_edge, &R::close_as_operands},
      {&R::rng_bit_generator, &R::close_as_operands},
      {&R::select, &R::close_as_second},
      {&R::clamp, &R::close_as_second},
      {&R::triangular_solve, &R::close_as_second},
      {&R::broadcast, &R::close_broadcast},
      {&R::chlo_broadcast, &R::close_chlo_broadcast},
      {&R::chlo_broadcast_select, &R::close_chlo_broadcast},
      {&R::bitcast_convert, &R::close_bitcast},
      {&R::real_dynamic_slice, &R::close_slice},
      {&R::gather, &R::close_gather},
      {&R::torch_index_select, &R::close_index_select},
      {&R::custom_call, &R::close_by_shape_operands},
      {&R::iota, &R::close_by_shape},
      {&R::reshape, &R::close_by_shape},
      {&R::broadcast_in_dim, &R::close_by_shape},
      {&R::rng, &R::close_by_shape},
  };
  for (const Rule& rule : kRules) {
    if (rule.convert == op.info->convert) return (this->*rule.close)(op);
  }
}

}  // namespace tessera::text
