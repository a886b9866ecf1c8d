// SPDX-License-Identifier: Apache-2.0
// Trigonometric and hyperbolic functions. HLO has opcodes, but XLA's backends don't run them, so
// that they are formulas: of complex numbers' parts (W. Kahan, "Branch Cuts for Complex Elementary
// Functions", 1987) right on both sides of each cut, and all accurate near zero and one.
#include <cmath>
#include <limits>
#include <numbers>

#include "src/text/convert/chlo_math.h"

namespace tessera::text {

using ir::Instruction;
using ir::Opcode;

namespace {

/// Where a square would be infinite.
double large(const ir::Formula& m) { return m.wide() ? 1e150 : 1e18; }

Num sinh(Num x) {
  const double log_half = -std::numbers::ln2;  // half of exp, which would be infinite too early
  const Num small = x.m->unary(Opcode::exponential_minus_one, x);
  return choose(abs(x) < 1, 0.5 * (small + small / (small + 1)),
                exp(x + log_half) - exp(log_half - x));
}

Num cosh(Num x) { return exp(x - std::numbers::ln2) + exp(-x - std::numbers::ln2); }

Num asinh(Num x) {
  const Num far = abs(x), squared = x * x;
  const Num near = log1p(far + squared / (1 + sqrt(1 + squared)));
  return x.m->unary(Opcode::sign, x) *
         choose(far > large(*x.m), log(far) + std::numbers::ln2, near);
}

Num acosh(Num x) {
  const Num t = x - 1;
  const Num near = log1p(t + sqrt(t * (t + 2)));
  return choose(x > large(*x.m), log(x) + std::numbers::ln2,
                choose(x < 1, std::numeric_limits<double>::quiet_NaN(), near));
}

Num atan2(Num y, Num x) { return x.m->binary(Opcode::atan2, y, x); }

Num real_function(std::string_view name, Num x) {
  if (name == "sinh") return sinh(x);
  if (name == "cosh") return cosh(x);
  if (name == "asinh") return asinh(x);
  if (name == "acosh") return acosh(x);
  if (name == "atanh") return 0.5 * (log1p(x) - log1p(-x));
  const Num side = sqrt((1 - x) * (1 + x));
  if (name == "asin") return 2 * atan2(x, 1 + side);
  return choose(x == -1, std::numbers::pi, 2 * atan2(side, 1 + x));  // acos
}

/// Formulas of the real and the imaginary part.
class ComplexMath {
 public:
  struct Parts {
    Num re, im;
  };

  ComplexMath(Conversions& reader, const Operation& op, const Shape& shape)
      : shape_(shape), real_(reader, op, real_type(shape.dtype), shape.dims) {}

  Parts parts(Instruction* z) { return {part(Opcode::real, z), part(Opcode::imag, z)}; }
  Instruction* join(Parts z) { return real_.make(Opcode::complex, shape_, {z.re.i, z.im.i}); }

  Parts apply(std::string_view name, Parts z) {
    if (name == "sinh" || name == "cosh") return hyperbolic(name, z);
    // Infinite and nearly infinite parts: the angle is that of smaller numbers, the other part
    // grows by the logarithm of what was taken away.
    const double infinity = std::numeric_limits<double>::infinity();
    const Num far = (abs(z.re) > largest()) | (abs(z.im) > largest());
    const Num endless = (abs(z.re) == infinity) | (abs(z.im) == infinity);
    if (name == "atan" || name == "atanh") {
      // Nothing grows: the other part tends to zero.
      const Parts w =
          inverse(name, {nearer(z.re, endless, endless), nearer(z.im, endless, endless)});
      const auto shrunk = [&](Num x) { return choose(endless, x * 0, x); };
      return name == "atan" ? Parts{w.re, shrunk(w.im)} : Parts{shrunk(w.re), w.im};
    }
    const Parts w = inverse(name, {nearer(z.re, far, endless), nearer(z.im, far, endless)});
    auto grown = [&](Num x) {
      const Num side = real_.unary(Opcode::sign, x);
      return choose(endless, side * infinity,
                    choose(far, x + side * (kShift * std::numbers::ln2), x));
    };
    if (name == "acosh" || name == "asinh") return {grown(w.re), w.im};
    return {w.re, grown(w.im)};
  }

