// SPDX-License-Identifier: Apache-2.0
// Convolutions as products of rows of positions: which rows are formed at once, and of what copy.
#include "src/codegen/kernels/convolutions/padded_convolution.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "src/codegen/kernels/convolutions/padded_rows.h"
#include "src/codegen/kernels/convolutions/tap_runs.h"
#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/loops/fused_loop.h"
#include "src/codegen/kernels/prices.h"
#include "src/codegen/kernels/products/batch_gemm.h"

namespace tessera::codegen {
namespace {

using runtime::KernelCall;

/// Of a unit: rows of products, and what is copied for them.
constexpr std::int64_t kUnitRows = 240, kCopiedBytes = 512 << 10;
/// Longer rows are split.
constexpr std::int64_t kMostPositions = 1024;
/// More than that isn't copied: dilations that are larger than the input, say.
constexpr std::int64_t kMostCopiedBytes = 16 << 20;
/// So few features of a position are put side by side wherever they are.
constexpr std::int64_t kFewFeatures = 8;
/// Features that are a term of their own, where padding is to be left out.
constexpr std::int64_t kLeastDepth = 16;
/// Where there are fewer units the columns are split as well, into blocks of whole strips.
constexpr std::int64_t kLeastUnits = 4, kStripBytes = 256;

/// Units are positions of each phase, lines of a phase, phases of lines, positions of the dims
/// before those, the batch, groups and blocks of columns.
struct PaddedAttrs {
  ConvolutionProblem c;    ///< of two dims or more
  PaddedRows rows, lines;  ///< of the last dim and the one before
  bool copies = true;      ///< else the input is read where it is
  bool features_last = false;
  bool joins_taps = false;  ///< features and taps of a row are neighbours, as in the filter
  /// Positions and lines that see the same taps, where those that see padding leave products out
  /// instead of reading zeros from a copy.
  std::vector<TapSegment> by_terms, lines_by_terms;
  std::int64_t position_block = 1, position_blocks = 1;  ///< of a phase
  std::int64_t line_block = 1, line_blocks = 1;          ///< lines of a phase
  std::int64_t batch_block = 1, batch_blocks = 1;
  std::int64_t column_block = 1, column_blocks = 1;

  /// Of the copy: features of a line, and lines of a plane.
  std::int64_t line_size() const { return rows.length() * c.per_group; }
};

template <class T>
class PaddedWork {
 public:
  PaddedWork(const PaddedAttrs& a, const KernelCall& call)
      : a_(a),
        input_(reinterpret_cast<const T*>(call.inputs[0])),
        filter_(reinterpret_cast<const T*>(call.inputs[1])),
        out_(reinterpret_cast<T*>(call.outputs[0])) {}

