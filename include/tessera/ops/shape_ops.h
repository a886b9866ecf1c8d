// SPDX-License-Identifier: Apache-2.0
// Operations that change the shape of arrays or move their elements.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <tessera/array.h>
#include <tessera/ops/reductions.h>

/// @file
/// Operations that change the shape of arrays or move their elements, as in numpy.
///
/// Results have the operand's dtype; functions of several arrays promote to a common dtype.
/// Negative axes count from the end.
///
/// @throws ValueError if an axis is out of range or given twice.
/// @throws ShapeError if shapes don't fit, or a size is negative or too large.
///
/// All messages name the caller's line.

namespace tessera {

/// Gives the elements, in row-major order, another shape. One size may be -1: it is inferred.
/// @code
/// reshape(x, {-1, 4});   // f32[2,6] -> f32[3,4]
/// @endcode
/// @throws ShapeError if the numbers of elements differ, or more than one size is -1.
Array reshape(Operand x, std::vector<std::int64_t> shape);
/// Flattens to one dimension: x [d0, d1, ..] -> [d0 * d1 * ..].
Array ravel(Operand x);
/// Same as `ravel`.
Array flatten(Operand x);
/// Removes dimensions of size 1: all of them, or those given.
/// @throws ShapeError if a given dimension has another size.
Array squeeze(Operand x, Axes axes = {});
/// Inserts dimensions of size 1 at these positions of the result.
Array expand_dims(Operand x, Axes axes);
/// Reverses the order of the dimensions: x [A, B, C] -> [C, B, A].
Array transpose(Operand x);
/// Permutes the dimensions: dimension i of the result is dimension perm[i] of x.
/// @throws ValueError if `perm` isn't a permutation of all dimensions.
Array transpose(Operand x, std::vector<std::int64_t> perm);
/// Exchanges two dimensions.
Array swapaxes(Operand x, std::int64_t a, std::int64_t b);
/// Moves dimensions `source` to positions `destination` of the result; the others keep their order.
/// @throws ValueError if the numbers of axes differ.
Array moveaxis(Operand x, Axes source, Axes destination);
/// Broadcasts to a larger shape, as numpy.broadcast_to.
/// @throws ShapeError if x doesn't broadcast to it.
Array broadcast_to(Operand x, std::vector<std::int64_t> shape);
/// Broadcasts all arrays to their common shape; dtypes are kept.
/// @throws ShapeError if there is none.
std::vector<Array> broadcast_arrays(const std::vector<Array>& arrays,
                                    Location location = Location::current());
/// Turns a scalar into [1]; other arrays are unchanged.
Array atleast_1d(Operand x);
/// Turns scalars into [1, 1] and vectors [N] into [1, N]; other arrays are unchanged.
Array atleast_2d(Operand x);

/// Joins arrays along an existing axis: [A, N0, B], [A, N1, B], .. -> [A, N0 + N1 + .., B] for axis
/// 1.
/// @throws ShapeError if the arrays differ in rank or in another dimension, or are scalars.
/// @throws ValueError if there are no arrays.
Array concatenate(const std::vector<Array>& arrays, std::int64_t axis = 0,
                  Location location = Location::current());
/// Joins M arrays of one shape along a new axis: [A, B], .. -> [M, A, B] for axis 0.
/// @throws ShapeError if the shapes differ.
/// @throws ValueError if there are no arrays.
Array stack(const std::vector<Array>& arrays, std::int64_t axis = 0,
            Location location = Location::current());
/// Joins arrays along dimension 0; vectors [N] count as rows [1, N].
Array vstack(const std::vector<Array>& arrays, Location location = Location::current());
/// Joins arrays along dimension 1, vectors along dimension 0.
Array hstack(const std::vector<Array>& arrays, Location location = Location::current());
/// Splits an axis into `sections` equal parts.
/// @throws ShapeError if the size of the axis isn't a multiple of `sections`.
/// @throws ValueError if `sections` is less than 1.
std::vector<Array> split(Operand x, std::int64_t sections, std::int64_t axis = 0);
/// Splits an axis before each of these positions: {2, 5} gives [0, 2), [2, 5) and [5, N). Negative
/// positions count from the end; positions out of range are clamped.
std::vector<Array> split(Operand x, std::vector<std::int64_t> indices, std::int64_t axis = 0);
/// Splits an axis into `sections` parts whose sizes differ by at most one, larger ones first.
/// @throws ValueError if `sections` is less than 1.
std::vector<Array> array_split(Operand x, std::int64_t sections, std::int64_t axis = 0);
/// Splits an axis into its elements: N along the axis -> N arrays without the axis.
std::vector<Array> unstack(Operand x, std::int64_t axis = 0);

/// Repeats the array reps[d] times along dimension d. The shorter of `reps` and x's shape is padded
/// in front with 1s.
/// @throws ValueError if a number of repeats is negative.
Array tile(Operand x, std::vector<std::int64_t> reps);
/// Repeats each element `count` times along an axis; without one, of the flattened array.
/// @throws ValueError if `count` is negative.
Array repeat(Operand x, std::int64_t count, std::optional<std::int64_t> axis = {});
/// Reverses the order of elements along axes, all by default.
Array flip(Operand x, Axes axes = {});
/// Rotates elements by `shift` positions along axes; elements that leave at the end re-enter at the
/// start. Without axes the flattened array is rotated.
Array roll(Operand x, std::int64_t shift, Axes axes = {});
/// Rotates by shifts[i] positions along axes[i]; a single shift applies to all axes.
/// @throws ValueError if the numbers of shifts and axes differ, or there are no axes.
Array roll(Operand x, std::vector<std::int64_t> shifts, Axes axes);
/// Rotates the plane of the first two dimensions counterclockwise by quarter turns.
/// @throws ShapeError for ranks below 2.
Array rot90(Operand x, std::int64_t turns = 1);

/// What `pad` fills the margins with.
enum class PadMode : std::uint8_t {
  constant,     ///< a constant value
  edge,         ///< the outermost element
  reflect,      ///< the array mirrored at its outermost elements, which aren't repeated
  symmetric,    ///< the array mirrored at its borders; the outermost element is repeated
  wrap,         ///< the opposite end of the array
  linear_ramp,  ///< numbers that lead from the outermost element to another number
  maximum,      ///< the largest element of the dimension, or of some at its end
  mean,         ///< their mean, of integers rounded to the nearest (ties to even)
  median,       ///< their median, rounded likewise
  minimum,      ///< the smallest element
  empty,        ///< nothing in particular (zeros)
};
/// Options of `pad`.
struct PadOptions {
  /// See PadMode.
  PadMode mode = PadMode::constant;
  /// Value for PadMode::constant, converted to the array's dtype; zero by default.
  std::optional<Array> value{};
  /// Values before and after each dimension, or one pair for all: those of PadMode::constant in
  /// place of `value`, and the outermost ones of PadMode::linear_ramp, which are 0 by default.
  std::vector<std::pair<Array, Array>> values{};
  /// Numbers of elements at each end (at least 1) that statistics are taken of, one pair per
  /// dimension or one for all; by default all elements.
  std::vector<std::pair<std::int64_t, std::int64_t>> stat_length{};
  /// For `reflect` and `symmetric`: mirrored elements are subtracted from twice the outermost one
  /// (numpy's reflect_type "odd").
  bool odd = false;
};
/// Adds margins: widths[d] elements before and after in dimension d. A single pair applies to all
/// dimensions.
/// @code
/// pad(x, {{1, 1}, {0, 2}}, {.mode = PadMode::edge})
/// @endcode
/// @throws ValueError if a width is negative, the number of pairs is wrong, an option is given that
///   the mode has no use for, or a number of elements is less than 1.
/// @throws ShapeError if the value isn't a scalar, or elements of an empty dimension would have to
///   be repeated.
Array pad(Operand x, std::vector<std::pair<std::int64_t, std::int64_t>> widths,
          const PadOptions& options = {});
/// Fills the margins of a vector: gets the vector with zeros in its margins, the margins' widths
/// and the axis, and returns the vector with other margins.
using PadFunction =
    std::function<Array(Array, std::pair<std::int64_t, std::int64_t>, std::int64_t)>;
/// Adds margins that a function fills, along one axis after the other, as numpy.pad with a
/// function.
/// @throws ValueError as `pad`.
Array pad_with(Operand x, std::vector<std::pair<std::int64_t, std::int64_t>> widths,
               const PadFunction& f);

/// Diagonals x[i, i + offset] of the planes of two axes: x [.., M, .., N, ..] -> [.., K], the
/// diagonal last.
/// @throws ShapeError for ranks below 2.
/// @throws ValueError if the axes are equal.
Array diagonal(Operand x, std::int64_t offset = 0, std::int64_t axis1 = 0, std::int64_t axis2 = 1);
/// The k-th diagonal of a matrix, or the square matrix with a vector as its k-th diagonal and zeros
/// elsewhere: [N] -> [N + |k|, N + |k|].
/// @throws ShapeError for other ranks.
Array diag(Operand x, std::int64_t k = 0);
/// Sum of each diagonal, with the dtype of `sum`: x [.., M, .., N, ..] -> [..].
/// @throws ShapeError for ranks below 2.
/// @throws ValueError if the axes are equal.
Array trace(Operand x, std::int64_t offset = 0, std::int64_t axis1 = 0, std::int64_t axis2 = 1);
/// Coordinate arrays of a grid: vectors [N0], [N1], .. -> arrays [N0, N1, ..], the i-th of which
/// varies along dimension i. With `xy` the first two dimensions are exchanged, as in numpy.
/// @throws ShapeError if an array isn't a vector or scalar.
std::vector<Array> meshgrid(const std::vector<Array>& arrays, bool xy = true,
                            Location location = Location::current());

}  // namespace tessera
