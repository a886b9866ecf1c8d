// SPDX-License-Identifier: Apache-2.0
// Compiled alone: versions of it for several instruction sets.
// Vectors of output features. Each one multiplies an input feature of its group: where groups are
// shorter than vectors, what a position has is put in that order by a shuffle.
#include "src/codegen/kernels/convolutions/grouped_convolution.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/codegen/kernels/convolutions/tap_runs.h"
#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/loops/fused_loop.h"
#include "src/codegen/kernels/prices.h"
#include "src/codegen/kernels/vectors.h"

namespace tessera::codegen {
namespace {

using runtime::KernelCall;

/// Of a unit: vectors of features and lines, for which that part of the filter is packed.
constexpr std::int64_t kUnitVectors = 4, kUnitLines = 16;
/// Sums that are added to while one product is on its way.
constexpr std::int64_t kSums = 8;
/// Positions of a line of the largest block.
constexpr int kMostPositions = 12;
/// Images of a unit have so many positions.
constexpr std::int64_t kUnitPositions = 512;

/// What one position of the result sums up: the features of an element of the input.
struct Term {
  std::int64_t input, filter;  ///< where, from the position's and the packed filter's first
};

/// Positions with the same terms, in rows of any direction, for some vectors of features.
template <class T>
struct Run {
  const T* input;
  const T* filter;  ///< packed: [vectors][taps][features of a group][lanes]
  T* out;
  const Term* terms;
  std::int64_t term_count;
  std::int64_t positions, input_step, out_step;       ///< of a row; from one to the next
  std::int64_t rows, input_row, out_row;              ///< from one row to the next
  std::int64_t per_group;                             ///< features of the input
  std::int64_t group;                                 ///< of the result, at most a vector
  std::int64_t vectors, input_vector, filter_vector;  ///< from one vector to the next
};

template <class T, int bytes>
struct Grouped {
  using Simd = Vectors<T, bytes>;
  using V = typename Simd::V;
  static constexpr int kLanes = Simd::kLanes;

  /// Feature i of each lane's group.
  template <int group, int i, std::size_t... lane>
  static TESSERA_INLINE V feature(V x, std::index_sequence<lane...>) {
    return __builtin_shufflevector(x, x, int(lane) / group * group + i...);
  }

  /// Where positions of a block see the input: three by each register, and the distance of one.
  template <int positions, int rows>
  struct Places {
    static constexpr int kBases = (positions + 2) / 3;
    const T* base[rows * kBases];
    std::int64_t step;
    TESSERA_INLINE Places(const T* first, std::int64_t to_next, std::int64_t to_row)
        : step(to_next) {
#pragma GCC unroll 8
      for (int b = 0; b < rows * kBases; ++b) {
        base[b] = first + b / kBases * to_row + 3 * (b % kBases) * to_next;
        __asm__("" : "+r"(base[b]));
      }
    }
    TESSERA_INLINE const T* at(int p) const {
      return base[p / positions * kBases + p % positions / 3] + p % positions % 3 * step;
    }
    TESSERA_INLINE void advance() {
#pragma GCC unroll 8
      for (int b = 0; b < rows * kBases; ++b) ++base[b];
    }
    TESSERA_INLINE void ask() const {
#pragma GCC unroll 32
      for (int p = 0; p < rows * positions; ++p) __builtin_prefetch(at(p));
    }
  };

  /// Of groups that are shorter than a vector: features from i on.
  template <int group, int i, int positions, int rows>
  static TESSERA_INLINE void add_features(const Places<positions, rows>& in, const T* filter,
                                          V* sum) {
    if constexpr (i < group) {
      const V w = Simd::load(filter + i * kLanes);
#pragma GCC unroll 32
      for (int p = 0; p < rows * positions; ++p) {
        sum[p] += feature<group, i>(Simd::load(in.at(p)), typename Simd::Lanes()) * w;
      }
      add_features<group, i + 1, positions, rows>(in, filter, sum);
    }
  }

