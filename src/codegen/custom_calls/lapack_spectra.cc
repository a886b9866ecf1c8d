// SPDX-License-Identifier: Apache-2.0
// Eigenvalues, singular values, Schur and Hessenberg forms.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "src/codegen/custom_calls/lapack_routine.h"

namespace tessera::codegen::lapack {
namespace {

template <class T>
std::int64_t area(const Batch& b, char rows, char columns) {
  return b.sizes[std::size_t(rows)] * b.sizes[std::size_t(columns)];
}

/// gesdd (divide and conquer) or gesvd.
template <class T, bool by_parts>
void run_svd(Batch& b) {
  const Int m = b.size('m'), n = b.size('n'), k = b.size('k');
  const char mode = b.options.mode;
  T* const a = b.input<T>(0);
  auto* const s = b.output<real_of<T>>(1);
  T* const u = b.output<T>(2);
  T* const vt = b.output<T>(3);
  const Int ldvt = std::max<Int>(1, b.size('v'));
  if (mode == 'N') {
    std::fill_n(u, area<T>(b, 'm', 'u'), T(0));
    std::fill_n(vt, area<T>(b, 'v', 'n'), T(0));
  }
  const std::int64_t small = k, large = std::max(m, n);
  // What gesdd's manual asks for; gesvd needs 5k.
  const std::int64_t reals =
      small * std::max<std::int64_t>({7, 5 * small + 7, 2 * large + 2 * small + 1});
  real_of<T>* rwork = nullptr;
  if constexpr (is_complex_type<T>) rwork = b.work->get<real_of<T>>(1, reals);
  Int* const iwork = b.work->get<Int>(2, 8 * small);
  *b.output<Int>(4) = with_workspace<T>(b, [&](T* work, Int lwork) {
    if constexpr (by_parts) {
      return gesdd(mode, m, n, a, s, u, vt, ldvt, work, lwork, rwork, iwork);
    } else {
      return gesvd(mode, m, n, a, s, u, vt, ldvt, work, lwork, rwork);
    }
  });
  b.pass(0, 0);
}
template <class T>
void run_gesdd(Batch& b) {
  run_svd<T, true>(b);
}
template <class T>
void run_gesvd(Batch& b) {
  run_svd<T, false>(b);
}

template <class T>
void run_syevd(Batch& b) {
  b.pass(0, 0);
  using R = real_of<T>;
  const Int n = b.size('n');
  T* const a = b.output<T>(0);
  R* const w = b.output<R>(1);
  T query(0);
  R real_query(0);
  Int int_query = 0;
  const Options& o = b.options;
  Int info = syevd(o.mode, o.uplo, n, a, w, &query, -1, &real_query, -1, &int_query, -1);
  if (info == 0) {
    const Int lwork = workspace_size(query), lrwork = workspace_size(real_query);
    const Int liwork = std::max<Int>(1, int_query);
    info = syevd(o.mode, o.uplo, n, a, w, b.work->get<T>(0, lwork), lwork,
                 b.work->get<R>(1, lrwork), lrwork, b.work->get<Int>(2, liwork), liwork);
  }
  *b.output<Int>(2) = info;
}

template <class T>
bool all_finite(const T* values, std::int64_t count) {
  return std::all_of(values, values + count, [](const T& v) {
    return std::isfinite(std::real(v)) && std::isfinite(std::imag(v));
  });
}

/// Eigenvectors of a real matrix: a conjugate pair of eigenvalues has the real and the imaginary
/// part in two columns.
template <class R>
void unpack(Int n, const R* imaginary, const R* packed, std::complex<R>* out) {
  for (Int j = 0; j < n; ++j) {
    const R* const re = packed + std::size_t(j) * n;
    std::complex<R>* const first = out + std::size_t(j) * n;
    if (imaginary[j] == R(0) || j + 1 == n) {
      for (Int i = 0; i < n; ++i) first[i] = re[i];
      continue;
    }
    const R* const im = re + n;
    for (Int i = 0; i < n; ++i) {
      first[i] = {re[i], im[i]};
      first[n + i] = {re[i], -im[i]};
    }
    ++j;
  }
}

constexpr Int kNotFinite = -4;

/// Slots: 0 eigenvalues (real parts), 1 imaginary parts, 2 and 3 left and right vectors, 4 info.
template <class T>
void run_geev(Batch& b) {
  using R = real_of<T>;
  const Int n = b.size('n');
  const std::int64_t all = std::int64_t(n) * n;
  T* const a = b.input<T>(0);
  const char left = b.options.left, right = b.options.right;
  if (!all_finite(a, all)) {
    std::fill_n(b.output<T>(0), n, T(0));
    if constexpr (!is_complex_type<T>) std::fill_n(b.output<T>(1), n, T(0));
    for (int slot : {2, 3}) std::fill_n(b.output<std::complex<R>>(slot), all, std::complex<R>(0));
    *b.output<Int>(4) = kNotFinite;
    return;
  }
  if constexpr (is_complex_type<T>) {
    T* const vl = b.output<T>(2);
    T* const vr = b.output<T>(3);
    R* const rwork = b.work->get<R>(1, 2 * std::int64_t(n));
    if (left == 'N') std::fill_n(vl, all, T(0));
    if (right == 'N') std::fill_n(vr, all, T(0));
    *b.output<Int>(4) = with_workspace<T>(b, [&](T* work, Int lwork) {
      return geev(left, right, n, a, b.output<T>(0), vl, vr, work, lwork, rwork);
    });
  } else {
    T* const vl = b.work->get<T>(1, all);
    T* const vr = b.work->get<T>(2, all);
    std::fill_n(vl, all, T(0));
    std::fill_n(vr, all, T(0));
    T* const wr = b.output<T>(0);
    T* const wi = b.output<T>(1);
    *b.output<Int>(4) = with_workspace<T>(b, [&](T* work, Int lwork) {
      return geev(left, right, n, a, wr, wi, vl, vr, work, lwork);
    });
    unpack(n, wi, vl, b.output<std::complex<R>>(2));
    unpack(n, wi, vr, b.output<std::complex<R>>(3));
  }
}

/// Slots: 0 the Schur form, 1 vectors, 2 eigenvalues (real parts), 3 imaginary parts, 4 how many
/// were selected, 5 info.
template <class T>
void run_gees(Batch& b) {
  b.pass(0, 0);
  const Int n = b.size('n');
  T* const a = b.output<T>(0);
  T* const vs = b.output<T>(1);
  T* const w = b.output<T>(2);
  T* wi = nullptr;
  if constexpr (!is_complex_type<T>) wi = b.output<T>(3);
  if (b.options.mode == 'N') std::fill_n(vs, std::int64_t(n) * n, T(0));
  Int* const selected = b.output<Int>(4);
  real_of<T>* rwork = nullptr;
  if constexpr (is_complex_type<T>) rwork = b.work->get<real_of<T>>(1, n);
  *b.output<Int>(5) = with_workspace<T>(b, [&](T* work, Int lwork) {
    return gees(b.options.mode, n, a, selected, w, wi, vs, work, lwork, rwork);
  });
  *selected = 0;
}

template <class T>
void run_gehrd(Batch& b) {
  b.pass(0, 0);
  const Int n = b.size('n'), low = Int(b.options.low);
  const Int high = b.options.high > 0 ? Int(b.options.high) : n;
  *b.output<Int>(2) = with_workspace<T>(b, [&](T* work, Int lwork) {
    return gehrd(n, low, high, b.output<T>(0), b.output<T>(1), work, lwork);
  });
}

template <class T>
void run_sytrd(Batch& b) {
  b.pass(0, 0);
  using R = real_of<T>;
  *b.output<Int>(4) = with_workspace<T>(b, [&](T* work, Int lwork) {
    return sytrd(b.options.uplo, b.size('n'), b.output<T>(0), b.output<R>(1), b.output<R>(2),
                 b.output<T>(3), work, lwork);
  });
}

// -- What calls say ------------------------------------------------------------------------------

void decode_mode(const CallAttributes& a, Options* o) { o->mode = letter(a, "mode"); }
void decode_eigh(const CallAttributes& a, Options* o) {
  o->mode = letter(a, "mode");
  o->uplo = letter(a, "uplo");
}
void decode_geev(const CallAttributes& a, Options* o) {
  o->left = letter(a, "compute_left");
  o->right = letter(a, "compute_right");
}
void decode_gees(const CallAttributes& a, Options* o) {
  o->mode = letter(a, "mode");
  o->sort = letter(a, "sort");
}
void decode_gehrd(const CallAttributes& a, Options* o) {
  o->low = a.get<std::int64_t>("low", {});
  o->high = a.get<std::int64_t>("high", {});
}

using Scalars = std::vector<std::int64_t>;
void scalars_svd(const Scalars& s, Options* o) { o->mode = !s[1] ? 'N' : s[0] ? 'A' : 'S'; }
void scalars_eigh(const Scalars& s, Options* o) {
  o->mode = 'V';
  o->uplo = s[0] ? 'L' : 'U';
}
void scalars_geev(const Scalars& s, Options* o) {
  o->left = char(s[2]);
  o->right = char(s[3]);
}
void scalars_gees(const Scalars& s, Options* o) {
  o->mode = char(s[2]);
  o->sort = char(s[3]);
}
void scalars_gehrd(const Scalars& s, Options* o) {
  o->low = s[1];
  o->high = s[2];
}
void scalars_sytrd(const Scalars& s, Options* o) { o->uplo = s[1] ? 'L' : 'U'; }

std::string misfit_svd(const Batch& b) {
  if (!one_of(b.options.mode, "ASN")) return "mode must be 'A', 'S' or 'N'";
  const Int m = b.size('m'), n = b.size('n'), k = b.size('k');
  const bool whole = b.options.mode == 'A';
  if (b.options.mode == 'N') return "";
  if (b.size('u') == (whole ? m : k) && b.size('v') == (whole ? n : k)) return "";
  return "the singular vectors have " + std::to_string(b.size('u')) + " columns and " +
         std::to_string(b.size('v')) + " rows, and mode '" + std::string(1, b.options.mode) +
         "' gives " + std::to_string(whole ? m : k) + " and " + std::to_string(whole ? n : k);
}
std::string misfit_eigh(const Batch& b) {
  if (!one_of(b.options.mode, "VN")) return "mode must be 'V' or 'N'";
  return misfit_uplo(b);
}
std::string misfit_geev(const Batch& b) {
  if (one_of(b.options.left, "VN") && one_of(b.options.right, "VN")) return "";
  return "compute_left and compute_right must be 'V' or 'N'";
}
std::string misfit_gees(const Batch& b) {
  if (b.options.sort != 'N') return "sorting of eigenvalues isn't possible (sort must be 'N')";
  return one_of(b.options.mode, "VN") ? "" : "mode must be 'V' or 'N'";
}
std::string misfit_gehrd(const Batch& b) {
  const std::int64_t n = b.size('n'), high = b.options.high > 0 ? b.options.high : n;
  if (b.options.low >= 1 && b.options.low <= std::max<std::int64_t>(1, high) && high <= n) {
    return "";
  }
  return "low and high must be in 1.." + std::to_string(n);
}

void add_singular_values(std::vector<Routine>* out) {
  Routine svd{.name = "lapack_?gesdd_ffi",
              .operands = "T0:m,n",
              .results = "T0:m,n R1:k T2:m,u T3:v,n i4:",
              .decode = decode_mode,
              .misfit = misfit_svd,
              .run = TESSERA_FOR_ALL(run_gesdd),
              .cost = 20};
  add(out, svd,
      {.operands = "S S S S S S T0:m,n",
       .results = "T0:m,n R1:k T2:m,u T3:v,n i4: W W",
       .complex_results = "T0:m,n R1:k T2:m,u T3:v,n i4: W W W",
       .decode = scalars_svd});
  svd.name = "lapack_?gesvd_ffi";
  svd.run = TESSERA_FOR_ALL(run_gesvd);
  add(out, std::move(svd));
}

void add_eigenvalues(std::vector<Routine>* out) {
  add(out,
      {.name = "lapack_?syevd_ffi",
       .complex_name = "lapack_?heevd_ffi",
       .operands = "T0:n,n",
       .results = "T0:n,n R1:n i2:",
       .decode = decode_eigh,
       .misfit = misfit_eigh,
       .run = TESSERA_FOR_ALL(run_syevd),
       .cost = 9},
      {.operands = "S S S T0:n,n",
       .results = "T0:n,n R1:n i2: W W",
       .complex_results = "T0:n,n R1:n i2: W W W",
       .decode = scalars_eigh});
  add(out,
      {.name = "lapack_?geev_ffi",
       .operands = "T0:n,n",
       .results = "T0:n T1:n C2:n,n C3:n,n i4:",
       .complex_results = "T0:n C2:n,n C3:n,n i4:",
       .decode = decode_geev,
       .misfit = misfit_geev,
       .run = TESSERA_FOR_ALL(run_geev),
       .cost = 25},
      {.operands = "S S S S T0:n,n",
       .results = "W W W T0:n T1:n C2:n,n C3:n,n i4:",
       .complex_results = "W W T0:n C2:n,n C3:n,n i4:",
       .decode = scalars_geev});
}

void add_schur_forms(std::vector<Routine>* out) {
  add(out,
      {.name = "lapack_?gees_ffi",
       .operands = "T0:n,n",
       .results = "T0:n,n T1:n,n T2:n T3:n i4: i5:",
       .complex_results = "T0:n,n T1:n,n T2:n i4: i5:",
       .decode = decode_gees,
       .misfit = misfit_gees,
       .run = TESSERA_FOR_ALL(run_gees),
       .cost = 25},
      {.operands = "S S S S T0:n,n",
       .results = "T0:n,n T2:n T3:n T1:n,n i4: i5:",
       .complex_results = "T0:n,n W T2:n T1:n,n i4: i5:",
       .decode = scalars_gees});
  add(out,
      {.name = "lapack_?gehrd_ffi",
       .operands = "T0:n,n",
       .results = "T0:n,n T1:h i2:",
       .decode = decode_gehrd,
       .misfit = misfit_gehrd,
       .run = TESSERA_FOR_ALL(run_gehrd),
       .cost = 4},
      {.operands = "S S S S S S T0:n,n", .results = "T0:n,n T1:h i2: W", .decode = scalars_gehrd});
  add(out,
      {.name = "lapack_?sytrd_ffi",
       .complex_name = "lapack_?hetrd_ffi",
       .operands = "T0:n,n",
       .results = "T0:n,n R1:n R2:h T3:h i4:",
       .decode = decode_uplo,
       .misfit = misfit_uplo,
       .run = TESSERA_FOR_ALL(run_sytrd),
       .cost = 3},
      {.operands = "S S S S S T0:n,n",
       .results = "T0:n,n R1:n R2:h T3:h i4: W",
       .decode = scalars_sytrd});
}

}  // namespace

std::vector<Routine> spectra() {
  std::vector<Routine> out;
  add_singular_values(&out);
  add_eigenvalues(&out);
  add_schur_forms(&out);
  return out;
}

}  // namespace tessera::codegen::lapack
