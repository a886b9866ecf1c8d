// SPDX-License-Identifier: Apache-2.0
// LAPACK's Fortran routines that custom calls need, overloaded by element type. Characters pass
// their lengths at the end, as Fortran compilers do.
#pragma once

#include <complex>
#include <cstddef>

namespace tessera::codegen::lapack {

using Int = int;
using C64 = std::complex<float>;
using C128 = std::complex<double>;
using Len = std::size_t;

// What is named equally for all four types; orgqr, ormqr, sytrd and syevd are named by the type.
#define TESSERA_LAPACK_ALIKE(p, T, R, orgqr_name, ormqr_name, sytrd_name)                          \
  extern "C" {                                                                                     \
  void p##trsm_(const char*, const char*, const char*, const char*, const Int*, const Int*,        \
                const T*, const T*, const Int*, T*, const Int*, Len, Len, Len, Len);               \
  void p##potrf_(const char*, const Int*, T*, const Int*, Int*, Len);                              \
  void p##getrf_(const Int*, const Int*, T*, const Int*, Int*, Int*);                              \
  void p##geqrf_(const Int*, const Int*, T*, const Int*, T*, T*, const Int*, Int*);                \
  void p##orgqr_name##_(const Int*, const Int*, const Int*, T*, const Int*, const T*, T*,          \
                        const Int*, Int*);                                                         \
  void p##ormqr_name##_(const char*, const char*, const Int*, const Int*, const Int*, const T*,    \
                        const Int*, const T*, T*, const Int*, T*, const Int*, Int*, Len, Len);     \
  void p##gehrd_(const Int*, const Int*, const Int*, T*, const Int*, T*, T*, const Int*, Int*);    \
  void p##sytrd_name##_(const char*, const Int*, T*, const Int*, R*, R*, T*, T*, const Int*, Int*, \
                        Len);                                                                      \
  void p##gtsv_(const Int*, const Int*, T*, T*, T*, T*, const Int*, Int*);                         \
  }                                                                                                \
  inline void trsm(char side, char uplo, char trans, char diag, Int m, Int n, T alpha, const T* a, \
                   Int lda, T* b) {                                                                \
    p##trsm_(&side, &uplo, &trans, &diag, &m, &n, &alpha, a, &lda, b, &m, 1, 1, 1, 1);             \
  }                                                                                                \
  inline Int potrf(char uplo, Int n, T* a) {                                                       \
    Int info = 0;                                                                                  \
    p##potrf_(&uplo, &n, a, &n, &info, 1);                                                         \
    return info;                                                                                   \
  }                                                                                                \
  inline Int getrf(Int m, Int n, T* a, Int* pivots) {                                              \
    Int info = 0;                                                                                  \
    p##getrf_(&m, &n, a, &m, pivots, &info);                                                       \
    return info;                                                                                   \
  }                                                                                                \
  inline Int geqrf(Int m, Int n, T* a, T* tau, T* work, Int lwork) {                               \
    Int info = 0;                                                                                  \
    p##geqrf_(&m, &n, a, &m, tau, work, &lwork, &info);                                            \
    return info;                                                                                   \
  }                                                                                                \
  inline Int orgqr(Int m, Int n, Int k, T* a, const T* tau, T* work, Int lwork) {                  \
    Int info = 0;                                                                                  \
    p##orgqr_name##_(&m, &n, &k, a, &m, tau, work, &lwork, &info);                                 \
    return info;                                                                                   \
  }                                                                                                \
  inline Int ormqr(char side, char trans, Int m, Int n, Int k, const T* a, Int lda, const T* tau,  \
                   T* c, T* work, Int lwork) {                                                     \
    Int info = 0;                                                                                  \
    p##ormqr_name##_(&side, &trans, &m, &n, &k, a, &lda, tau, c, &m, work, &lwork, &info, 1, 1);   \
    return info;                                                                                   \
  }                                                                                                \
  inline Int gehrd(Int n, Int low, Int high, T* a, T* tau, T* work, Int lwork) {                   \
    Int info = 0;                                                                                  \
    p##gehrd_(&n, &low, &high, a, &n, tau, work, &lwork, &info);                                   \
    return info;                                                                                   \
  }                                                                                                \
  inline Int sytrd(char uplo, Int n, T* a, R* d, R* e, T* tau, T* work, Int lwork) {               \
    Int info = 0;                                                                                  \
    p##sytrd_name##_(&uplo, &n, a, &n, d, e, tau, work, &lwork, &info, 1);                         \
    return info;                                                                                   \
  }                                                                                                \
  inline Int gtsv(Int n, Int columns, T* dl, T* d, T* du, T* b) {                                  \
    Int info = 0;                                                                                  \
    p##gtsv_(&n, &columns, dl, d, du, b, &n, &info);                                               \
    return info;                                                                                   \
  }

