// SPDX-License-Identifier: Apache-2.0
// Compiled alone: versions of it for several instruction sets.
// Vectors of features: some positions of a row are summed up side by side, so that each part of the
// filter is loaded once for them. Where the taps of a row of the window are neighbours, what one of
// them sees is loaded once as well, for all of these positions.
#include "src/codegen/kernels/convolutions/depthwise_convolution.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "src/codegen/kernels/convolutions/tap_runs.h"
#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/prices.h"
#include "src/codegen/kernels/vectors.h"

namespace tessera::codegen {
namespace {

using runtime::KernelCall;

/// Positions that are summed up side by side.
constexpr int kPositions = 8;
/// Vectors of features of a unit: more of short lines, as a unit takes time to begin. So many that
/// a line has these sums, if it can. Measured on Zen 4 (AVX-512 and AVX2).
constexpr std::int64_t kLeastUnitVectors = 8, kMostUnitVectors = 16, kUnitSums = 112;
constexpr std::int64_t kMostVectorBytes = 64;
/// Of blocks whose taps are neighbours.
constexpr int kLeastPositions = 4;

/// What one position of the result sums up: products of elements of the input and the filter.
struct Term {
  std::int64_t input, filter;  ///< where, from the position's and the filter's first
};

/// So many positions with the same terms.
template <class T>
struct Row {
  const T* input;
  const T* filter;
  T* out;
  const Term* terms;
  std::int64_t term_count;
  std::int64_t positions, input_step, out_step;  ///< from one position to the next
  std::int64_t features;
};

template <class T, int bytes>
struct Depthwise {
  using Simd = Vectors<T, bytes>;
  using V = typename Simd::V;
  static constexpr std::int64_t kLanes = Simd::kLanes;

  /// Sums of some positions and vectors of features, side by side.
  template <int positions, int vectors>
  static TESSERA_INLINE void block(const Row<T>& row, std::int64_t first, std::int64_t feature) {
    const T* in = row.input + first * row.input_step + feature;
    const T* filter = row.filter + feature;
    V sum[positions][vectors] = {};
    for (std::int64_t t = 0; t < row.term_count; ++t) {
      const Term term = row.terms[t];
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) {
        const V w = Simd::load(filter + term.filter + v * kLanes);
#pragma GCC unroll 8
        for (int p = 0; p < positions; ++p) {
          sum[p][v] += Simd::load(in + term.input + p * row.input_step + v * kLanes) * w;
        }
      }
    }
    T* out = row.out + first * row.out_step + feature;
#pragma GCC unroll 8
    for (int p = 0; p < positions; ++p) {
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) {
        Simd::store(out + p * row.out_step + v * kLanes, sum[p][v]);
      }
    }
  }

  /// What a vector doesn't hold.
  static TESSERA_INLINE void single(const Row<T>& row, std::int64_t feature) {
    const T* in = row.input + feature;
    const T* filter = row.filter + feature;
    for (std::int64_t p = 0; p < row.positions; ++p) {
      T sum = 0;
      for (std::int64_t t = 0; t < row.term_count; ++t) {
        sum += in[row.terms[t].input + p * row.input_step] * filter[row.terms[t].filter];
      }
      row.out[p * row.out_step + feature] = sum;
    }
  }

  /// A few positions, by as many vectors at a time that there are sums enough to be added to in
  /// turn: those of one vector alone would wait for each other.
  template <int positions, int vectors>
  static TESSERA_INLINE void few(const Row<T>& row, std::int64_t first) {
    std::int64_t f = 0;
    for (; f + vectors * kLanes <= row.features; f += vectors * kLanes) {
      block<positions, vectors>(row, first, f);
    }
    for (; f + kLanes <= row.features; f += kLanes) block<positions, 1>(row, first, f);
  }

  static TESSERA_INLINE void vectors(const Row<T>& row) {
    const std::int64_t many = row.positions / kPositions * kPositions;
    for (std::int64_t f = 0; f + kLanes <= row.features; f += kLanes) {
      for (std::int64_t p = 0; p < many; p += kPositions) block<kPositions, 1>(row, p, f);
    }
    std::int64_t p = many;
    for (; p + 4 <= row.positions; p += 4) few<4, 2>(row, p);
    for (; p + 2 <= row.positions; p += 2) few<2, 4>(row, p);
    for (; p < row.positions; ++p) few<1, 4>(row, p);
  }
};

