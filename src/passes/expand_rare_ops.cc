// SPDX-License-Identifier: Apache-2.0
// Pairs of an operation and what it is written as; the header says why.
#include "src/passes/expand_rare_ops.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "src/base/arrays/bit_width.h"
#include "src/ir/rewrite/patterns.h"

namespace tessera::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

/// Elementwise arithmetic on arrays of the same dims.
struct Elements {
  ir::Builder& b;
  Dims dims;

  Instruction* number(DType t, double value) const { return b.splat(b.scalar(t, value), dims); }
  Instruction* add(Instruction* x, Instruction* y) const { return b.binary(Opcode::add, x, y); }
  Instruction* subtract(Instruction* x, Instruction* y) const {
    return b.binary(Opcode::subtract, x, y);
  }
  Instruction* multiply(Instruction* x, Instruction* y) const {
    return b.binary(Opcode::multiply, x, y);
  }
  Instruction* times(Instruction* x, double factor) const {
    return multiply(x, number(x->shape.dtype, factor));
  }
  Instruction* shifted(Instruction* x, int by, Opcode how = Opcode::shift_right_logical) const {
    return b.binary(how, x, number(x->shape.dtype, by));
  }
};

/// The upper half of the product of two unsigned integers of 64 bits.
Instruction* high_of_u64(const Elements& e, Instruction* x, Instruction* y) {
  Instruction* mask = e.number(DType::u64, 4294967295.0);
  const auto low = [&](Instruction* v) { return e.b.binary(Opcode::and_, v, mask); };
  const auto high = [&](Instruction* v) { return e.shifted(v, 32); };
  Instruction* crossed = e.multiply(low(x), high(y));
  Instruction* other = e.multiply(high(x), low(y));
  Instruction* carried = high(e.multiply(low(x), low(y)));
  carried = e.add(e.add(carried, low(crossed)), low(other));
  Instruction* out = e.add(e.multiply(high(x), high(y)), high(carried));
  return e.add(out, e.add(high(crossed), high(other)));
}

Instruction* high_product(const Instruction& i, ir::Builder& b) {
  const DType t = i.shape.dtype;
  const int width = bit_width(t);
  const bool is_signed = is_signed_integer(t);
  const Elements e{b, i.shape.dims};
  Instruction* x = i.operand(0);
  Instruction* y = i.operand(1);
  if (width < 64) {
    const DType wide =
        width <= 16 ? (is_signed ? DType::s32 : DType::u32) : (is_signed ? DType::s64 : DType::u64);
    Instruction* product = e.multiply(b.convert(x, wide), b.convert(y, wide));
    return b.convert(
        e.shifted(product, width,
                  is_signed ? Opcode::shift_right_arithmetic : Opcode::shift_right_logical),
        t);
  }
  if (!is_signed) return high_of_u64(e, x, y);
  const auto recast = [&](Instruction* v, DType to) {
    return b.emit_shaped(Opcode::bitcast_convert, Shape(to, e.dims), {v});
  };
  // As unsigned, a negative number is 2^64 more than it is.
  const auto if_negative = [&](Instruction* sign, Instruction* v) {
    return b.binary(Opcode::and_, e.shifted(sign, 63, Opcode::shift_right_arithmetic), v);
  };
  Instruction* out = high_of_u64(e, recast(x, DType::u64), recast(y, DType::u64));
  return e.subtract(recast(out, t), e.add(if_negative(x, y), if_negative(y, x)));
}

/// Up with a chance of the fraction.
Instruction* stochastic(const Instruction& i, ir::Builder& b) {
  const DType to = i.shape.dtype;
  const DType bits = i.operand(1)->shape.dtype;
  if (!is_integer(to)) return nullptr;
  const Elements e{b, i.shape.dims};
  Instruction* x = b.convert(i.operand(0), DType::f64);
  Instruction* size = b.unary(Opcode::abs, x);
  Instruction* integral = b.unary(Opcode::floor, size);
  Instruction* fraction = e.times(e.subtract(size, integral), std::ldexp(1.0, bit_width(bits)));
  Instruction* up = b.compare(ir::Direction::gt, fraction, b.convert(i.operand(1), DType::f64));
  Instruction* rounded = e.add(integral, b.convert(up, DType::f64));
  Instruction* is_negative = b.compare(ir::Direction::lt, x, e.number(DType::f64, 0));
  return b.convert(b.select(is_negative, b.unary(Opcode::negate, rounded), rounded), to);
}

