// SPDX-License-Identifier: Apache-2.0
// Functions of complex numbers by those of real ones. Parts of f32 are computed in f64, where that
// is simpler than to keep squares and quotients within range.
#include "src/codegen/llvm/complex_math.h"

#include <limits>

#include "src/codegen/llvm/vector_math.h"

namespace tessera::codegen {
namespace {

using ir::Opcode;
using llvm::Value;
namespace Intrinsic = llvm::Intrinsic;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

/// A complex number's parts.
struct Parts {
  Value *re, *im;
};

/// On parts of one type. Becomes incomplete if a function is missing.
class ComplexMath {
 public:
  /// `single`: the numbers come from f32 and go back there.
  ComplexMath(const VectorBuilder& v, DType part, bool single)
      : v_(v), b_(v.b), part_(part), single_(single), type_(v.vector(v.element(part))) {}

  bool complete() const { return complete_; }

  Parts quotient(const Parts& x, const Parts& y) {
    // The divisor is brought near 1; f64 has room for the squares of f32.
    Parts d = y;
    Value* scale = nullptr;
    Parts n = x;
    if (!single_) {
      scale = inverse_magnitude(y);
      d = scaled(y, scale);
      n = scaled(x, inverse_magnitude(x));
    }
    Value* square = add(mul(d.re, d.re), mul(d.im, d.im));
    Value* re = add(mul(n.re, d.re), mul(n.im, d.im));
    Value* im = sub(mul(n.im, d.re), mul(n.re, d.im));
    if (single_) {
      Value* inverse = div(c(1), square);
      re = mul(re, inverse);
      im = mul(im, inverse);
    } else {
      // The scales are powers of two. One after the other: their product may leave the range.
      Value* back = div(c(1), inverse_magnitude(x));
      re = mul(mul(div(re, square), scale), back);
      im = mul(mul(div(im, square), scale), back);
    }
    return repaired({re, im}, x, y, square);
  }

  Parts exp(const Parts& z) {
    // e^x may leave the range where its product with a sine doesn't.
    const bool f32 = part_ == DType::f32;
    Value* large = gt(z.re, c(f32 ? 80 : 700));
    Value* x = sub(z.re, v_.select(large, c(f32 ? 44.375 : 64 * 0.693147180369123816490), c(0)));
    const double rest = f32 ? 64 * -2.12194440e-4 : 64 * 1.90821492927058770002e-10;
    x = sub(x, v_.select(large, c(rest), c(0)));
    Value* grow = v_.select(large, c(18446744073709551616.0), c(1));
    Value* e = f(Opcode::exponential, x);
    Parts out = {mul(mul(e, f(Opcode::cosine, z.im)), grow),
                 mul(mul(e, f(Opcode::sine, z.im)), grow)};
    // Real numbers stay real.
    out.im = v_.select(eq(z.im, c(0)), z.im, out.im);
    return out;
  }

  /// The same, where infinities don't depend on an angle that isn't there.
  Parts exp_or_limit(const Parts& z) {
    Parts out = exp(z);
    Value* no_angle = not_finite(z.im);
    Value* zero = eq(z.re, c(-kInfinite));
    out.re = v_.select(b_.CreateAnd(no_angle, eq(z.re, c(kInfinite))), c(kInfinite), out.re);
    out.re = v_.select(b_.CreateAnd(no_angle, zero), c(0), out.re);
    out.im = v_.select(b_.CreateAnd(no_angle, zero), c(0), out.im);
    return out;
  }

  Parts log(const Parts& z) { return {log_magnitude(z), f(Opcode::atan2, z.im, z.re)}; }

  Parts log1p(const Parts& z) {
    const Parts moved = {add(z.re, c(1)), z.im};
    Value* near =
        mul(c(0.5), f(Opcode::log_plus_one, add(mul(z.re, add(c(2), z.re)), mul(z.im, z.im))));
    Value* is_near = b_.CreateFCmpOLE(greatest(abs(z.re), abs(z.im)), c(0.35));
    return {v_.select(is_near, near, log_magnitude(moved)), f(Opcode::atan2, z.im, moved.re)};
  }

