// SPDX-License-Identifier: Apache-2.0
// Arrays that are put together of boxes of other arrays and made only where they are read: slices,
// transposes, concatenates, pads and the like, and whatever chains of them.
// Also called: affine map with padding.
#pragma once

#include <cstdint>
#include <vector>

#include <tessera/dtype.h>

#include "src/ir/module.h"

namespace tessera::codegen {

/// A composition of views as affine index maps, one per box: element i of the composed view, where
/// all origin[d] <= i[d] < origin[d] + size[d], is element base + sum over d of (i[d] - origin[d])
/// * stride[d] of the source.
///
/// Example, x = f32[2,3]:                            dims    base  origin  size   stride
///   x                                               [2,3]   0     0,0     2,3    3,1
///   row = slice(x), rows 1 to 2, of one row         [1,3]   a window on that box: nothing moves
///   column = transpose(row)                         [3,1]   the dims' places swapped
///   padded = pad(column), one before                [4,1]   moved by 1; `fill` is the padding
///   ... simplified                                  [4]     3     1       3      1
/// Elements of the last one are fill, x[3], x[4], x[5]: one scalar and one contiguous run.
struct ComposedView {
  /// One dim of a piece. Without starts the piece is the box alone, inside the composed view or
  /// not.
  struct Side {
    std::int64_t low = 0, high = 0;     ///< window that is not left, if high > low
    std::int64_t origin = 0, size = 0;  ///< where the source's box is
    std::int64_t stride = 0;            ///< of the source, in elements
    bool has_window() const { return high > low; }
  };
  /// Moves the box (and the window) by clamp(value, 0, limit) * scale.
  struct Start {
    int dim = 0;
    int input = -1;
    DType dtype = DType::s32;
    std::int64_t limit = 0, scale = 1;
    bool window = false;
  };
  struct Piece {
    int input = -1;
    std::int64_t base = 0;  ///< element of the source at the box's origin
    std::vector<Side> sides;
    std::vector<Start> starts;
    bool moves(int dim) const;
  };
  Dims dims;
  std::vector<Piece> pieces;  ///< later ones cover earlier ones
  int fill = -1;              ///< input of the scalar that stands where no piece does

  static ComposedView identity(int input, const Dims& dims);
  /// Elements base + the sum over d of i[d] * strides[d], which may be the same for several i.
  static ComposedView strided(int input, const Dims& dims, std::int64_t base, const Dims& strides);
  /// Of an iota along `dim`: what is read is the element's number in 0, 1, 2, ...
  static ComposedView numbers(const Dims& dims, std::int64_t dim);
  /// One piece without starts that covers everything.
  bool is_one_box() const;
  /// One piece that covers everything wherever its starts move it.
  bool is_moved_box() const;
  /// The dim in which one piece without starts covers a part alone; -1 if it isn't so.
  int part_of_dim() const;
  /// Drops what is outside and dims of one, and joins dims into longer ones.
  void simplify();
};

/// slice, transpose, reverse, broadcast, dynamic-slice, pad, concatenate, dynamic-update-slice,
/// reshape: ops whose result may be a composed view.
bool is_view(const ir::Instruction& i);
/// Operands that hold elements: of the others (starts, the padding) the value itself is needed.
bool is_data_operand(const ir::Instruction& view, std::size_t k);
/// Those that leave each element's place among the others to a function of its index alone, so that
/// f(view(x)) = view(f(x)).
bool commutes(const ir::Instruction& view);

/// The dims as they are.
Dims identity_order(std::int64_t rank);
/// What a transpose by `by` makes of an array whose dims stand in that order.
Dims reordered(const Dims& order, const Dims& by);
/// What has dim order[d] of the shape as its dim d.
Shape transposed(const Shape& shape, const Dims& order);

/// Numbers the scalars that a view reads.
class ViewScalars {
 public:
  virtual ~ViewScalars() = default;
  virtual int input(const ir::Instruction& scalar) = 0;
};

/// Operand `k` of `view` → its part of the view. False if composed views can't say that.
bool apply_view(const ir::Instruction& view, std::size_t k, ViewScalars& scalars, ComposedView* m);
/// A view that is transposed.
bool apply_transpose(const Dims& order, ComposedView* m);
/// Of a dim of the view so many places alone, from `begin` on.
void apply_part(std::size_t dim, std::int64_t begin, std::int64_t size, ComposedView* m);

/// A composed view whose inputs have addresses.
class ResolvedView {
 public:
  ResolvedView(const ComposedView& composed, const std::byte* const* inputs, int element_bytes);
  /// Elements [begin, begin + n), in row-major order.
  void generate(std::int64_t begin, std::int64_t n, std::byte* out) const;

 private:
  struct Side {
    std::int64_t low, high, stride;  ///< bytes
  };
  struct Piece {
    const std::byte* base;
    std::size_t sides;  ///< the first one's place
  };
  /// To the first element of the next row.
  void advance(std::int64_t* at) const;
  void short_rows(const std::int64_t* at, std::int64_t rows, std::byte* out) const;

  const ComposedView& view_;
  int bytes_;
  const std::byte* fill_ = nullptr;
  std::vector<Piece> pieces_;
  std::vector<Side> sides_;
};

/// out[i] = source[i * stride], strides in elements.
void copy_strided(const std::byte* source, std::int64_t stride, std::int64_t n, int element_bytes,
                  std::byte* out);

}  // namespace tessera::codegen
