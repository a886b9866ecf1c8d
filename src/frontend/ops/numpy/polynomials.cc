// SPDX-License-Identifier: Apache-2.0
// Convolution of vectors, and polynomials as vectors of coefficients.
#include <algorithm>
#include <cmath>

#include <tessera/ops/convolution.h>
#include <tessera/ops/creation.h>
#include <tessera/ops/indexing.h>
#include <tessera/ops/numeric.h>
#include <tessera/ops/sampled.h>
#include <tessera/ops/shape_ops.h>

#include "src/frontend/ops/moves.h"
#include "src/frontend/ops/special/special_function.h"

namespace tessera {

using frontend::composed;
using frontend::inexact_operands;
using frontend::Located;
using frontend::shape_of;
using frontend::where_of;

namespace {

void check_vectors(const char* name, const std::vector<Operand>& xs) {
  for (const Operand& x : xs) {
    const Shape& shape = shape_of(x);
    if (shape.rank() == 1 && shape.dim(0) > 0) continue;
    throw ShapeError(
        std::string(name) + " of " + shape.to_string() + "; valid are vectors with elements",
        x.location);
  }
}

/// The sliding products of a vector with a shorter one, of one dtype.
Array slid(const Located& x, const Located& kernel, ConvolveMode mode) {
  const Location l = x.location;
  const std::int64_t n = x.array.shape()[0], k = kernel.array.shape()[0];
  std::pair<std::int64_t, std::int64_t> margin{0, 0};
  if (mode == ConvolveMode::full) margin = {k - 1, k - 1};
  if (mode == ConvolveMode::same) margin = {k / 2, k - k / 2 - 1};
  const Array image = frontend::reshaped(x.array, {1, 1, n}, l);
  const Array window = frontend::reshaped(kernel.array, {1, 1, k}, l);
  using Widths = std::vector<std::pair<std::int64_t, std::int64_t>>;
  const Array out = conv_general_dilated({image, l}, {window, l}, {1}, Widths{margin});
  return frontend::reshaped(out, {out.shape()[2]}, l);
}

Located backwards(const Located& x) { return x.with(frontend::reversed(x.array, {0}, x.location)); }

}  // namespace

Array convolve(Operand a, Operand v, ConvolveMode mode) {
  check_vectors("convolve", {a, v});
  return composed("convolve", where_of(a, v), [&] {
    const Location l = where_of(a, v);
    const frontend::TypeNode type = frontend::promote({a.array, v.array}, l);
    const DType t = frontend::to_inexact(type.dtype);
    Located x{frontend::converted(a.array, t, l), l}, y{frontend::converted(v.array, t, l), l};
    if (shape_of(a).dim(0) < shape_of(v).dim(0)) std::swap(x, y);
    return slid(x, backwards(y), mode);
  });
}

Array correlate(Operand a, Operand v, ConvolveMode mode) {
  check_vectors("correlate", {a, v});
  return composed("correlate", where_of(a, v), [&] {
    const Location l = where_of(a, v);
    const frontend::TypeNode type = frontend::promote({a.array, v.array}, l);
    const DType t = frontend::to_inexact(type.dtype);
    Located x{frontend::converted(a.array, t, l), l}, y{frontend::converted(v.array, t, l), l};
    y = y.with(conj(y));
    const bool swap = shape_of(a).dim(0) < shape_of(v).dim(0);
    if (swap) std::swap(x, y);
    const Located out = x.with(slid(x, y, mode));
    return swap ? backwards(out).array : out.array;
  });
}

Array polyval(Operand p, Operand x) {
  const Location l = where_of(p, x);
  const Shape& shape = shape_of(p);
  if (shape.rank() == 0) {
    throw ShapeError("polyval of scalar coefficients; give rank 1 or more", l);
  }
  return composed("polyval", l, [&] {
    const frontend::TypeNode type = frontend::promote({p.array, x.array}, l);
    const Located c{frontend::converted(p.array, type.dtype, l), l};
    const Located at{frontend::converted(x.array, type.dtype, l), l};
    const Dims rest(shape.dims.begin() + 1, shape.dims.end());
    const Dims dims = frontend::broadcast_shapes("polyval", rest, at.array.shape(), l);
    Located y = at.with(frontend::broadcasted(frontend::program_constant(type.dtype, 0), dims, l));
    for (std::int64_t i = 0; i < shape.dim(0); ++i) {
      const Array term = frontend::reshaped(frontend::sliced_dim(c.array, 0, i, i + 1, l), rest, l);
      y = i == 0 ? at.with(frontend::broadcasted(term, dims, l)) : y * at + at.with(term);
    }
    return y.array;
  });
}

namespace {

/// Two vectors in the promoted dtype, the shorter one with zeros in front.
std::vector<Located> same_degree(const char* name, const Operand& a, const Operand& b) {
  check_vectors(name, {a, b});
  const Location l = where_of(a, b);
  const frontend::TypeNode type = frontend::promote({a.array, b.array}, l);
  const std::int64_t n = std::max(shape_of(a).dim(0), shape_of(b).dim(0));
  std::vector<Located> out;
  for (const Operand* x : {&a, &b}) {
    const Array v = frontend::converted(x->array, type.dtype, l);
    const std::int64_t missing = n - v.shape()[0];
    out.push_back({missing == 0 ? v
                                : frontend::padded(v, frontend::program_constant(type.dtype, 0),
                                                   {{missing, 0, 0}}, l, name),
                   l});
  }
  return out;
}

void check_order(const char* name, std::int64_t m, const Operand& p) {
  if (m < 0) {
    throw ValueError(
        std::string(name) + " of order " + std::to_string(m) + "; valid are 0 and more",
        p.location);
  }
  if (shape_of(p).rank() != 1) {
    throw ShapeError(std::string(name) + " of " + shape_of(p).to_string() + "; valid are vectors",
                     p.location);
  }
}

/// factors[i] = (i + 1) .. (i + m), for i = count - 1 .. 0.
Located falling(const Located& like, std::int64_t count, std::int64_t m) {
  const Location l = like.location;
  const Located place = frontend::as_type(like.with(iota(s32, {count}, 0, l)), like.dtype());
  const Located power = double(count - 1) - place;
  Located out =
      like.with(frontend::broadcasted(frontend::program_constant(like.dtype(), 1), {count}, l));
  for (std::int64_t k = 1; k <= m; ++k) out = out * (power + double(k));
  return out;
}

}  // namespace

Array polyadd(Operand a, Operand b) {
  return composed("polyadd", where_of(a, b), [&] {
    const auto v = same_degree("polyadd", a, b);
    return (v[0] + v[1]).array;
  });
}
Array polysub(Operand a, Operand b) {
  return composed("polysub", where_of(a, b), [&] {
    const auto v = same_degree("polysub", a, b);
    return (v[0] - v[1]).array;
  });
}
Array polymul(Operand a, Operand b) {
  check_vectors("polymul", {a, b});
  return convolve(a, b);
}

Array polyder(Operand p, std::int64_t m) {
  check_order("polyder", m, p);
  return composed("polyder", p.location, [&]() -> Array {
    const Located v = inexact_operands("polyder", {p}, true)[0];
    if (m == 0) return v.array;
    const std::int64_t left = std::max<std::int64_t>(v.array.shape()[0] - m, 0);
    const Located kept = v.with(frontend::sliced_dim(v.array, 0, 0, left, p.location));
    return left == 0 ? kept.array : (kept * falling(v, left, m)).array;
  });
}

Array polyint(Operand p, std::int64_t m, const std::optional<Array>& constants) {
  check_order("polyint", m, p);
  const Location l = p.location;
  if (constants && constants->size(l) != 1 && constants->shape(l) != Dims{m}) {
    throw ShapeError("polyint of order " + std::to_string(m) + " with constants " +
                         constants->type_string() + "; give one for all, or a vector of " +
                         std::to_string(m),
                     l);
  }
  return composed("polyint", l, [&]() -> Array {
    const frontend::TypeNode type = frontend::promote(
        constants ? std::vector<Array>{p.array, *constants} : std::vector<Array>{p.array}, l);
    const DType t = frontend::to_inexact(type.dtype);
    const Located v{frontend::converted(p.array, t, l), l};
    if (m == 0) return v.array;
    Array k = constants ? frontend::converted(*constants, t, l) : frontend::program_constant(t, 0);
    if (k.size() == 1) k = frontend::broadcasted(frontend::reshaped(k, {}, l), {m}, l);
    const std::int64_t n = v.array.shape()[0];
    const Located all = v.with(frontend::concatenated({v.array, k}, 0, l, "polyint"));
    // Of the power x^i the coefficient is divided by (i + 1) .. (i + m), of the j-th constant by
    // its power's factorial.
    Located divisors = falling(v, n, m);
    if (n == 0) divisors = v;
    std::vector<double> factorials(std::size_t(m), 1);
    for (std::int64_t j = m - 2; j >= 0; --j) {
      factorials[std::size_t(j)] = factorials[std::size_t(j + 1)] * double(m - 1 - j);
    }
    std::vector<Array> parts{divisors.array};
    for (const double f : factorials) {
      parts.push_back(frontend::reshaped(frontend::program_constant(t, f), {1}, l));
    }
    return (all / v.with(frontend::concatenated(parts, 0, l, "polyint"))).array;
  });
}

std::pair<Array, Array> polydiv(Operand u, Operand v, bool trim_leading_zeros) {
  check_vectors("polydiv", {u, v});
  const Location l = where_of(u, v);
  if (trim_leading_zeros && (u.array.is_tracer() || v.array.is_tracer())) {
    throw TracerError(
        "polydiv: how many leading zeros the remainder has depends on the values of traced arrays; "
        "trim them outside of the trace",
        l);
  }
  const std::vector<Array> out = frontend::as_one_program("polydiv", l, [&] {
    const DType t = frontend::to_inexact(frontend::promote({u.array, v.array}, l).dtype);
    Located rest{frontend::converted(u.array, t, l), l};
    const Located divisor{frontend::converted(v.array, t, l), l};
    const std::int64_t m = shape_of(u).dim(0), n = shape_of(v).dim(0);
    const auto at = [&](const Located& x, std::int64_t from, std::int64_t to) {
      return x.with(frontend::sliced_dim(x.array, 0, from, to, l, "polydiv"));
    };
    const Located scale = 1.0 / at(divisor, 0, 1);
    std::vector<Array> quotient;
    for (std::int64_t k = 0; k + n <= m; ++k) {
      const Located d = scale * at(rest, k, k + 1);
      quotient.push_back(d.array);
      const Located changed = at(rest, k, k + n) - d * divisor;
      rest = rest.with(frontend::concatenated(
          {at(rest, 0, k).array, changed.array, at(rest, k + n, m).array}, 0, l, "polydiv"));
    }
    if (quotient.empty()) {
      quotient.push_back(frontend::broadcasted(frontend::program_constant(t, 0), {1}, l));
    }
    return std::vector<Array>{frontend::concatenated(quotient, 0, l, "polydiv"), rest.array};
  });
  if (!trim_leading_zeros) return {out[0], out[1]};
  const double bound = std::sqrt(finfo(out[1].dtype(), l).eps);
  const std::vector<bool> small = less({abs({out[1], l}), l}, {Array(bound), l}).to_vector<bool>(l);
  const auto first = std::find(small.begin(), small.end(), false) - small.begin();
  return {out[0], slice_in_dim({out[1], l}, first, std::nullopt)};
}

}  // namespace tessera