  Parts expm1(const Parts& z) {
    Value* s = f(Opcode::sine, mul(z.im, c(0.5)));
    Value* grow = f(Opcode::exponential_minus_one, z.re);
    return {sub(mul(grow, f(Opcode::cosine, z.im)), mul(c(2), mul(s, s))),
            mul(add(grow, c(1)), f(Opcode::sine, z.im))};
  }

  Parts sqrt(const Parts& z) {
    Value *x = z.re, *y = z.im, *back = nullptr;
    if (!single_) {
      // Squares within range.
      Value* most = greatest(abs(x), abs(y));
      Value* large = gt(most, c(0x1p500));
      Value* small = b_.CreateFCmpOLT(most, c(0x1p-400));
      Value* scale = v_.select(large, c(0x1p-600), v_.select(small, c(0x1p600), c(1)));
      back = v_.select(large, c(0x1p300), v_.select(small, c(0x1p-300), c(1)));
      x = mul(x, scale);
      y = mul(y, scale);
    }
    Value* length = root(add(mul(x, x), mul(y, y)));
    length = v_.select(is_infinite(x), c(kInfinite), length);
    Value* t = root(mul(c(0.5), add(abs(x), length)));
    Value* half = div(y, add(t, t));
    Value* right = b_.CreateFCmpOGE(x, c(0));
    Parts out = {v_.select(right, t, abs(half)), v_.select(right, half, with_sign(t, y))};
    if (back != nullptr) out = scaled(out, back);
    Value* is_zero = eq(t, c(0));
    out.re = v_.select(is_zero, c(0), out.re);
    out.im = v_.select(is_zero, z.im, out.im);
    Value* tall = is_infinite(z.im);
    return {v_.select(tall, c(kInfinite), out.re), v_.select(tall, z.im, out.im)};
  }

  Parts sinh(const Parts& z) { return hyperbolic(z, Opcode::sinh, Opcode::cosh); }
  Parts cosh(const Parts& z) { return hyperbolic(z, Opcode::cosh, Opcode::sinh); }
  /// sin z = -i sinh(i z), cos z = cosh(i z), tan z = -i tanh(i z).
  Parts sin(const Parts& z) { return turned_back(sinh(turned(z))); }
  Parts cos(const Parts& z) { return cosh(turned(z)); }
  Parts tan(const Parts& z) { return turned_back(tanh(turned(z))); }

  /// As Kahan has it: no sum cancels.
  Parts tanh(const Parts& z) {
    Value* t = f(Opcode::tan, z.im);
    Value* s = f(Opcode::sinh, z.re);
    Value* beta = add(c(1), mul(t, t));
    Value* rho = root(add(c(1), mul(s, s)));
    Value* below = add(c(1), mul(beta, mul(s, s)));
    Parts out = {div(mul(mul(beta, rho), s), below), div(t, below)};
    out.re = v_.select(eq(z.re, c(0)), z.re, out.re);
    out.im = v_.select(eq(z.im, c(0)), z.im, out.im);  // beside NaN, too
    // Where the real part is 1 to all digits.
    Value* a = abs(z.re);
    Value* far = gt(a, c(22));
    Value* angle = mul(f(Opcode::sine, z.im), f(Opcode::cosine, z.im));
    Value* rest = mul(mul(c(4), angle), f(Opcode::exponential, mul(c(-2), a)));
    Value* none = with_sign(c(0), v_.select(not_finite(z.im), z.im, angle));
    rest = v_.select(is_infinite(z.re), none, rest);
    Value* one = v_.select(b_.CreateAnd(not_finite(z.im), is_finite(a)), angle, c(1));
    return {v_.select(far, with_sign(one, z.re), out.re), v_.select(far, rest, out.im)};
  }

  Parts logistic(const Parts& z) {
    // e^-|x| doesn't overflow.
    Value* right = b_.CreateFCmpOGE(z.re, c(0));
    const Parts e =
        exp_or_limit({v_.select(right, neg(z.re), z.re), v_.select(right, neg(z.im), z.im)});
    const Parts above = {v_.select(right, c(1), e.re), v_.select(right, c(0), e.im)};
    return quotient(above, {add(c(1), e.re), e.im});
  }