TESSERA_LAPACK_ALIKE(s, float, float, orgqr, ormqr, sytrd)
TESSERA_LAPACK_ALIKE(d, double, double, orgqr, ormqr, sytrd)
TESSERA_LAPACK_ALIKE(c, C64, float, ungqr, unmqr, hetrd)
TESSERA_LAPACK_ALIKE(z, C128, double, ungqr, unmqr, hetrd)
#undef TESSERA_LAPACK_ALIKE

// Real types: eigenvalues in two parts, no real workspace. `rwork` is there for one form of call.
#define TESSERA_LAPACK_REAL(p, T)                                                                  \
  extern "C" {                                                                                     \
  void p##geqp3_(const Int*, const Int*, T*, const Int*, Int*, T*, T*, const Int*, Int*);          \
  void p##gesdd_(const char*, const Int*, const Int*, T*, const Int*, T*, T*, const Int*, T*,      \
                 const Int*, T*, const Int*, Int*, Int*, Len);                                     \
  void p##gesvd_(const char*, const char*, const Int*, const Int*, T*, const Int*, T*, T*,         \
                 const Int*, T*, const Int*, T*, const Int*, Int*, Len, Len);                      \
  void p##syevd_(const char*, const char*, const Int*, T*, const Int*, T*, T*, const Int*, Int*,   \
                 const Int*, Int*, Len, Len);                                                      \
  void p##geev_(const char*, const char*, const Int*, T*, const Int*, T*, T*, T*, const Int*, T*,  \
                const Int*, T*, const Int*, Int*, Len, Len);                                       \
  void p##gees_(const char*, const char*, void*, const Int*, T*, const Int*, Int*, T*, T*, T*,     \
                const Int*, T*, const Int*, void*, Int*, Len, Len);                                \
  void p##lagtf_(const Int*, T*, const T*, T*, T*, const T*, T*, Int*, Int*);                      \
  void p##lagts_(const Int*, const Int*, const T*, const T*, const T*, const T*, const Int*, T*,   \
                 T*, Int*);                                                                        \
  }                                                                                                \
  inline Int geqp3(Int m, Int n, T* a, Int* pivots, T* tau, T* work, Int lwork, T*) {              \
    Int info = 0;                                                                                  \
    p##geqp3_(&m, &n, a, &m, pivots, tau, work, &lwork, &info);                                    \
    return info;                                                                                   \
  }                                                                                                \
  inline Int gesdd(char mode, Int m, Int n, T* a, T* s, T* u, T* vt, Int ldvt, T* work, Int lwork, \
                   T*, Int* iwork) {                                                               \
    Int info = 0;                                                                                  \
    p##gesdd_(&mode, &m, &n, a, &m, s, u, &m, vt, &ldvt, work, &lwork, iwork, &info, 1);           \
    return info;                                                                                   \
  }                                                                                                \
  inline Int gesvd(char mode, Int m, Int n, T* a, T* s, T* u, T* vt, Int ldvt, T* work, Int lwork, \
                   T*) {                                                                           \
    Int info = 0;                                                                                  \
    p##gesvd_(&mode, &mode, &m, &n, a, &m, s, u, &m, vt, &ldvt, work, &lwork, &info, 1, 1);        \
    return info;                                                                                   \
  }                                                                                                \
  inline Int syevd(char mode, char uplo, Int n, T* a, T* w, T* work, Int lwork, T*, Int,           \
                   Int* iwork, Int liwork) {                                                       \
    Int info = 0;                                                                                  \
    p##syevd_(&mode, &uplo, &n, a, &n, w, work, &lwork, iwork, &liwork, &info, 1, 1);              \
    return info;                                                                                   \
  }                                                                                                \
  inline Int geev(char left, char right, Int n, T* a, T* wr, T* wi, T* vl, T* vr, T* work,         \
                  Int lwork) {                                                                     \
    Int info = 0;                                                                                  \
    p##geev_(&left, &right, &n, a, &n, wr, wi, vl, &n, vr, &n, work, &lwork, &info, 1, 1);         \
    return info;                                                                                   \
  }                                                                                                \
  inline Int gees(char mode, Int n, T* a, Int* sdim, T* wr, T* wi, T* vs, T* work, Int lwork,      \
                  T*) {                                                                            \
    Int info = 0;                                                                                  \
    const char sort = 'N';                                                                         \
    p##gees_(&mode, &sort, nullptr, &n, a, &n, sdim, wr, wi, vs, &n, work, &lwork, nullptr, &info, \
             1, 1);                                                                                \
    return info;                                                                                   \
  }                                                                                                \
  inline Int lagtf(Int n, T* a, T* b, T* c, T* d, Int* in) {                                       \
    Int info = 0;                                                                                  \
    const T zero = 0;                                                                              \
    p##lagtf_(&n, a, &zero, b, c, &zero, d, in, &info);                                            \
    return info;                                                                                   \
  }                                                                                                \
  inline Int lagts(Int n, const T* a, const T* b, const T* c, const T* d, const Int* in, T* y,     \
                   T* tolerance) {                                                                 \
    Int info = 0;                                                                                  \
    const Int perturb = -1;                                                                        \
    p##lagts_(&perturb, &n, a, b, c, d, in, y, tolerance, &info);                                  \
    return info;                                                                                   \
  }

