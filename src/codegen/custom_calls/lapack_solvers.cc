// SPDX-License-Identifier: Apache-2.0
// Factorisations, products of reflectors, and solvers.
#include <algorithm>
#include <cstring>

#include "src/base/threads/task_pool.h"
#include "src/codegen/custom_calls/lapack_routine.h"
#include "src/codegen/custom_calls/small_matrices.h"

namespace tessera::codegen::lapack {
namespace {

void copy_ints(const Batch& b, int input, int output, Int count) {
  std::memcpy(b.output<Int>(output), b.input<Int>(input), std::size_t(count) * sizeof(Int));
}
template <class T>
void copy_values(const Batch& b, int input, int output, Int count) {
  std::copy_n(b.input<T>(input), count, b.output<T>(output));
}
/// The older form of some routines has no such result.
void put_info(const Batch& b, int slot, Int info) {
  if (b.out[std::size_t(slot)]) *b.output<Int>(slot) = info;
}

template <class T>
void run_potrf(Batch& b) {
  b.pass(0, 0);
  const Int n = b.size('n');
  if constexpr (!is_complex_type<T>) {
    if (n <= kSmallMatrix) {
      *b.output<Int>(1) = factor_cholesky(b.options.uplo == 'L', n, b.output<T>(0));
      return;
    }
  }
  *b.output<Int>(1) = potrf(b.options.uplo, n, b.output<T>(0));
}

template <class T>
void run_getrf(Batch& b) {
  b.pass(0, 0);
  const Int m = b.size('m'), n = b.size('n');
  if constexpr (!is_complex_type<T>) {
    if (m <= kSmallMatrix && n <= kSmallMatrix) {
      *b.output<Int>(2) = factor_lu(m, n, b.output<T>(0), b.output<Int>(1));
      return;
    }
  }
  *b.output<Int>(2) = getrf(m, n, b.output<T>(0), b.output<Int>(1));
}

template <class T>
void run_geqrf(Batch& b) {
  b.pass(0, 0);
  put_info(b, 2, with_workspace<T>(b, [&](T* work, Int lwork) {
             return geqrf(b.size('m'), b.size('n'), b.output<T>(0), b.output<T>(1), work, lwork);
           }));
}

template <class T>
void run_geqp3(Batch& b) {
  b.pass(0, 0);
  const Int m = b.size('m'), n = b.size('n');
  copy_ints(b, 1, 1, n);
  auto* const rwork = b.work->get<real_of<T>>(1, 2 * std::int64_t(n));
  with_workspace<T>(b, [&](T* work, Int lwork) {
    return geqp3(m, n, b.output<T>(0), b.output<Int>(1), b.output<T>(2), work, lwork, rwork);
  });
}

template <class T>
void run_orgqr(Batch& b) {
  b.pass(0, 0);
  put_info(b, 1, with_workspace<T>(b, [&](T* work, Int lwork) {
             return orgqr(b.size('m'), b.size('n'), b.size('t'), b.output<T>(0), b.input<T>(1),
                          work, lwork);
           }));
}

template <class T>
void run_ormqr(Batch& b) {
  b.pass(2, 0);
  const Int m = b.size('m'), n = b.size('n'), k = b.size('t'), lda = b.size('r');
  const char trans = !b.options.transpose ? 'N' : is_complex_type<T> ? 'C' : 'T';
  with_workspace<T>(b, [&](T* work, Int lwork) {
    return ormqr(b.options.side, trans, m, n, k, b.input<T>(0), lda, b.input<T>(1), b.output<T>(0),
                 work, lwork);
  });
}

template <class T>
void run_trsm(Batch& b) {
  b.pass(1, 0);
  T alpha(1);
  if (b.options.alpha) std::memcpy(&alpha, b.options.alpha, sizeof alpha);
  if constexpr (!is_complex_type<T>) {
    constexpr Int kSmall = 32, kFewColumns = 4;
    const Int m = b.size('m'), n = b.size('n');
    const bool is_small = (m <= kSmall && n <= kFewColumns) || (m <= kSmallMatrix && n <= m);
    if (b.options.side == 'L' && alpha == T(1) && is_small) {
      for (Int c = 0; c < n; ++c) {
        substitute(b.options.uplo == 'L', b.options.trans != 'N', b.options.diag == 'U', m,
                   b.input<T>(0), b.output<T>(0) + std::size_t(c) * std::size_t(m));
      }
      return;
    }
  }
  const Int m = b.size('m'), n = b.size('n');
  const auto solve = [&](Int columns, T* x) {
    trsm(b.options.side, b.options.uplo, b.options.trans, b.options.diag, m, columns, alpha,
         b.input<T>(0), b.size('a'), x);
  };
  // Columns don't depend on one another. The parts don't depend on how many workers there are.
  constexpr double kLarge = 1e6;
  constexpr Int kColumns = 64;
  if (b.options.side != 'L' || double(m) * double(m) * double(n) < kLarge) {
    return solve(n, b.output<T>(0));
  }
  parallel_for((n + kColumns - 1) / kColumns, [&](std::int64_t part) {
    const Int begin = Int(part) * kColumns;
    solve(std::min(kColumns, n - begin), b.output<T>(0) + std::size_t(begin) * std::size_t(m));
  });
}

template <class T>
void run_gtsv(Batch& b) {
  const Int n = b.size('n');
  b.pass(3, 3);
  for (int slot = 0; slot < 3; ++slot) copy_values<T>(b, slot, slot, n);
  // The lower diagonal's first element stands outside of the matrix.
  *b.output<Int>(4) = gtsv(n, b.size('c'), b.output<T>(0) + (n > 1 ? 1 : 0), b.output<T>(1),
                           b.output<T>(2), b.output<T>(3));
}

/// A singular system: pivots that vanish are moved a little, as for inverse iteration.
template <class T>
void run_perturbed(Batch& b) {
  const Int n = b.size('n'), columns = b.size('c');
  b.pass(3, 0);
  T* const diagonal = b.work->get<T>(0, n);
  T* const upper = b.work->get<T>(1, n);
  T* const lower = b.work->get<T>(2, n);
  T* const second = b.work->get<T>(3, n);
  Int* const pivots = b.work->get<Int>(4, n);
  std::copy_n(b.input<T>(1), n, diagonal);
  std::copy_n(b.input<T>(2), n - 1, upper);
  std::copy_n(b.input<T>(0) + 1, n - 1, lower);
  lagtf(n, diagonal, upper, lower, second, pivots);
  for (Int c = 0; c < columns; ++c) {
    T tolerance = 0;
    lagts(n, diagonal, upper, lower, second, pivots, b.output<T>(0) + std::size_t(c) * n,
          &tolerance);
  }
}

// -- What calls say ------------------------------------------------------------------------------

void decode_nothing(const CallAttributes&, Options*) {}
void decode_trsm(const CallAttributes& a, Options* o) {
  o->side = letter(a, "side");
  o->uplo = letter(a, "uplo");
  o->trans = letter(a, "trans_x");
  o->diag = letter(a, "diag");
}
void decode_ormqr(const CallAttributes& a, Options* o) {
  o->side = a.get<bool>("left", {}) ? 'L' : 'R';
  o->transpose = a.get<bool>("transpose", {});
}
void scalars_nothing(const std::vector<std::int64_t>&, Options*) {}
void scalars_potrf(const std::vector<std::int64_t>& s, Options* o) { o->uplo = s[0] ? 'L' : 'U'; }
void scalars_trsm(const std::vector<std::int64_t>& s, Options* o) {
  o->side = s[0] ? 'L' : 'R';
  o->uplo = s[1] ? 'L' : 'U';
  o->trans = s[2] == 0 ? 'N' : s[2] == 1 ? 'T' : 'C';
  o->diag = s[3] ? 'U' : 'N';
}

std::string misfit_trsm(const Batch& b) {
  if (!one_of(b.options.side, "LR")) return "side must be 'L' or 'R'";
  if (!one_of(b.options.trans, "NTC")) return "trans_x must be 'N', 'T' or 'C'";
  if (!one_of(b.options.diag, "NU")) return "diag must be 'N' or 'U'";
  const char needed = b.options.side == 'L' ? 'm' : 'n';
  if (b.size('a') != b.size(needed)) {
    return "the triangular matrix has " + std::to_string(b.size('a')) +
           " rows, and the right-hand " + "side " + std::to_string(b.size(needed)) +
           (needed == 'm' ? " rows" : " columns");
  }
  return misfit_uplo(b);
}
std::string misfit_orgqr(const Batch& b) {
  if (b.size('t') <= b.size('n') && b.size('n') <= b.size('m')) return "";
  return "of " + std::to_string(b.size('t')) + " reflectors of length " +
         std::to_string(b.size('m')) + " " + std::to_string(b.size('n')) + " columns can't be made";
}
std::string misfit_ormqr(const Batch& b) {
  const char* const side = b.options.side == 'L' ? "rows" : "columns";
  const Int length = b.options.side == 'L' ? b.size('m') : b.size('n');
  if (b.size('r') != length || b.size('q') < b.size('t') || b.size('t') > length) {
    return "reflectors of length " + std::to_string(b.size('r')) + " don't fit a matrix of " +
           std::to_string(length) + " " + side;
  }
  return "";
}

void add_factorizations(std::vector<Routine>* out) {
  add(out,
      {.name = "lapack_?potrf_ffi",
       .operands = "T0:n,n",
       .results = "T0:n,n i1:",
       .decode = decode_uplo,
       .misfit = misfit_uplo,
       .run = TESSERA_FOR_ALL(run_potrf),
       .cost = 0.33},
      {.operands = "S S S T0:n,n", .results = "T0:n,n i1:", .decode = scalars_potrf});
  add(out,
      {.name = "lapack_?getrf_ffi",
       .operands = "T0:m,n",
       .results = "T0:m,n i1:k i2:",
       .decode = decode_nothing,
       .run = TESSERA_FOR_ALL(run_getrf)},
      {.operands = "S S S T0:m,n", .results = "T0:m,n i1:k i2:", .decode = scalars_nothing});
  add(out,
      {.name = "lapack_?geqrf_ffi",
       .operands = "T0:m,n",
       .results = "T0:m,n T1:k",
       .decode = decode_nothing,
       .run = TESSERA_FOR_ALL(run_geqrf),
       .cost = 2},
      {.operands = "S S S S T0:m,n", .results = "T0:m,n T1:k i2: W", .decode = scalars_nothing});
  add(out, {.name = "lapack_?geqp3_ffi",
            .operands = "T0:m,n i1:n",
            .results = "T0:m,n i1:n T2:k",
            .decode = decode_nothing,
            .run = TESSERA_FOR_ALL(run_geqp3),
            .cost = 4});
}

void add_products_of_reflectors(std::vector<Routine>* out) {
  add(out,
      {.name = "lapack_?orgqr_ffi",
       .complex_name = "lapack_?ungqr_ffi",
       .operands = "T0:m,n T1:t",
       .results = "T0:m,n",
       .decode = decode_nothing,
       .misfit = misfit_orgqr,
       .run = TESSERA_FOR_ALL(run_orgqr),
       .cost = 2},
      {.operands = "S S S S S T0:m,n T1:t", .results = "T0:m,n i1: W", .decode = scalars_nothing});
  add(out, {.name = "lapack_?ormqr_ffi",
            .complex_name = "lapack_?unmqr_ffi",
            .operands = "T0:r,q T1:t T2:m,n",
            .results = "T0:m,n",
            .decode = decode_ormqr,
            .misfit = misfit_ormqr,
            .run = TESSERA_FOR_ALL(run_ormqr),
            .cost = 4});
}

void add_substitutions(std::vector<Routine>* out) {
  add(out,
      {.name = "lapack_?trsm_ffi",
       .operands = "T0:a,a T1:m,n",
       .results = "T0:m,n",
       .decode = decode_trsm,
       .misfit = misfit_trsm,
       .run = TESSERA_FOR_ALL(run_trsm)},
      {.name = "blas_?trsm",
       .operands = "S S S S S S S A T0:a,a T1:m,n",
       .results = "T0:m,n",
       .decode = scalars_trsm});
  add(out, {.name = "lapack_?gtsv_ffi",
            .operands = "T0:n T1:n T2:n T3:n,*c",
            .results = "T0:n T1:n T2:n T3:n,*c i4:",
            .decode = decode_nothing,
            .run = TESSERA_FOR_ALL(run_gtsv),
            .cost = 0.1});
  add(out, {.name = "tridiagonal_solve_perturbed_ffi",
            .operands = "T0:n T1:n T2:n T3:n,*c",
            .results = "T0:n,*c",
            .decode = decode_nothing,
            .run = {run_perturbed<float>, run_perturbed<double>, nullptr, nullptr},
            .cost = 0.1});
}

}  // namespace

std::vector<Routine> solvers() {
  std::vector<Routine> out;
  add_factorizations(&out);
  add_products_of_reflectors(&out);
  add_substitutions(&out);
  return out;
}

}  // namespace tessera::codegen::lapack