  Parts power(const Parts& x, const Parts& y) {
    const Parts l = log(x);
    const Parts out = exp_or_limit(
        {sub(mul(y.re, l.re), mul(y.im, l.im)), add(mul(y.re, l.im), mul(y.im, l.re))});
    Value* from_zero = b_.CreateAnd(eq(x.re, c(0)), eq(x.im, c(0)));
    Value* to_zero = b_.CreateAnd(eq(y.re, c(0)), eq(y.im, c(0)));
    Value* of_zero = v_.select(to_zero, c(1), c(0));
    return {v_.select(from_zero, of_zero, out.re), v_.select(from_zero, c(0), out.im)};
  }

  /// z / |z|; zero is itself.
  Parts sign(const Parts& z) {
    Value* length = emit_hypot(v_, part_, z.re, z.im);
    if (length == nullptr) {
      complete_ = false;
      return z;
    }
    Value* none = eq(length, c(0));
    return {v_.select(none, z.re, div(z.re, length)), v_.select(none, z.im, div(z.im, length))};
  }

 private:
  Value* c(double k) const { return v_.constant(type_, k); }
  Value* add(Value* x, Value* y) const { return b_.CreateFAdd(x, y); }
  Value* sub(Value* x, Value* y) const { return b_.CreateFSub(x, y); }
  Value* mul(Value* x, Value* y) const { return b_.CreateFMul(x, y); }
  Value* div(Value* x, Value* y) const { return b_.CreateFDiv(x, y); }
  Value* neg(Value* x) const { return b_.CreateFNeg(x); }
  Value* eq(Value* x, Value* y) const { return b_.CreateFCmpOEQ(x, y); }
  Value* gt(Value* x, Value* y) const { return b_.CreateFCmpOGT(x, y); }
  Value* abs(Value* x) const { return v_.intrinsic(Intrinsic::fabs, x); }
  Value* root(Value* x) const { return v_.intrinsic(Intrinsic::sqrt, x); }
  Value* is_nan(Value* x) const { return b_.CreateFCmpUNO(x, x); }
  Value* is_infinite(Value* x) const { return eq(abs(x), c(kInfinite)); }
  Value* is_finite(Value* x) const { return b_.CreateFCmpOLT(abs(x), c(kInfinite)); }
  Value* not_finite(Value* x) const { return b_.CreateNot(is_finite(x)); }
  Value* with_sign(Value* magnitude, Value* of) const {
    return b_.CreateBinaryIntrinsic(Intrinsic::copysign, magnitude, of);
  }
  /// Of magnitudes; a NaN isn't taken.
  Value* greatest(Value* x, Value* y) const {
    return b_.CreateBinaryIntrinsic(Intrinsic::maxnum, x, y);
  }
  Parts scaled(const Parts& z, Value* by) const { return {mul(z.re, by), mul(z.im, by)}; }
  /// i z and -i z.
  Parts turned(const Parts& z) const { return {neg(z.im), z.re}; }
  Parts turned_back(const Parts& z) const { return {z.im, neg(z.re)}; }

  Value* f(Opcode op, Value* x) { return checked(emit_math(v_, op, part_, {x}), x); }
  Value* f(Opcode op, Value* x, Value* y) { return checked(emit_math(v_, op, part_, {x, y}), x); }
  Value* checked(Value* made, Value* otherwise) {
    if (made == nullptr) complete_ = false;
    return made == nullptr ? otherwise : made;
  }

  /// A power of two that brings the larger part of f64 near 1; 1 for zero and what isn't finite.
  Value* inverse_magnitude(const Parts& z) const {
    llvm::Type* bits = v_.integers(64);
    Value* most = greatest(abs(z.re), abs(z.im));
    Value* e = b_.CreateLShr(b_.CreateBitCast(most, bits), 52);
    // Not of the smallest and largest ones: the scale and its inverse are numbers themselves.
    e = b_.CreateBinaryIntrinsic(Intrinsic::umax, e, v_.integer(bits, 4));
    e = b_.CreateBinaryIntrinsic(Intrinsic::umin, e, v_.integer(bits, 2042));
    Value* inverse = b_.CreateShl(b_.CreateSub(v_.integer(bits, 2046), e), 52);
    Value* usual = b_.CreateAnd(gt(most, c(0)), b_.CreateFCmpOLT(most, c(kInfinite)));
    return v_.select(usual, b_.CreateBitCast(inverse, type_), c(1));
  }