TESSERA_LAPACK_REAL(s, float)
TESSERA_LAPACK_REAL(d, double)
#undef TESSERA_LAPACK_REAL

#define TESSERA_LAPACK_COMPLEX(p, T, R)                                                            \
  extern "C" {                                                                                     \
  void p##geqp3_(const Int*, const Int*, T*, const Int*, Int*, T*, T*, const Int*, R*, Int*);      \
  void p##gesdd_(const char*, const Int*, const Int*, T*, const Int*, R*, T*, const Int*, T*,      \
                 const Int*, T*, const Int*, R*, Int*, Int*, Len);                                 \
  void p##gesvd_(const char*, const char*, const Int*, const Int*, T*, const Int*, R*, T*,         \
                 const Int*, T*, const Int*, T*, const Int*, R*, Int*, Len, Len);                  \
  void p##heevd_(const char*, const char*, const Int*, T*, const Int*, R*, T*, const Int*, R*,     \
                 const Int*, Int*, const Int*, Int*, Len, Len);                                    \
  void p##geev_(const char*, const char*, const Int*, T*, const Int*, T*, T*, const Int*, T*,      \
                const Int*, T*, const Int*, R*, Int*, Len, Len);                                   \
  void p##gees_(const char*, const char*, void*, const Int*, T*, const Int*, Int*, T*, T*,         \
                const Int*, T*, const Int*, R*, void*, Int*, Len, Len);                            \
  }                                                                                                \
  inline Int geqp3(Int m, Int n, T* a, Int* pivots, T* tau, T* work, Int lwork, R* rwork) {        \
    Int info = 0;                                                                                  \
    p##geqp3_(&m, &n, a, &m, pivots, tau, work, &lwork, rwork, &info);                             \
    return info;                                                                                   \
  }                                                                                                \
  inline Int gesdd(char mode, Int m, Int n, T* a, R* s, T* u, T* vt, Int ldvt, T* work, Int lwork, \
                   R* rwork, Int* iwork) {                                                         \
    Int info = 0;                                                                                  \
    p##gesdd_(&mode, &m, &n, a, &m, s, u, &m, vt, &ldvt, work, &lwork, rwork, iwork, &info, 1);    \
    return info;                                                                                   \
  }                                                                                                \
  inline Int gesvd(char mode, Int m, Int n, T* a, R* s, T* u, T* vt, Int ldvt, T* work, Int lwork, \
                   R* rwork) {                                                                     \
    Int info = 0;                                                                                  \
    p##gesvd_(&mode, &mode, &m, &n, a, &m, s, u, &m, vt, &ldvt, work, &lwork, rwork, &info, 1, 1); \
    return info;                                                                                   \
  }                                                                                                \
  inline Int syevd(char mode, char uplo, Int n, T* a, R* w, T* work, Int lwork, R* rwork,          \
                   Int lrwork, Int* iwork, Int liwork) {                                           \
    Int info = 0;                                                                                  \
    p##heevd_(&mode, &uplo, &n, a, &n, w, work, &lwork, rwork, &lrwork, iwork, &liwork, &info, 1,  \
              1);                                                                                  \
    return info;                                                                                   \
  }                                                                                                \
  inline Int geev(char left, char right, Int n, T* a, T* w, T* vl, T* vr, T* work, Int lwork,      \
                  R* rwork) {                                                                      \
    Int info = 0;                                                                                  \
    p##geev_(&left, &right, &n, a, &n, w, vl, &n, vr, &n, work, &lwork, rwork, &info, 1, 1);       \
    return info;                                                                                   \
  }                                                                                                \
  inline Int gees(char mode, Int n, T* a, Int* sdim, T* w, T*, T* vs, T* work, Int lwork,          \
                  R* rwork) {                                                                      \
    Int info = 0;                                                                                  \
    const char sort = 'N';                                                                         \
    p##gees_(&mode, &sort, nullptr, &n, a, &n, sdim, w, vs, &n, work, &lwork, rwork, nullptr,      \
             &info, 1, 1);                                                                         \
    return info;                                                                                   \
  }

TESSERA_LAPACK_COMPLEX(c, C64, float)
TESSERA_LAPACK_COMPLEX(z, C128, double)
#undef TESSERA_LAPACK_COMPLEX

}  // namespace tessera::codegen::lapack
