// SPDX-License-Identifier: Apache-2.0
// Compiled alone: versions of it for several instruction sets.
// Each element of the filter is one number for vectors of positions.
#include "src/codegen/kernels/convolutions/few_features_convolution.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include "src/codegen/kernels/convolutions/padded_rows.h"
#include "src/codegen/kernels/convolutions/tap_runs.h"
#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/loops/fused_loop.h"
#include "src/codegen/kernels/prices.h"
#include "src/codegen/kernels/vectors.h"

namespace tessera::codegen {
namespace {

using runtime::KernelCall;

/// Of a unit: lines of the result, positions of each phase in a line, and what is padded for them.
constexpr std::int64_t kLines = 16, kPositions = 2048, kPaddedBytes = 256 << 10;
/// More than that isn't padded: dilations that are larger than the input, say.
constexpr std::int64_t kMostPaddedBytes = 8 << 20;
/// Features of a group that are summed up side by side.
constexpr std::int64_t kMostColumns = 4;
/// Fewer positions in a row leave most of a vector empty.
constexpr std::int64_t kLeastPositions = 4;

/// Positions of a line that see the same taps, for some features.
template <class T>
struct LineJob {
  const T* const* rows;     ///< padded: what the first position sees of feature 0, and
  const T* const* factors;  ///< the filter, [features][taps][columns], by taps of all dims but one
  std::int64_t row_count;
  std::int64_t features, feature_step;
  const std::int64_t* taps;  ///< of the last dim: where they see a row
  std::int64_t tap_count, columns, positions;
  T* out;
  std::int64_t out_feature, out_step;
};

template <class T, int bytes>
struct LineSums {
  using Simd = Vectors<T, bytes>;
  using V = typename Simd::V;
  static constexpr std::int64_t kLanes = Simd::kLanes;

  template <int columns, int vectors>
  static TESSERA_INLINE void block(const LineJob<T>& job, std::int64_t first) {
    V sum[columns][vectors] = {};
    for (std::int64_t r = 0; r < job.row_count; ++r) {
      const T* row = job.rows[r] + first;
      const T* factor = job.factors[r];
      for (std::int64_t i = 0; i < job.features; ++i, row += job.feature_step) {
        for (std::int64_t t = 0; t < job.tap_count; ++t, factor += columns) {
          const T* in = row + job.taps[t];
#pragma GCC unroll 8
          for (int v = 0; v < vectors; ++v) {
            const V x = Simd::load(in + v * kLanes);
#pragma GCC unroll 4
            for (int c = 0; c < columns; ++c) sum[c][v] += factor[c] * x;
          }
        }
      }
    }
#pragma GCC unroll 4
    for (int c = 0; c < columns; ++c) {
      T* const out = job.out + c * job.out_feature;
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) {
        const std::int64_t at = first + v * kLanes;
        const std::int64_t left = std::min(kLanes, job.positions - at);
        if (job.out_step == 1 && left == kLanes) {
          Simd::store(out + at, sum[c][v]);
          continue;
        }
        T part[kLanes];
        Simd::store(part, sum[c][v]);
        for (std::int64_t p = 0; p < left; ++p) out[(at + p) * job.out_step] = part[p];
      }
    }
  }

  /// From position p on, as long as so many vectors are needed.
  template <int columns, int vectors>
  static TESSERA_INLINE void blocks(const LineJob<T>& job, std::int64_t* p) {
    for (; *p + (vectors - 1) * kLanes < job.positions; *p += vectors * kLanes) {
      block<columns, vectors>(job, *p);
    }
  }
  template <int columns>
  static TESSERA_INLINE void run(const LineJob<T>& job) {
    constexpr int kVectors = bytes < 64 ? (columns == 1   ? 8
                                           : columns == 2 ? 4
                                                          : 2)
                                        : (columns <= 2 ? 8 : 4);
    std::int64_t p = 0;
    blocks<columns, kVectors>(job, &p);
    if constexpr (kVectors > 4) blocks<columns, 4>(job, &p);
    if constexpr (kVectors > 2) blocks<columns, 2>(job, &p);
    blocks<columns, 1>(job, &p);
  }
};

template <class T, int bytes>
TESSERA_INLINE void run_line(const LineJob<T>& job) {
  using Sums = LineSums<T, bytes>;
  switch (job.columns) {
    case 1:
      return Sums::template run<1>(job);
    case 2:
      return Sums::template run<2>(job);
    case 3:
      return Sums::template run<3>(job);
    default:
      return Sums::template run<kMostColumns>(job);
  }
}
TESSERA_VERSIONS(line_version, run_line, LineJob<T>)

/// Units are blocks of the last dim's positions, of lines, of groups, and then the other dims'
/// positions and the batch.
struct Attrs {
  ConvolutionProblem c;  ///< of two dims or more
  PaddedRows rows;
  std::int64_t positions = 1, position_blocks = 1;
  std::int64_t lines = 1, line_blocks = 1;
  std::int64_t groups = 1, group_blocks = 1;