  /// Where a quotient came out as NaN + i NaN, but one of its operands is infinite or y zero.
  Parts repaired(const Parts& q, const Parts& x, const Parts& y, Value* square) {
    Value* lost = b_.CreateAnd(is_nan(q.re), is_nan(q.im));
    const std::vector<Value*> out = emit_unless_any(b_, lost, {q.re, q.im}, [&] {
      const Parts made = repair(q, x, y, square);
      return std::vector<Value*>{v_.select(lost, made.re, q.re), v_.select(lost, made.im, q.im)};
    });
    return {out[0], out[1]};
  }
  Parts repair(const Parts& q, const Parts& x, const Parts& y, Value* square) const {
    const auto unit = [&](Value* a) { return with_sign(v_.select(is_infinite(a), c(1), c(0)), a); };
    const auto product = [&](double by, const Parts& a, const Parts& d) {
      return Parts{mul(c(by), add(mul(a.re, d.re), mul(a.im, d.im))),
                   mul(c(by), sub(mul(a.im, d.re), mul(a.re, d.im)))};
    };
    const auto either = [&](Value* p, Value* q) { return b_.CreateOr(p, q); };
    const auto both = [&](Value* p, Value* q) { return b_.CreateAnd(p, q); };
    Value* number = b_.CreateNot(both(is_nan(x.re), is_nan(x.im)));
    Value* by_zero = both(eq(square, c(0)), number);
    Value* above =
        both(either(is_infinite(x.re), is_infinite(x.im)), both(is_finite(y.re), is_finite(y.im)));
    Value* below =
        both(either(is_infinite(y.re), is_infinite(y.im)), both(is_finite(x.re), is_finite(x.im)));
    Value* infinity = with_sign(c(kInfinite), y.re);
    const Parts large = product(kInfinite, {unit(x.re), unit(x.im)}, y);
    const Parts small = product(0, x, {unit(y.re), unit(y.im)});
    Parts out = {v_.select(below, small.re, q.re), v_.select(below, small.im, q.im)};
    out = {v_.select(above, large.re, out.re), v_.select(above, large.im, out.im)};
    return {v_.select(by_zero, mul(infinity, x.re), out.re),
            v_.select(by_zero, mul(infinity, x.im), out.im)};
  }

  /// log |z|.
  Value* log_magnitude(const Parts& z) {
    Value* infinite = b_.CreateOr(is_infinite(z.re), is_infinite(z.im));
    Value* out;
    if (single_) {
      out = mul(c(0.5), f(Opcode::log, add(mul(z.re, z.re), mul(z.im, z.im))));
    } else {
      Value *a = abs(z.re), *b = abs(z.im);
      Value* wider = gt(a, b);
      Value* most = v_.select(wider, a, b);
      Value* least = v_.select(wider, b, a);
      // Near 1 the logarithm is that of a small difference.
      Value* difference = v_.multiply_add(least, least, mul(sub(most, c(1)), add(most, c(1))));
      Value* near = b_.CreateFCmpOLT(abs(difference), c(0.5));
      Value* ratio = div(least, most);
      Value* small = f(Opcode::log_plus_one, v_.select(near, difference, mul(ratio, ratio)));
      small = mul(c(0.5), small);
      out = v_.select(near, small, add(f(Opcode::log, most), small));
      out = v_.select(eq(most, c(0)), c(-kInfinite), out);
    }
    return v_.select(infinite, c(kInfinite), out);
  }

