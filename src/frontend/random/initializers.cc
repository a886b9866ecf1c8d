// SPDX-License-Identifier: Apache-2.0
// Initial values of parameters: distributions scaled by the sizes of layers.
#include <tessera/initializers.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>

#include <tessera/linalg.h>
#include <tessera/ops/creation.h>
#include <tessera/ops/shape_ops.h>
#include <tessera/random.h>

#include "src/frontend/ops/moves.h"
#include "src/frontend/random/internal.h"

namespace tessera::initializers {

using frontend::composed;
using frontend::Located;

namespace {

void check_shape(const char* op, const Operand& key, const Shape& shape) {
  frontend::check_random_shape(std::string("initializers::") + op, shape, key.location);
}

/// Numbers times a factor, both of a dtype.
Located times(const Array& numbers, double factor, Location location) {
  const Located x{numbers, location};
  return x * x.constant(factor);
}

struct Fans {
  double in = 1, out = 1;
};

/// The number of inputs of each output, and of outputs of each input.
Fans fans_of(const Shape& shape, const FanAxes& axes, Location location) {
  const std::string op = "initializers::variance_scaling";
  const auto rank = std::int64_t(shape.size());
  if (rank < 2 && axes.in == FanAxes().in) {
    throw ValueError(op + " of shape " + to_string(shape) +
                         ": inputs and outputs need two dimensions; give axes for other shapes",
                     location);
  }
  std::set<std::int64_t> seen;
  const auto size_of = [&](const std::vector<std::int64_t>& list) {
    double n = 1;
    for (std::int64_t a : list) {
      a = frontend::normalize_axis(op, a, rank, location);
      if (!seen.insert(a).second) {
        throw ValueError(op + ": axis " + std::to_string(a) + " is named twice", location);
      }
      n *= double(shape[std::size_t(a)]);
    }
    return n;
  };
  const double in = size_of(axes.in), out = size_of(axes.out), batch = size_of(axes.batch);
  double all = 1;
  for (std::int64_t d : shape) all *= double(d);
  const double positions = all / in / out / batch;
  return {in * positions, out * positions};
}

double denominator(const Fans& fans, FanMode mode) {
  switch (mode) {
    case FanMode::fan_in:
      return fans.in;
    case FanMode::fan_out:
      return fans.out;
    case FanMode::fan_avg:
      return (fans.in + fans.out) / 2;
    case FanMode::fan_geo_avg:
      return std::sqrt(fans.in * fans.out);
  }
  throw InternalError("a mode of variance_scaling");
}

/// Complex numbers of random argument, whose modulus is a function of uniform numbers.
template <class F>
Located in_disk(const Operand& key, const Shape& shape, DType part, F modulus) {
  const auto [first, second] = frontend::split_in_two(frontend::key_words(key));
  const Located r = modulus(frontend::unit_uniform(first, shape, part));
  const Located angle = 2 * std::numbers::pi * frontend::unit_uniform(second, shape, part);
  return r.with(complex(r * r.with(cos(angle)), r * r.with(sin(angle))));
}

/// Numbers of variance `variance` (of the dtype), a scalar.
Located scaled_numbers(const Operand& key, const Shape& shape, DType dtype,
                       Distribution distribution, const Located& variance) {
  const Location l = key.location;
  const DType part = is_complex(dtype) ? real_type(dtype) : dtype;
  const Located root = variance.with(sqrt(variance));
  const auto scaled = [&](const Located& numbers, const Located& factor) {
    return numbers * frontend::as_type(factor, numbers.dtype());
  };
  switch (distribution) {
    case Distribution::normal:
      return scaled({random::normal(key, shape, dtype), l}, root);
    case Distribution::truncated_normal: {
      if (is_complex(dtype)) {
        const Located numbers = in_disk(key, shape, part, [](const Located& u) {
          const Located inside = 1.0 - (1 - std::exp(-4.0)) * u;
          return u.with(sqrt(-u.with(log(inside))));
        });
        // The deviation of what is cut off at a modulus of 2.
        return scaled(numbers, root / .95311164380491208);
      }
      // The deviation of what is cut off at -2 and 2.
      return scaled({random::truncated_normal(key, {Array(-2), l}, {Array(2), l}, shape, dtype), l},
                    root / .87962566103423978);
    }
    case Distribution::uniform: {
      if (is_complex(dtype)) {
        const Located numbers =
            in_disk(key, shape, part, [](const Located& u) { return u.with(sqrt(2.0 * u)); });
        return scaled(numbers, root);
      }
      const Located numbers{random::uniform(key, shape, dtype, {Array(-1), l}), l};
      return scaled(numbers, variance.with(sqrt(3.0 * variance)));
    }
  }
  throw InternalError("a distribution of variance_scaling");
}

}  // namespace

Array zeros(Operand key, Shape shape, DType dtype) {
  check_shape("zeros", key, shape);
  return tessera::zeros(shape, dtype, key.location);
}
Array ones(Operand key, Shape shape, DType dtype) {
  check_shape("ones", key, shape);
  return tessera::ones(shape, dtype, key.location);
}

Initializer constant(double value) {
  return [=](const Operand& key, const Shape& shape, DType dtype) {
    check_shape("constant", key, shape);
    return full(shape, {Array(value), key.location}, dtype);
  };
}

Initializer uniform(double scale) {
  return [=](const Operand& key, const Shape& shape, DType dtype) {
    return composed("uniform", key.location, [&] {
      return times(random::uniform(key, shape, dtype), scale, key.location).array;
    });
  };
}

Initializer normal(double stddev) {
  return [=](const Operand& key, const Shape& shape, DType dtype) {
    return composed("normal", key.location, [&] {
      return times(random::normal(key, shape, dtype), stddev, key.location).array;
    });
  };
}

Initializer truncated_normal(double stddev, double lower, double upper) {
  return [=](const Operand& key, const Shape& shape, DType dtype) {
    const Location l = key.location;
    return composed("truncated_normal", l, [&] {
      return times(
                 random::truncated_normal(key, {Array(lower), l}, {Array(upper), l}, shape, dtype),
                 stddev, l)
          .array;
    });
  };
}

Initializer variance_scaling(double scale, FanMode mode, Distribution distribution, FanAxes axes) {
  return [=](const Operand& key, const Shape& shape, DType dtype) {
    const std::string op = "initializers::variance_scaling";
    frontend::check_random_shape(op, shape, key.location);
    frontend::check_key(op, key);
    const DType part = is_complex(dtype) ? real_type(dtype) : dtype;
    frontend::check_random_float(op, part, key.location);
    const Fans fans = fans_of(shape, axes, key.location);
    return composed("variance_scaling", key.location, [&] {
      // Without elements there is nothing to divide by.
      if (tessera::Shape(dtype, shape).element_count() == 0) {
        return tessera::zeros(shape, dtype, key.location);
      }
      const Located variance{frontend::program_constant(part, scale / denominator(fans, mode)),
                             key.location};
      return scaled_numbers(key, shape, dtype, distribution, variance).array;
    });
  };
}

Initializer glorot_uniform(FanAxes axes) {
  return variance_scaling(1, FanMode::fan_avg, Distribution::uniform, std::move(axes));
}
Initializer glorot_normal(FanAxes axes) {
  return variance_scaling(1, FanMode::fan_avg, Distribution::truncated_normal, std::move(axes));
}
Initializer xavier_uniform(FanAxes axes) { return glorot_uniform(std::move(axes)); }
Initializer xavier_normal(FanAxes axes) { return glorot_normal(std::move(axes)); }
Initializer lecun_uniform(FanAxes axes) {
  return variance_scaling(1, FanMode::fan_in, Distribution::uniform, std::move(axes));
}
Initializer lecun_normal(FanAxes axes) {
  return variance_scaling(1, FanMode::fan_in, Distribution::truncated_normal, std::move(axes));
}
Initializer he_uniform(FanAxes axes) {
  return variance_scaling(2, FanMode::fan_in, Distribution::uniform, std::move(axes));
}
Initializer he_normal(FanAxes axes) {
  return variance_scaling(2, FanMode::fan_in, Distribution::truncated_normal, std::move(axes));
}
Initializer kaiming_uniform(FanAxes axes) { return he_uniform(std::move(axes)); }
Initializer kaiming_normal(FanAxes axes) { return he_normal(std::move(axes)); }

Initializer orthogonal(double scale, std::int64_t column_axis) {
  return [=](const Operand& key, const Shape& shape, DType dtype) {
    const std::string op = "initializers::orthogonal";
    const Location l = key.location;
    frontend::check_random_shape(op, shape, l);
    frontend::check_key(op, key);
    if (shape.size() < 2) {
      throw ValueError(op + " of shape " + to_string(shape) + "; give two dimensions or more", l);
    }
    const auto axis =
        std::size_t(frontend::normalize_axis(op, column_axis, std::int64_t(shape.size()), l));
    if (byte_size(is_complex(dtype) ? real_type(dtype) : dtype) < 4 ||
        (!is_floating(dtype) && !is_complex(dtype))) {
      throw DTypeError(
          op + " of dtype " + std::string(name(dtype)) + "; valid are f32, f64, c64 and c128", l);
    }
    if (tessera::Shape(dtype, shape).element_count() == 0) return tessera::zeros(shape, dtype, l);
    return composed("orthogonal", l, [&] {
      const std::int64_t columns = shape[axis];
      const std::int64_t rows = tessera::Shape(dtype, shape).element_count() / columns;
      const Shape tall{std::max(rows, columns), std::min(rows, columns)};
      const auto [q, r] = linalg::qr({random::normal(key, tall, dtype), l});
      // Factors are unique, and the distribution uniform, with a positive diagonal of r.
      const Located d{diagonal({r, l}), l};
      Located out = Located{q, l} * d.with(sign(d));
      if (rows < columns) out = out.with(transpose(out));
      Dims dims = shape;
      dims.erase(dims.begin() + std::ptrdiff_t(axis));
      dims.push_back(columns);
      const Array moved =
          frontend::moved_dim(frontend::reshaped(out.array, dims, l), std::int64_t(dims.size()) - 1,
                              std::int64_t(axis), l, op);
      return times(moved, scale, l).array;
    });
  };
}

}  // namespace tessera::initializers