  /// Sums of some positions of some rows, and vectors, side by side. `group`: its length, or 0 for
  /// a vector's.
  template <int group, int positions, int rows, int vectors>
  static TESSERA_INLINE void block(const Run<T>& run, std::int64_t row, std::int64_t first,
                                   std::int64_t vector) {
    V sum[vectors][rows * positions] = {};
    const std::int64_t step = run.input_step, to_row = run.input_row;
    const T* const input = run.input + row * to_row + first * step + vector * run.input_vector;
    const T* const filter = run.filter + vector * run.filter_vector;
    for (std::int64_t t = 0; t < run.term_count; ++t) {
      const Term term = run.terms[t];
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        const T* const of_vector = input + v * run.input_vector;
        if constexpr (group == 0) {
          // Positions may lie so far apart that they meet in few places of the first cache.
          const std::int64_t next = std::min(t + 1, run.term_count - 1);
          Places<positions, rows>(of_vector + run.terms[next].input, step, to_row).ask();
        }
        Places<positions, rows> in(of_vector + term.input, step, to_row);
        const T* w = filter + term.filter + v * run.filter_vector;
        if constexpr (group > 0) {
          add_features<group, 0, positions, rows>(in, w, sum[v]);
        } else {
          for (std::int64_t i = 0; i < run.per_group; ++i, w += kLanes) {
            const V factor = Simd::load(w);
#pragma GCC unroll 32
            for (int p = 0; p < rows * positions; ++p) sum[v][p] += *in.at(p) * factor;
            in.advance();
          }
        }
      }
    }
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      T* of_row = run.out + row * run.out_row + first * run.out_step + (vector + v) * kLanes;
#pragma GCC unroll 2
      for (int r = 0; r < rows; ++r, of_row += run.out_row) {
        T* out = of_row;
#pragma GCC unroll 16
        for (int p = 0; p < positions; ++p, out += run.out_step) {
          Simd::store(out, sum[v][r * positions + p]);
        }
      }
    }
  }

  /// Rows [row, end) in blocks of so many, the last of which has some positions of the one before.
  /// Returns the first row that is left.
  template <int group, int positions, int rows, int vectors>
  static TESSERA_INLINE std::int64_t row_blocks(const Run<T>& run, std::int64_t row,
                                                std::int64_t end, std::int64_t vector) {
    for (; row + rows <= end; row += rows) {
      for (std::int64_t p = 0;;) {
        block<group, positions, rows, vectors>(run, row, p, vector);
        if (p + positions >= run.positions) break;
        p = std::min(p + positions, run.positions - positions);
      }
    }
    return row;
  }

  /// All positions. A few, by so many vectors at a time that there are sums enough.
  template <int group, int positions, int vectors>
  static TESSERA_INLINE void blocks(const Run<T>& run) {
    // Two rows share what they read of the filter, if there are registers for their sums. What is
    // shuffled takes more of them, and time in which the filter may be read.
    constexpr int kRows = bytes == 64 && group == 0 && positions >= kSums ? 2 : 1;
    // Filters of short groups are small, and vectors of the input are neighbours: row by row.
    Run<T> part = run;
    const std::int64_t rows = group == 0 ? run.rows : 1;
    for (std::int64_t left = run.rows; left > 0; left -= rows) {
      std::int64_t v = 0;
      if constexpr (vectors > 1) {
        for (; v + vectors <= run.vectors; v += vectors) {
          row_blocks<group, positions, 1, vectors>(part, 0, rows, v);
        }
      }
      for (; v < run.vectors; ++v) {
        std::int64_t row = 0;
        if constexpr (kRows > 1) row = row_blocks<group, positions, kRows, 1>(part, row, rows, v);
        row_blocks<group, positions, 1, 1>(part, row, rows, v);
      }
      part.input += run.input_row;
      part.out += run.out_row;
    }
  }

  template <int group>
  static TESSERA_INLINE void all(const Run<T>& run) {
    // Those by which all take least.
    std::int64_t best = 1, least = INT64_MAX;
    for (const std::int64_t n :
         {std::int64_t(1), std::int64_t(2), std::int64_t(4), kSums, std::int64_t(kMostPositions)}) {
      if (n > run.positions) break;
      const std::int64_t sums = ceil_div(run.positions, n) * std::max(n, kSums);
      if (sums <= least) least = sums, best = n;
    }
    switch (best) {
      case kMostPositions:
        return blocks<group, kMostPositions, 1>(run);
      case kSums:
        return blocks<group, kSums, 1>(run);
      case 4:
        return blocks<group, 4, 2>(run);
      case 2:
        return blocks<group, 2, 4>(run);
      default:
        return blocks<group, 1, 4>(run);
    }
  }
};

template <class T, int bytes>
TESSERA_INLINE void run_positions(const Run<T>& run) {
  using Of = Grouped<T, bytes>;
  if constexpr (Of::kLanes > 2) {
    if (run.group == 2) return Of::template all<2>(run);
  }
  if constexpr (Of::kLanes > 4) {
    if (run.group == 4) return Of::template all<4>(run);
  }
  if constexpr (Of::kLanes > 8) {
    if (run.group == 8) return Of::template all<8>(run);
  }
  Of::template all<0>(run);
}
TESSERA_VERSIONS(run_version, run_positions, Run<T>)

