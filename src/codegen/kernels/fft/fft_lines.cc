// SPDX-License-Identifier: Apache-2.0
// Compiled alone: versions of it for several instruction sets.
// Fourier transforms of lines and columns, several at once.
#include "src/codegen/kernels/fft/fft_lines.h"

#include <algorithm>
#include <cstddef>

#include "src/codegen/kernels/fft/fft_passes.h"
#include "src/codegen/kernels/loops/fused_loop.h"

namespace tessera::codegen {
namespace {

/// Transforms plan->n elements of a vector of lines from x, with y as scratch; `result` is where
/// they are then.
template <class T>
struct LanesJob {
  const LanePlan<T>* plan;
  T* x;
  T* y;
  T** result;
};
template <class T, int bytes>
TESSERA_INLINE void run_lanes(const LanesJob<T>& job) {
  using Passes = FftPasses<T, bytes>;
  using C = typename Passes::C;
  C* result = Passes::run(*job.plan, reinterpret_cast<C*>(job.x), reinterpret_cast<C*>(job.y));
  *job.result = reinterpret_cast<T*>(result);
}
TESSERA_VERSIONS(lanes_version, run_lanes, LanesJob<T>)

template <class T, int bytes>
struct Lines {
  using Simd = Vectors<T, bytes>;
  using V = typename Simd::V;
  static constexpr int kLanes = Simd::kLanes;

  /// Vectors of elements, real and imaginary parts in turn, and as much scratch.
  struct Work {
    V* x;
    V* y;
    TESSERA_INLINE void run(const LanePlan<T>& plan) {
      T* result;
      lanes_version<T>()({&plan, reinterpret_cast<T*>(x), reinterpret_cast<T*>(y), &result});
      if (result != reinterpret_cast<T*>(x)) std::swap(x, y);
    }
  };
  static constexpr std::size_t work_bytes(std::int64_t n) {
    return std::size_t((n + kLanes) * 2 * bytes);
  }

  /// Asks for elements of lines that come later: only streams of neighbours are fetched unasked.
  static TESSERA_INLINE void ask_to_read(const T* at, std::int64_t later) {
    __builtin_prefetch(at + later, 0, 2);
  }
  static TESSERA_INLINE void ask_to_write(const T* at, std::int64_t later) {
    __builtin_prefetch(at + later, 1, 2);
  }

  /// What is asked for while a line is worked on, some at a time.
  struct Ahead {
    const T* in;  ///< null if nothing is
    const T* out;
    std::int64_t left, each;
    TESSERA_INLINE void ask() {
      constexpr std::int64_t kLine = 64 / std::int64_t(sizeof(T));
      const std::int64_t now = std::min(each, left);
      for (std::int64_t n = 0; n < now; n += kLine) {
        if (in != nullptr) ask_to_read(in, n);
        if (out != nullptr) ask_to_write(out, n);
      }
      left -= now;
      if (in != nullptr) in += now;
      if (out != nullptr) out += now;
    }
  };

  /// Element j of line l is at from[l] + 2 j. `later`: as much further on are lines that are loaded
  /// next, unless it is 0. Transforming back is transforming with real and
  /// imaginary parts swapped, which loads and stores do.
  static TESSERA_INLINE void load_lines(const T* const* from, std::int64_t n, bool swap,
                                        std::int64_t later, V* x) {
    constexpr int kStep = kLanes / 2;
    std::int64_t j = 0;
    for (; j + kStep <= n; j += kStep) {
      V rows[kLanes];
#pragma GCC unroll 16
      for (int l = 0; l < kLanes; ++l) {
        rows[l] = Simd::load(from[l] + 2 * j);
        if (later != 0) ask_to_read(from[l] + 2 * j, later);
      }
      Simd::transpose(rows);
#pragma GCC unroll 16
      for (int c = 0; c < kLanes; ++c) x[2 * j + (c ^ int(swap))] = rows[c];
    }
    for (; j < n; ++j) {
      for (int l = 0; l < kLanes; ++l) {
        x[2 * j + int(swap)][l] = from[l][2 * j];
        x[2 * j + int(!swap)][l] = from[l][2 * j + 1];
      }
    }
  }
  static TESSERA_INLINE void store_lines(const V* x, std::int64_t n, bool swap, T scale,
                                         std::int64_t lines, std::int64_t later, T* const* to) {
    constexpr int kStep = kLanes / 2;
    std::int64_t j = 0;
    for (; j + kStep <= n; j += kStep) {
      V rows[kLanes];
#pragma GCC unroll 16
      for (int c = 0; c < kLanes; ++c) rows[c] = x[2 * j + (c ^ int(swap))] * scale;
      Simd::transpose(rows);
#pragma GCC unroll 16
      for (int l = 0; l < kLanes; ++l) {
        if (l < lines) Simd::store(to[l] + 2 * j, rows[l]);
        if (later != 0) ask_to_write(to[l] + 2 * j, later);
      }
    }
    for (; j < n; ++j) {
      for (int l = 0; l < lines; ++l) {
        to[l][2 * j] = x[2 * j + int(swap)][l] * scale;
        to[l][2 * j + 1] = x[2 * j + int(!swap)][l] * scale;
      }
    }
  }