template <class T, int bytes>
TESSERA_INLINE void run_row(const Row<T>& row) {
  using Of = Depthwise<T, bytes>;
  Of::vectors(row);
  for (std::int64_t f = row.features / Of::kLanes * Of::kLanes; f < row.features; ++f) {
    Of::single(row, f);
  }
}
TESSERA_VERSIONS(row_version, run_row, Row<T>)

/// A row of the result whose windows have so many taps in a row, which see neighbours.
template <class T>
struct Line {
  const T* input;   ///< of the first position that there is; windows may begin before it
  const T* filter;  ///< its first tap
  T* out;
  const Term* rows;  ///< of the window that see the input
  std::int64_t row_count;
  std::int64_t input_step, filter_step, out_step;  ///< from one to the next
  std::int64_t length;                             ///< of the input
  std::int64_t positions, pad;
  std::int64_t features;  ///< a vector's at least
  int taps, stride;
};

template <class T, int bytes>
struct Neighbours {
  using Simd = Vectors<T, bytes>;
  using V = typename Simd::V;
  static constexpr std::int64_t kLanes = Simd::kLanes;
  /// Vectors are lines of the cache. With shorter ones loads are what takes the time.
  static constexpr bool kAsks = bytes == 64;

  /// What is seen, [left, span - right) of all that there would be if the input had no ends.
  struct Seen {
    int left, right;
  };

  /// Sums of some positions, for one vector of features. `in`: what the first position's first tap
  /// would see. What isn't seen is known here, or else it is asked for.
  template <int positions, int taps, int stride, int left, int right, bool asks>
  static TESSERA_INLINE void block(const Line<T>& line, std::int64_t in, std::int64_t out,
                                   const Seen& seen) {
    constexpr int kSpan = (positions - 1) * stride + taps;
    V sum[positions] = {};
    for (std::int64_t r = 0; r < line.row_count; ++r) {
      // What the lines before haven't seen is asked for where the next positions see it.
      const bool is_new = kAsks && r + stride >= line.row_count;
      const T* const x = line.input + (line.rows[r].input + in);
      const T* const w = line.filter + line.rows[r].filter;
      V factor[taps];
#pragma GCC unroll 8
      for (int t = 0; t < taps; ++t) factor[t] = Simd::load(w + t * line.filter_step);
#pragma GCC unroll 32
      for (int j = left; j < kSpan - right; ++j) {
        if (asks && (j < seen.left || j >= kSpan - seen.right)) continue;
        const V v = Simd::load(x + j * line.input_step);
        if (is_new && j >= taps - stride) {
          __builtin_prefetch(x + (j + positions * stride) * line.input_step);
        }
#pragma GCC unroll 8
        for (int p = 0; p < positions; ++p) {
          const int t = j - p * stride;
          if (t >= 0 && t < taps) sum[p] += v * factor[t];
        }
      }
    }
#pragma GCC unroll 8
    for (int p = 0; p < positions; ++p) Simd::store(line.out + out + p * line.out_step, sum[p]);
  }

  /// The last vector has features of the one before where they are no multiple of its lanes.
  template <int positions, int taps, int stride, int left, int right, bool asks>
  static TESSERA_INLINE void vectors(const Line<T>& at, std::int64_t in, std::int64_t out,
                                     const Seen& seen) {
    Line<T> line = at;
    for (std::int64_t f = 0;;) {
      block<positions, taps, stride, left, right, asks>(line, in, out, seen);
      if (f + kLanes >= at.features) break;
      const std::int64_t next = std::min(f + kLanes, at.features - kLanes);
      line.input += next - f;
      line.filter += next - f;
      line.out += next - f;
      f = next;
    }
  }