/// Units are vectors of features, blocks of lines, positions of the dims before those, and images.
struct Attrs {
  ConvolutionProblem c;  ///< of two dims or more
  std::vector<TapSegment> lines, positions;
  std::int64_t lanes = 1, vectors = 1, vector_blocks = 1;
  std::int64_t line_block = 1, line_blocks = 1;
  std::int64_t batch_block = 1, batch_blocks = 1;
  std::int64_t taps = 1;
};

template <class T>
class Work {
 public:
  Work(const Attrs& a, const KernelCall& call)
      : a_(a),
        run_(run_version<T>()),
        input_(reinterpret_cast<const T*>(call.inputs[0])),
        filter_(reinterpret_cast<const T*>(call.inputs[1])),
        out_(reinterpret_cast<T*>(call.outputs[0])) {}

  void unit(std::int64_t unit) {
    const ConvolutionProblem& c = a_.c;
    const auto next = [&](std::int64_t n) { return std::exchange(unit, unit / n) % n; };
    const std::int64_t vector = next(a_.vector_blocks) * a_.vectors;
    const std::int64_t first = next(a_.line_blocks) * a_.line_block;
    const std::size_t outer = c.window.size() - 2;
    taps_.resize(outer);
    Run<T> run{};
    run.per_group = c.per_group;
    run.group = c.columns;
    run.vectors = std::min(a_.vectors, c.groups * c.columns / a_.lanes - vector);
    run.input_vector = a_.lanes / c.columns * c.per_group;
    run.filter_vector = a_.taps * c.per_group * a_.lanes;
    run.input = input_ + vector * run.input_vector;
    run.out = out_ + vector * a_.lanes + take_position(c, next, &taps_);
    const std::int64_t batch = unit * a_.batch_block;
    run.input += batch * c.input.batch;
    run.out += batch * c.result.batch;
    const ScratchMemory memory(std::size_t(run.vectors * run.filter_vector) * sizeof(T));
    T* const packed = reinterpret_cast<T*>(memory.data());
    pack(filter_ + vector * a_.lanes, run.vectors, packed);
    run.filter = packed;
    const std::int64_t end = std::min(first + a_.line_block, c.out[outer]);
    for (std::int64_t b = batch; b < std::min(batch + a_.batch_block, c.batch); ++b) {
      for (const TapSegment& lines : a_.lines) {
        const std::int64_t begin = before(lines, first);
        const std::int64_t count = before(lines, end) - begin;
        if (count > 0) add_lines(run, lines, begin, count);
      }
      run.input += c.input.batch;
      run.out += c.result.batch;
    }
  }

 private:
  /// How many of its positions come before `position`.
  static std::int64_t before(const TapSegment& s, std::int64_t position) {
    return std::clamp<std::int64_t>(position <= s.begin ? 0 : ceil_div(position - s.begin, s.step),
                                    0, s.count);
  }

  /// Rows of positions, in the direction in which there are more.
  void add_lines(Run<T> run, const TapSegment& lines, std::int64_t begin, std::int64_t count) {
    const ConvolutionProblem& c = a_.c;
    const std::size_t outer = c.window.size() - 2;
    const std::int64_t line = lines.advance * c.input.spatial[outer];
    const std::int64_t out_line = lines.step * c.result.spatial[outer];
    run.input += begin * line;
    run.out += lines.begin * c.result.spatial[outer] + begin * out_line;
    for (const TapSegment& s : a_.positions) {
      list_terms(lines.taps, s.taps);
      run.terms = terms_.data();
      run.term_count = std::int64_t(terms_.size());
      Run<T> row = run;
      row.out += s.begin * c.result.spatial.back();
      row.positions = s.count;
      row.input_step = s.advance * c.input.spatial.back();
      row.out_step = s.step * c.result.spatial.back();
      row.rows = count;
      row.input_row = line;
      row.out_row = out_line;
      if (s.count < std::min(count, kSums)) {
        std::swap(row.positions, row.rows);
        std::swap(row.input_step, row.input_row);
        std::swap(row.out_step, row.out_row);
      }
      run_(row);
    }
  }