  /// Element i of column l is at from + 2 (i * stride + l).
  static TESSERA_INLINE void load_columns(const T* from, std::int64_t n, std::int64_t stride,
                                          std::int64_t columns, bool swap, std::int64_t later,
                                          V* x) {
    for (std::int64_t i = 0; i < n; ++i, from += 2 * stride, x += 2) {
      if (columns >= kLanes) {
        const V a = Simd::load(from), b = Simd::load(from + kLanes);
        if (later != 0) {
          ask_to_read(from, later);
          ask_to_read(from + kLanes, later);
        }
        x[int(swap)] = Simd::even(a, b);
        x[int(!swap)] = Simd::odd(a, b);
        continue;
      }
      V re = {}, im = {};
      for (int l = 0; l < columns; ++l) {
        re[l] = from[2 * l];
        im[l] = from[2 * l + 1];
      }
      x[int(swap)] = re;
      x[int(!swap)] = im;
    }
  }
  static TESSERA_INLINE void store_columns(const V* x, std::int64_t n, std::int64_t stride,
                                           std::int64_t columns, bool swap, T scale,
                                           std::int64_t later, T* to) {
    for (std::int64_t i = 0; i < n; ++i, to += 2 * stride, x += 2) {
      const V re = x[int(swap)] * scale, im = x[int(!swap)] * scale;
      if (columns >= kLanes) {
        Simd::store(to, Simd::zip_low(re, im));
        Simd::store(to + kLanes, Simd::zip_high(re, im));
        if (later != 0) {
          ask_to_write(to, later);
          ask_to_write(to + kLanes, later);
        }
        continue;
      }
      for (int l = 0; l < columns; ++l) {
        to[2 * l] = re[l];
        to[2 * l + 1] = im[l];
      }
    }
  }

  /// Some lines at once.
  static TESSERA_INLINE void by_lanes(const LineJob<T>& job) {
    const std::int64_t n = job.plan->n;
    const ScratchMemory a(work_bytes(n)), b(work_bytes(n));
    for (std::int64_t first = 0; first < job.count; first += kLanes) {
      const std::int64_t lines = std::min<std::int64_t>(kLanes, job.count - first);
      const T* from[kLanes];
      T* to[kLanes];
      for (int l = 0; l < kLanes; ++l) {
        // Where there is no line, the first one is transformed once more.
        const std::int64_t line = first + (l < lines ? l : 0);
        from[l] = job.in + 2 * line * job.in_stride;
        to[l] = job.out + 2 * line * job.out_stride;
      }
      Work work{reinterpret_cast<V*>(a.data()), reinterpret_cast<V*>(b.data())};
      load_lines(from, n, job.inverse, job.reads_on ? 2 * kLanes * job.in_stride : 0, work.x);
      work.run(job.plan->columns);
      store_lines(work.x, n, job.inverse, job.scale, lines,
                  job.writes_on ? 2 * kLanes * job.out_stride : 0, to);
    }
  }

  /// One line at a time, as a matrix: columns, twist, rows (Bailey, FFTs in External or
  /// Hierarchical Memory, 1990).
  static TESSERA_INLINE void by_matrix(const LineJob<T>& job) {
    const LinePlan<T>& plan = *job.plan;
    const std::int64_t rows = plan.columns.n, columns = plan.rows.n, padded = plan.padded;
    const std::int64_t longest = std::max(rows, columns);
    const ScratchMemory a(work_bytes(longest)), b(work_bytes(longest));
    const ScratchMemory matrix(std::size_t(rows * 2 * padded) * sizeof(T));
    T* middle = reinterpret_cast<T*>(matrix.data());
    Work work{reinterpret_cast<V*>(a.data()), reinterpret_cast<V*>(b.data())};
    for (std::int64_t line = 0; line < job.count; ++line) {
      const T* in = job.in + 2 * line * job.in_stride;
      T* out = job.out + 2 * line * job.out_stride;
      const std::int64_t blocks = (columns + kLanes - 1) / kLanes + (rows + kLanes - 1) / kLanes;
      Ahead ahead{job.reads_on ? in + 2 * job.in_stride : nullptr,
                  job.writes_on ? out + 2 * job.out_stride : nullptr, 2 * plan.n,
                  (2 * plan.n / blocks + 15) / 16 * 16};
      for (std::int64_t j = 0; j < columns; j += kLanes) {
        ahead.ask();
        load_columns(in + 2 * j, rows, columns, columns - j, job.inverse, 0, work.x);
        work.run(plan.columns);
        const T* twist = plan.twist.data() + j;
        T* to = middle + j;
        for (std::int64_t k = 0; k < rows; ++k, twist += 2 * padded, to += 2 * padded) {
          const V re = work.x[2 * k], im = work.x[2 * k + 1];
          const V wr = Simd::load(twist), wi = Simd::load(twist + padded);
          Simd::store(to, re * wr - im * wi);
          Simd::store(to + padded, re * wi + im * wr);
        }
      }
      for (std::int64_t k = 0; k < rows; k += kLanes) {
        ahead.ask();
        for (std::int64_t j = 0; j < columns; j += kLanes) {
          for (int part = 0; part < 2; ++part) {
            V t[kLanes];
#pragma GCC unroll 16
            for (int l = 0; l < kLanes; ++l) {
              const std::int64_t row = std::min(k + l, rows - 1);
              t[l] = Simd::load(middle + (2 * row + part) * padded + j);
            }
            Simd::transpose(t);
#pragma GCC unroll 16
            for (int c = 0; c < kLanes; ++c) work.x[2 * (j + c) + part] = t[c];
          }
        }
        work.run(plan.rows);
        store_columns(work.x, columns, rows, rows - k, job.inverse, job.scale, 0, out + 2 * k);
      }
    }
  }

