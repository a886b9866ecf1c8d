// SPDX-License-Identifier: Apache-2.0
// Products and roots in place of powers by small constants.
#include "src/passes/strength_reduce_powers.h"

#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>

#include "src/ir/rewrite/patterns.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

/// The number that all elements are.
std::optional<double> splat_number(const Instruction* x) {
  while (x->is(Opcode::broadcast) || x->is(Opcode::reshape)) x = x->operand(0);
  if (!x->is(Opcode::constant) || x->get<ir::ConstantAttrs>().elided) return std::nullopt;
  const Literal& value = x->get<ir::ConstantAttrs>().value;
  if (value.shape().element_count() == 0 || !is_splat(value)) return std::nullopt;
  return dispatch_dtype(value.shape().dtype, [&](auto tag) -> std::optional<double> {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_constructible_v<double, T> && !std::is_same_v<T, Pred>) {
      return double(value.data<T>()[0]);
    }
    return std::nullopt;
  });
}

/// The square root of x or one over it, of what powers take: that of -0 is 0, of -inf infinity.
Instruction* root(Instruction* x, bool inverse, ir::Builder& b) {
  const auto all = [&](double v) { return b.splat(b.scalar(x->shape.dtype, v), x->shape.dims); };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Instruction* without_sign = b.binary(Opcode::add, x, all(0));
  return b.select(b.compare(ir::Direction::eq, x, all(-kInfinity)), all(inverse ? 0 : kInfinity),
                  b.unary(inverse ? Opcode::rsqrt : Opcode::sqrt, without_sign));
}

Instruction* power(const Instruction& i, ir::Builder& b) {
  const DType t = i.shape.dtype;
  const bool rounds_often = is_floating(t) && byte_size(t) < 4;
  if (is_complex(t) || (is_floating(t) && byte_size(t) < 2)) return nullptr;
  if (!i.control_predecessors().empty()) return nullptr;
  const auto exponent = splat_number(i.operand(1));
  if (!exponent) return nullptr;
  Instruction* x = i.operand(0);
  if (*exponent == 1) return x;
  const auto square = [&](Instruction* y) { return b.binary(Opcode::multiply, y, y); };
  if (*exponent == 2) return square(x);
  const auto inverse = [&] {
    return b.binary(Opcode::divide, b.splat(b.scalar(t, 1), x->shape.dims), x);
  };
  if (is_floating(t)) {
    if (*exponent == -1) return inverse();
    if (std::abs(*exponent) == 0.5 && !rounds_often) return root(x, *exponent < 0, b);
    // Not one over the square: that leaves the range sooner.
    if (*exponent == -2 && !rounds_often) return square(inverse());
  }
  if (rounds_often) return nullptr;
  if (*exponent == 3) return b.binary(Opcode::multiply, square(x), x);
  return *exponent == 4 ? square(square(x)) : nullptr;
}

}  // namespace

std::size_t strength_reduce_powers(ir::Module* module) {
  static const auto& patterns =
      ir::keep(ir::PatternSet("strength-reduce-powers").add(Opcode::power, power));
  return ir::walk_and_apply_patterns(module, patterns);
}

}  // namespace tessera::passes