  /// So does the last block have positions of the one before.
  template <int positions, int taps, int stride>
  static TESSERA_INLINE void run(const Line<T>& line) {
    constexpr int kSpan = (positions - 1) * stride + taps;
    // Of windows that see as much before the input as behind it.
    constexpr int kLeft = taps / 2, kRight = stride == 1 ? taps / 2 : 1;
    for (std::int64_t p = 0;;) {
      const std::int64_t at = p * stride - line.pad, missing = at + kSpan - line.length;
      const Seen seen = {int(std::clamp<std::int64_t>(-at, 0, kSpan)),
                         int(std::clamp<std::int64_t>(missing, 0, kSpan))};
      const std::int64_t in = at * line.input_step, out = p * line.out_step;
      if (seen.left == 0 && seen.right == 0) {
        vectors<positions, taps, stride, 0, 0, false>(line, in, out, seen);
      } else if (seen.left == kLeft && seen.right == 0) {
        vectors<positions, taps, stride, kLeft, 0, false>(line, in, out, seen);
      } else if (seen.left == 0 && seen.right == kRight) {
        vectors<positions, taps, stride, 0, kRight, false>(line, in, out, seen);
      } else if (seen.left == kLeft && seen.right == kRight) {
        vectors<positions, taps, stride, kLeft, kRight, false>(line, in, out, seen);
      } else {
        vectors<positions, taps, stride, 0, 0, true>(line, in, out, seen);
      }
      if (p + positions >= line.positions) break;
      p = std::min(p + positions, line.positions - positions);
    }
  }

  template <int taps, int stride>
  static TESSERA_INLINE void by_positions(const Line<T>& line) {
    const std::int64_t blocks = (line.positions + kPositions - 1) / kPositions;
    const std::int64_t each = (line.positions + blocks - 1) / blocks;
    if (each == kPositions) {
      run<kPositions, taps, stride>(line);
    } else if (each > kLeastPositions && line.positions >= kPositions - 1) {
      run<kPositions - 1, taps, stride>(line);
    } else {
      run<kLeastPositions, taps, stride>(line);
    }
  }
};

bool has_neighbours(int taps, std::int64_t stride) {
  return (taps == 3 || taps == 5 || taps == 7) && (stride == 1 || (stride == 2 && taps < 7));
}

template <class T, int bytes>
TESSERA_INLINE void run_line(const Line<T>& line) {
  using Of = Neighbours<T, bytes>;
  if (line.taps == 3) {
    if (line.stride == 1) return Of::template by_positions<3, 1>(line);
    return Of::template by_positions<3, 2>(line);
  }
  if (line.taps == 7) return Of::template by_positions<7, 1>(line);
  if (line.stride == 1) return Of::template by_positions<5, 1>(line);
  return Of::template by_positions<5, 2>(line);
}
TESSERA_VERSIONS(line_version, run_line, Line<T>)

struct Attrs {
  ConvolutionProblem c;
  bool has_neighbours = false;  ///< rows of the window's taps see neighbours
  std::vector<TapSegment> segments;
  std::int64_t features = 1;  ///< of a unit
};

template <class T>
class Work {
 public:
  Work(const Attrs& a, const KernelCall& call)
      : a_(a),
        run_(row_version<T>()),
        input_(reinterpret_cast<const T*>(call.inputs[0])),
        filter_(reinterpret_cast<const T*>(call.inputs[1])),
        out_(reinterpret_cast<T*>(call.outputs[0])) {}

  void unit(std::int64_t unit) {
    const ConvolutionProblem& c = a_.c;
    const std::int64_t blocks = (c.groups + a_.features - 1) / a_.features;
    const std::int64_t feature = unit % blocks * a_.features;
    unit /= blocks;
    const std::size_t outer = c.window.size() - 1;
    Dims position(outer);
    for (std::size_t d = outer; d-- > 0;) {
      position[d] = unit % c.out[d];
      unit /= c.out[d];
    }
    Row<T> row;
    row.features = std::min(a_.features, c.groups - feature);
    row.filter = filter_ + feature;
    row.input = input_ + unit * c.input.batch + feature;
    row.out = out_ + unit * c.result.batch + feature;
    std::vector<TapRun>& taps = taps_;
    taps.clear();
    for (std::size_t d = 0; d < outer; ++d) {
      taps.push_back(taps_of(c.window[d], c.in[d], position[d]));
      row.out += position[d] * c.result.spatial[d];
    }
    if constexpr (std::is_same_v<T, float>) {
      if (a_.has_neighbours && row.features * std::int64_t(sizeof(T)) >= kMostVectorBytes) {
        return line(row, taps);
      }
    }
    T* const out = row.out;
    for (const TapSegment& s : a_.segments) {
      taps.push_back(s.taps);
      terms_.clear();
      each_tap(c.window, taps, c.input.spatial, c.filter.spatial,
               [&](std::int64_t input, std::int64_t filter) {
                 for (std::int64_t i = 0; i < c.per_group; ++i) {
                   terms_.push_back({input + i * c.input.feature, filter + i * c.filter.batch});
                 }
               });
      taps.pop_back();
      row.terms = terms_.data();
      row.term_count = std::int64_t(terms_.size());
      row.positions = s.count;
      row.input_step = s.advance * c.input.spatial.back();
      row.out_step = s.step * c.result.spatial.back();
      row.out = out + s.begin * c.result.spatial.back();
      run_(row);
    }
  }

