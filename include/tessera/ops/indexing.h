// SPDX-License-Identifier: Apache-2.0
// Parts of arrays, at places known when the program is made or computed by it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <tessera/array.h>

namespace tessera {

/// Python's start:stop:step. Negative places count from the end; places outside are cut off.
struct Slice {
  std::optional<std::int64_t> start{}, stop{};
  std::int64_t step = 1;
};
/// A new dim of size 1 in `index` (numpy's None).
struct NewAxis {};
inline constexpr NewAxis newaxis{};
/// As many whole dims as there are left (numpy's ...).
struct Ellipsis {};
inline constexpr Ellipsis ellipsis{};

/// One entry of `index`.
class IndexItem {
 public:
  enum class Kind : std::uint8_t { position, slice, newaxis, ellipsis, array };
  IndexItem(int position) : kind_(Kind::position), position_(position) {}           // NOLINT
  IndexItem(std::int64_t position) : kind_(Kind::position), position_(position) {}  // NOLINT
  IndexItem(Slice slice) : kind_(Kind::slice), slice_(slice) {}                     // NOLINT
  IndexItem(NewAxis) : kind_(Kind::newaxis) {}                                      // NOLINT
  IndexItem(Ellipsis) : kind_(Kind::ellipsis) {}                                    // NOLINT
  IndexItem(Array array) : kind_(Kind::array), array_(std::move(array)) {}          // NOLINT

  Kind kind() const { return kind_; }
  std::int64_t position() const { return position_; }
  const Slice& slice() const { return slice_; }
  const Array& array() const { return array_; }

 private:
  Kind kind_;
  std::int64_t position_ = 0;
  Slice slice_;
  Array array_;
};

/// numpy's x[...]: numbers drop a dim (ValueError outside of the array), slices keep it, integer
/// arrays pick positions (negative ones count from the end, those outside are moved to the border).
/// Dims without an entry are taken whole.
/// @code
/// index(x, {0})                        // x[0]
/// index(x, {Slice{1, 3}, -1})          // x[1:3, -1]
/// index(x, {ellipsis, newaxis})        // x[..., None]
/// index(x, {Slice{}, ids})             // x[:, ids]
/// @endcode
Array index(Operand x, std::vector<IndexItem> items);

/// [starts, limits) in steps of `strides` (1 by default): one entry per dim, within the array.
Array slice(Operand x, std::vector<std::int64_t> starts, std::vector<std::int64_t> limits,
            std::vector<std::int64_t> strides = {});
/// The same along one axis, places as in Python.
Array slice_in_dim(Operand x, std::optional<std::int64_t> start, std::optional<std::int64_t> limit,
                   std::int64_t stride = 1, std::int64_t axis = 0);

/// A block of these sizes that begins at computed places: one integer scalar per dim, or one vector
/// of them. Negative ones count from the end; then the block is moved into the array.
Array dynamic_slice(Operand x, const std::vector<Array>& starts, std::vector<std::int64_t> sizes);
/// x with the block that begins there replaced.
Array dynamic_update_slice(Operand x, Operand update, const std::vector<Array>& starts);
/// The same along one axis, other dims whole.
Array dynamic_slice_in_dim(Operand x, Operand start, std::int64_t size, std::int64_t axis = 0);
Array dynamic_update_slice_in_dim(Operand x, Operand update, Operand start, std::int64_t axis = 0);
/// The element of an axis at a computed place; the axis stays with size 1 if keepdims.
Array dynamic_index_in_dim(Operand x, Operand place, std::int64_t axis = 0, bool keepdims = true);
/// x with the element of an axis replaced.
Array dynamic_update_index_in_dim(Operand x, Operand update, Operand place, std::int64_t axis = 0);

/// What `take` gives for indices outside of the array.
enum class TakeMode : std::uint8_t {
  fill,  ///< NaN; the least number of signed and the greatest of unsigned integers; true
  clip,  ///< the nearest element (also for negative indices)
  wrap,  ///< counted round and round
};
/// Elements at integer indices along an axis (of the flattened array without one). In mode fill
/// negative indices count from the end.
Array take(Operand x, Operand indices, std::optional<std::int64_t> axis = {},
           TakeMode mode = TakeMode::fill);
/// out[i, j] = x[i, indices[i, j]] for axis 1, and so on; other dims broadcast.
Array take_along_axis(Operand x, Operand indices, std::optional<std::int64_t> axis,
                      TakeMode mode = TakeMode::fill);
/// Rows of a table by their numbers; numbers outside give the nearest row.
Array embedding_lookup(Operand table, Operand ids);

}  // namespace tessera