  const ir::WindowDim& line_window() const { return c.window[c.window.size() - 2]; }
};

template <class T>
class Work {
 public:
  Work(const Attrs& a, const KernelCall& call)
      : a_(a),
        run_(line_version<T>()),
        input_(reinterpret_cast<const T*>(call.inputs[0])),
        out_(reinterpret_cast<T*>(call.outputs[0])) {
    take_filter(reinterpret_cast<const T*>(call.inputs[1]));
  }

  void unit(std::int64_t unit) {
    const ConvolutionProblem& c = a_.c;
    const auto next = [&](std::int64_t n) { return std::exchange(unit, unit / n) % n; };
    const std::int64_t first_position = next(a_.position_blocks) * a_.positions;
    const std::int64_t first_line = next(a_.line_blocks) * a_.lines;
    const std::int64_t first_group = next(a_.group_blocks) * a_.groups;
    const std::size_t outer = c.window.size() - 2;
    std::vector<TapRun> taps(outer);
    T* out = out_ + take_position(c, next, &taps);
    out += unit * c.result.batch;
    list_planes(taps);

    const std::int64_t end_line = std::min(first_line + a_.lines, c.out[outer]);
    lines_.clear();
    std::int64_t low = INT64_MAX, high = -1;  // of the input's lines
    for (std::int64_t y = first_line; y < end_line; ++y) {
      const TapRun run = taps_of(c.window[outer], c.in[outer], y);
      lines_.push_back(run);
      if (run.count == 0) continue;
      low = std::min(low, run.at);
      high = std::max(high, run.at + (run.count - 1) * run.advance);
    }
    const std::int64_t groups = std::min(a_.groups, c.groups - first_group);
    const std::int64_t shift = first_position * a_.rows.advance;
    const std::int64_t length = a_.rows.length(), line_size = groups * c.per_group * length;
    const std::int64_t seen = std::max<std::int64_t>(high - low + 1, 0);
    const ScratchMemory memory(planes_.size() * std::size_t(seen * line_size) * sizeof(T));
    T* const padded = reinterpret_cast<T*>(memory.data());
    const T* const from = input_ + unit * c.input.batch;
    for (std::size_t p = 0; p < planes_.size(); ++p) {
      for (std::int64_t y = 0; y < seen; ++y) {
        copy(from + planes_[p].input + (low + y) * c.input.spatial[outer], first_group, groups,
             shift, padded + (std::int64_t(p) * seen + y) * line_size);
      }
    }

    for (std::int64_t y = first_line; y < end_line; ++y) {
      const TapRun& run = lines_[std::size_t(y - first_line)];
      for (std::int64_t g = 0; g < groups; ++g) {
        for (std::int64_t column = 0; column < c.columns; column += kMostColumns) {
          LineJob<T> job;
          job.columns = std::min(kMostColumns, c.columns - column);
          job.features = c.per_group;
          job.feature_step = length;
          job.out_feature = c.result.feature;
          job.out_step = a_.rows.step * c.result.spatial.back();
          job.row_count = std::int64_t(planes_.size()) * run.count;
          const T* factors = factors_of(first_group + g, column);
          T* const to = out + y * c.result.spatial[outer] +
                        ((first_group + g) * c.columns + column) * c.result.feature;
          for (const RowPhase& phase : a_.rows.phases) {
            job.positions = std::min(a_.positions, phase.count - first_position);
            if (job.positions > 0) {
              see(phase.taps);
              list_rows(run, low, seen, line_size, padded + g * c.per_group * length, factors,
                        phase.taps.count * c.per_group * job.columns);
              job.rows = row_list_.data();
              job.factors = factor_list_.data();
              job.taps = tap_list_.data();
              job.tap_count = phase.taps.count;
              job.out =
                  to + (phase.begin + first_position * a_.rows.step) * c.result.spatial.back();
              run_(job);
            }
            factors += outer_taps_ * phase.taps.count * c.per_group * job.columns;
          }
        }
      }
    }
  }

 private:
  struct Plane {
    std::int64_t input;  ///< where it begins
    std::int64_t taps;   ///< which taps of the dims before the lines' see it, as one number
  };

