// SPDX-License-Identifier: Apache-2.0
// Elementwise ops: arithmetic, comparison, logic and elementary functions.
#include <tessera/ops/elementwise.h>

#include <cmath>
#include <numbers>

#include "src/frontend/ops/internal.h"

namespace tessera {

using frontend::apply;
using frontend::as_one_program;
using frontend::composed;
using frontend::constant;
using frontend::converted;
using frontend::promoted;
using frontend::where_of;
using internal::impl_of;
using ir::Opcode;

namespace {

/// An operation on real or complex numbers: integers and pred become f32 first.
Array inexact(Opcode op, const Operand& x, const std::string& name) {
  const Array& a = x.array;
  const DType dtype = frontend::to_inexact(impl_of(a, x.location).shape.dtype);
  return as_one_program(name, x.location, [&] {
    return std::vector<Array>{
        frontend::unary(op, converted(a, dtype, x.location, a.weak_type()), x.location, name)};
  })[0];
}

Array binary(Opcode op, const Operand& a, const Operand& b, const std::string& name) {
  return frontend::binary(op, a.array, b.array, where_of(a, b), name);
}

Array compare(ir::Direction direction, const Operand& a, const Operand& b,
              const std::string& name) {
  const Location location = where_of(a, b);
  return as_one_program(name, location, [&] {
    const std::vector<Array> operands = promoted(name, {a.array, b.array}, location);
    if (is_complex(operands[0].dtype()) && direction != ir::Direction::eq &&
        direction != ir::Direction::ne) {
      throw DTypeError(name + ": complex numbers have no order", location);
    }
    return std::vector<Array>{
        apply(Opcode::compare, operands, ir::CompareAttrs{direction}, location, name)};
  })[0];
}

Array to_pred(const Array& x, Location location) {
  return x.dtype() == DType::pred ? x
                                  : not_equal({x, location}, {constant(x.dtype(), 0), location});
}

Array logical(Opcode op, const Operand& a, const Operand& b, const std::string& name) {
  const Location location = where_of(a, b);
  return as_one_program(name, location, [&] {
    return std::vector<Array>{frontend::binary(op, to_pred(a.array, location),
                                               to_pred(b.array, location), location, name)};
  })[0];
}

Array bitwise(Opcode op, const Operand& a, const Operand& b, const std::string& name) {
  const Location location = where_of(a, b);
  for (const Array* x : {&a.array, &b.array}) {
    const DType t = impl_of(*x, location).shape.dtype;
    if (!is_integer(t) && t != DType::pred) {
      throw DTypeError(name + " is for integers and pred, got " + x->type_string(), location);
    }
  }
  return binary(op, a, b, name);
}

}  // namespace

Array Array::astype(DType dtype, Location location) const {
  return tessera::astype({*this, location}, dtype);
}

Array astype(Operand x, DType dtype) { return converted(x.array, dtype, x.location); }

Array bitcast_convert(Operand x, DType dtype) {
  const Shape& from = impl_of(x.array, x.location).shape;
  const std::size_t a = byte_size(from.dtype), b = byte_size(dtype);
  Shape shape(dtype, from.dims);
  if (a > b) shape.dims.push_back(std::int64_t(a / b));
  if (a < b) {
    if (from.dims.empty() || from.dims.back() != std::int64_t(b / a)) {
      throw ShapeError("bitcast_convert of " + from.to_string() + " to " +
                           std::string(name(dtype)) + ": the last dim must be " +
                           std::to_string(b / a),
                       x.location);
    }
    shape.dims.pop_back();
  }
  const std::vector<Array> operands{x.array};
  return apply(Opcode::bitcast_convert, operands, {}, x.location, "bitcast_convert", &shape);
}

Array abs(Operand x) {
  if (impl_of(x.array, x.location).shape.dtype == DType::pred) return x.array;
  return frontend::unary(Opcode::abs, x.array, x.location, "abs");
}
Array negative(Operand x) {
  if (impl_of(x.array, x.location).shape.dtype == DType::pred) {
    throw DTypeError("negative of pred: use logical_not, or convert first", x.location);
  }
  return frontend::unary(Opcode::negate, x.array, x.location, "negative");
}
Array sign(Operand x) { return frontend::unary(Opcode::sign, x.array, x.location, "sign"); }
Array square(Operand x) {
  if (impl_of(x.array, x.location).shape.dtype == DType::pred) return astype(x, s32);
  return frontend::binary(Opcode::multiply, x.array, x.array, x.location, "square");
}
Array sqrt(Operand x) { return inexact(Opcode::sqrt, x, "sqrt"); }
Array rsqrt(Operand x) { return inexact(Opcode::rsqrt, x, "rsqrt"); }
Array cbrt(Operand x) { return inexact(Opcode::cbrt, x, "cbrt"); }
Array reciprocal(Operand x) { return divide({Array(1.0f), x.location}, x); }
Array exp(Operand x) { return inexact(Opcode::exponential, x, "exp"); }
Array exp2(Operand x) {
  return composed("exp2", x.location, [&] {
    return exp({multiply(x, {Array(std::numbers::ln2), x.location}), x.location});
  });
}
Array expm1(Operand x) { return inexact(Opcode::exponential_minus_one, x, "expm1"); }
Array log(Operand x) { return inexact(Opcode::log, x, "log"); }
Array log2(Operand x) {
  return composed("log2", x.location, [&] {
    return divide({log(x), x.location}, {Array(std::numbers::ln2), x.location});
  });
}
Array log10(Operand x) {
  return composed("log10", x.location, [&] {
    return divide({log(x), x.location}, {Array(std::numbers::ln10), x.location});
  });
}
Array log1p(Operand x) { return inexact(Opcode::log_plus_one, x, "log1p"); }
Array sin(Operand x) { return inexact(Opcode::sine, x, "sin"); }
Array cos(Operand x) { return inexact(Opcode::cosine, x, "cos"); }
Array tan(Operand x) { return inexact(Opcode::tan, x, "tan"); }
Array tanh(Operand x) { return inexact(Opcode::tanh, x, "tanh"); }
Array sinh(Operand x) { return inexact(Opcode::sinh, x, "sinh"); }
Array cosh(Operand x) { return inexact(Opcode::cosh, x, "cosh"); }
Array arcsin(Operand x) { return inexact(Opcode::asin, x, "arcsin"); }
Array arccos(Operand x) { return inexact(Opcode::acos, x, "arccos"); }
Array arctan(Operand x) { return arctan2(x, {Array(1.0f), x.location}); }
Array erf(Operand x) { return inexact(Opcode::erf, x, "erf"); }
Array sigmoid(Operand x) { return inexact(Opcode::logistic, x, "sigmoid"); }

namespace {

/// Rounding leaves integers unchanged.
Array rounding(Opcode op, const Operand& x, const std::string& name) {
  const DType t = impl_of(x.array, x.location).shape.dtype;
  if (is_complex(t)) throw DTypeError(name + " of " + x.array.type_string(), x.location);
  return is_floating(t) ? frontend::unary(op, x.array, x.location, name) : x.array;
}

/// A test that is constant for integers.
Array classify(const Operand& x, const std::string& name, bool for_integers,
               const std::function<Array(const Array&)>& test) {
  return composed(name, x.location, [&]() -> Array {
    const DType t = impl_of(x.array, x.location).shape.dtype;
    if (is_floating(t)) return test(x.array);
    if (is_complex(t)) {
      const Array a = test(real(x)), b = test(imag(x));
      return frontend::binary(for_integers ? Opcode::and_ : Opcode::or_, a, b, x.location, name);
    }
    return frontend::broadcasted(constant(DType::pred, for_integers), x.array.shape(), x.location);
  });
}

}  // namespace

Array floor(Operand x) { return rounding(Opcode::floor, x, "floor"); }
Array ceil(Operand x) { return rounding(Opcode::ceil, x, "ceil"); }
Array round(Operand x) { return rounding(Opcode::round_nearest_even, x, "round"); }
Array trunc(Operand x) {
  return composed("trunc", x.location, [&] {
    return where({less(x, {constant(x.array.dtype(), 0), x.location}), x.location}, ceil(x),
                 floor(x));
  });
}
Array isfinite(Operand x) {
  return classify(x, "isfinite", true, [&](const Array& a) {
    return frontend::unary(Opcode::is_finite, a, x.location, "isfinite");
  });
}
Array isnan(Operand x) {
  return classify(x, "isnan", false, [&](const Array& a) {
    return not_equal({a, x.location}, {a, x.location});
  });
}
Array isinf(Operand x) {
  return classify(x, "isinf", false, [&](const Array& a) {
    return equal({abs({a, x.location}), x.location}, {constant(a.dtype(), INFINITY), x.location});
  });
}
Array logical_not(Operand x) {
  return composed("logical_not", x.location, [&] {
    return frontend::unary(Opcode::not_, to_pred(x.array, x.location), x.location, "logical_not");
  });
}
Array bitwise_not(Operand x) {
  const DType t = impl_of(x.array, x.location).shape.dtype;
  if (!is_integer(t) && t != DType::pred) {
    throw DTypeError("bitwise_not is for integers and pred, got " + x.array.type_string(),
                     x.location);
  }
  return frontend::unary(Opcode::not_, x.array, x.location, "bitwise_not");
}
Array real(Operand x) {
  return is_complex(impl_of(x.array, x.location).shape.dtype)
             ? frontend::unary(Opcode::real, x.array, x.location, "real")
             : x.array;
}
Array imag(Operand x) {
  if (is_complex(impl_of(x.array, x.location).shape.dtype)) {
    return frontend::unary(Opcode::imag, x.array, x.location, "imag");
  }
  return frontend::broadcasted(constant(x.array.dtype(), 0), x.array.shape(), x.location);
}
Array conj(Operand x) {
  if (!is_complex(impl_of(x.array, x.location).shape.dtype)) return x.array;
  return composed("conj", x.location, [&] {
    return complex({real(x), x.location}, {negative({imag(x), x.location}), x.location});
  });
}

namespace {

/// + and * of pred are logical or and logical and, as in JAX; - is not defined.
Array arithmetic(Opcode op, Opcode for_pred, const Operand& a, const Operand& b,
                 const std::string& name) {
  const Location location = where_of(a, b);
  const bool preds = impl_of(a.array, location).shape.dtype == DType::pred &&
                     impl_of(b.array, location).shape.dtype == DType::pred;
  if (preds && op == Opcode::subtract) {
    throw DTypeError("subtract of pred arrays: use logical_xor, or convert first", location);
  }
  return binary(preds ? for_pred : op, a, b, name);
}

}  // namespace

Array add(Operand a, Operand b) { return arithmetic(Opcode::add, Opcode::or_, a, b, "add"); }
Array subtract(Operand a, Operand b) {
  return arithmetic(Opcode::subtract, Opcode::xor_, a, b, "subtract");
}
Array multiply(Operand a, Operand b) {
  return arithmetic(Opcode::multiply, Opcode::and_, a, b, "multiply");
}
Array divide(Operand a, Operand b) {
  const Location location = where_of(a, b);
  return composed("divide", location, [&] {
    std::vector<Array> xs = promoted("divide", {a.array, b.array}, location);
    const DType t = frontend::to_inexact(xs[0].dtype());
    const bool weak = xs[0].weak_type() && xs[1].weak_type();
    for (Array& x : xs) x = converted(x, t, location, weak);
    return apply(Opcode::divide, xs, {}, location, "divide", nullptr, nullptr, weak);
  });
}
namespace lax {
Array div(Operand a, Operand b) { return binary(Opcode::divide, a, b, "lax::div"); }
Array rem(Operand a, Operand b) { return binary(Opcode::remainder, a, b, "lax::rem"); }
}  // namespace lax
Array fmod(Operand a, Operand b) { return binary(Opcode::remainder, a, b, "fmod"); }
Array remainder(Operand a, Operand b) {
  const Location location = where_of(a, b);
  return composed("remainder", location, [&] {
    const std::vector<Array> xs = promoted("remainder", {a.array, b.array}, location);
    const DType t = xs[0].dtype();
    const Array r = apply(Opcode::remainder, xs, {}, location, "remainder", nullptr, nullptr,
                          xs[0].weak_type() && xs[1].weak_type());
    if (is_unsigned_integer(t)) return r;
    const Operand zero{constant(t, 0), location}, rest{r, location}, by{xs[1], location};
    const Array moved =
        logical_and({not_equal({less(rest, zero), location}, {less(by, zero), location}), location},
                    {not_equal(rest, zero), location});
    return where({moved, location}, {add(rest, by), location}, rest);
  });
}
Array floor_divide(Operand a, Operand b) {
  const Location location = where_of(a, b);
  return composed("floor_divide", location, [&] {
    const std::vector<Array> xs = promoted("floor_divide", {a.array, b.array}, location);
    const DType t = xs[0].dtype();
    const Operand x{xs[0], location}, y{xs[1], location};
    const bool weak = xs[0].weak_type() && xs[1].weak_type();
    if (is_complex(t)) throw DTypeError("floor_divide of complex numbers", location);
    if (is_unsigned_integer(t)) {
      return apply(Opcode::divide, xs, {}, location, "floor_divide", nullptr, nullptr, weak);
    }
    if (is_floating(t)) {
      // As in Python: (a - remainder) / b.
      const Array r =
          apply(Opcode::remainder, xs, {}, location, "floor_divide", nullptr, nullptr, weak);
      const Operand rest{r, location}, zero{constant(t, 0), location};
      const Operand whole{where({equal(y, zero), location}, x, {subtract(x, rest), location}),
                          location};
      const Operand quotient{divide(whole, y), location};
      const Array other_sign = not_equal({sign(y), location}, {sign(rest), location});
      const Array down = logical_and({not_equal(rest, zero), location}, {other_sign, location});
      const Operand lower{subtract(quotient, {constant(t, 1), location}), location};
      return frontend::unary(Opcode::round_nearest_afz, where({down, location}, lower, quotient),
                             location, "floor_divide");
    }
    const Array q = apply(Opcode::divide, xs, {}, location, "floor_divide", nullptr, nullptr, weak);
    const Array rest =
        apply(Opcode::remainder, xs, {}, location, "floor_divide", nullptr, nullptr, weak);
    const Operand zero{constant(t, 0), location};
    const Array down =
        logical_and({not_equal({less(x, zero), location}, {less(y, zero), location}), location},
                    {not_equal({rest, location}, zero), location});
    return where({down, location}, {subtract({q, location}, {constant(t, 1), location}), location},
                 {q, location});
  });
}
Array power(Operand a, Operand b) { return binary(Opcode::power, a, b, "power"); }
Array maximum(Operand a, Operand b) { return binary(Opcode::maximum, a, b, "maximum"); }
Array minimum(Operand a, Operand b) { return binary(Opcode::minimum, a, b, "minimum"); }
Array arctan2(Operand a, Operand b) {
  const Location location = where_of(a, b);
  return composed("arctan2", location, [&] {
    std::vector<Array> xs = promoted("arctan2", {a.array, b.array}, location);
    const bool weak = xs[0].weak_type() && xs[1].weak_type();
    for (Array& x : xs) x = converted(x, frontend::to_inexact(x.dtype()), location, weak);
    return apply(Opcode::atan2, xs, {}, location, "arctan2", nullptr, nullptr, weak);
  });
}
Array logaddexp(Operand a, Operand b) {
  const Location location = where_of(a, b);
  return composed("logaddexp", location, [&] {
    const Operand high{maximum(a, b), location}, low{minimum(a, b), location};
    // For equal infinities the difference would be inf - inf.
    const Array difference = where({equal(low, high), location}, {Array(0.0f), location},
                                   {subtract(low, high), location});
    return add(high, {log1p({exp({difference, location}), location}), location});
  });
}
Array complex(Operand a, Operand b) {
  const Location location = where_of(a, b);
  return composed("complex", location, [&] {
    std::vector<Array> xs = promoted("complex", {a.array, b.array}, location);
    const DType t = xs[0].dtype() == f64 ? f64 : f32;
    for (Array& x : xs) x = converted(x, t, location);
    return apply(Opcode::complex, xs, {}, location, "complex");
  });
}

Array equal(Operand a, Operand b) { return compare(ir::Direction::eq, a, b, "equal"); }
Array not_equal(Operand a, Operand b) { return compare(ir::Direction::ne, a, b, "not_equal"); }
Array less(Operand a, Operand b) { return compare(ir::Direction::lt, a, b, "less"); }
Array less_equal(Operand a, Operand b) { return compare(ir::Direction::le, a, b, "less_equal"); }
Array greater(Operand a, Operand b) { return compare(ir::Direction::gt, a, b, "greater"); }
Array greater_equal(Operand a, Operand b) {
  return compare(ir::Direction::ge, a, b, "greater_equal");
}
Array logical_and(Operand a, Operand b) { return logical(Opcode::and_, a, b, "logical_and"); }
Array logical_or(Operand a, Operand b) { return logical(Opcode::or_, a, b, "logical_or"); }
Array logical_xor(Operand a, Operand b) { return logical(Opcode::xor_, a, b, "logical_xor"); }
Array bitwise_and(Operand a, Operand b) { return bitwise(Opcode::and_, a, b, "bitwise_and"); }
Array bitwise_or(Operand a, Operand b) { return bitwise(Opcode::or_, a, b, "bitwise_or"); }
Array bitwise_xor(Operand a, Operand b) { return bitwise(Opcode::xor_, a, b, "bitwise_xor"); }
Array left_shift(Operand a, Operand b) { return bitwise(Opcode::shift_left, a, b, "left_shift"); }
Array right_shift(Operand a, Operand b) {
  const frontend::TypeNode t = frontend::promote({a.array, b.array}, where_of(a, b));
  return bitwise(
      is_unsigned_integer(t.dtype) ? Opcode::shift_right_logical : Opcode::shift_right_arithmetic,
      a, b, "right_shift");
}

Array where(Operand condition, Operand a, Operand b) {
  const Location location = condition.location;
  return composed("where", location, [&] {
    std::vector<Array> xs = promoted("where", {a.array, b.array}, location);
    Array c = to_pred(condition.array, location);
    const Dims dims = frontend::broadcast_shapes("where", c.shape(), xs[0].shape(), location);
    const bool weak = xs[0].weak_type() && xs[1].weak_type();
    const std::vector<Array> operands{frontend::broadcasted(c, dims, location),
                                      frontend::broadcasted(xs[0], dims, location),
                                      frontend::broadcasted(xs[1], dims, location)};
    return apply(Opcode::select, operands, {}, location, "where", nullptr, nullptr, weak);
  });
}

Array clip(Operand x, const std::optional<Array>& low, const std::optional<Array>& high) {
  return composed("clip", x.location, [&] {
    Array out = x.array;
    if (low) out = maximum({*low, x.location}, {out, x.location});
    if (high) out = minimum({*high, x.location}, {out, x.location});
    return out;
  });
}

Array operator-(Operand x) { return negative(x); }
Array operator+(Operand x) { return x.array; }
Array operator~(Operand x) { return bitwise_not(x); }
Array operator!(Operand x) { return logical_not(x); }
Array operator+(Operand a, Operand b) { return add(a, b); }
Array operator-(Operand a, Operand b) { return subtract(a, b); }
Array operator*(Operand a, Operand b) { return multiply(a, b); }
Array operator/(Operand a, Operand b) { return divide(a, b); }
Array operator%(Operand a, Operand b) { return remainder(a, b); }
Array operator&(Operand a, Operand b) { return bitwise_and(a, b); }
Array operator|(Operand a, Operand b) { return bitwise_or(a, b); }
Array operator^(Operand a, Operand b) { return bitwise_xor(a, b); }
Array operator<<(Operand a, Operand b) { return left_shift(a, b); }
Array operator>>(Operand a, Operand b) { return right_shift(a, b); }
Array operator==(Operand a, Operand b) { return equal(a, b); }
Array operator!=(Operand a, Operand b) { return not_equal(a, b); }
Array operator<(Operand a, Operand b) { return less(a, b); }
Array operator<=(Operand a, Operand b) { return less_equal(a, b); }
Array operator>(Operand a, Operand b) { return greater(a, b); }
Array operator>=(Operand a, Operand b) { return greater_equal(a, b); }

}  // namespace tessera
