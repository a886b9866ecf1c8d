// SPDX-License-Identifier: Apache-2.0
// Derivatives of elementwise functions, as a coefficient times the tangent, so that one array per
// op is all that a transpose needs. At kinks they are those of JAX: 0 for abs at 0, one half each
// where maximum and minimum have equal operands, 0 where clamp is at a bound.
#include <numbers>

#include "src/transforms/jvp/site.h"

namespace tessera::transforms {

using ir::Direction;
using ir::Instruction;
using ir::Opcode;

namespace {

/// The tangent of operand 0, times that.
Tangent scaled(JvpSite& s, Instruction* coefficient) { return s.mul(s.dx[0].array, coefficient); }

Instruction* square(const JvpSite& s, Instruction* x) { return s.mul(x, x); }

/// Ones where x is 0.
Instruction* replace_zeros(const JvpSite& s, Instruction* x) {
  Instruction* is_zero = s.b.compare(Direction::eq, x, zeros(s.b, x->shape));
  return s.b.select(is_zero, full(s.b, x->shape, 1), x);
}

/// The parts of a tangent of two operands.
Tangent both(JvpSite& s, Instruction* (*first)(JvpSite&), Instruction* (*second)(JvpSite&)) {
  Tangent out;
  if (!s.dx[0].is_zero()) out = s.mul(s.dx[0].array, first(s));
  if (!s.dx[1].is_zero()) out = sum(s.b, out, s.mul(s.dx[1].array, second(s)));
  return out;
}

Tangent extremum(JvpSite& s) {
  // Where both are the result, each has half of it.
  const auto share = [&s](std::size_t mine, std::size_t other) {
    Instruction* y = s.primal();
    Instruction* is_mine = s.b.compare(Direction::eq, s.x[mine], y);
    Instruction* is_other = s.b.compare(Direction::eq, s.x[other], y);
    Instruction* full_or_half = s.b.select(is_other, s.number(0.5), s.number(1));
    return s.b.select(is_mine, full_or_half, s.number(0));
  };
  Tangent out;
  if (!s.dx[0].is_zero()) out = s.mul(s.dx[0].array, share(0, 1));
  if (!s.dx[1].is_zero()) out = sum(s.b, out, s.mul(s.dx[1].array, share(1, 0)));
  return out;
}

}  // namespace

// ------------------------------------------------------------------ roots, powers, exponentials

Tangent jvp_sqrt(JvpSite& s) { return scaled(s, s.div(s.number(0.5), s.primal())); }

Tangent jvp_rsqrt(JvpSite& s) {
  return scaled(s, s.mul(s.number(-0.5), s.div(s.primal(), s.x[0])));
}

Tangent jvp_cbrt(JvpSite& s) { return scaled(s, s.div(s.number(1.0 / 3), square(s, s.primal()))); }

Tangent jvp_exponential(JvpSite& s) { return scaled(s, s.primal()); }

Tangent jvp_exponential_minus_one(JvpSite& s) { return scaled(s, s.add(s.primal(), s.number(1))); }

Tangent jvp_log(JvpSite& s) { return s.div(s.dx[0].array, s.x[0]); }

Tangent jvp_log_plus_one(JvpSite& s) { return s.div(s.dx[0].array, s.add(s.x[0], s.number(1))); }

Tangent jvp_logistic(JvpSite& s) {
  Instruction* y = s.primal();
  return scaled(s, s.mul(y, s.sub(s.number(1), y)));
}

Tangent jvp_power(JvpSite& s) {
  return both(
      s,
      [](JvpSite& t) {
        // x^(y-1) isn't finite at x = 0 where y = 0; the derivative is.
        Instruction* lower = t.b.binary(Opcode::power, t.x[0], t.sub(t.x[1], t.number(1)));
        Instruction* constant = t.b.compare(Direction::eq, t.x[1], t.number(0));
        return t.b.select(constant, t.number(0), t.mul(t.x[1], lower));
      },
      [](JvpSite& t) { return t.mul(t.un(Opcode::log, replace_zeros(t, t.x[0])), t.primal()); });
}

Tangent jvp_erf(JvpSite& s) {
  Instruction* bell = s.un(Opcode::exponential, s.neg(square(s, s.x[0])));
  return scaled(s, s.mul(s.number(2 * std::numbers::inv_sqrtpi), bell));
}

// ------------------------------------------------------------------ of angles

Tangent jvp_sine(JvpSite& s) { return scaled(s, s.un(Opcode::cosine, s.x[0])); }
Tangent jvp_cosine(JvpSite& s) { return scaled(s, s.neg(s.un(Opcode::sine, s.x[0]))); }
Tangent jvp_tan(JvpSite& s) { return scaled(s, s.add(s.number(1), square(s, s.primal()))); }
Tangent jvp_sinh(JvpSite& s) { return scaled(s, s.un(Opcode::cosh, s.x[0])); }
Tangent jvp_cosh(JvpSite& s) { return scaled(s, s.un(Opcode::sinh, s.x[0])); }
Tangent jvp_tanh(JvpSite& s) { return scaled(s, s.sub(s.number(1), square(s, s.primal()))); }

Tangent jvp_asin(JvpSite& s) {
  return scaled(s, s.un(Opcode::rsqrt, s.sub(s.number(1), square(s, s.x[0]))));
}

Tangent jvp_acos(JvpSite& s) {
  return scaled(s, s.neg(s.un(Opcode::rsqrt, s.sub(s.number(1), square(s, s.x[0])))));
}

Tangent jvp_asinh(JvpSite& s) {
  return scaled(s, s.un(Opcode::rsqrt, s.add(square(s, s.x[0]), s.number(1))));
}

Tangent jvp_acosh(JvpSite& s) {
  Instruction* below = s.sub(s.x[0], s.number(1));
  Instruction* above = s.add(s.x[0], s.number(1));
  // Of complex numbers the root of the product may lie on the other branch.
  Instruction* roots = is_complex(s.shape().dtype)
                           ? s.mul(s.un(Opcode::rsqrt, below), s.un(Opcode::rsqrt, above))
                           : s.un(Opcode::rsqrt, s.mul(below, above));
  return scaled(s, roots);
}

Tangent jvp_atanh(JvpSite& s) {
  Instruction* product = s.mul(s.sub(s.number(1), s.x[0]), s.add(s.number(1), s.x[0]));
  return scaled(s, s.div(s.number(1), product));
}

Tangent jvp_atan2(JvpSite& s) {
  return both(
      s, [](JvpSite& t) { return t.div(t.x[1], t.add(square(t, t.x[0]), square(t, t.x[1]))); },
      [](JvpSite& t) { return t.div(t.neg(t.x[0]), t.add(square(t, t.x[0]), square(t, t.x[1]))); });
}

// ------------------------------------------------------------------ arithmetic

Tangent jvp_divide(JvpSite& s) {
  Tangent out;
  if (!has_tangent(s.shape())) return out;
  if (!s.dx[0].is_zero()) out = s.div(s.dx[0].array, s.x[1]);
  if (!s.dx[1].is_zero()) {
    Instruction* coefficient = s.neg(s.div(s.primal(), s.x[1]));
    out = sum(s.b, out, s.mul(s.dx[1].array, coefficient));
  }
  return out;
}

Tangent jvp_remainder(JvpSite& s) {
  Tangent out = s.dx[0];
  if (s.dx[1].is_zero()) return out;
  // x - y * trunc(x / y)
  Instruction* quotient = s.div(s.x[0], s.x[1]);
  Instruction* size = s.un(Opcode::floor, s.un(Opcode::abs, quotient));
  Instruction* whole = s.mul(s.un(Opcode::sign, quotient), size);
  return sum(s.b, out, s.mul(s.dx[1].array, s.neg(whole)));
}

Tangent jvp_abs(JvpSite& s) {
  if (!has_tangent(s.x[0]->shape)) return {};
  if (!is_complex(s.x[0]->shape.dtype)) return scaled(s, s.un(Opcode::sign, s.x[0]));
  // The real part of conj(x)/|x| dx.
  Instruction* size = replace_zeros(s, s.primal());
  Instruction* size_c = s.b.convert(size, s.x[0]->shape.dtype);
  Instruction* direction = s.div(s.conj(s.x[0]), size_c);
  return s.un(Opcode::real, s.mul(s.dx[0].array, direction));
}

Tangent jvp_sign(JvpSite& s) {
  if (!is_complex(s.x[0]->shape.dtype)) return {};
  // Of x/|x|: (dx - s Re(conj(s) dx)) / |x|, which is i s Im(conj(s) dx) / |x|.
  Instruction* y = s.primal();
  Instruction* across = s.un(Opcode::imag, s.mul(s.dx[0].array, s.conj(y)));
  Instruction* size = replace_zeros(s, s.un(Opcode::abs, s.x[0]));
  Instruction* turn = s.b.binary(Opcode::complex, zeros(s.b, size->shape), s.div(across, size));
  return s.mul(turn, y);
}

Tangent jvp_maximum(JvpSite& s) { return extremum(s); }
Tangent jvp_minimum(JvpSite& s) { return extremum(s); }

Tangent jvp_clamp(JvpSite& s) {
  const auto spread = [&s](Instruction* bound) { return s.b.splat(bound, s.shape().dims); };
  Instruction *low = spread(s.x[0]), *high = spread(s.x[2]), *x = s.x[1];
  Instruction* zero = s.number(0);
  Tangent out;
  const auto where = [&](Instruction* condition, Instruction* tangent) {
    out = sum(s.b, out, s.b.select(condition, tangent, zero));
  };
  if (!s.dx[1].is_zero()) {
    where(s.b.binary(Opcode::and_, s.b.compare(Direction::gt, x, low),
                     s.b.compare(Direction::lt, x, high)),
          s.dx[1].array);
  }
  if (!s.dx[0].is_zero()) where(s.b.compare(Direction::gt, low, x), spread(s.dx[0].array));
  if (!s.dx[2].is_zero()) where(s.b.compare(Direction::lt, high, x), spread(s.dx[2].array));
  return out;
}

Tangent jvp_reduce_precision(JvpSite& s) { return s.clone_on({s.dx[0].array}); }

}  // namespace tessera::transforms