  void unit(std::int64_t unit) {
    const ConvolutionProblem& c = a_.c;
    const auto next = [&](std::int64_t n) { return std::exchange(unit, unit / n) % n; };
    const std::int64_t first_position = next(a_.position_blocks) * a_.position_block;
    const std::int64_t shift = first_position * a_.rows.advance;  // of what they see
    const std::int64_t first = next(a_.line_blocks) * a_.line_block;
    const RowPhase& lines =
        a_.lines.phases[std::size_t(next(std::int64_t(a_.lines.phases.size())))];
    const std::int64_t count = std::min(a_.line_block, lines.count - first);
    const std::size_t outer = c.window.size() - 2;
    taps_.resize(outer);
    T* out = out_ + take_position(c, next, &taps_);
    const std::int64_t batch = next(a_.batch_blocks) * a_.batch_block;
    const std::int64_t images = std::min(a_.batch_block, c.batch - batch);
    const std::int64_t group = next(c.groups), column = unit * a_.column_block;
    const std::int64_t line_step = a_.lines.step * c.result.spatial[outer];
    out += batch * c.result.batch + group * c.columns + column;
    out += lines.begin * c.result.spatial[outer] + first * line_step;
    if (count <= 0) return;

    planes_.clear();
    each_tap(c.window, taps_, c.input.spatial, c.filter.spatial,
             [&](std::int64_t in, std::int64_t filter) {
               planes_.push_back({in, filter});
             });
    // Of the phase: the input's line that the first tap of the unit's first line sees.
    const std::int64_t top = lines.taps.at + first * a_.lines.advance;
    const std::int64_t seen =
        lines.taps.count == 0
            ? 0
            : (count - 1) * a_.lines.advance + (lines.taps.count - 1) * lines.taps.advance + 1;
    const T* const from = input_ + batch * c.input.batch + c.first_of_group(group);
    const std::int64_t line = a_.copies ? a_.line_size() : c.input.spatial[outer];
    const std::int64_t plane = seen * line;
    const std::int64_t image = a_.copies ? std::int64_t(planes_.size()) * plane : c.input.batch;
    const ScratchMemory memory(a_.copies ? std::size_t(images * image) * sizeof(T) : 0);
    T* const copied = reinterpret_cast<T*>(memory.data());
    if (a_.copies) copy_planes(from, images, top, seen, shift, copied);

    BatchGemm<T> gemm;
    gemm.n = std::min(a_.column_block, c.columns - column);
    gemm.a_column = a_.copies && !a_.features_last ? a_.rows.length()
                    : a_.copies || a_.joins_taps   ? 1
                                                   : c.input.feature;
    const std::int64_t position = !a_.copies         ? c.input.spatial.back()
                                  : a_.features_last ? c.per_group
                                                     : 1;
    // Where features are not last, copies have neighbours next to each other.
    gemm.a_row = a_.copies && !a_.features_last ? 1 : a_.rows.advance * position;
    gemm.b_row = c.filter.batch;
    gemm.c_row = a_.rows.step * c.result.spatial.back();
    for (const RowPhase& phase : a_.rows.phases) {
      gemm.m = std::min(a_.position_block, phase.count - first_position);
      const auto place = [&](std::int64_t b, std::int64_t y) {
        return typename BatchGemm<T>::Lot{b * image + y * a_.lines.advance * line,
                                          b * c.result.batch + y * line_step};
      };
      if (a_.by_terms.empty()) {
        list_lots(lines.taps, top, count, a_.joins_taps ? 1 : phase.taps.count, place, images);
      } else {
        list_parts({first, first + count}, {first_position, first_position + gemm.m}, place, images,
                   gemm);
      }
      gemm.lots = lots_.data();
      gemm.lot_count = std::int64_t(lots_.size());
      terms_.clear();
      for (std::size_t p = 0; p < planes_.size(); ++p) {
        const T* const in =
            a_.copies ? copied + std::int64_t(p) * plane
                      : from + planes_[p].input + top * line + (a_.rows.first + shift) * position;
        add(in, filter_ + planes_[p].filter + group * c.columns + column, lines.taps, line, phase,
            position);
      }
      gemm.terms = terms_.data();
      gemm.count = std::int64_t(terms_.size());
      gemm.c = out + (phase.begin + first_position * a_.rows.step) * c.result.spatial.back();
      if (gemm.m > 0) batch_gemm(gemm);
    }
  }

 private:
  struct Plane {
    std::int64_t input, filter;  ///< where it begins, and the elements of the filter that see it
  };

  /// Lines [top, top + seen) of all planes of each image, one after the other.
  void copy_planes(const T* from, std::int64_t images, std::int64_t top, std::int64_t seen,
                   std::int64_t shift, T* copied) const {
    for (std::int64_t b = 0; b < images; ++b) {
      for (const Plane& plane : planes_) {
        for (std::int64_t y = 0; y < seen; ++y, copied += a_.line_size()) {
          copy_line(from + b * a_.c.input.batch + plane.input, top + y, shift, copied);
        }
      }
    }
  }

  std::int64_t place(std::size_t dim, std::int64_t tap) const {
    const ir::WindowDim& w = a_.c.window[dim];
    return (w.reversal ? w.size - 1 - tap : tap) * a_.c.filter.spatial[dim];
  }