 private:
  static constexpr double kShift = 32;
  double largest() const { return real_.wide() ? 1e300 : 1e37; }
  Num nearer(Num x, Num far, Num endless) {
    // Beside an infinite part a finite one has only its sign left.
    const Num other = choose(endless, x * 0, choose(far, x * std::exp2(-kShift), x));
    return choose(abs(x) == std::numeric_limits<double>::infinity(),
                  real_.unary(Opcode::sign, x) * largest(), other);
  }
  Parts hyperbolic(std::string_view name, Parts z) {
    if (name == "sinh") return {sinh(z.re) * cos(z.im), cosh(z.re) * sin(z.im)};
    return {cosh(z.re) * cos(z.im), sinh(z.re) * sin(z.im)};
  }
  Parts inverse(std::string_view name, Parts z) {
    if (name == "asin") return asin_of(z);
    if (name == "acos") return acos_of(z);
    if (name == "acosh") return acosh_of(z);
    if (name == "atanh") return atanh_of(z);
    // asinh z = -i asin iz, atan z = -i atanh iz
    const Parts turned{-z.im, z.re};
    const Parts w = name == "asinh" ? asin_of(turned) : atanh_of(turned);
    return {w.im, -w.re};
  }
  Num part(Opcode which, Instruction* z) {
    return real_(real_.make(which, Shape(real_.dtype(), shape_.dims), {z}));
  }
  Parts sqrt_of(Parts z) { return parts(real_.make(Opcode::sqrt, shape_, {join(z)})); }

  Parts asin_of(Parts z) {
    const Parts a = sqrt_of({1 - z.re, -z.im}), b = sqrt_of({1 + z.re, z.im});
    return {atan2(z.re, a.re * b.re - a.im * b.im), asinh(a.re * b.im - a.im * b.re)};
  }
  Parts acos_of(Parts z) {
    const Parts a = sqrt_of({1 - z.re, -z.im}), b = sqrt_of({1 + z.re, z.im});
    return {2 * atan2(a.re, b.re), asinh(b.re * a.im - b.im * a.re)};
  }
  Parts acosh_of(Parts z) {
    const Parts a = sqrt_of({z.re - 1, z.im}), b = sqrt_of({z.re + 1, z.im});
    return {asinh(a.re * b.re + a.im * b.im), 2 * atan2(a.im, b.re)};
  }
  Parts atanh_of(Parts z) {
    const Num x = z.re, y = z.im, far = abs(x), squared = (1 - far) * (1 - far) + y * y;
    // Where the square would be infinite it is that of numbers about one.
    const Num most = choose(far > abs(y), far, abs(y)), a = far / most, b = y / most;
    const Num tiny = a / (a * a + b * b) / most;
    const Num ratio = choose(most > large(real_), tiny, far / squared);
    return {real_.unary(Opcode::sign, x) * 0.25 * log1p(4 * ratio),
            0.5 * atan2(y, 0.5 * ((1 - x) * (1 + x) - y * y))};
  }

  Shape shape_;
  ChloMath real_;
};

}  // namespace

void Conversions::chlo_trigonometric(Operation& op) {
  need_operands(op, 1, 1);
  need_results(op, 1);
  Instruction* x = op.operands[0];
  const std::string_view name = op.name.substr(op.name.find('.') + 1);
  const DType t = x->shape.dtype;
  if (is_complex(t)) {
    ComplexMath m(*this, op, x->shape);
    op.values.push_back(m.join(m.apply(name, m.parts(x))));
    return;
  }
  if (!is_floating(t)) {
    fail(op, "takes floating point numbers, not " + mlir_type(x->shape));
  }
  if (name == "atan") {
    if (byte_size(t) > 1) {
      ChloMath m(*this, op, t, x->shape.dims);
      set(op, Opcode::atan2, {x, m.constant(1).i});
      return;
    }
    ChloMath m(*this, op, DType::f32, x->shape.dims);
    op.values.push_back(m.convert(atan2(m.convert(m(x), m.dtype()), m.constant(1)), t).i);
    return;
  }
  ChloMath m(*this, op, t == DType::f64 ? t : DType::f32, x->shape.dims);
  op.values.push_back(m.convert(real_function(name, m.convert(m(x), m.dtype())), t).i);
}

}  // namespace tessera::text