  static TESSERA_INLINE void multiply(const T* a, const T* b, std::int64_t n, T scale, T* out) {
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      const V a0 = Simd::load(a + 2 * i), a1 = Simd::load(a + 2 * i + kLanes);
      const V b0 = Simd::load(b + 2 * i), b1 = Simd::load(b + 2 * i + kLanes);
      const V ar = Simd::even(a0, a1), ai = Simd::odd(a0, a1);
      const V br = Simd::even(b0, b1), bi = Simd::odd(b0, b1);
      const V re = (ar * br - ai * bi) * scale, im = (ar * bi + ai * br) * scale;
      Simd::store(out + 2 * i, Simd::zip_low(re, im));
      Simd::store(out + 2 * i + kLanes, Simd::zip_high(re, im));
    }
    for (; i < n; ++i) {
      const T ar = a[2 * i], ai = a[2 * i + 1], br = b[2 * i], bi = b[2 * i + 1];
      out[2 * i] = (ar * br - ai * bi) * scale;
      out[2 * i + 1] = (ar * bi + ai * br) * scale;
    }
  }
  static TESSERA_INLINE void swap_parts(const T* in, std::int64_t n, T* out) {
    for (std::int64_t i = 0; i < n; ++i) {
      const T re = in[2 * i], im = in[2 * i + 1];
      out[2 * i] = im;
      out[2 * i + 1] = re;
    }
  }

