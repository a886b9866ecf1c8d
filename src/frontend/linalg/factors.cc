// SPDX-License-Identifier: Apache-2.0
// LU factors and the systems that they solve; spectra as LAPACK gives them.
#include <tessera/control_flow.h>
#include <tessera/custom_derivative.h>
#include <tessera/ops/creation.h>
#include <tessera/ops/indexing.h>
#include <tessera/ops/reductions.h>
#include <tessera/ops/shape_ops.h>
#include <tessera/ops/sorting.h>

#include <algorithm>

#include "src/frontend/linalg/matrices.h"

namespace tessera::frontend::matrices {
namespace {

Located integers(const Located& like, const Dims& dims, std::int64_t dim) {
  return like.with(iota(s32, dims, dim, like.location));
}

/// Whether info is at least 0 (`or_more`), or 0.
Located is_fine(const Located& info, bool or_more = false) {
  return or_more ? info >= info.constant(0) : info == info.constant(0);
}

}  // namespace

Located permutation_of(const Located& pivots, std::int64_t rows) {
  const Dims dims = dims_of(pivots), batch = batch_of(dims, 1);
  const std::int64_t count = dims.back();
  const Dims full = joined(batch, {rows});
  const auto dim = std::int64_t(batch.size());
  const Located places = integers(pivots, full, dim);
  if (count == 0 || rows == 0) return places;
  const Location at = pivots.location;
  // The order varies over the axes of per-device code over which the pivots do.
  const Located first = pivots.with(slice_in_dim(Operand(pivots), 0, 1, 1, dim));
  const Located start = places + with_dims(first - first, full);
  // Masks in place of gathers: one pass over the order for each swap.
  const auto swap = [&](const Array& step, const Array& order) {
    const Located i = pivots.with(step), now = pivots.with(order);
    const Located here = places == with_dims(i, full);
    const Located j = pivots.with(dynamic_slice_in_dim(Operand(pivots), Operand(i), 1, dim));
    const Located there = places == with_dims(j, full);
    const Located none = with_dims(now.constant(0), full);
    const auto value_at = [&](const Located& mask) {
      const Located only = choose(mask, now, none);
      return with_dims(now.with(sum(Operand(only), dim, {.keepdims = true})), full);
    };
    return choose(here, value_at(there), choose(there, value_at(here), now)).array;
  };
  return pivots.with(fori_loop(0, count, swap, start.array, at));
}

Factors factored(const Located& a) {
  const std::int64_t m = rows_of(a), n = columns_of(a);
  const std::vector<Located> out =
      call_lapack("getrf", {a}, {{a.dtype(), {m, n}}, {s32, {std::min(m, n)}}, {s32, {}}});
  const Located lu = nan_unless(is_fine(out[2], true), out[0]);
  const Located pivots = out[1] - 1;  // LAPACK counts from 1
  return {lu, pivots, permutation_of(pivots, m)};
}

Located solved(const Located& lu, const Located& permutation, const Located& rhs, int trans) {
  if (trans == 0) {
    const Located x = solved(lu, take_rows(rhs, permutation), {.lower = true, .unit = true});
    return solved(lu, x, {.lower = false});
  }
  const bool conjugated = trans == 2;
  Located x = solved(lu, rhs, {.lower = false, .transposed = true, .conjugated = conjugated});
  x = solved(lu, x, {.lower = true, .unit = true, .transposed = true, .conjugated = conjugated});
  return take_rows(x, permutation.with(argsort(Operand(permutation), -1)));
}

Located solved(const Located& a, const Located& b) {
  const Location at = a.location;
  const Dims batch =
      broadcast_shapes("linalg.solve", batch_of(dims_of(a)), batch_of(dims_of(b)), at);
  const auto by = [batch](const Factors& f, const Located& rhs) {
    const std::int64_t n = rows_of(rhs);
    return solved(with_batch(f.lu, batch), with_dims(f.permutation, joined(batch, {n})),
                  with_batch(rhs, batch), 0);
  };
  auto f = custom_jvp(
      [by, at](Array matrix, Array rhs) {
        return by(factored(Located{matrix, at}), Located{rhs, at}).array;
      },
      "linalg.solve", at);
  // A dx = db - dA x: one factorisation, and no derivative of the factors.
  f.def_jvp([by, at](std::tuple<Array, Array> in, std::tuple<Array, Array> d) {
    const Factors factors = factored(Located{std::get<0>(in), at});
    const Located x = by(factors, Located{std::get<1>(in), at});
    const Located rhs = Located{std::get<1>(d), at} - times(Located{std::get<0>(d), at}, x);
    return std::pair(x.array, by(factors, rhs).array);
  });
  return a.with(f.call_at(at, a.array, b.array));
}

std::vector<Located> eigen(const Located& x, bool lower) {
  const std::int64_t n = rows_of(x);
  const bool complex = is_complex(x.dtype());
  const DType real = real_type(x.dtype());
  const std::vector<Located> out =
      call_lapack(complex ? "heevd" : "syevd", {x}, {{x.dtype(), {n, n}}, {real, {n}}, {s32, {}}},
                  {{"mode", std::uint8_t('V')}, {"uplo", std::uint8_t(lower ? 'L' : 'U')}});
  const Located ok = is_fine(out[2]);
  return {nan_unless(ok, out[1]), nan_unless(ok, out[0])};
}

std::vector<Located> singular(const Located& x, bool full_matrices, bool vectors) {
  const std::int64_t m = rows_of(x), n = columns_of(x), k = std::min(m, n);
  const DType real = real_type(x.dtype());
  const Dims batch = batch_of(dims_of(x));
  if (k == 0) {
    const Located none = with_dims(x.with(program_constant(real, 0)), joined(batch, {0}));
    if (!vectors) return {none};
    const auto unit = [&](std::int64_t rows, std::int64_t columns) {
      return with_dims(x.with(eye(rows, columns, 0, x.dtype(), x.location)),
                       joined(batch, {rows, columns}));
    };
    return {unit(m, full_matrices ? m : 0), none, unit(full_matrices ? n : 0, n)};
  }
  const std::int64_t columns = full_matrices ? m : k, rows = full_matrices ? n : k;
  const char mode = !vectors ? 'N' : full_matrices ? 'A' : 'S';
  const std::vector<Located> out = call_lapack("gesdd", {x},
                                               {{x.dtype(), {m, n}},
                                                {real, {k}},
                                                {x.dtype(), {m, columns}},
                                                {x.dtype(), {rows, n}},
                                                {s32, {}}},
                                               {{"mode", std::uint8_t(mode)}});
  const Located ok = is_fine(out[4]);
  if (!vectors) return {nan_unless(ok, out[1])};
  return {nan_unless(ok, out[2]), nan_unless(ok, out[1]), nan_unless(ok, out[3])};
}

}  // namespace tessera::frontend::matrices