  void list_planes(const std::vector<TapRun>& taps) {
    planes_ = {{0, 0}};
    for (std::size_t d = 0; d < taps.size(); ++d) {
      const TapRun& run = taps[d];
      std::vector<Plane> with_dim;
      for (const Plane& plane : planes_) {
        for (std::int64_t k = 0; k < run.count; ++k) {
          with_dim.push_back({plane.input + (run.at + k * run.advance) * a_.c.input.spatial[d],
                              plane.taps * a_.c.window[d].size + run.begin + k * run.step});
        }
      }
      planes_ = std::move(with_dim);
    }
  }
  const T* factors_of(std::int64_t group, std::int64_t column) const {
    return filter_.data() +
           (group * a_.c.columns + column) * outer_taps_ * row_taps_ * a_.c.per_group;
  }

  /// The filter by groups and blocks of columns, then phases, taps of all dims but the last one,
  /// features, taps, columns.
  void take_filter(const T* filter) {
    const ConvolutionProblem& c = a_.c;
    const std::size_t outer = c.window.size() - 1;
    std::vector<TapRun> all;
    for (std::size_t d = 0; d < outer; ++d) {
      outer_taps_ *= c.window[d].size;
      all.push_back({0, 1, c.window[d].size, 0, 1});
    }
    for (const RowPhase& phase : a_.rows.phases) row_taps_ += phase.taps.count;
    filter_.reserve(std::size_t(c.groups * c.columns * outer_taps_ * row_taps_ * c.per_group));
    const ir::WindowDim& last = c.window.back();
    for (std::int64_t g = 0; g < c.groups; ++g) {
      for (std::int64_t column = 0; column < c.columns; column += kMostColumns) {
        const std::int64_t columns = std::min(kMostColumns, c.columns - column);
        const T* const block = filter + (g * c.columns + column) * c.filter.feature;
        for (const RowPhase& phase : a_.rows.phases) {
          each_tap(c.window, all, Dims(outer, 0), c.filter.spatial,
                   [&](std::int64_t, std::int64_t at) {
                     for (std::int64_t i = 0; i < c.per_group; ++i) {
                       for (std::int64_t k = 0; k < phase.taps.count; ++k) {
                         const std::int64_t tap = phase.taps.begin + k * phase.taps.step;
                         const std::int64_t place = last.reversal ? last.size - 1 - tap : tap;
                         for (std::int64_t n = 0; n < columns; ++n) {
                           filter_.push_back(
                               block[at + i * c.filter.batch + place * c.filter.spatial.back() +
                                     n * c.filter.feature]);
                         }
                       }
                     }
                   });
        }
      }
    }
  }

  void copy(const T* from, std::int64_t first_group, std::int64_t groups, std::int64_t shift,
            T* to) const {
    const ConvolutionProblem& c = a_.c;
    RowCopy<T> copy{from,  c.in.back(), c.input.spatial.back(), c.input.feature, c.per_group,
                    shift, to};
    if (!c.groups_split_batch) {
      copy.from += first_group * c.per_group * c.input.feature;
      copy.features = groups * c.per_group;
      return copy_padded(a_.rows, copy);
    }
    for (std::int64_t g = 0; g < groups; ++g) {
      copy.from = from + (first_group + g) * c.batch * c.input.batch;
      copy.to = to + g * c.per_group * a_.rows.length();
      copy_padded(a_.rows, copy);
    }
  }

  void see(const TapRun& taps) {
    tap_list_.clear();
    for (std::int64_t k = 0; k < taps.count; ++k) {
      tap_list_.push_back(a_.rows.at(taps.at + k * taps.advance));
    }
  }

  /// What a line sees, and by which elements of the filter.
  void list_rows(const TapRun& run, std::int64_t low, std::int64_t seen, std::int64_t line_size,
                 const T* padded, const T* factors, std::int64_t of_tap) {
    row_list_.clear();
    factor_list_.clear();
    for (std::size_t p = 0; p < planes_.size(); ++p) {
      for (std::int64_t k = 0; k < run.count; ++k) {
        const std::int64_t y = run.at + k * run.advance - low;
        row_list_.push_back(padded + (std::int64_t(p) * seen + y) * line_size);
        const std::int64_t tap = run.begin + k * run.step;
        factor_list_.push_back(factors + (planes_[p].taps * a_.line_window().size + tap) * of_tap);
      }
    }
  }