  struct Range {
    std::int64_t begin, end;
  };
  /// Flags for all terms that are made of lines and taps of a row: whether a lot has them.
  const char* flags_of(const Range& lines, std::int64_t all_lines, const Range& taps,
                       std::int64_t all_taps) {
    const bool all =
        lines.begin == 0 && lines.end == all_lines && taps.begin == 0 && taps.end == all_taps;
    if (all) return nullptr;
    std::vector<char>& flags = flags_.emplace_back();
    for (std::size_t p = 0; p < planes_.size(); ++p) {
      for (std::int64_t l = 0; l < all_lines; ++l) {
        for (std::int64_t t = 0; t < all_taps; ++t) {
          flags.push_back(l >= lines.begin && l < lines.end && t >= taps.begin && t < taps.end);
        }
      }
    }
    return flags.data();
  }

  /// A lot for each line of each image. Lines whose window reaches beyond the input have the terms
  /// of the taps alone that see it: they come behind those that have all terms.
  template <class Place>
  void list_lots(const TapRun& taps, std::int64_t top, std::int64_t count, std::int64_t of_line,
                 const Place& place, std::int64_t images) {
    const std::int64_t in = a_.c.in[a_.c.window.size() - 2];
    lots_.clear();
    flags_.clear();
    for (const bool inside : {true, false}) {
      for (std::int64_t y = 0; y < count; ++y) {
        const std::int64_t first = top + y * a_.lines.advance;
        std::int64_t begin = 0, end = taps.count;
        if (planes_.size() == 1) {
          while (begin < end && first + begin * taps.advance < 0) ++begin;
          while (end > begin && first + (end - 1) * taps.advance >= in) --end;
        }
        if ((begin == 0 && end == taps.count) != inside) continue;
        const char* const flags = flags_of({begin, end}, taps.count, {0, of_line}, of_line);
        for (std::int64_t b = 0; b < images; ++b) {
          lots_.push_back(place(b, y));
          lots_.back().terms = flags;
        }
      }
    }
  }

  /// Lots of positions of each line that see the same taps, those that see all of them first.
  template <class Place>
  void list_parts(const Range& lines, const Range& positions, const Place& place,
                  std::int64_t images, const BatchGemm<T>& gemm) {
    const std::size_t rank = a_.c.window.size();
    const std::int64_t of_lines = a_.c.window[rank - 2].size, of_row = a_.c.window.back().size;
    lots_.clear();
    flags_.clear();
    for (const bool inside : {true, false}) {
      for (const TapSegment& l : a_.lines_by_terms) {
        for (const TapSegment& s : a_.by_terms) {
          if ((l.taps.count == of_lines && s.taps.count == of_row) != inside) continue;
          const std::int64_t first = std::max(lines.begin, l.begin);
          const std::int64_t end = std::min(lines.end, l.begin + l.count);
          const std::int64_t x = std::max(positions.begin, s.begin);
          const std::int64_t m = std::min(positions.end, s.begin + s.count) - x;
          if (first >= end || m <= 0) continue;
          const Range of_l{l.taps.begin, l.taps.begin + l.taps.count};
          const Range of_s{s.taps.begin, s.taps.begin + s.taps.count};
          typename BatchGemm<T>::Lot lot;
          lot.m = m;
          if (a_.joins_taps) {
            lot.terms = flags_of(of_l, of_lines, {0, 1}, 1);
            lot.first = of_s.begin * a_.c.per_group;
            if (of_s.end < of_row) lot.last = of_s.end * a_.c.per_group;
          } else {
            lot.terms = flags_of(of_l, of_lines, of_s, of_row);
          }
          for (std::int64_t y = first; y < end; ++y) {
            for (std::int64_t b = 0; b < images; ++b) {
              const auto at = place(b, y - lines.begin);
              lot.a = at.a + (x - positions.begin) * gemm.a_row;
              lot.c = at.c + (x - positions.begin) * gemm.c_row;
              lots_.push_back(lot);
            }
          }
        }
      }
    }
  }

