// SPDX-License-Identifier: Apache-2.0
// The passes of a transform of several lines at once: line l is element l of each vector.
// Elements of lines are pairs of vectors, of real and of imaginary parts.
#pragma once

#include "src/codegen/kernels/fft/fft_plan.h"
#include "src/codegen/kernels/vectors.h"

namespace tessera::codegen {

template <class T, int bytes>
struct FftPasses {
  using Simd = Vectors<T, bytes>;
  using V = typename Simd::V;
  struct C {
    V re, im;
  };
  using Plan = LanePlan<T>;
  using Pass = typename Plan::Pass;

  static TESSERA_INLINE C plus(C a, C b) { return {a.re + b.re, a.im + b.im}; }
  static TESSERA_INLINE C minus(C a, C b) { return {a.re - b.re, a.im - b.im}; }
  /// Times -i.
  static TESSERA_INLINE C turned(C a) { return {a.im, -a.re}; }
  static TESSERA_INLINE C times(C a, T re, T im) {
    return {a.re * re - a.im * im, a.re * im + a.im * re};
  }
  static TESSERA_INLINE C times(C a, T x) { return {a.re * x, a.im * x}; }

  static TESSERA_INLINE void four(C& a0, C& a1, C& a2, C& a3) {
    const C t0 = plus(a0, a2), t1 = minus(a0, a2), t2 = plus(a1, a3), t3 = turned(minus(a1, a3));
    a0 = plus(t0, t2);
    a1 = plus(t1, t3);
    a2 = minus(t0, t2);
    a3 = minus(t1, t3);
  }

  /// A transform of `radix` elements.
  template <int radix>
  static TESSERA_INLINE void butterfly(C* a) {
    if constexpr (radix == 2) {
      const C t = a[0];
      a[0] = plus(t, a[1]);
      a[1] = minus(t, a[1]);
    } else if constexpr (radix == 3) {
      const C sum = plus(a[1], a[2]);
      const C turn = turned(times(minus(a[1], a[2]), T(0.86602540378443864676)));
      const C middle = minus(a[0], times(sum, T(0.5)));
      a[0] = plus(a[0], sum);
      a[1] = plus(middle, turn);
      a[2] = minus(middle, turn);
    } else if constexpr (radix == 4) {
      four(a[0], a[1], a[2], a[3]);
    } else if constexpr (radix == 5) {
      constexpr T c1 = T(0.30901699437494742410), c2 = T(-0.80901699437494742410);
      constexpr T s1 = T(0.95105651629515357212), s2 = T(0.58778525229247312917);
      const C p1 = plus(a[1], a[4]), p2 = plus(a[2], a[3]);
      const C d1 = minus(a[1], a[4]), d2 = minus(a[2], a[3]);
      const C m1 = plus(a[0], plus(times(p1, c1), times(p2, c2)));
      const C m2 = plus(a[0], plus(times(p1, c2), times(p2, c1)));
      const C t1 = turned(plus(times(d1, s1), times(d2, s2)));
      const C t2 = turned(minus(times(d1, s2), times(d2, s1)));
      a[0] = plus(a[0], plus(p1, p2));
      a[1] = plus(m1, t1);
      a[2] = plus(m2, t2);
      a[3] = minus(m2, t2);
      a[4] = minus(m1, t1);
    } else {
      static_assert(radix == 8);
      four(a[0], a[2], a[4], a[6]);
      four(a[1], a[3], a[5], a[7]);
      constexpr T h = T(0.70710678118654752440);
      const C o0 = a[1], o1 = a[3], o2 = turned(a[5]), o3 = a[7];
      const C w1 = times(plus(o1, turned(o1)), h), w3 = times(minus(turned(o3), o3), h);
      const C e0 = a[0], e1 = a[2], e2 = a[4], e3 = a[6];
      a[0] = plus(e0, o0);
      a[1] = plus(e1, w1);
      a[2] = plus(e2, o2);
      a[3] = plus(e3, w3);
      a[4] = minus(e0, o0);
      a[5] = minus(e1, w1);
      a[6] = minus(e2, o2);
      a[7] = minus(e3, w3);
    }
  }