  const Attrs& a_;
  void (*run_)(const LineJob<T>&);
  const T* input_;
  T* out_;
  std::vector<T> filter_;
  std::int64_t outer_taps_ = 1;
  std::int64_t row_taps_ = 0;  ///< those of the last dim that see anything
  std::vector<Plane> planes_;
  std::vector<TapRun> lines_;
  std::vector<std::int64_t> tap_list_;
  std::vector<const T*> row_list_, factor_list_;
};

template <class T>
void run(const KernelCall& call) {
  Work<T> work(*static_cast<const Attrs*>(call.attributes), call);
  for (std::int64_t n = call.begin; n < call.end; ++n) work.unit(n);
}

std::int64_t lanes_of(DType type) {
  return version_for_machine(16, 32, 64) / std::int64_t(byte_size(type));
}

/// Blocks of units, so that what each copies is in a cache. Nothing where others do better.
std::optional<Attrs> few_features_attrs(ConvolutionProblem c, DType type) {
  if ((type != DType::f32 && type != DType::f64) || c.window.empty() || c.per_group == 0) {
    return std::nullopt;
  }
  const auto element = std::int64_t(byte_size(type));
  const std::int64_t lanes = lanes_of(type);
  std::int64_t taps = 1;
  for (const ir::WindowDim& w : c.window) taps *= w.size;
  // With more features vectors of those are no worse.
  if (2 * c.columns >= lanes || c.batch * c.positions() == 0 || taps <= 1) return std::nullopt;
  if (c.window.size() == 1) c.add_line_dim();
  Attrs a;
  a.positions = kPositions;
  a.rows = padded_rows(c.window.back(), c.out.back(), a.positions, lanes);
  const std::int64_t in_row = a.rows.phases.front().count;
  // As in the derivative by a filter, where input features are the batch.
  const bool batch_is_longer = 2 * in_row < lanes && c.input.batch == 1 && 2 * c.batch >= lanes;
  if (in_row < kLeastPositions || batch_is_longer) return std::nullopt;
  a.position_blocks = equal_blocks(in_row, &a.positions);
  const std::size_t rank = c.window.size();
  std::int64_t planes = 1;
  for (std::size_t d = 0; d + 2 < rank; ++d) planes *= std::min(c.window[d].size, c.in[d]);
  const ir::WindowDim& w = c.window[rank - 2];
  const auto bytes = [&](std::int64_t lines, std::int64_t groups) {
    const std::int64_t seen =
        ((lines - 1) * w.stride + (w.size - 1) * w.rhs_dilation) / w.lhs_dilation;
    return double(std::min(seen + 1, c.in[rank - 2])) * double(planes) * double(a.rows.length()) *
           double(groups * c.per_group) * double(element);
  };
  a.lines = std::min(kLines, c.out[rank - 2]);
  a.groups = c.groups;
  while (a.groups > 1 && bytes(a.lines, a.groups) > kPaddedBytes) a.groups = (a.groups + 1) / 2;
  while (a.lines > 1 && bytes(a.lines, a.groups) > kPaddedBytes) a.lines = (a.lines + 1) / 2;
  if (bytes(a.lines, a.groups) > kMostPaddedBytes) return std::nullopt;
  a.line_blocks = equal_blocks(c.out[rank - 2], &a.lines);
  a.group_blocks = equal_blocks(c.groups, &a.groups);
  a.c = std::move(c);
  return a;
}

}  // namespace

bool has_few_features(const ConvolutionProblem& c, DType type) {
  return few_features_attrs(c, type).has_value();
}

KernelDescriptor few_features_convolution_kernel(ConvolutionProblem given, DType type) {
  Attrs a = few_features_attrs(std::move(given), type).value();
  const ConvolutionProblem& c = a.c;
  const std::int64_t lanes = lanes_of(type), in_row = a.rows.phases.front().count;
  const std::int64_t unit_positions = c.out.back() * c.out[c.window.size() - 2];
  KernelDescriptor kernel;
  kernel.units =
      c.batch * c.positions() / unit_positions * a.group_blocks * a.line_blocks * a.position_blocks;
  const double filled = double((in_row + lanes - 1) / lanes * lanes) / double(in_row);
  kernel.nanoseconds =
      prices::call::kConvolution +
      (type == DType::f32 ? prices::product::kShortF32 : prices::product::kShortF64) * filled *
          c.products();
  kernel.key = kernel_key("few-features-convolution", type, lanes, c);
  kernel.make = kernel_maker(type == DType::f32 ? run<float> : run<double>, std::move(a));
  return kernel;
}

}  // namespace tessera::codegen
