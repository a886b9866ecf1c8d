// SPDX-License-Identifier: Apache-2.0
// The less common activations.
#include <tessera/ops/nn.h>

#include <numbers>

#include "src/frontend/ops/located.h"

namespace tessera {

using frontend::choose;
using frontend::composed;
using frontend::Located;
using frontend::shape_of;

namespace {

/// Checks the operand, and stages the function of it as floats. The result is weakly typed if x and
/// the function's parameter are.
template <class F>
Array activation(const char* op, const Operand& x, F f, bool weak_parameter = true) {
  const Shape& shape = shape_of(x);
  if (is_complex(shape.dtype)) {
    throw DTypeError(std::string(op) + " of complex numbers (" + x.array.type_string() + ")",
                     x.location);
  }
  return composed(op, x.location, [&] {
    const DType t = frontend::to_inexact(shape.dtype);
    const Located v{frontend::converted(x.array, t, x.location, x.array.weak_type()), x.location};
    const Array out = Located(f(v)).array;
    const bool weak = weak_parameter && x.array.weak_type();
    return weak ? frontend::converted(out, out.dtype(), x.location, true) : out;
  });
}

Located hard_sigmoid_of(const Located& x) { return x.with(relu6(x + 3.0)) / 6.0; }

}  // namespace

Array identity(Operand x) {
  (void)shape_of(x);
  return x.array;
}

Array swish(Operand x) { return silu(x); }

Array mish(Operand x) {
  return activation("mish", x,
                    [](const Located& v) { return v * v.with(tanh(v.with(softplus(v)))); });
}

Array celu(Operand x, Operand alpha) {
  return activation(
      "celu", x,
      [&](const Located& v) {
        const Located a{alpha.array, v.location};
        const Located above = v.with(maximum(v, v.constant(0)));
        const Located below = v.with(minimum(v, v.constant(0)));
        return above + a * v.with(expm1(below / a));
      },
      alpha.array.weak_type());
}

Array selu(Operand x) {
  return activation("selu", x, [](const Located& v) {
    return v.constant(1.0507009873554804934193349852946) *
           v.with(elu(v, v.constant(1.6732632423543772848170429916717)));
  });
}

Array sparse_plus(Operand x) {
  return activation("sparse_plus", x, [](const Located& v) {
    const Located up = v + 1.0;
    const Located inner = choose(v >= 1.0, v, up * up / 4.0);
    return choose(v <= -1.0, v.constant(0), inner);
  });
}

Array squareplus(Operand x, Operand b) {
  return activation(
      "squareplus", x,
      [&](const Located& v) {
        return (v + v.with(sqrt(v * v + Located{b.array, v.location}))) / 2.0;
      },
      b.array.weak_type());
}

Array soft_sign(Operand x) {
  return activation("soft_sign", x, [](const Located& v) { return v / (v.with(abs(v)) + 1.0); });
}

Array hard_tanh(Operand x) {
  const DType t = shape_of(x).dtype;
  if (is_complex(t)) throw DTypeError("hard_tanh of complex numbers", x.location);
  return composed("hard_tanh", x.location, [&] {
    const Operand one{Array(1), x.location};
    if (is_unsigned_integer(t) || t == DType::pred) return minimum(x, one);
    const Operand minus_one{Array(-1), x.location};
    const Operand inner{where({less(x, minus_one), x.location}, minus_one, x), x.location};
    return where({greater(x, one), x.location}, one, inner);
  });
}

Array hard_sigmoid(Operand x) { return activation("hard_sigmoid", x, hard_sigmoid_of); }
Array hard_silu(Operand x) {
  return activation("hard_silu", x, [](const Located& v) { return v * hard_sigmoid_of(v); });
}
Array hard_swish(Operand x) { return hard_silu(x); }

Array sparse_sigmoid(Operand x) {
  return activation("sparse_sigmoid", x, [](const Located& v) {
    const Located up = v.with(maximum(v + 1.0, v.constant(0)));
    return v.with(minimum(up, v.constant(2))) * 0.5;
  });
}

Array log1mexp(Operand x) {
  return activation("log1mexp", x, [](const Located& v) {
    // Each form sees only numbers for which it is accurate: that of the other has no finite
    // derivative at 0.
    const Located small = v < std::numbers::ln2;
    const Located near = choose(small, v, v.constant(1)), far = choose(small, v.constant(1), v);
    return choose(small, v.with(log(-v.with(expm1(-near)))), v.with(log1p(-v.with(exp(-far)))));
  });
}

}  // namespace tessera