  /// Terms of all taps of lines and rows of a phase.
  void add(const T* in, const T* filter, const TapRun& lines, std::int64_t line,
           const RowPhase& phase, std::int64_t position) {
    const std::size_t rank = a_.c.window.size();
    for (std::int64_t l = 0; l < lines.count; ++l) {
      const T* const of_line = filter + place(rank - 2, lines.begin + l * lines.step);
      const T* const line_in = in + l * lines.advance * line;
      if (a_.joins_taps) {
        terms_.push_back({line_in + (phase.taps.at - a_.rows.first) * position, of_line,
                          phase.taps.count * a_.c.per_group});
        continue;
      }
      for (std::int64_t k = 0; k < phase.taps.count; ++k) {
        const std::int64_t x = phase.taps.at + k * phase.taps.advance;
        const std::int64_t at =
            a_.copies && !a_.features_last ? a_.rows.at(x) : (x - a_.rows.first) * position;
        terms_.push_back({line_in + at,
                          of_line + place(rank - 1, phase.taps.begin + k * phase.taps.step),
                          a_.c.per_group});
      }
    }
  }

  void copy_line(const T* plane, std::int64_t y, std::int64_t shift, T* to) const {
    const ConvolutionProblem& c = a_.c;
    const std::size_t dim = c.window.size() - 2;
    if (y < 0 || y >= c.in[dim]) {
      std::fill_n(to, a_.line_size(), T(0));
      return;
    }
    const T* const from = plane + y * c.input.spatial[dim];
    if (!a_.features_last) {
      copy_padded(a_.rows, RowCopy<T>{from, c.in.back(), c.input.spatial.back(), c.input.feature,
                                      c.per_group, shift, to});
      return;
    }
    const std::int64_t n = c.per_group, length = a_.rows.length();
    const std::int64_t first = a_.rows.first + shift;
    const std::int64_t begin = std::clamp<std::int64_t>(-first, 0, length);
    const std::int64_t end = std::clamp(c.in.back() - first, begin, length);
    std::fill_n(to, begin * n, T(0));
    std::fill_n(to + end * n, (length - end) * n, T(0));
    const T* row = from + (first + begin) * c.input.spatial.back();
    if (c.input.feature != 1) {
      for (std::int64_t f = 0; f < n; ++f) {
        const T* at = row + f * c.input.feature;
        for (std::int64_t x = begin; x < end; ++x, at += c.input.spatial.back()) {
          to[x * n + f] = *at;
        }
      }
      return;
    }
    if (c.input.spatial.back() == n) {
      std::copy_n(row, (end - begin) * n, to + begin * n);
      return;
    }
    for (std::int64_t x = begin; x < end; ++x, row += c.input.spatial.back()) {
      std::copy_n(row, n, to + x * n);
    }
  }