  void list_terms(const TapRun& line, const TapRun& position) {
    const ConvolutionProblem& c = a_.c;
    const std::size_t outer = c.window.size() - 2;
    taps_.push_back(line);
    taps_.push_back(position);
    terms_.clear();
    // Where taps are in the packed filter: in the order of the window's dims.
    Dims places(c.window.size(), c.per_group * a_.lanes);
    for (std::size_t d = places.size() - 1; d-- > 0;) {
      places[d] = places[d + 1] * c.window[d + 1].size;
    }
    each_tap(c.window, taps_, c.input.spatial, places,
             [&](std::int64_t input, std::int64_t filter) {
               terms_.push_back({input, filter});
             });
    taps_.resize(outer);
  }

  /// By taps and features, as vectors are neighbours there.
  void pack(const T* filter, std::int64_t vectors, T* to) const {
    pack_dim(filter, vectors, 0, &to);
  }
  void pack_dim(const T* filter, std::int64_t vectors, std::size_t dim, T** to) const {
    const ConvolutionProblem& c = a_.c;
    if (dim < c.window.size()) {
      for (std::int64_t t = 0; t < c.window[dim].size; ++t) {
        pack_dim(filter + t * c.filter.spatial[dim], vectors, dim + 1, to);
      }
      return;
    }
    for (std::int64_t i = 0; i < c.per_group; ++i, *to += a_.lanes) {
      // By 16 bytes, of which all vectors are.
      constexpr std::int64_t kStep = 16 / std::int64_t(sizeof(T));
      const T* from = filter + i * c.filter.batch;
      T* of_vector = *to;
      for (std::int64_t v = 0; v < vectors; ++v, of_vector += a_.taps * c.per_group * a_.lanes) {
        for (std::int64_t k = 0; k < a_.lanes; k += kStep, from += kStep) {
          std::memcpy(of_vector + k, from, kStep * sizeof(T));
        }
      }
    }
  }

  const Attrs& a_;
  void (*run_)(const Run<T>&);
  const T* input_;
  const T* filter_;
  T* out_;
  std::vector<TapRun> taps_;
  std::vector<Term> terms_;
};

template <class T>
void run_grouped(const KernelCall& call) {
  Work<T> work(*static_cast<const Attrs*>(call.attributes), call);
  for (std::int64_t n = call.begin; n < call.end; ++n) work.unit(n);
}

std::int64_t lanes_of(DType type) {
  return version_for_machine(16, 32, 64) / std::int64_t(byte_size(type));
}

}  // namespace

bool has_groups_in_vectors(const ConvolutionProblem& c, DType type) {
  if ((type != DType::f32 && type != DType::f64) || c.window.empty() || c.groups_split_batch ||
      c.input.feature != 1 || c.columns < 2) {
    return false;
  }
  for (const ir::WindowDim& w : c.window) {
    if (w.size == 0) return false;
  }
  const std::int64_t lanes = lanes_of(type);
  const bool shuffled = c.columns < lanes && lanes % c.columns == 0 && c.per_group == c.columns;
  return c.groups > 1 && c.per_group > 0 && (shuffled || c.columns == lanes) &&
         c.groups * c.columns % lanes == 0;
}

KernelDescriptor grouped_convolution_kernel(ConvolutionProblem c, DType type) {
  if (c.window.size() == 1) c.add_line_dim();
  Attrs a;
  const std::size_t rank = c.window.size();
  a.lanes = lanes_of(type);
  a.lines = segments_of(c.window[rank - 2], c.in[rank - 2], c.out[rank - 2]);
  a.positions = segments_of(c.window.back(), c.in.back(), c.out.back());
  for (const ir::WindowDim& w : c.window) a.taps *= w.size;
  a.vectors = kUnitVectors;
  a.vector_blocks = equal_blocks(c.groups * c.columns / a.lanes, &a.vectors);
  a.line_block = kUnitLines;
  a.line_blocks = equal_blocks(c.out[rank - 2], &a.line_block);
  const std::int64_t in_unit = std::max<std::int64_t>(a.line_block * c.out.back(), 1);
  a.batch_block = std::max<std::int64_t>(kUnitPositions / in_unit, 1);
  a.batch_blocks = equal_blocks(c.batch, &a.batch_block);
  KernelDescriptor kernel;
  kernel.units = a.vector_blocks * a.line_blocks * a.batch_blocks;
  for (std::size_t d = 0; d + 2 < rank; ++d) kernel.units *= c.out[d];
  kernel.nanoseconds =
      prices::call::kConvolution +
      (type == DType::f32 ? prices::product::kShortF32 : prices::product::kShortF64) * c.products();
  kernel.key = kernel_key("grouped-convolution", type, a.lanes, c);
  a.c = std::move(c);
  kernel.make =
      kernel_maker(type == DType::f32 ? run_grouped<float> : run_grouped<double>, std::move(a));
  return kernel;
}

}  // namespace tessera::codegen