  /// first(x) cos y + i second(x) sin y.
  Parts hyperbolic(const Parts& z, Opcode first, Opcode second) {
    Parts out = {mul(f(first, z.re), f(Opcode::cosine, z.im)),
                 mul(f(second, z.re), f(Opcode::sine, z.im))};
    // Zeros stay zeros and infinities infinities, whatever they are multiplied by.
    Value* real = eq(z.im, c(0));
    Value* imaginary = eq(z.re, c(0));
    Value* no_angle = not_finite(z.im);
    out.re = v_.select(b_.CreateAnd(is_infinite(z.re), no_angle), f(first, z.re), out.re);
    if (first == Opcode::sinh) {
      out.re = v_.select(imaginary, z.re, out.re);
      out.im = v_.select(real, z.im, out.im);
    } else {
      out.im = v_.select(real, mul(with_sign(c(1), z.re), z.im), out.im);
      out.im = v_.select(b_.CreateAnd(imaginary, no_angle), z.re, out.im);
    }
    return out;
  }

  const VectorBuilder& v_;
  llvm::IRBuilder<>& b_;
  DType part_;
  bool single_;
  llvm::Type* type_;
  bool complete_ = true;
};

/// Empty if there is no code for it.
std::optional<Parts> function(ComplexMath& math, Opcode op, const Parts& z, const Parts& one) {
  switch (op) {
    case Opcode::cosh:
      return math.cosh(z);
    case Opcode::cosine:
      return math.cos(z);
    case Opcode::exponential:
      return math.exp(z);
    case Opcode::exponential_minus_one:
      return math.expm1(z);
    case Opcode::log:
      return math.log(z);
    case Opcode::log_plus_one:
      return math.log1p(z);
    case Opcode::logistic:
      return math.logistic(z);
    case Opcode::rsqrt:
      return math.quotient(one, math.sqrt(z));
    case Opcode::sign:
      return math.sign(z);
    case Opcode::sine:
      return math.sin(z);
    case Opcode::sinh:
      return math.sinh(z);
    case Opcode::sqrt:
      return math.sqrt(z);
    case Opcode::tan:
      return math.tan(z);
    case Opcode::tanh:
      return math.tanh(z);
    default:
      return std::nullopt;
  }
}

/// Parts as f64, and back.
Parts widened(const VectorBuilder& v, const Lanes& x) {
  llvm::Type* wide = v.vector(v.b.getDoubleTy());
  return {v.b.CreateFPCast(x.value, wide), v.b.CreateFPCast(x.imaginary, wide)};
}
Lanes narrowed(const VectorBuilder& v, DType t, const Parts& z) {
  llvm::Type* part = v.vector(v.element(t));
  return VectorBuilder::complex(v.b.CreateFPCast(z.re, part), v.b.CreateFPCast(z.im, part));
}

}  // namespace

std::optional<Lanes> emit_complex_function(const VectorBuilder& v, Opcode op, DType t,
                                           const Lanes& x) {
  if (t == DType::c64 && (op == Opcode::exponential || op == Opcode::sign)) {
    // Nothing is squared: f32 does.
    ComplexMath math(v, DType::f32, true);
    const Parts z = {x.value, x.imaginary};
    const Parts out = op == Opcode::sign ? math.sign(z) : math.exp(z);
    if (!math.complete()) return std::nullopt;
    return VectorBuilder::complex(out.re, out.im);
  }
  ComplexMath math(v, DType::f64, t == DType::c64);
  llvm::Type* wide = v.vector(v.b.getDoubleTy());
  const Parts one = {v.constant(wide, 1), v.constant(wide, 0)};
  const std::optional<Parts> out = function(math, op, widened(v, x), one);
  if (!out || !math.complete()) return std::nullopt;
  return narrowed(v, t, *out);
}

Lanes emit_complex_quotient(const VectorBuilder& v, DType t, const Lanes& x, const Lanes& y) {
  ComplexMath math(v, DType::f64, t == DType::c64);
  return narrowed(v, t, math.quotient(widened(v, x), widened(v, y)));
}

std::optional<Lanes> emit_complex_power(const VectorBuilder& v, DType t, const Lanes& x,
                                        const Lanes& y) {
  ComplexMath math(v, DType::f64, t == DType::c64);
  const Parts out = math.power(widened(v, x), widened(v, y));
  if (!math.complete()) return std::nullopt;
  return narrowed(v, t, out);
}

}  // namespace tessera::codegen
