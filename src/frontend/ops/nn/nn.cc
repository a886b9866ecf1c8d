// SPDX-License-Identifier: Apache-2.0
// Activations and one-hot encoding.
#include <tessera/ops/nn.h>

#include <cmath>
#include <numbers>
#include <numeric>

#include <tessera/ops/creation.h>
#include <tessera/ops/elementwise.h>
#include <tessera/ops/shape_ops.h>
#include <tessera/ops/special.h>

#include "src/frontend/ops/moves.h"

namespace tessera {

using frontend::composed;
using frontend::shape_of;
using internal::impl_of;

namespace {

/// A weakly typed number, which adopts the other operand's dtype.
Operand number(double value, Location location) { return {Array(value), location}; }
Operand number(int value, Location location) { return {Array(value), location}; }

/// x, with integers converted to f32.
Operand inexact(const Operand& x) {
  const DType t = shape_of(x).dtype;
  return {frontend::converted(x.array, frontend::to_inexact(t), x.location, x.array.weak_type()),
          x.location};
}

void need_real(const std::string& name, const Operand& x) {
  if (is_complex(shape_of(x).dtype)) {
    throw DTypeError(name + " of complex numbers (" + x.array.type_string() + ")", x.location);
  }
}

}  // namespace

Array relu(Operand x) {
  need_real("relu", x);
  // Not a maximum, whose derivative at 0 is one half.
  return composed("relu", x.location, [&] {
    const Operand zero = number(0, x.location);
    return where({less_equal(x, zero), x.location}, zero, x);
  });
}
Array relu6(Operand x) {
  need_real("relu6", x);
  return composed("relu6", x.location, [&] {
    // As in relu: the derivative is 0 at both ends.
    const Operand zero = number(0, x.location), six = number(6, x.location);
    const Operand below{where({greater_equal(x, six), x.location}, six, x), x.location};
    return where({less_equal(x, zero), x.location}, zero, below);
  });
}

Array gelu(Operand x, bool approximate) {
  need_real("gelu", x);
  const Location l = x.location;
  return composed("gelu", l, [&] {
    const Operand v = inexact(x);
    if (!approximate) {
      // Of the complement, which is accurate for large negative numbers too.
      const Operand scaled{multiply(v, number(-std::numbers::sqrt2 / 2, l)), l};
      return multiply({multiply(v, number(0.5, l)), l}, {erfc(scaled), l});
    }
    const Operand cube{multiply(v, {square(v), l}), l};
    const Operand sum{add(v, {multiply(cube, number(0.044715, l)), l}), l};
    const double scale = std::sqrt(2 / std::numbers::pi);
    const Operand t{tanh({multiply(sum, number(scale, l)), l}), l};
    const Operand weight{multiply({add(t, number(1, l)), l}, number(0.5, l)), l};
    return multiply(v, weight);
  });
}

Array silu(Operand x) {
  return composed("silu", x.location, [&] {
    const Operand v = inexact(x);
    return multiply(v, {sigmoid(v), x.location});
  });
}

Array elu(Operand x, Operand alpha) {
  need_real("elu", x);
  const Location l = x.location;
  return composed("elu", l, [&] {
    const Operand v = inexact(x);
    const Operand above{greater(v, number(0, l)), l};
    // exp is only applied to numbers up to 0, so the value that isn't selected doesn't overflow.
    const Operand safe{where(above, number(0, l), v), l};
    return where(above, v, {multiply({alpha.array, l}, {expm1(safe), l}), l});
  });
}

Array leaky_relu(Operand x, Operand slope) {
  need_real("leaky_relu", x);
  const Location l = x.location;
  return composed("leaky_relu", l, [&] {
    const Operand v = inexact(x);
    return where({greater_equal(v, number(0, l)), l}, v, {multiply({slope.array, l}, v), l});
  });
}

Array softplus(Operand x) {
  need_real("softplus", x);
  return composed("softplus", x.location,
                  [&] { return logaddexp(inexact(x), number(0, x.location)); });
}
Array log_sigmoid(Operand x) {
  need_real("log_sigmoid", x);
  return composed("log_sigmoid", x.location, [&] {
    const Operand opposite{negative(inexact(x)), x.location};
    return negative({softplus(opposite), x.location});
  });
}

Array glu(Operand x, std::int64_t axis) {
  const Shape& shape = shape_of(x);
  axis = frontend::normalize_axis("glu", axis, shape.rank(), x.location);
  const std::int64_t size = shape.dim(axis);
  if (size % 2 != 0) {
    throw ShapeError("glu of " + shape.to_string() + ": axis " + std::to_string(axis) +
                         " must have an even size",
                     x.location);
  }
  return composed("glu", x.location, [&] {
    const Array first = frontend::sliced_dim(x.array, axis, 0, size / 2, x.location, "glu");
    const Array second = frontend::sliced_dim(x.array, axis, size / 2, size, x.location, "glu");
    return multiply({first, x.location}, {sigmoid({second, x.location}), x.location});
  });
}

Array one_hot(Operand x, std::int64_t num_classes, DType dtype, std::int64_t axis) {
  const Shape& shape = shape_of(x);
  if (num_classes < 0) {
    throw ValueError("one_hot of " + std::to_string(num_classes) + " classes; give 0 or more",
                     x.location);
  }
  if (is_complex(shape.dtype)) need_real("one_hot", x);
  axis = frontend::normalize_axis("one_hot", axis, shape.rank() + 1, x.location);
  return composed("one_hot", x.location, [&] {
    Dims dims = shape.dims;
    dims.insert(dims.begin() + axis, num_classes);
    Dims mapping(shape.dims.size());
    std::iota(mapping.begin(), mapping.end(), 0);
    for (std::int64_t& d : mapping) d += d >= axis ? 1 : 0;
    const DType t = shape.dtype == DType::pred ? s32 : shape.dtype;
    const Array repeated = frontend::broadcast_in_dim(frontend::converted(x.array, t, x.location),
                                                      dims, mapping, x.location, "one_hot");
    const Array positions = is_integer(t) && byte_size(t) < 4 ? iota(s32, dims, axis, x.location)
                                                              : iota(t, dims, axis, x.location);
    return frontend::converted(equal({repeated, x.location}, {positions, x.location}), dtype,
                               x.location);
  });
}

}  // namespace tessera
