// SPDX-License-Identifier: Apache-2.0
// Products of vectors along an axis.
#include <tessera/ops/vectors.h>

#include <tessera/ops/products.h>
#include <tessera/ops/shape_ops.h>

#include "src/frontend/ops/located.h"
#include "src/frontend/ops/moves.h"

namespace tessera {

using frontend::composed;
using frontend::Located;
using frontend::shape_of;
using frontend::where_of;

namespace {

void check_rank(const char* name, const Operand& x, std::int64_t least) {
  if (shape_of(x).rank() >= least) return;
  throw ShapeError(std::string(name) + " of " + x.array.type_string() + "; give rank " +
                       std::to_string(least) + " or more",
                   x.location);
}
void check_sizes(const char* name, const Operand& a, std::int64_t a_dim, const Operand& b,
                 std::int64_t b_dim) {
  const std::int64_t m = shape_of(a).dim(a_dim), n = shape_of(b).dim(b_dim);
  if (m == n) return;
  throw ShapeError(std::string(name) + " of " + a.array.type_string() + " and " +
                       b.array.type_string() + ": dim " + std::to_string(a_dim) +
                       " of the left operand (size " + std::to_string(m) + ") and dim " +
                       std::to_string(b_dim) + " of the right operand (size " + std::to_string(n) +
                       ") must be equal",
                   where_of(a, b));
}

/// The product of matrices, of which one is a vector with a dim of size 1 at `dim`.
Array product(const char* name, const Operand& a, const Operand& b, std::int64_t dim) {
  // Checked here, so that messages name this function.
  const Dims &x = shape_of(a).dims, &y = shape_of(b).dims;
  const Location l = where_of(a, b);
  (void)frontend::broadcast_shapes(name, Dims(x.begin(), x.end() - 2), Dims(y.begin(), y.end() - 2),
                                   l);
  const Array out = matmul(a, b);
  Dims dims = out.shape();
  dims.erase(dims.end() + dim);
  return frontend::reshaped(out, dims, l);
}

}  // namespace

Array vecdot(Operand a, Operand b, std::int64_t axis) {
  check_rank("vecdot", a, 1);
  check_rank("vecdot", b, 1);
  const Location l = where_of(a, b);
  const std::int64_t m = frontend::normalize_axis("vecdot", axis, shape_of(a).rank(), l);
  const std::int64_t n = frontend::normalize_axis("vecdot", axis, shape_of(b).rank(), l);
  check_sizes("vecdot", a, m, b, n);
  return composed("vecdot", l, [&] {
    const Located x{moveaxis(a, m, -1), l}, y{moveaxis(b, n, -1), l};
    const Array out =
        product("vecdot", {expand_dims({conj(x), l}, -2), l}, {expand_dims(y, -1), l}, -1);
    Dims dims = out.shape();
    dims.pop_back();
    return frontend::reshaped(out, dims, l);
  });
}

Array matvec(Operand a, Operand x) {
  check_rank("matvec", a, 2);
  check_rank("matvec", x, 1);
  check_sizes("matvec", a, shape_of(a).rank() - 1, x, shape_of(x).rank() - 1);
  return composed("matvec", where_of(a, x), [&] {
    return product("matvec", a, {expand_dims(x, -1), x.location}, -1);
  });
}

Array vecmat(Operand x, Operand a) {
  check_rank("vecmat", x, 1);
  check_rank("vecmat", a, 2);
  check_sizes("vecmat", x, shape_of(x).rank() - 1, a, shape_of(a).rank() - 2);
  return composed("vecmat", where_of(x, a), [&] {
    return product("vecmat", {expand_dims({conj(x), x.location}, -2), x.location}, a, -2);
  });
}

Array cross(Operand a, Operand b, const CrossOptions& options) {
  const Location l = where_of(a, b);
  check_rank("cross", a, 1);
  check_rank("cross", b, 1);
  const std::int64_t m = frontend::normalize_axis("cross", options.axis.value_or(options.axisa),
                                                  shape_of(a).rank(), l);
  const std::int64_t n = frontend::normalize_axis("cross", options.axis.value_or(options.axisb),
                                                  shape_of(b).rank(), l);
  for (const auto& [x, dim] : {std::pair(&a, m), std::pair(&b, n)}) {
    const std::int64_t size = shape_of(*x).dim(dim);
    if (size == 2 || size == 3) continue;
    throw ShapeError("cross of " + x->array.type_string() + " along axis " + std::to_string(dim) +
                         "; vectors have 2 or 3 elements",
                     l);
  }
  return composed("cross", l, [&]() -> Array {
    const auto xs = frontend::promote({a.array, b.array}, l);
    const auto parts = [&](const Operand& x, std::int64_t dim) {
      const Located v{frontend::converted(x.array, xs.dtype, l, xs.weak), l};
      Dims dims = shape_of(x).dims;
      dims.erase(dims.begin() + dim);
      std::vector<Located> out;
      for (std::int64_t i = 0; i < shape_of(x).dim(dim); ++i) {
        out.push_back(
            v.with(frontend::reshaped(frontend::sliced_dim(v.array, dim, i, i + 1, l), dims, l)));
      }
      return out;
    };
    std::vector<Located> u = parts(a, m), v = parts(b, n);
    const Located last = u[0] * v[1] - u[1] * v[0];
    if (u.size() == 2 && v.size() == 2) return last.array;
    if (u.size() == 2) u.push_back(u[0].constant(0));
    if (v.size() == 2) v.push_back(v[0].constant(0));
    const Located first = u[1] * v[2] - u[2] * v[1], second = u[2] * v[0] - u[0] * v[2];
    const Dims dims = last.array.shape();
    std::vector<Array> all;
    for (const Located& c : {first, second, last}) {
      all.push_back(frontend::broadcasted(c.array, dims, l));
    }
    return stack(all,
                 frontend::normalize_axis("cross", options.axis.value_or(options.axisc),
                                          std::int64_t(dims.size()) + 1, l),
                 l);
  });
}

}  // namespace tessera
