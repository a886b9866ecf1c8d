// SPDX-License-Identifier: Apache-2.0
// Operations that change the shape of arrays or move their elements, as in numpy. Negative axes
// count from the end. ShapeError and ValueError name the caller's line.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <tessera/array.h>
#include <tessera/ops/reductions.h>

namespace tessera {

/// The same elements in row-major order under another shape; one size may be -1: what is left.
Array reshape(Operand x, std::vector<std::int64_t> shape);
/// One dimension.
Array ravel(Operand x);
/// As ravel.
Array flatten(Operand x);
/// Drops dims of size 1: all, or those named (ShapeError if one has another size).
Array squeeze(Operand x, Axes axes = {});
/// New dims of size 1, at these places of the result.
Array expand_dims(Operand x, Axes axes);
/// All dims in reverse order.
Array transpose(Operand x);
/// Dim i of the result is dim perm[i] of x.
Array transpose(Operand x, std::vector<std::int64_t> perm);
/// Exchanges two dims.
Array swapaxes(Operand x, std::int64_t a, std::int64_t b);
/// Dims `source` stand at `destination` in the result, the others keep their order.
Array moveaxis(Operand x, Axes source, Axes destination);
/// numpy's broadcast to a larger shape.
Array broadcast_to(Operand x, std::vector<std::int64_t> shape);
/// Each broadcast to the shape of all of them together.
std::vector<Array> broadcast_arrays(const std::vector<Array>& arrays,
                                    Location location = Location::current());
/// At least that many dims, new ones of size 1 in front.
Array atleast_1d(Operand x);
Array atleast_2d(Operand x);

/// One after another along an axis that exists; dtypes promote.
Array concatenate(const std::vector<Array>& arrays, std::int64_t axis = 0,
                  Location location = Location::current());
/// One after another along a new axis.
Array stack(const std::vector<Array>& arrays, std::int64_t axis = 0,
            Location location = Location::current());
/// As rows / as columns; vectors count as rows for vstack and are joined by hstack.
Array vstack(const std::vector<Array>& arrays, Location location = Location::current());
Array hstack(const std::vector<Array>& arrays, Location location = Location::current());
/// Equal parts; ShapeError if the size is no multiple.
std::vector<Array> split(Operand x, std::int64_t sections, std::int64_t axis = 0);
/// Cut before these positions.
std::vector<Array> split(Operand x, std::vector<std::int64_t> indices, std::int64_t axis = 0);
/// Parts of sizes that differ by at most one, larger ones first.
std::vector<Array> array_split(Operand x, std::int64_t sections, std::int64_t axis = 0);
/// x[0], x[1], ... along an axis.
std::vector<Array> unstack(Operand x, std::int64_t axis = 0);

/// The whole array repeated reps[d] times along dim d; missing entries in front are 1.
Array tile(Operand x, std::vector<std::int64_t> reps);
/// Each element repeated along an axis (of the flattened array without one).
Array repeat(Operand x, std::int64_t count, std::optional<std::int64_t> axis = {});
/// Reversed along axes.
Array flip(Operand x, Axes axes = {});
/// Shifted round and round along axes (the flattened array without any).
Array roll(Operand x, std::int64_t shift, Axes axes = {});
/// shifts[i] along axes[i]; one shift serves all axes.
Array roll(Operand x, std::vector<std::int64_t> shifts, Axes axes);
/// Quarter turns of the plane of the first two dims, against the clock.
Array rot90(Operand x, std::int64_t turns = 1);

/// What stands in the margins that `pad` adds.
enum class PadMode : std::uint8_t {
  constant,   ///< a value
  edge,       ///< the outermost element
  reflect,    ///< mirrored, the outermost element not repeated
  symmetric,  ///< mirrored, the outermost element repeated
  wrap,       ///< the other end
};
struct PadOptions {
  PadMode mode = PadMode::constant;
  /// Of PadMode::constant; zero by default.
  std::optional<Array> value{};
};
/// widths[d]: how many elements before and after in dim d; one pair serves all dims.
/// @code
/// pad(x, {{1, 1}, {0, 2}}, {.mode = PadMode::edge})
/// @endcode
Array pad(Operand x, std::vector<std::pair<std::int64_t, std::int64_t>> widths,
          const PadOptions& options = {});

/// x[i, i + offset] of the planes of two dims, as the last dim of the result.
Array diagonal(Operand x, std::int64_t offset = 0, std::int64_t axis1 = 0, std::int64_t axis2 = 1);
/// The diagonal of a matrix, or the matrix with a vector as its k-th diagonal, the rest zero.
Array diag(Operand x, std::int64_t k = 0);
/// Sum of the diagonal.
Array trace(Operand x, std::int64_t offset = 0, std::int64_t axis1 = 0, std::int64_t axis2 = 1);
/// Coordinate matrices of vectors; `xy`: the first two dims exchanged, as numpy does by default.
std::vector<Array> meshgrid(const std::vector<Array>& arrays, bool xy = true,
                            Location location = Location::current());

}  // namespace tessera
