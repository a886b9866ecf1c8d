// SPDX-License-Identifier: Apache-2.0
// Arrays put together from pieces, taken apart, lengthened and shortened; bits as bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tessera/array.h>
#include <tessera/ops/gather_scatter.h>
#include <tessera/ops/indexing.h>
#include <tessera/ops/shape_ops.h>

/// @file
/// Arrays put together from pieces and taken apart, as in numpy, and bits as bytes.
///
/// Results have the operand's dtype; functions of several arrays promote to a common dtype.
/// Negative axes count from the end.
///
/// @throws ValueError if an axis is out of range.
/// @throws ShapeError if shapes don't fit.
///
/// All messages name the caller's line.

namespace tessera {

/// `concatenate` of two arrays; without an axis, of both flattened.
Array append(Operand x, Operand values, std::optional<std::int64_t> axis = {});
/// Rows of blocks: those of a row are joined along the last dimension, then the rows along the last
/// but one. Scalars and vectors count as matrices of one row.
/// @code
/// block({{a, b}, {c, d}});
/// @endcode
/// @throws ValueError if there are no blocks, or a row has none.
Array block(const std::vector<std::vector<Array>>& rows, Location location = Location::current());
/// Joins arrays along dimension 1; vectors [N] count as columns [N, 1].
/// @throws ValueError if there are no arrays.
Array column_stack(const std::vector<Array>& arrays, Location location = Location::current());
/// Joins arrays along dimension 2; vectors [N] count as [1, N, 1] and matrices [M, N] as [M, N, 1].
/// @throws ValueError if there are no arrays.
Array dstack(const std::vector<Array>& arrays, Location location = Location::current());
/// `split` along dimension 0.
std::vector<Array> vsplit(Operand x, std::int64_t sections);
/// `split` along dimension 0 before these positions.
std::vector<Array> vsplit(Operand x, std::vector<std::int64_t> indices);
/// `split` along dimension 1; of vectors along dimension 0.
std::vector<Array> hsplit(Operand x, std::int64_t sections);
/// `split` along dimension 1, of vectors along dimension 0, before these positions.
std::vector<Array> hsplit(Operand x, std::vector<std::int64_t> indices);
/// `split` along dimension 2.
std::vector<Array> dsplit(Operand x, std::int64_t sections);
/// `split` along dimension 2 before these positions.
std::vector<Array> dsplit(Operand x, std::vector<std::int64_t> indices);
/// Turns scalars into [1, 1, 1], vectors [N] into [1, N, 1] and matrices [M, N] into [M, N, 1];
/// other arrays are unchanged.
Array atleast_3d(Operand x);
/// Moves an axis to before position `start` of x's dimensions; the others keep their order.
/// @throws ValueError if `start` isn't in [-rank, rank].
Array rollaxis(Operand x, std::int64_t axis, std::int64_t start = 0);
/// The square matrix with the elements of the flattened array as its k-th diagonal, zeros
/// elsewhere.
Array diagflat(Operand x, std::int64_t k = 0);
/// An array of this shape with the elements of the flattened x, repeated as needed; zeros if x has
/// none.
Array resize(Operand x, std::vector<std::int64_t> shape);

/// Copy of x with values inserted before positions of an axis, without one of the flattened array.
/// @param x  The array.
/// @param where  A number, a Slice, or a scalar or vector of integers. Negative ones count from the
///   end; those out of range are moved to the ends.
/// @param values  Before a single position any number of slices; else they broadcast to one for
///   each position.
/// @param axis  The axis.
/// @throws DTypeError for an array of other than integers.
Array insert(Operand x, const IndexItem& where, Operand values,
             std::optional<std::int64_t> axis = {});
/// Options of `delete_`.
struct DeleteOptions {
  /// Promises that an array's positions are different, which traces need.
  bool assume_unique_indices = false;
};
/// Copy of x without the slices at positions of an axis, without one of elements of the flattened
/// array (numpy.delete; `delete` is a word of C++).
/// @param x  The array.
/// @param where  A number, a Slice, an array of integers, or a pred vector that is true where
///   slices are left out. Negative ones count from the end. Integers of an array out of range are
///   an error, or with `assume_unique_indices` moved to the ends.
/// @param axis  The axis.
/// @param options  Promises.
/// @throws TracerError for a traced array without a promise.
/// @throws DTypeError for an array of other dtypes.
/// @throws ShapeError if a pred array isn't a vector of the axis' size.
Array delete_(Operand x, const IndexItem& where, std::optional<std::int64_t> axis = {},
              const DeleteOptions& options = {});
/// x without zeros at the ends of its axes.
/// @param x  The array.
/// @param trim  Which ends: "f" for the front, "b" for the back, "fb" for both.
/// @param axes  The axes.
/// @throws TracerError if x is traced: the result's shape depends on values.
/// @throws ValueError for other texts.
Array trim_zeros(Operand x, const std::string& trim = "fb", Axes axes = {});
/// For each element of `which` that element of the choice that it numbers; all broadcast.
/// @param which  Integers.
/// @param choices  The choices, which are promoted.
/// @param mode  Of numbers out of range: by default a ValueError, which a traced array doesn't
///   allow; `clip` and `wrap`.
/// @throws ValueError if there are no choices, or for another mode.
/// @throws DTypeError if `which` isn't an array of integers.
/// @throws TracerError for a traced `which` in the default mode.
Array choose(Operand which, const std::vector<Array>& choices,
             IndexMode mode = IndexMode::automatic);

/// The order of bits in a byte.
enum class BitOrder : std::uint8_t {
  big,    ///< the first is the highest
  little  ///< the first is the lowest
};
/// Packs nonzero elements as set bits into u8 along an axis, without one of the flattened array:
/// [.., N, ..] -> [.., ceil(N / 8), ..]. Missing ones count as 0.
/// @throws DTypeError unless x is an array of integers or pred.
Array packbits(Operand x, std::optional<std::int64_t> axis = {}, BitOrder order = BitOrder::big);
/// The bits of u8 as 0 and 1 (u8) along an axis, without one of the flattened array: [.., N, ..] ->
/// [.., count, ..], by default 8 N of them. Missing ones are 0.
/// @throws DTypeError unless x is u8.
/// @throws ValueError if the count is negative.
Array unpackbits(Operand x, std::optional<std::int64_t> axis = {},
                 std::optional<std::int64_t> count = {}, BitOrder order = BitOrder::big);
/// Reinterprets the bytes of the last dimension as another dtype, as numpy's `view`: f32 [.., N] ->
/// u8 [.., 4 N] and back.
/// @throws ShapeError if the bytes make no whole number of elements, or x is a scalar and the sizes
///   of the dtypes differ.
/// @throws DTypeError for pred.
Array view(Operand x, DType dtype);

}  // namespace tessera
