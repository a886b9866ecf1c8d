// SPDX-License-Identifier: Apache-2.0
// qr.
#include <algorithm>

#include <tessera/linalg.h>
#include <tessera/ops/creation.h>
#include <tessera/ops/shape_ops.h>

#include "src/frontend/linalg/matrices.h"

namespace tessera::linalg {

using frontend::composed;
using frontend::Located;
using frontend::shape_of;
using namespace frontend::matrices;  // NOLINT(google-build-using-namespace): their functions

namespace {

struct Reflectors {
  Located packed, taus;
};

Reflectors reflected(const Operand& a, DType t) {
  const Located x{frontend::converted(a.array, t, a.location), a.location};
  const std::int64_t m = rows_of(x), n = columns_of(x);
  const std::vector<Located> out = call_lapack("geqrf", {x}, {{t, {m, n}}, {t, {std::min(m, n)}}});
  return {out[0], out[1]};
}

Located upper(const Located& x) { return x.with(triu(Operand(x))); }

}  // namespace

QrResult qr(Operand a, QrMode mode) {
  const std::string name = "linalg.qr";
  const Shape& shape = shape_of(a);
  need_matrix(name, shape, a.location);
  const DType t = dtype_of(name, {a.array}, a.location);
  const std::int64_t m = shape.dim(shape.rank() - 2), n = shape.dim(shape.rank() - 1);
  const std::int64_t k = std::min(m, n);
  const bool complete = mode == QrMode::complete;
  const std::vector<Array> out = frontend::as_one_program(name, a.location, [&] {
    const Reflectors f = reflected(a, t);
    const std::int64_t columns = complete ? m : k;
    if (k == 0) {
      const Dims batch = batch_of(shape.dims);
      const Located unit = f.packed.with(eye(m, columns, 0, t, a.location));
      return std::vector<Array>{with_dims(unit, joined(batch, {m, columns})).array,
                                with_dims(unit.constant(0), joined(batch, {columns, n})).array};
    }
    Located v = f.packed;
    if (columns < n) {
      v = block(v, 0, m, 0, columns);
    } else if (columns > n) {
      std::vector<std::pair<std::int64_t, std::int64_t>> widths(shape.dims.size(), {0, 0});
      widths.back().second = columns - n;
      v = v.with(pad(Operand(v), widths));
    }
    const Located q =
        call_lapack(is_complex(t) ? "ungqr" : "orgqr", {v, f.taus}, {{t, {m, columns}}})[0];
    return std::vector<Array>{q.array, upper(block(f.packed, 0, columns, 0, n)).array};
  });
  return {out[0], out[1]};
}

Array qr_r(Operand a) {
  const Shape& shape = shape_of(a);
  need_matrix("linalg.qr_r", shape, a.location);
  const DType t = dtype_of("linalg.qr_r", {a.array}, a.location);
  const std::int64_t m = shape.dim(shape.rank() - 2), n = shape.dim(shape.rank() - 1);
  return composed("linalg.qr_r", a.location, [&] {
    return upper(block(reflected(a, t).packed, 0, std::min(m, n), 0, n)).array;
  });
}

}  // namespace tessera::linalg
