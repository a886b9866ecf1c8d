// SPDX-License-Identifier: Apache-2.0
// Trigonometric and hyperbolic functions: opcodes for real numbers. For complex ones XLA has none,
// so that they are formulas of their parts (W. Kahan, "Branch Cuts for Complex Elementary
// Functions", 1987): right on both sides of each cut, and accurate near zero and one.
#include "src/text/chlo_math.h"

namespace tessera::text {

using ir::Instruction;
using ir::Opcode;

namespace {

/// Formulas of the real and the imaginary part.
class ComplexMath {
 public:
  struct Parts {
    Num re, im;
  };

  ComplexMath(Reader& reader, const Operation& op, const Shape& whole)
      : whole_(whole), real_(reader, op, real_type(whole.dtype), whole.dims) {}

  Parts parts(Instruction* z) { return {part(Opcode::real, z), part(Opcode::imag, z)}; }
  Instruction* join(Parts z) { return real_.make(Opcode::complex, whole_, {z.re.i, z.im.i}); }

  Parts apply(std::string_view name, Parts z) {
    if (name == "sinh") return {sinh(z.re) * cos(z.im), cosh(z.re) * sin(z.im)};
    if (name == "cosh") return {cosh(z.re) * cos(z.im), sinh(z.re) * sin(z.im)};
    if (name == "asin") return asin(z);
    if (name == "acos") return acos(z);
    if (name == "acosh") return acosh(z);
    if (name == "atanh") return atanh(z);
    // asinh z = -i asin iz, atan z = -i atanh iz
    const Parts turned{-z.im, z.re};
    const Parts w = name == "asinh" ? asin(turned) : atanh(turned);
    return {w.im, -w.re};
  }

 private:
  Num part(Opcode which, Instruction* z) {
    return real_(real_.make(which, Shape(real_.dtype(), whole_.dims), {z}));
  }
  Num sinh(Num x) { return real_.unary(Opcode::sinh, x); }
  Num cosh(Num x) { return real_.unary(Opcode::cosh, x); }
  Num asinh(Num x) { return real_.unary(Opcode::asinh, x); }
  Num atan2(Num y, Num x) { return real_.binary(Opcode::atan2, y, x); }
  Parts sqrt(Parts z) { return parts(real_.make(Opcode::sqrt, whole_, {join(z)})); }

  Parts asin(Parts z) {
    const Parts a = sqrt({1 - z.re, -z.im}), b = sqrt({1 + z.re, z.im});
    return {atan2(z.re, a.re * b.re - a.im * b.im), asinh(a.re * b.im - a.im * b.re)};
  }
  Parts acos(Parts z) {
    const Parts a = sqrt({1 - z.re, -z.im}), b = sqrt({1 + z.re, z.im});
    return {2 * atan2(a.re, b.re), asinh(b.re * a.im - b.im * a.re)};
  }
  Parts acosh(Parts z) {
    const Parts a = sqrt({z.re - 1, z.im}), b = sqrt({z.re + 1, z.im});
    return {asinh(a.re * b.re + a.im * b.im), 2 * atan2(a.im, b.re)};
  }
  Parts atanh(Parts z) {
    const Num x = z.re, y = z.im, far = abs(x), squared = (1 - far) * (1 - far) + y * y;
    return {real_.unary(Opcode::sign, x) * 0.25 * log1p(4 * far / squared),
            0.5 * atan2(2 * y, (1 - x) * (1 + x) - y * y)};
  }

  Shape whole_;
  ChloMath real_;
};

}  // namespace

void Reader::chlo_trigonometric(Operation& op) {
  need_operands(op, 1, 1);
  need_results(op, 1);
  Instruction* x = op.operands[0];
  const std::string_view name = op.name.substr(op.name.find('.') + 1);
  const DType t = x->shape.dtype;
  if (is_complex(t)) {
    ComplexMath m(*this, op, x->shape);
    op.values.push_back(m.join(m.apply(name, m.parts(x))));
  } else if (name == "atan") {
    ChloMath m(*this, op, t, x->shape.dims);
    set(op, Opcode::atan2, {x, m.number(1).i});
  } else {
    elementwise(op);
  }
}

}  // namespace tessera::text
