// SPDX-License-Identifier: Apache-2.0
// Counts of elements in bins.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <tessera/array.h>

/// @file
/// Counts of elements in bins, as in numpy. All messages name the caller's line.

namespace tessera {

/// The bins of a histogram: their number, or their edges in ascending order, [bins + 1].
class Bins {
 public:
  /// Bins of equal width.
  Bins(int count) : count_(count) {}           // NOLINT: implicit by design
  Bins(std::int64_t count) : count_(count) {}  // NOLINT: implicit by design
  /// Bins between given edges.
  Bins(Array edges) : edges_(std::move(edges)) {}  // NOLINT: implicit by design
  /// The number of bins of equal width; meaningless with edges.
  std::int64_t count() const { return count_; }
  /// The edges, if they are given.
  const std::optional<Array>& edges() const { return edges_; }

 private:
  std::int64_t count_ = 0;
  std::optional<Array> edges_;
};

/// Options of `histogram` and its kin.
struct HistogramOptions {
  /// What bins of equal width span; by default from the smallest to the largest element.
  std::optional<std::pair<double, double>> range{};
  /// Weights of the elements, of x's shape; all 1 by default.
  std::optional<Array> weights{};
  /// Divide by the total and by the bins' widths.
  bool density = false;
};
/// Edges of the bins of `histogram`: [bins + 1].
/// @throws ValueError if there are no bins.
Array histogram_bin_edges(Operand x, const Bins& bins = 10, const HistogramOptions& options = {});
/// Sums of weights in bins, [bins], and the bins' edges, [bins + 1]; both floats. Bins contain
/// their lower edges, the last one both. Other elements don't count.
/// @throws ShapeError if the weights haven't x's shape.
std::pair<Array, Array> histogram(Operand x, const Bins& bins = 10,
                                  const HistogramOptions& options = {});
/// Counts in D dimensions (s32, or sums of weights) and the edges of each: points [N, D] ->
/// [bins.., ..]. `bins` has one
/// entry for each dimension, or one for all; so has `ranges`, which may be empty.
/// @throws ShapeError if the points aren't a matrix, or the weights aren't [N].
/// @throws ValueError for another number of bins or ranges.
std::pair<Array, std::vector<Array>> histogramdd(
    Operand points, const std::vector<Bins>& bins = {10},
    const std::vector<std::pair<double, double>>& ranges = {},
    const std::optional<Array>& weights = {}, bool density = false);
/// Counts of points (x, y), vectors of N, and the edges in both dimensions.
struct Histogram2d {
  Array counts;            ///< [x's bins, y's bins]
  Array x_edges, y_edges;  ///< [bins + 1]
};
/// `histogramdd` in two dimensions.
Histogram2d histogram2d(Operand x, Operand y, const std::vector<Bins>& bins = {10},
                        const std::vector<std::pair<double, double>>& ranges = {},
                        const std::optional<Array>& weights = {}, bool density = false);

/// Options of `bincount`.
struct BincountOptions {
  /// Weights of the elements, of x's shape; all 1 (s32) by default.
  std::optional<Array> weights{};
  /// Smallest length of the result.
  std::int64_t minlength = 0;
  /// Length of the result, which traces need: elements from there on don't count. By default one
  /// more than the largest element.
  std::optional<std::int64_t> length{};
};
/// Sum of the weights of each integer from 0: a vector x -> [length]. Negative elements count as 0.
/// @throws ShapeError if x isn't a vector, or the weights haven't its shape.
/// @throws DTypeError if x isn't an array of integers or pred.
/// @throws TracerError without `length` in a trace.
Array bincount(Operand x, const BincountOptions& options = {});
/// Number (s32) of the bin of each element, for monotonic edges: i where edges[i-1] <= x <
/// edges[i], or with `right` edges[i-1] < x <= edges[i]; 0 and the number of edges beyond them.
/// @throws ShapeError if the edges aren't a vector.
Array digitize(Operand x, Operand edges, bool right = false);

}  // namespace tessera