/// Of y + i x: -i log((y + i x) / sqrt(x x + y y)).
Instruction* complex_angle(const Instruction& i, ir::Builder& b) {
  const DType t = i.shape.dtype;
  if (!is_complex(t)) return nullptr;
  const Elements e{b, i.shape.dims};
  Instruction* x = b.convert(i.operand(0), DType::c128);
  Instruction* y = b.convert(i.operand(1), DType::c128);
  Instruction* unit =
      b.splat(b.binary(Opcode::complex, b.scalar(DType::f64, 0), b.scalar(DType::f64, 1)), e.dims);
  Instruction* length = b.unary(Opcode::sqrt, e.add(e.multiply(y, y), e.multiply(x, x)));
  Instruction* direction = b.binary(Opcode::divide, e.add(y, e.multiply(unit, x)), length);
  Instruction* angle = e.multiply(b.unary(Opcode::negate, unit), b.unary(Opcode::log, direction));
  return b.convert(angle, t);
}

/// Whether any product is true: sums of ones never come to nothing.
Instruction* convolution_of_truths(const Instruction& i, ir::Builder& b) {
  if (i.shape.dtype != DType::pred || i.operand(0)->shape.dtype != DType::pred ||
      i.operand(1)->shape.dtype != DType::pred) {
    return nullptr;
  }
  const Elements e{b, i.shape.dims};
  Instruction* sums = b.emit_shaped(
      Opcode::convolution, Shape(DType::f32, e.dims),
      {b.convert(i.operand(0), DType::f32), b.convert(i.operand(1), DType::f32)}, i.attrs);
  return b.compare(ir::Direction::ne, sums, e.number(DType::f32, 0));
}

/// So many words of 32 or 64 bits, other ones at each run.
Instruction* random_words(ir::Builder& b, std::int64_t count, DType type) {
  constexpr double kKey = 0x7e55e7a0;
  const std::int64_t blocks = (count * (type == DType::u64 ? 2 : 1) + 3) / 4;
  ir::TextAttrs attrs;
  attrs.items.emplace_back("delta", std::to_string(blocks));
  Instruction* state =
      b.emit_shaped(Opcode::rng_get_and_update_state, Shape(DType::u64, {2}), {}, std::move(attrs));
  Instruction* key = b.splat(b.scalar(DType::u64, kKey), {1});
  state = b.concatenate({key, state}, 0);
  const Shape made = Shape::tuple({state->shape, Shape(type, {count})});
  Instruction* bits =
      b.emit_shaped(Opcode::rng_bit_generator, made, {state}, ir::RngAttrs{"rng_philox"});
  return b.get_tuple_element(bits, 1);
}

/// In [0, 1), with all bits that the type has.
Instruction* fractions(const Elements& e, Instruction* words) {
  const bool is_wide = words->shape.dtype == DType::u64;
  const DType t = is_wide ? DType::f64 : DType::f32;
  Instruction* bits = e.shifted(words, is_wide ? 11 : 8);
  bits = e.b.convert(bits, is_wide ? DType::s64 : DType::s32);
  return e.times(e.b.convert(bits, t), is_wide ? 0x1p-53 : 0x1p-24);
}

Instruction* random_integers(const Instruction& i, const Elements& e) {
  ir::Builder& b = e.b;
  const auto bound = [&](std::size_t k) { return b.convert(i.operand(k), DType::u64); };
  Instruction* from = bound(0);
  Instruction* span = b.splat(e.b.binary(Opcode::subtract, bound(1), from), e.dims);
  Instruction* words = random_words(b, i.shape.element_count(), DType::u64);
  Instruction* rest = b.binary(Opcode::remainder, b.reshape(words, e.dims), span);
  Instruction* none = e.number(DType::u64, 0);
  rest = b.select(b.compare(ir::Direction::eq, span, none), none, rest);
  return b.convert(e.add(b.splat(from, e.dims), rest), i.shape.dtype);
}

