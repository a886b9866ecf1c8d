// SPDX-License-Identifier: Apache-2.0
// Spaced numbers, coordinates of grids, positions in arrays, window functions.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <tessera/array.h>
#include <tessera/ops/gather_scatter.h>

/// @file
/// Spaced numbers, coordinates of grids, positions in arrays and window functions, as in numpy.
///
/// All messages name the caller's line.

namespace tessera {

// ------------------------------------------------------------------ spaced numbers

/// Options of `linspace` between arrays, `logspace` and `geomspace`.
struct SpaceOptions {
  /// Whether `stop` is the last number.
  bool endpoint = true;
  /// Dtype of the result; by default that of the bounds, f32 for integers.
  std::optional<DType> dtype{};
  /// Where the numbers lie in the result.
  std::int64_t axis = 0;
};
/// `count` evenly spaced numbers from `start` to `stop`, which broadcast to a shape [S..]:
/// [count, S..]. Unlike the form for plain numbers it computes in the bounds' dtype; numbers for an
/// integer dtype are rounded down.
/// @throws ValueError if `count` is negative or the axis is out of range.
/// @throws ShapeError if the bounds don't broadcast.
Array linspace(Operand start, Operand stop, std::int64_t count, const SpaceOptions& options = {});
/// base^x for `count` evenly spaced x from `start` to `stop`, as `linspace`.
Array logspace(Operand start, Operand stop, std::int64_t count = 50,
               const SpaceOptions& options = {}, Operand base = 10.0);
/// `count` numbers from `start` to `stop` of which each is the same multiple of the one before:
/// [count, S..], as `linspace`. NaN unless the bounds have the same sign.
Array geomspace(Operand start, Operand stop, std::int64_t count = 50,
                const SpaceOptions& options = {});

// ------------------------------------------------------------------ coordinates

/// Options of `meshgrid`.
struct MeshgridOptions {
  /// Exchange the first two dimensions (numpy's indexing "xy", else "ij").
  bool xy = true;
  /// Arrays have size 1 in all dimensions but their own.
  bool sparse = false;
};
/// Coordinate arrays of a grid, as the form without options.
/// @throws ShapeError if an array isn't a vector or scalar.
std::vector<Array> meshgrid(const std::vector<Array>& arrays, const MeshgridOptions& options,
                            Location location = Location::current());
/// Coordinates of all elements of an array of this shape: [rank, shape..], where entry i holds the
/// positions along dimension i.
Array indices(std::vector<std::int64_t> shape, DType dtype = DType::s32,
              Location location = Location::current());
/// The same as one array per dimension, which has size 1 in all others (numpy's `sparse`).
std::vector<Array> indices_sparse(std::vector<std::int64_t> shape, DType dtype = DType::s32,
                                  Location location = Location::current());
/// A function of all coordinates of an array: `f` gets one array of this shape per dimension.
/// @code
/// fromfunction([](const std::vector<Array>& at) { return at[0] + 10 * at[1]; }, {3, 4});
/// @endcode
Array fromfunction(const std::function<Array(const std::vector<Array>&)>& f,
                   std::vector<std::int64_t> shape, DType dtype = DType::f32,
                   Location location = Location::current());
/// Vectors [N0], [N1], .. as [N0, 1, ..], [1, N1, ..], ..: as entries of `index` they pick all
/// combinations. pred vectors stand for the positions of their true elements.
/// @throws ShapeError if an array isn't a vector.
/// @throws TracerError for traced pred vectors.
std::vector<Array> ix_(const std::vector<Array>& arrays, Location location = Location::current());

// ------------------------------------------------------------------ positions

/// Rows and columns (s32) of the elements on and below the k-th diagonal of a matrix [n, m] (square
/// by default), in row-major order.
/// @throws ValueError for negative sizes.
std::pair<Array, Array> tril_indices(std::int64_t n, std::int64_t k = 0,
                                     std::optional<std::int64_t> m = {},
                                     Location location = Location::current());
/// The same on and above the k-th diagonal.
std::pair<Array, Array> triu_indices(std::int64_t n, std::int64_t k = 0,
                                     std::optional<std::int64_t> m = {},
                                     Location location = Location::current());
/// `tril_indices` of a matrix like x.
/// @throws ShapeError if x isn't a matrix.
std::pair<Array, Array> tril_indices_from(Operand x, std::int64_t k = 0);
/// `triu_indices` of a matrix like x.
/// @throws ShapeError if x isn't a matrix.
std::pair<Array, Array> triu_indices_from(Operand x, std::int64_t k = 0);
/// Positions (s32) of the main diagonal of an array with `ndim` dimensions of size n: one vector
/// per dimension.
/// @throws ValueError for negative numbers.
std::vector<Array> diag_indices(std::int64_t n, std::int64_t ndim = 2,
                                Location location = Location::current());
/// `diag_indices` of an array like x.
/// @throws ShapeError for ranks below 2, and if sizes differ.
std::vector<Array> diag_indices_from(Operand x);

namespace internal {
std::pair<Array, Array> mask_indices(std::int64_t n,
                                     const std::function<Array(Operand, std::int64_t)>& mask,
                                     std::int64_t k, std::optional<std::int64_t> size,
                                     Location location);
}
/// Rows and columns (s32) of the nonzero elements of mask(ones({n, n}), k).
/// @code
/// auto [rows, columns] = mask_indices(3, triu);
/// @endcode
/// @param n  The size.
/// @param mask  A function of a matrix and a number, as `tril` and `triu`.
/// @param k  Its second argument.
/// @param size  The number of elements; required within traces.
/// @param location  The line named in messages.
template <class F>
std::pair<Array, Array> mask_indices(std::int64_t n, F mask, std::int64_t k = 0,
                                     std::optional<std::int64_t> size = {},
                                     Location location = Location::current()) {
  if constexpr (std::is_invocable_r_v<Array, F&, Operand, std::int64_t>) {
    return internal::mask_indices(n, mask, k, size, location);
  } else {
    return internal::mask_indices(
        n, [&mask](Operand x, std::int64_t i) -> Array { return mask(x.array, i); }, k, size,
        location);
  }
}

/// Options of `ravel_multi_index`.
struct RavelIndexOptions {
  /// What happens at positions out of range: by default a ValueError, which traced positions don't
  /// allow; `clip` and `wrap`; with `promise_in_bounds` nothing is checked.
  IndexMode mode = IndexMode::automatic;
  /// Number elements in column-major order.
  bool column_major = false;
  /// Dtype of the result; by default that of the positions.
  std::optional<DType> dtype{};
};
/// Positions in the flattened array of elements at these positions (integers, one array per
/// dimension, which broadcast) of an array of this shape.
/// @throws ValueError if there aren't as many arrays as dimensions, for positions out of range, or
///   if the dtype can't number all elements.
/// @throws DTypeError if positions aren't integers.
/// @throws TracerError for traced positions in the default mode.
Array ravel_multi_index(const std::vector<Array>& positions, std::vector<std::int64_t> shape,
                        const RavelIndexOptions& options = {},
                        Location location = Location::current());
/// Positions along each dimension of elements of an array of this shape that are at these positions
/// of the flattened array. Those out of range give the first or the last element.
/// @throws DTypeError if the positions aren't integers.
std::vector<Array> unravel_index(Operand positions, std::vector<std::int64_t> shape);

// ------------------------------------------------------------------ window functions

/// Bartlett's window, a triangle that is 0 at both ends: f32 [n]; ones for n up to 1.
/// @throws ValueError if n is negative; so all windows.
Array bartlett(std::int64_t n, Location location = Location::current());
/// Blackman's window, 0.42 - 0.5 cos(2 pi i / (n - 1)) + 0.08 cos(4 pi i / (n - 1)): f32 [n].
Array blackman(std::int64_t n, Location location = Location::current());
/// Hamming's window, 0.54 - 0.46 cos(2 pi i / (n - 1)): f32 [n].
Array hamming(std::int64_t n, Location location = Location::current());
/// Hann's window, 0.5 - 0.5 cos(2 pi i / (n - 1)): f32 [n].
Array hanning(std::int64_t n, Location location = Location::current());
/// Kaiser's window i0(beta sqrt(1 - x^2)) / i0(beta) for x from -1 to 1: [n]. Has a derivative by
/// the scalar `beta`.
/// @throws ShapeError if `beta` isn't a scalar.
Array kaiser(std::int64_t n, Operand beta);

}  // namespace tessera