  template <int radix>
  static TESSERA_INLINE void pass(const Pass& p, const T* table, const C* in, C* out) {
    const std::int64_t step = p.m * p.s;
    if (p.m == 1) {
      for (std::int64_t q = 0; q < p.s; ++q) {
        C a[radix];
#pragma GCC unroll 8
        for (int j = 0; j < radix; ++j) a[j] = in[q + j * step];
        butterfly<radix>(a);
#pragma GCC unroll 8
        for (int j = 0; j < radix; ++j) out[q + j * p.s] = a[j];
      }
      return;
    }
    const T* w = table + p.twiddles;
    for (std::int64_t k = 0; k < p.m; ++k, w += 2 * (radix - 1)) {
      const C* from = in + k * p.s;
      C* to = out + k * p.s * radix;
      for (std::int64_t q = 0; q < p.s; ++q) {
        C a[radix];
#pragma GCC unroll 8
        for (int j = 0; j < radix; ++j) a[j] = from[q + j * step];
        butterfly<radix>(a);
        to[q] = a[0];
#pragma GCC unroll 8
        for (int j = 1; j < radix; ++j) {
          to[q + j * p.s] = times(a[j], w[2 * j - 2], w[2 * j - 1]);
        }
      }
    }
  }

  /// An odd radix by its definition; pairs of terms of opposite angles are taken together.
  static TESSERA_INLINE void any_pass(const Pass& p, const T* table, const C* in, C* out) {
    const std::int64_t step = p.m * p.s, half = (p.radix - 1) / 2;
    const T* roots = table + p.roots;
    const T* w = table + p.twiddles;
    C sums[kMaxRadix / 2], differences[kMaxRadix / 2];
    for (std::int64_t k = 0; k < p.m; ++k, w += 2 * (p.radix - 1)) {
      for (std::int64_t q = 0; q < p.s; ++q) {
        const C* from = in + k * p.s + q;
        C* to = out + k * p.s * p.radix + q;
        const C first = from[0];
        C all = first;
        for (std::int64_t j = 1; j <= half; ++j) {
          const C a = from[j * step], b = from[(p.radix - j) * step];
          sums[j - 1] = plus(a, b);
          differences[j - 1] = minus(a, b);
          all = plus(all, sums[j - 1]);
        }
        to[0] = all;
        for (std::int64_t f = 1; f <= half; ++f) {
          C even = first, odd = {V{}, V{}};
          for (std::int64_t j = 1, at = f; j <= half; ++j, at += f) {
            if (at >= p.radix) at -= p.radix;
            even = plus(even, times(sums[j - 1], roots[2 * at]));
            // Roots have the sines of negative angles.
            odd = plus(odd, times(differences[j - 1], -roots[2 * at + 1]));
          }
          odd = turned(odd);
          C low = plus(even, odd), high = minus(even, odd);
          if (p.m > 1) {
            const T* wl = w + 2 * (f - 1);
            const T* wh = w + 2 * (p.radix - f - 1);
            low = times(low, wl[0], wl[1]);
            high = times(high, wh[0], wh[1]);
          }
          to[f * p.s] = low;
          to[(p.radix - f) * p.s] = high;
        }
      }
    }
  }

  /// Transforms [n] in x, with y as scratch; returns which of them has the result.
  static TESSERA_INLINE C* run(const Plan& plan, C* x, C* y) {
    for (const Pass& p : plan.passes) {
      const T* table = plan.table.data();
      switch (p.radix) {
        case 2:
          pass<2>(p, table, x, y);
          break;
        case 3:
          pass<3>(p, table, x, y);
          break;
        case 4:
          pass<4>(p, table, x, y);
          break;
        case 5:
          pass<5>(p, table, x, y);
          break;
        case 8:
          pass<8>(p, table, x, y);
          break;
        default:
          any_pass(p, table, x, y);
      }
      C* t = x;
      x = y;
      y = t;
    }
    return x;
  }
};

}  // namespace tessera::codegen