Instruction* random_numbers(const Instruction& i, ir::Builder& b) {
  const DType t = i.shape.dtype;
  const std::int64_t count = i.shape.element_count();
  const std::string& kind = i.get<ir::RngAttrs>().kind;
  const bool is_normal = kind == "rng_normal";
  if (!is_normal && kind != "rng_uniform") return nullptr;
  const Elements e{b, i.shape.dims};
  if (!is_floating(t)) {
    if (is_normal || is_complex(t)) return nullptr;
    return count == 0 ? e.number(t, 0) : random_integers(i, e);
  }
  if (count == 0) return e.number(t, 0);
  const bool is_wide = t == DType::f64;
  const DType computed = is_wide ? DType::f64 : DType::f32;
  Instruction* words =
      random_words(b, is_normal ? 2 * count : count, is_wide ? DType::u64 : DType::u32);
  const auto part = [&](std::int64_t k) {
    return fractions(e, b.reshape(b.slice(words, {k * count}, {(k + 1) * count}), e.dims));
  };
  const auto bound = [&](std::size_t k) {
    return b.splat(b.convert(i.operand(k), computed), e.dims);
  };
  if (is_normal) {  // Box and Muller
    Instruction* log = b.unary(Opcode::log, e.subtract(e.number(computed, 1), part(0)));
    Instruction* radius = b.unary(Opcode::sqrt, e.times(log, -2));
    Instruction* cosine = b.unary(Opcode::cosine, e.times(part(1), 2 * std::numbers::pi));
    return b.convert(e.add(bound(0), e.multiply(bound(1), e.multiply(radius, cosine))), t);
  }
  Instruction* out =
      b.convert(e.add(bound(0), e.multiply(e.subtract(bound(1), bound(0)), part(0))), t);
  // Rounding may reach the upper bound, which is none of the numbers.
  Instruction* is_range = b.splat(b.compare(ir::Direction::lt, i.operand(0), i.operand(1)), e.dims);
  Instruction* is_end = b.compare(ir::Direction::ge, out, b.splat(i.operand(1), e.dims));
  return b.select(b.binary(Opcode::and_, is_range, is_end), b.splat(i.operand(0), e.dims), out);
}

/// Nothing else has to run before.
template <Instruction* (*expand)(const Instruction&, ir::Builder&)>
Instruction* alone(const Instruction& i, ir::Builder& b) {
  return i.control_predecessors().empty() ? expand(i, b) : nullptr;
}

bool may_be_rare(const Instruction& i) {
  switch (i.opcode) {
    case Opcode::mulhi:
    case Opcode::rng:
    case Opcode::stochastic_convert:
      return true;
    case Opcode::atan2:
      return is_complex(i.shape.dtype);
    case Opcode::convolution:
      return i.shape.dtype == DType::pred;
    default:
      return false;
  }
}

}  // namespace

std::size_t expand_rare_ops(ir::Module* module) {
  const auto& all = module->computations();
  const bool any = std::any_of(all.begin(), all.end(), [](const auto& c) {
    const auto& its = c->instructions();
    return std::any_of(its.begin(), its.end(), [](const auto& i) { return may_be_rare(*i); });
  });
  if (!any) return 0;
  static const auto& patterns =
      ir::keep(ir::PatternSet("expand-rare-ops")
                   .add(Opcode::mulhi, alone<high_product>)
                   .add(Opcode::rng, alone<random_numbers>)
                   .add(Opcode::stochastic_convert, alone<stochastic>)
                   .add(Opcode::atan2, alone<complex_angle>)
                   .add(Opcode::convolution, alone<convolution_of_truths>));
  return ir::walk_and_apply_patterns(module, patterns);
}

}  // namespace tessera::passes