  const PaddedAttrs& a_;
  const T* input_;
  const T* filter_;
  T* out_;
  std::vector<TapRun> taps_;
  std::vector<Plane> planes_;
  std::vector<typename BatchGemm<T>::Lot> lots_;
  std::deque<std::vector<char>> flags_;  ///< of lots
  std::vector<typename BatchGemm<T>::Term> terms_;
};

template <class T>
void run_padded(const KernelCall& call) {
  PaddedWork<T> work(*static_cast<const PaddedAttrs*>(call.attributes), call);
  for (std::int64_t n = call.begin; n < call.end; ++n) work.unit(n);
}

/// Whether all taps of all positions see the input.
bool stays_inside(const PaddedRows& rows, std::int64_t in) {
  return std::all_of(rows.phases.begin(), rows.phases.end(), [&](const RowPhase& p) {
    if (p.taps.count == 0) return true;
    const std::int64_t last =
        p.taps.at + (p.count - 1) * rows.advance + (p.taps.count - 1) * p.taps.advance;
    return p.taps.at >= 0 && last < in;
  });
}

/// Whether features of neighbouring positions are neighbours.
bool stands_in_rows(const ConvolutionProblem& c) {
  return (c.input.feature == 1 || c.per_group == 1) && c.input.spatial.back() == c.per_group;
}

/// Whether a row's taps and features are one stretch of the filter, and of the input where it
/// stands in rows.
bool joins_taps(const ConvolutionProblem& c) {
  const ir::WindowDim& w = c.window.back();
  return w.size > 1 && w.lhs_dilation == 1 && w.rhs_dilation == 1 && !w.reversal &&
         (c.input.feature == 1 || c.per_group <= kFewFeatures) &&
         c.filter.spatial.back() == c.per_group * c.filter.batch;
}

/// Whether parts of lines that see the same taps take no longer than whole lines of a copy: those
/// of few rows leave tiles partly empty, and each kind takes as long as so many products of vectors
/// to set up (measured on an Intel Xeon with AVX-512). Counted in products of a row.
bool leaves_out_terms(const ConvolutionProblem& c, DType type, std::int64_t images,
                      const std::vector<TapSegment>& lines,
                      const std::vector<TapSegment>& positions) {
  constexpr std::int64_t kLowTile = 3, kProductsOfKind = 500;
  const std::int64_t all_taps = c.window.back().size;
  const std::int64_t lanes =
      type == DType::f64 ? batch_gemm_lanes<double>() : batch_gemm_lanes<float>();
  const std::int64_t of_row = c.per_group * ((c.columns + lanes - 1) / lanes);
  const auto kinds = std::int64_t(lines.size() * positions.size());
  std::int64_t parts = kinds * kProductsOfKind / std::max<std::int64_t>(of_row, 1), whole = 0;
  for (const TapSegment& l : lines) {
    for (const TapSegment& s : positions) {
      parts += std::max(l.count * s.count * images, kLowTile) * l.taps.count * s.taps.count;
      whole += l.count * s.count * images * l.taps.count * all_taps;
    }
  }
  return parts <= whole;
}

/// Blocks of units, so that what each copies is in a cache. Nothing if that is too much.
std::optional<PaddedAttrs> padded_attrs(ConvolutionProblem c, DType type) {
  for (const ir::WindowDim& w : c.window) {
    if (w.size == 0) return std::nullopt;
  }
  // The batch takes the place of lines.
  if (c.window.size() == 1) c.add_line_dim();
  const auto element = std::int64_t(byte_size(type));
  const std::size_t rank = c.window.size();
  const std::int64_t lines = c.out[rank - 2];
  PaddedAttrs a;
  a.rows = padded_rows(c.window.back(), c.out.back(), kMostPositions, 1);
  const std::int64_t in_row = a.rows.phases.front().count;
  a.position_block = kMostPositions;
  a.position_blocks = equal_blocks(in_row, &a.position_block);
  a.lines = padded_rows(c.window[rank - 2], lines, lines, 1);
  a.features_last = c.input.feature == 1 || c.per_group <= kFewFeatures;
  a.joins_taps = joins_taps(c);
  std::int64_t planes = 1;
  for (std::size_t d = 0; d + 2 < rank; ++d) planes *= std::min(c.window[d].size, c.in[d]);
  a.copies = !(stays_inside(a.rows, c.in.back()) && stays_inside(a.lines, c.in[rank - 2]) &&
               (a.joins_taps ? stands_in_rows(c) : c.input.feature == 1 || c.per_group == 1));
  const ir::WindowDim &of_rows = c.window.back(), &of_lines = c.window[rank - 2];
  // Features of a group lie far apart: those of all positions would meet in few places of the first
  // cache.
  if (a.copies && c.input.feature == 1 && stands_in_rows(c) && of_rows.lhs_dilation == 1 &&
      of_lines.lhs_dilation == 1 && (a.joins_taps || c.per_group >= kLeastDepth)) {
    auto by_terms = segments_of(of_rows, c.in.back(), c.out.back());
    auto lines_by_terms = segments_of(of_lines, c.in[rank - 2], lines);
    const std::int64_t in_unit = kUnitRows / std::max<std::int64_t>(c.positions(), 1);
    const std::int64_t images =
        std::clamp<std::int64_t>(in_unit, 1, std::max<std::int64_t>(c.batch, 1));
    if (leaves_out_terms(c, type, images, lines_by_terms, by_terms)) {
      a.by_terms = std::move(by_terms);
      a.lines_by_terms = std::move(lines_by_terms);
      a.copies = false;
    }
  }
  const std::int64_t in_phase = a.lines.phases.front().count;
  // Lines that the taps of one see besides it.
  std::int64_t reach = 0;
  for (const RowPhase& p : a.lines.phases) {
    reach = std::max(reach, (p.taps.count - 1) * p.taps.advance + 1);
  }
  const auto bytes = [&](std::int64_t of_phase, std::int64_t images) {
    const double seen = double((of_phase - 1) * a.lines.advance + reach);
    return seen * double(planes) * double(a.rows.length()) * double(c.per_group) *
           double(images * element);
  };
  const auto fits = [&](std::int64_t of_phase, std::int64_t images) {
    return of_phase * images * a.position_block <= kUnitRows &&
           bytes(of_phase, images) <= kCopiedBytes;
  };
  while (a.line_block < in_phase && fits(a.line_block + 1, 1)) ++a.line_block;
  a.line_blocks = equal_blocks(in_phase, &a.line_block);
  if (a.line_blocks == 1) {
    while (a.batch_block < c.batch && fits(a.line_block, a.batch_block + 1)) ++a.batch_block;
  }
  a.batch_blocks = equal_blocks(c.batch, &a.batch_block);
  if (a.copies && bytes(a.line_block, a.batch_block) > kMostCopiedBytes) return std::nullopt;
  a.c = std::move(c);
  return a;
}

}  // namespace

double padded_convolution_use(const ConvolutionProblem& c, DType type) {
  if ((type != DType::f32 && type != DType::f64) || c.window.empty() || c.per_group == 0) return 0;
  const std::int64_t step = padded_rows(c.window.back(), c.out.back(), 1, 1).step;
  const std::int64_t taps = joins_taps(c) ? c.window.back().size : 1;
  return batch_gemm_use(double(c.out.back()) / double(step), double(taps * c.per_group));
}

bool padded_convolution_fits(const ConvolutionProblem& c, DType type) {
  return padded_attrs(c, type).has_value();
}

KernelDescriptor padded_convolution_kernel(ConvolutionProblem given, DType type) {
  const double use = padded_convolution_use(given, type);
  PaddedAttrs a = padded_attrs(std::move(given), type).value();
  const ConvolutionProblem& c = a.c;
  const auto element = std::int64_t(byte_size(type));
  KernelDescriptor kernel;
  kernel.units = a.position_blocks * a.line_blocks * std::int64_t(a.lines.phases.size()) *
                 a.batch_blocks * c.groups;
  for (std::size_t d = 0; d + 2 < c.window.size(); ++d) kernel.units *= c.out[d];
  const std::int64_t strip = kStripBytes / element, strips = (c.columns + strip - 1) / strip;
  const std::int64_t parts =
      std::min((kLeastUnits + kernel.units - 1) / kernel.units, std::max<std::int64_t>(strips, 1));
  a.column_block = (strips + parts - 1) / parts * strip;
  a.column_blocks = (c.columns + a.column_block - 1) / a.column_block;
  kernel.units *= a.column_blocks;
  kernel.nanoseconds =
      prices::call::kConvolution +
      (type == DType::f32 ? prices::product::kF32 : prices::product::kF64) * c.products() / use;
  kernel.key = kernel_key("padded-convolution", type, c);
  kernel.make =
      kernel_maker(type == DType::f32 ? run_padded<float> : run_padded<double>, std::move(a));
  return kernel;
}

}  // namespace tessera::codegen
