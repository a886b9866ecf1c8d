// SPDX-License-Identifier: Apache-2.0
// Compiled alone: versions of it for several instruction sets.
// Vectors of positions: each tap is one number for all of them.
#include "src/codegen/kernels/row_convolution.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/vectors.h"
#include "src/codegen/kernels/window_taps.h"

namespace tessera::codegen {
namespace {

using runtime::KernelCall;

/// Positions of a unit, and vectors of them that are summed up side by side.
constexpr std::int64_t kUnitPositions = 4096;
constexpr int kVectors = 8;

/// Each goes through the input by itself; more are columns of vectors.
constexpr std::int64_t kMostColumns = 4;

/// An element of the filter, and where the first position sees the input through it.
template <class T>
struct RowTap {
  const T* input;
  T factor;
};

/// Neighbours that see the input through the same taps.
template <class T>
struct Stretch {
  const RowTap<T>* taps;
  std::int64_t tap_count;
  T* out;
  std::int64_t positions;
  std::int64_t advance;  ///< from position to position, in the input: 1 or 2
};

template <class T, int bytes>
struct RowSums {
  using Simd = Vectors<T, bytes>;
  using V = typename Simd::V;

  template <int advance>
  static TESSERA_INLINE V read(const T* from) {
    if constexpr (advance == 1) return Simd::load(from);
    return Simd::even(Simd::load(from), Simd::load(from + Simd::kLanes));
  }

  template <int vectors, int advance>
  static TESSERA_INLINE void block(const Stretch<T>& s, std::int64_t first) {
    V sum[vectors] = {};
    for (std::int64_t t = 0; t < s.tap_count; ++t) {
      const T* in = s.taps[t].input + first * advance;
      const T factor = s.taps[t].factor;
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) {
        sum[v] += factor * read<advance>(in + v * Simd::kLanes * advance);
      }
    }
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) Simd::store(s.out + first + v * Simd::kLanes, sum[v]);
  }

  /// From position p on, as long as so many vectors fit.
  template <int vectors, int advance>
  static TESSERA_INLINE void blocks(const Stretch<T>& s, std::int64_t* p) {
    // Vectors of every other element end one behind the last that is used.
    const std::int64_t end = s.positions - (advance - 1);
    for (; *p + vectors * Simd::kLanes <= end; *p += vectors * Simd::kLanes) {
      block<vectors, advance>(s, *p);
    }
  }

  template <int advance>
  static TESSERA_INLINE void run(const Stretch<T>& s) {
    std::int64_t p = 0;
    blocks<kVectors, advance>(s, &p);
    blocks<kVectors / 2, advance>(s, &p);
    blocks<kVectors / 4, advance>(s, &p);
    blocks<1, advance>(s, &p);
    for (; p < s.positions; ++p) {
      T sum = 0;
      for (std::int64_t t = 0; t < s.tap_count; ++t) {
        sum += s.taps[t].factor * s.taps[t].input[p * advance];
      }
      s.out[p] = sum;
    }
  }
};

template <class T, int bytes>
TESSERA_INLINE void run_stretch(const Stretch<T>& s) {
  if (s.advance == 2) {
    RowSums<T, bytes>::template run<2>(s);
  } else {
    RowSums<T, bytes>::template run<1>(s);
  }
}
TESSERA_VERSIONS(stretch_version, run_stretch, Stretch<T>)

struct RowConvolution {
  DirectConvolution c;
  std::vector<TapSegment> segments;
  std::int64_t blocks = 1;  ///< of a row
};

template <class T>
class RowWork {
 public:
  RowWork(const RowConvolution& a, const KernelCall& call)
      : a_(a),
        run_(stretch_version<T>()),
        input_(reinterpret_cast<const T*>(call.inputs[0])),
        filter_(reinterpret_cast<const T*>(call.inputs[1])),
        out_(reinterpret_cast<T*>(call.outputs[0])) {}