  /// One line at a time, by a convolution (Bluestein, 1970).
  static TESSERA_INLINE void by_chirp(const LineJob<T>& job) {
    const LinePlan<T>& plan = *job.plan;
    const std::int64_t n = plan.n, m = plan.inner->n;
    const ScratchMemory a(std::size_t(m) * 2 * sizeof(T)), b(std::size_t(m) * 2 * sizeof(T));
    T* x = reinterpret_cast<T*>(a.data());
    T* y = reinterpret_cast<T*>(b.data());
    LineJob<T> inner;
    inner.plan = plan.inner.get();
    for (std::int64_t line = 0; line < job.count; ++line) {
      const T* in = job.in + 2 * line * job.in_stride;
      T* out = job.out + 2 * line * job.out_stride;
      if (job.inverse) {
        swap_parts(in, n, y);
        in = y;
      }
      multiply(in, plan.chirp.data(), n, 1, x);
      std::fill(x + 2 * n, x + 2 * m, T(0));
      inner.in = x;
      inner.out = y;
      inner.inverse = false;
      transform_lines<T>()(inner);
      multiply(y, plan.filter.data(), m, 1, y);
      inner.in = y;
      inner.out = x;
      inner.inverse = true;
      transform_lines<T>()(inner);
      multiply(x, plan.chirp.data(), n, job.scale, job.inverse ? y : out);
      if (job.inverse) swap_parts(y, n, out);
    }
  }
};

template <class T, int bytes>
TESSERA_INLINE void run_lines(const LineJob<T>& job) {
  switch (job.plan->way) {
    case LinePlan<T>::Way::lanes:
      return Lines<T, bytes>::by_lanes(job);
    case LinePlan<T>::Way::matrix:
      return Lines<T, bytes>::by_matrix(job);
    case LinePlan<T>::Way::chirp:
      return Lines<T, bytes>::by_chirp(job);
  }
}
TESSERA_VERSIONS(lines_version, run_lines, LineJob<T>)

template <class T, int bytes>
TESSERA_INLINE void run_columns(const ColumnJob<T>& job) {
  using L = Lines<T, bytes>;
  const std::int64_t n = job.plan->n;
  const ScratchMemory a(L::work_bytes(n)), b(L::work_bytes(n));
  typename L::Work work{reinterpret_cast<typename L::V*>(a.data()),
                        reinterpret_cast<typename L::V*>(b.data())};
  const std::int64_t later = job.goes_on ? 2 * job.count : 0;
  for (std::int64_t j = 0; j < job.count; j += L::kLanes) {
    L::load_columns(job.in + 2 * j, n, job.stride, job.count - j, job.inverse, later, work.x);
    work.run(*job.plan);
    L::store_columns(work.x, n, job.stride, job.count - j, job.inverse, job.scale, later,
                     job.out + 2 * j);
  }
}
TESSERA_VERSIONS(columns_version, run_columns, ColumnJob<T>)

/// Elements k and m - k of either side are made of elements k and m - k of the other.
template <class T, int bytes>
TESSERA_INLINE void run_real(const RealJob<T>& job) {
  using Simd = Vectors<T, bytes>;
  using V = typename Simd::V;
  constexpr int L = Simd::kLanes;
  const std::int64_t m = job.m;
  const T* in = job.in;
  T* out = job.out;
  const T half = job.inverse ? T(1) : T(0.5), turn = job.inverse ? T(-1) : T(1);
  if (job.inverse) {
    // What is its own mirror image is real.
    const T first = in[0], last = in[2 * m];
    out[0] = first + last;
    out[1] = first - last;
  } else {
    const T re = in[0], im = in[1];
    out[0] = re + im;
    out[1] = 0;
    out[2 * m] = re - im;
    out[2 * m + 1] = 0;
  }
  std::int64_t k = 1;
  for (; 2 * (k + L - 1) < m; k += L) {
    const T* from = in + 2 * k;
    const T* mirrored = in + 2 * (m - k - L + 1);
    const V a0 = Simd::load(from), a1 = Simd::load(from + L);
    const V b0 = Simd::load(mirrored), b1 = Simd::load(mirrored + L);
    const V c0 = Simd::load(job.table + 2 * k), c1 = Simd::load(job.table + 2 * k + L);
    const V ar = Simd::even(a0, a1), ai = Simd::odd(a0, a1);
    const V br = Simd::reversed(Simd::even(b0, b1)), bi = Simd::reversed(Simd::odd(b0, b1));
    const V cr = Simd::even(c0, c1), ci = Simd::odd(c0, c1) * turn;
    const V pr = (ar + br) * half, pi = (ai - bi) * half;
    const V qr = (ar - br) * half, qi = (ai + bi) * half;
    const V dr = cr * qr - ci * qi, di = cr * qi + ci * qr;
    T* to = out + 2 * k;
    Simd::store(to, Simd::zip_low(pr + dr, pi + di));
    Simd::store(to + L, Simd::zip_high(pr + dr, pi + di));
    const V re = Simd::reversed(pr - dr), im = Simd::reversed(di - pi);
    T* to_mirrored = out + 2 * (m - k - L + 1);
    Simd::store(to_mirrored, Simd::zip_low(re, im));
    Simd::store(to_mirrored + L, Simd::zip_high(re, im));
  }
  for (; 2 * k <= m; ++k) {
    const T ar = in[2 * k], ai = in[2 * k + 1], br = in[2 * (m - k)], bi = in[2 * (m - k) + 1];
    const T cr = job.table[2 * k], ci = job.table[2 * k + 1] * turn;
    const T pr = (ar + br) * half, pi = (ai - bi) * half;
    const T qr = (ar - br) * half, qi = (ai + bi) * half;
    const T dr = cr * qr - ci * qi, di = cr * qi + ci * qr;
    out[2 * (m - k)] = pr - dr;
    out[2 * (m - k) + 1] = di - pi;
    out[2 * k] = pr + dr;
    out[2 * k + 1] = pi + di;
  }
}
TESSERA_VERSIONS(real_version, run_real, RealJob<T>)

}  // namespace

template <class T>
JobFunction<LineJob<T>> transform_lines() {
  return lines_version<T>();
}
template <class T>
JobFunction<ColumnJob<T>> transform_columns() {
  return columns_version<T>();
}
template <class T>
JobFunction<RealJob<T>> separate_real() {
  return real_version<T>();
}
template JobFunction<LineJob<float>> transform_lines();
template JobFunction<LineJob<double>> transform_lines();
template JobFunction<ColumnJob<float>> transform_columns();
template JobFunction<ColumnJob<double>> transform_columns();
template JobFunction<RealJob<float>> separate_real();
template JobFunction<RealJob<double>> separate_real();

}  // namespace tessera::codegen
