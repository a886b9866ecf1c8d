// SPDX-License-Identifier: Apache-2.0
// Makes products of sums along dims that broadcasts made.
#include "src/passes/reductions/reduce_broadcasts.h"

#include <algorithm>
#include <optional>

#include "src/base/contains.h"
#include "src/ir/rewrite/patterns.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

/// Whether equal numbers combined are the number; sums are a product with how many there are.
bool keeps_equal(Opcode op) {
  return op == Opcode::maximum || op == Opcode::minimum || op == Opcode::and_ || op == Opcode::or_;
}
bool may_be_product(DType t, std::int64_t count) {
  constexpr std::int64_t kExact = 1 << 24;  // in f32
  return is_integer(t) ? byte_size(t) >= 4 && count <= kExact
                       : t == DType::f64 || (t == DType::f32 && count <= kExact);
}

Instruction* reduced_broadcast(const Instruction& i, ir::Builder& b) {
  if (i.shape.is_tuple || i.operands().size() != 2 || !i.control_predecessors().empty()) {
    return nullptr;
  }
  const Instruction& x = *i.operand(0);
  const std::optional<Opcode> op = ir::as_binary_reducer(*i.called().at(0));
  if (!op || !x.is(Opcode::broadcast) || x.shape.dtype != i.shape.dtype) return nullptr;
  if (x.shape.element_count() == 0) return nullptr;
  const Dims& made_of = x.get<ir::DimensionsAttrs>().dims;
  const Dims& reduced = i.get<ir::DimensionsAttrs>().dims;
  std::int64_t count = 1;
  Dims left, number, rest;  // dims that are left, their numbers, those still to be reduced
  bool any = false;
  for (std::int64_t d = 0; d < x.shape.rank(); ++d) {
    number.push_back(std::int64_t(left.size()));
    if (contains(reduced, d) && !contains(made_of, d)) {
      count *= x.shape.dim(d);
      any = true;
      continue;
    }
    if (contains(reduced, d)) rest.push_back(std::int64_t(left.size()));
    left.push_back(x.shape.dim(d));
  }
  const bool sums = *op == Opcode::add;
  if (!any || (sums ? !may_be_product(x.shape.dtype, count) : !keeps_equal(*op))) return nullptr;
  Dims to;
  for (const std::int64_t d : made_of) to.push_back(number[std::size_t(d)]);
  Instruction* y = x.operand(0);
  if (sums) {
    y = b.binary(Opcode::multiply, y,
                 b.splat(b.scalar(y->shape.dtype, double(count)), y->shape.dims));
  }
  if (y->shape.dims != left || !std::is_sorted(to.begin(), to.end())) y = b.broadcast(y, left, to);
  if (!rest.empty()) return b.reduce(y, i.operand(1), rest, i.called().at(0));
  return b.binary(*op, y, b.splat(i.operand(1), left));
}

}  // namespace

std::size_t reduce_broadcasts(ir::Module* module) {
  static const auto& patterns =
      ir::keep(ir::PatternSet("reduce-broadcasts").add(Opcode::reduce, reduced_broadcast));
  return ir::walk_and_apply_patterns(module, patterns);
}

}  // namespace tessera::passes