  /// Units are blocks of rows: of the outer positions, the output features and the batch.
  void unit(std::int64_t unit) {
    const DirectConvolution& c = a_.c;
    const std::int64_t begin = unit % a_.blocks * kUnitPositions;
    const std::int64_t end = std::min(begin + kUnitPositions, c.out.back());
    unit /= a_.blocks;
    const std::size_t outer = c.window.size() - 1;
    Dims position(outer);
    for (std::size_t d = outer; d-- > 0;) {
      position[d] = unit % c.out[d];
      unit /= c.out[d];
    }
    const std::int64_t features = c.groups * c.columns, feature = unit % features;
    const std::int64_t group = feature / c.columns, batch = unit / features;
    const T* const input = input_ + batch * c.input.batch + group * c.per_group * c.input.feature;
    const T* const filter = filter_ + feature * c.filter.feature;
    T* out = out_ + batch * c.result.batch + feature * c.result.feature;
    std::vector<TapRun> taps;
    for (std::size_t d = 0; d < outer; ++d) {
      taps.push_back(taps_of(c.window[d], c.in[d], position[d]));
      out += position[d] * c.result.spatial[d];
    }
    for (const TapSegment& s : a_.segments) {
      const std::int64_t first = std::max(begin, s.begin), last = std::min(end, s.begin + s.count);
      if (first >= last) continue;
      taps.push_back(s.taps);
      row_taps_.clear();
      each_tap(c.window, taps, c.input.spatial, c.filter.spatial,
               [&](std::int64_t seen, std::int64_t factor) {
                 for (std::int64_t i = 0; i < c.per_group; ++i) {
                   const std::int64_t past = (first - s.begin) * s.advance;
                   row_taps_.push_back({input + past + seen + i * c.input.feature,
                                        filter[factor + i * c.filter.batch]});
                 }
               });
      taps.pop_back();
      run_(
          {row_taps_.data(), std::int64_t(row_taps_.size()), out + first, last - first, s.advance});
    }
  }

 private:
  const RowConvolution& a_;
  void (*run_)(const Stretch<T>&);
  const T* input_;
  const T* filter_;
  T* out_;
  std::vector<RowTap<T>> row_taps_;
};

template <class T>
void run_rows(const KernelCall& call) {
  RowWork<T> work(*static_cast<const RowConvolution*>(call.attributes), call);
  for (std::int64_t n = call.begin; n < call.end; ++n) work.unit(n);
}

}  // namespace

std::optional<KernelDescriptor> row_convolution_kernel(const DirectConvolution& c, DType type) {
  if ((type != DType::f32 && type != DType::f64) || c.window.empty() || c.groups_split_batch ||
      c.columns > kMostColumns || c.input.spatial.back() != 1 || c.result.spatial.back() != 1) {
    return std::nullopt;
  }
  const std::int64_t positions =
      std::accumulate(c.out.begin(), c.out.end(), std::int64_t(1), std::multiplies<>());
  if (c.batch == 0 || positions == 0) return std::nullopt;
  RowConvolution a;
  a.segments = segments_of(c.window.back(), c.in.back(), c.out.back());
  // Most positions have to see the same taps, each one or two elements further on.
  std::int64_t longest = 0;
  for (const TapSegment& s : a.segments) {
    const bool near = s.count == 1 || (s.step == 1 && (s.advance == 1 || s.advance == 2));
    if (!near) return std::nullopt;
    longest = std::max(longest, s.count);
  }
  if (2 * longest < c.out.back()) return std::nullopt;
  a.blocks = (c.out.back() + kUnitPositions - 1) / kUnitPositions;
  double products = double(c.batch) * double(positions) * double(c.per_group) * double(c.groups) *
                    double(c.columns);
  for (const ir::WindowDim& w : c.window) products *= double(w.size);
  KernelDescriptor kernel;
  kernel.units = c.batch * c.groups * c.columns * (positions / c.out.back()) * a.blocks;
  kernel.nanoseconds = 200 + (type == DType::f32 ? 0.03 : 0.06) * products;
  const auto strides = [](const ConvolutionStrides& s) {
    return kernel_key("", s.batch, s.feature, s.spatial);
  };
  kernel.key =
      kernel_key("row-convolution", type, c.window, c.in, c.out, strides(c.input),
                 strides(c.filter), strides(c.result), c.per_group, c.columns, c.groups, c.batch);
  a.c = c;
  kernel.make = kernel_maker(type == DType::f32 ? run_rows<float> : run_rows<double>, std::move(a));
  return kernel;
}

}  // namespace tessera::codegen
