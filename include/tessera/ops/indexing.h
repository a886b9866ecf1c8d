// SPDX-License-Identifier: Apache-2.0
// Slices and gathers, at positions known when a function is traced or computed by the program.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

#include <tessera/array.h>

/// @file
/// Slices and gathers.
///
/// Static positions (`index`, `slice`) are checked when the operation is called. Positions that the
/// program computes can't be checked: as in JAX they are clamped, wrapped or filled, as each
/// function states. Indices may have any integer dtype.
///
/// @throws ValueError if an axis or a static position is out of range.
/// @throws ShapeError if shapes don't fit.
/// @throws DTypeError if indices aren't integers.
///
/// All messages name the caller's line.

namespace tessera {

/// A range of positions, Python's start:stop:step.
struct Slice {
  /// First position, and the position before which the range ends. Negative positions count from
  /// the end; positions out of range are clamped. Absent: the ends of the dimension.
  std::optional<std::int64_t> start{}, stop{};
  /// Distance between positions; negative steps go backwards, 0 is a ValueError.
  std::int64_t step = 1;
};
/// A range of positions, as an entry of an index: `x[{slice(0, 8), 3}]` is numpy's x[0:8, 3]. `{}`
/// stands for an end of the dimension: `slice(1, {})`.
inline Slice slice(std::optional<std::int64_t> start, std::optional<std::int64_t> stop,
                   std::int64_t step = 1) {
  return {start, stop, step};
}
/// Inserts a dimension of size 1 in `index` (numpy's None).
struct NewAxis {};
/// Inserts a dimension of size 1: `index(x, {newaxis})`.
inline constexpr NewAxis newaxis{};
/// Takes all dimensions that no other entry of `index` refers to in full (numpy's ...).
struct Ellipsis {};
/// Takes all remaining dimensions in full: `index(x, {ellipsis, 0})`.
inline constexpr Ellipsis ellipsis{};

/// One entry of `index`: a position, a Slice, `newaxis`, `ellipsis` or an array of positions.
class IndexItem {
 public:
// g++ takes the enumerators of a class for names that hide others.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
  /// Which of the alternatives an entry holds.
  enum class Kind : std::uint8_t { position, slice, newaxis, ellipsis, array };
#pragma GCC diagnostic pop
  /// A position.
  template <std::integral T>
  requires(!std::same_as<T, bool>) IndexItem(T position)  // NOLINT
      : kind_(Kind::position), position_(std::int64_t(position)) {}
  /// One entry, converted implicitly from its value.
  IndexItem(Slice range) : kind_(Kind::slice), slice_(range) {}             // NOLINT
  IndexItem(NewAxis) : kind_(Kind::newaxis) {}                              // NOLINT
  IndexItem(Ellipsis) : kind_(Kind::ellipsis) {}                            // NOLINT
  IndexItem(Array array) : kind_(Kind::array), array_(std::move(array)) {}  // NOLINT

  /// Which alternative the entry holds.
  Kind kind() const { return kind_; }
  /// The position of Kind::position.
  std::int64_t position() const { return position_; }
  /// The range of Kind::slice.
  const Slice& slice() const { return slice_; }
  /// The indices of Kind::array.
  const Array& array() const { return array_; }

 private:
  Kind kind_;
  std::int64_t position_ = 0;
  Slice slice_;
  Array array_;
};

/// What stands in `x[...]`: one entry, or several in braces, and the line of the expression.
class Subscript {
 public:
  /// Several entries.
  Subscript(std::initializer_list<IndexItem> items, Location location = Location::current())
      : items_(items), location_(location) {}
  /// One entry.
  template <std::convertible_to<IndexItem> T>
  Subscript(T&& item, Location location = Location::current())  // NOLINT
      : items_(1, IndexItem(std::forward<T>(item))), location_(location) {}
  /// The entries.
  const std::vector<IndexItem>& items() const { return items_; }
  /// The line of the expression.
  Location location() const { return location_; }