 private:
  void line(const Row<T>& row, const std::vector<TapRun>& taps) {
    const ConvolutionProblem& c = a_.c;
    const ir::WindowDim& w = c.window.back();
    terms_.clear();
    each_tap(c.window, taps, c.input.spatial, c.filter.spatial,
             [&](std::int64_t input, std::int64_t filter) {
               terms_.push_back({input, filter});
             });
    const std::int64_t step = c.filter.spatial.back();
    Line<T> line;
    line.input = row.input;
    line.filter = row.filter + (w.reversal ? (w.size - 1) * step : 0);
    line.out = row.out;
    line.rows = terms_.data();
    line.row_count = std::int64_t(terms_.size());
    line.input_step = c.input.spatial.back();
    line.filter_step = w.reversal ? -step : step;
    line.out_step = c.result.spatial.back();
    line.length = c.in.back();
    line.positions = c.out.back();
    line.pad = w.pad_low;
    line.features = row.features;
    line.taps = int(w.size);
    line.stride = int(w.stride);
    line_version<float>()(line);
  }

  const Attrs& a_;
  void (*run_)(const Row<T>&);
  const T* input_;
  const T* filter_;
  T* out_;
  std::vector<Term> terms_;
  std::vector<TapRun> taps_;
};

template <class T>
void run(const KernelCall& call) {
  Work<T> work(*static_cast<const Attrs*>(call.attributes), call);
  for (std::int64_t n = call.begin; n < call.end; ++n) work.unit(n);
}

}  // namespace

bool is_depthwise(const ConvolutionProblem& c) {
  const bool neighbours = c.groups_split_batch ? c.batch == 1 && c.input.batch == 1
                                               : c.per_group == 1 && c.input.feature == 1;
  return c.columns == 1 && c.groups >= 4 && neighbours;
}

KernelDescriptor depthwise_convolution_kernel(const ConvolutionProblem& c, DType type) {
  Attrs a;
  a.segments = segments_of(c.window.back(), c.in.back(), c.out.back());
  // Units have about equal numbers of features, in whole vectors but for the last.
  const std::int64_t lanes = kMostVectorBytes / std::int64_t(byte_size(type));
  std::int64_t each = lanes * std::clamp(kUnitSums / std::max<std::int64_t>(c.out.back(), 1),
                                         kLeastUnitVectors, kMostUnitVectors);
  equal_blocks(c.groups, &each);
  a.features = ceil_div(each, lanes) * lanes;
  const ir::WindowDim& w = c.window.back();
  a.has_neighbours = type == DType::f32 && c.per_group == 1 && w.lhs_dilation == 1 &&
                     w.rhs_dilation == 1 &&
                     has_neighbours(int(std::min<std::int64_t>(w.size, 9)), w.stride) &&
                     c.out.back() >= kLeastPositions;
  KernelDescriptor kernel;
  kernel.units = c.batch * (c.positions() / c.out.back()) * ceil_div(c.groups, a.features);
  kernel.nanoseconds =
      prices::call::kConvolution +
      (type == DType::f32 ? prices::product::kDepthF32 : prices::product::kDepthF64) * c.products();
  kernel.key = kernel_key("depthwise-convolution", type, c);
  a.c = c;
  kernel.make = kernel_maker(type == DType::f32 ? run<float> : run<double>, std::move(a));
  return kernel;
}

}  // namespace tessera::codegen