 private:
  std::vector<IndexItem> items_;
  Location location_;
};

/// Basic and advanced indexing, as numpy's x[...].
///
/// A number selects one position and removes the dimension; a Slice keeps the dimension. Integer
/// arrays broadcast against each other and gather elements: their shape replaces the dimensions
/// they index, or comes first if those dimensions aren't adjacent. Negative indices count from the
/// end; array elements still out of range are clamped. Dimensions without an entry are taken in
/// full. Example shapes: x [8, 16, 32], ids [4] -> `index(x, {Slice{}, ids})` [8, 4, 32].
/// @code
/// index(x, {0})                        // x[0]
/// index(x, {Slice{1, 3}, -1})          // x[1:3, -1]
/// index(x, {ellipsis, newaxis})        // x[..., None]
/// index(x, {Slice{}, ids})             // x[:, ids]
/// x[{slice(1, 3), -1}]                 // the same by an operator: x[1:3, -1]
/// @endcode
/// @throws ValueError if a number is out of range, there are more entries than dimensions, or two
///   ellipses.
/// A pred array is a mask of the dimensions that it indexes: outside of traces it stands for the
/// positions of its true elements.
/// @throws DTypeError for an array that is neither integer nor pred.
/// @throws TracerError for a traced pred array (the result's shape would depend on values; use
///   `where`).
/// @throws ShapeError if a mask has other sizes than its dimensions.
Array index(Operand x, std::vector<IndexItem> items);

/// Static slice (HLO `slice`): [starts[d], limits[d]) in steps of strides[d] (1 by default) in each
/// dimension d. Size of dimension d of the result: ceil((limits[d] - starts[d]) / strides[d]).
/// @throws ShapeError if a list doesn't have one entry per dimension, or a range is out of bounds.
/// @throws ValueError if a stride is less than 1.
Array slice(Operand x, std::vector<std::int64_t> starts, std::vector<std::int64_t> limits,
            std::vector<std::int64_t> strides = {});
/// Static slice along one axis. Positions are as in Python: negative ones count from the end, those
/// out of range are clamped, and absent ones are the ends.
/// @throws ValueError if `stride` is less than 1 or `axis` out of range.
Array slice_in_dim(Operand x, std::optional<std::int64_t> start, std::optional<std::int64_t> limit,
                   std::int64_t stride = 1, std::int64_t axis = 0);

/// Slice of static sizes at computed positions (HLO `dynamic-slice`).
///
/// @param x  The array, [d0, .., dn].
/// @param starts  One integer scalar per dimension, or one vector of them. Negative starts count
///   from the end; starts are then clamped so that the slice is within the array.
/// @param sizes  The shape of the result, at most that of x.
/// @throws ShapeError if a list has the wrong length or a size is out of range.
/// @throws DTypeError if a start isn't an integer.
Array dynamic_slice(Operand x, const std::vector<Array>& starts, std::vector<std::int64_t> sizes);
/// Copy of x with a block replaced by `update` (HLO `dynamic-update-slice`). Starts are as in
/// `dynamic_slice`.
/// @throws ShapeError if `update` has another rank or is larger than x in a dimension.
/// @throws DTypeError if `update` has another dtype, unless it is a plain scalar.
Array dynamic_update_slice(Operand x, Operand update, const std::vector<Array>& starts);
/// `dynamic_slice` along one axis; other dimensions are taken in full.
Array dynamic_slice_in_dim(Operand x, Operand start, std::int64_t size, std::int64_t axis = 0);
/// `dynamic_update_slice` along one axis, from position 0 in the other dimensions.
Array dynamic_update_slice_in_dim(Operand x, Operand update, Operand start, std::int64_t axis = 0);
/// The element at a computed position of an axis: x [.., N, ..] -> [.., 1, ..], or without the
/// dimension if `keepdims` is false.
Array dynamic_index_in_dim(Operand x, Operand place, std::int64_t axis = 0, bool keepdims = true);
/// Copy of x with the element at a computed position of an axis replaced by `update`, which has x's
/// shape with size 1 along the axis or without the axis.
Array dynamic_update_index_in_dim(Operand x, Operand update, Operand place, std::int64_t axis = 0);

/// What `take` and `take_along_axis` return for indices out of range.
enum class TakeMode : std::uint8_t {
  fill,  ///< NaN; the smallest signed or largest unsigned integer; true
  clip,  ///< the nearest element: negative indices give the first one
  wrap,  ///< the element at the index modulo the size
};
/// Gathers elements along an axis, as jax.numpy.take: x [I.., N, J..], indices [K..] ->
/// [I.., K.., J..]. Without an axis x is flattened: -> [K..].
///
/// In mode `fill` negative indices count from the end.
/// @throws DTypeError if the indices aren't integers.
/// @throws ShapeError if the axis has no elements and there are indices.
Array take(Operand x, Operand indices, std::optional<std::int64_t> axis = {},
           TakeMode mode = TakeMode::fill);
/// Gathers one element per index: out[i, j, k] = x[i, indices[i, j, k], k] for axis 1 of 3. x and
/// `indices` have the same rank and broadcast in all dimensions but the axis; the result has the
/// size of `indices` along the axis. Without an axis x is flattened and `indices` must be a vector.
/// @throws ShapeError if the ranks differ or the shapes don't broadcast.
/// @throws DTypeError if the indices aren't integers.
Array take_along_axis(Operand x, Operand indices, std::optional<std::int64_t> axis,
                      TakeMode mode = TakeMode::fill);
/// Rows of a table: table [V, D], ids [K..] -> [K.., D]. Ids out of range are clamped.
/// @throws ShapeError if the table isn't a matrix.
/// @throws DTypeError if the ids aren't integers.
Array embedding_lookup(Operand table, Operand ids);

}  // namespace tessera
