// SPDX-License-Identifier: Apache-2.0
// Creation of arrays.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <type_traits>
#include <vector>

#include <tessera/array.h>

/// @file
/// Creation of arrays.
///
/// Outside of traces the arrays are on the first device and *uncommitted*: an operation with
/// committed arrays moves them to those arrays' devices. Inside traced functions they are
/// constants of the program.
///
/// @throws ShapeError if a size is negative or the array would have more than 2^63 bytes.
/// @throws RuntimeError if this machine doesn't have the memory.
///
/// All messages name the caller's line.

namespace tessera {

namespace internal {
Array array_from_host(DType dtype, std::vector<std::int64_t> shape, const void* data,
                      std::size_t count, std::optional<DType> as, Location location);
}

/// Returns a 1-d array of host values: N values -> [N]. The dtype is that of the C++ type (double
/// is f64) unless `dtype` is given, to which values are then converted as by `astype`.
/// @code
/// array({1.0f, 2.0f});                                    // f32[2]
/// array({1, 2, 3}, f16);                                  // f16[3]
/// array(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});    // f32[2,3]
/// array({{1, 2}, {3, 4}});                                // s32[2,2]
/// array(1);                                               // s32[]
/// @endcode
template <ElementType T>
Array array(const std::vector<T>& values, std::optional<DType> dtype = {},
            Location location = Location::current()) {
  if constexpr (std::is_same_v<T, bool>) {
    const std::vector<std::uint8_t> bytes(values.begin(), values.end());
    return internal::array_from_host(DType::pred, {std::int64_t(bytes.size())}, bytes.data(),
                                     bytes.size(), dtype, location);
  } else {
    return internal::array_from_host(internal::dtype_of<T>::value, {std::int64_t(values.size())},
                                     values.data(), values.size(), dtype, location);
  }
}
/// The same for a list of values.
template <ElementType T>
Array array(std::initializer_list<T> values, std::optional<DType> dtype = {},
            Location location = Location::current()) {
  return array(std::vector<T>(values), dtype, location);
}
/// Returns an array of the given shape with these values in row-major order.
/// @throws ShapeError if the number of values isn't that of the shape's elements.
template <ElementType T>
Array array(const std::vector<T>& values, std::vector<std::int64_t> shape,
            std::optional<DType> dtype = {}, Location location = Location::current()) {
  if constexpr (std::is_same_v<T, bool>) {
    const std::vector<std::uint8_t> bytes(values.begin(), values.end());
    return internal::array_from_host(DType::pred, std::move(shape), bytes.data(), bytes.size(),
                                     dtype, location);
  } else {
    return internal::array_from_host(internal::dtype_of<T>::value, std::move(shape), values.data(),
                                     values.size(), dtype, location);
  }
}
/// Returns a scalar, which unlike a plain number isn't weakly typed: `array(1)` is an s32[].
template <ElementType T>
Array array(T value, std::optional<DType> dtype = {}, Location location = Location::current()) {
  return array(std::vector<T>{value}, std::vector<std::int64_t>{}, dtype, location);
}
/// Returns a matrix: M rows of N values -> [M, N].
/// @throws ValueError if the rows have different lengths.
template <ElementType T>
Array array(const std::vector<std::vector<T>>& rows, std::optional<DType> dtype = {},
            Location location = Location::current()) {
  std::vector<T> flat;
  for (const auto& row : rows) {
    if (row.size() != rows.front().size()) {
      throw ValueError("array: rows of different lengths", location);
    }
    flat.insert(flat.end(), row.begin(), row.end());
  }
  const std::int64_t columns = rows.empty() ? 0 : std::int64_t(rows.front().size());
  return array(flat, {std::int64_t(rows.size()), columns}, dtype, location);
}
/// The same for a list of lists of real numbers; two in braces may also be a complex number.
template <ElementType T>
requires std::is_arithmetic_v<T> Array array(std::initializer_list<std::initializer_list<T>> rows,
                                             std::optional<DType> dtype = {},
                                             Location location = Location::current()) {
  return array(std::vector<std::vector<T>>(rows.begin(), rows.end()), dtype, location);
}

/// Returns an array of zeros.
Array zeros(std::vector<std::int64_t> shape, DType dtype = DType::f32,
            Location location = Location::current());
/// Returns an array of ones.
Array ones(std::vector<std::int64_t> shape, DType dtype = DType::f32,
           Location location = Location::current());
/// Returns an array with all elements equal to a scalar, of the scalar's dtype unless one is given.
/// @throws ShapeError if `value` isn't a scalar.
Array full(std::vector<std::int64_t> shape, Operand value, std::optional<DType> dtype = {});
/// Returns zeros of x's shape and, unless one is given, dtype. If x is committed and no function is
/// being traced, the result has x's sharding, too.
Array zeros_like(Operand x, std::optional<DType> dtype = {});
/// Returns ones, as `zeros_like`.
Array ones_like(Operand x, std::optional<DType> dtype = {});
/// Returns copies of a scalar, as `zeros_like`.
/// @throws ShapeError if `value` isn't a scalar.
Array full_like(Operand x, Operand value, std::optional<DType> dtype = {});
/// Returns 0, 1, .. below `stop`; see the general form.
Array arange(double stop, std::optional<DType> dtype = {}, Location location = Location::current());
/// Returns start, start + step, .. below `stop` (above it for negative steps):
/// [ceil((stop - start) / step)].
/// @param start  First element.
/// @param stop  Bound; not included.
/// @param step  Difference of neighbours.
/// @param dtype  By default s32 if all three are integers, else f32.
/// @param location  The line named in messages.
/// @throws ValueError if `step` is 0, an argument isn't finite, or there are more than 10^15
///   elements.
Array arange(double start, double stop, double step = 1, std::optional<DType> dtype = {},
             Location location = Location::current());
/// Returns `count` evenly spaced numbers from `start` to `stop`, including `stop` unless `endpoint`
/// is false. Computed in double precision and rounded to `dtype`.
/// @throws ValueError if `count` is negative.
Array linspace(double start, double stop, std::int64_t count, DType dtype = DType::f32,
               bool endpoint = true, Location location = Location::current());
/// Returns a matrix [rows, columns] (square by default) with ones on the k-th diagonal: above the
/// main diagonal for k > 0, below it for k < 0.
Array eye(std::int64_t rows, std::optional<std::int64_t> columns = {}, std::int64_t k = 0,
          DType dtype = DType::f32, Location location = Location::current());
/// Returns a matrix [rows, columns] (square by default) with ones on and below the k-th diagonal.
Array tri(std::int64_t rows, std::optional<std::int64_t> columns = {}, std::int64_t k = 0,
          DType dtype = DType::f32, Location location = Location::current());
/// Returns an array whose elements are their index along dimension `dim` (HLO `iota`): for shape
/// [2, 3] and dim 1 {{0, 1, 2}, {0, 1, 2}}.
/// @throws ValueError if `dim` is out of range.
Array iota(DType dtype, std::vector<std::int64_t> shape, std::int64_t dim,
           Location location = Location::current());
/// Returns the lower triangle of matrices x [.., M, N]: elements above the k-th diagonal are zero.
/// @throws ShapeError for ranks below 2.
Array tril(Operand x, std::int64_t k = 0);
/// Returns the upper triangle of matrices x [.., M, N]: elements below the k-th diagonal are zero.
/// @throws ShapeError for ranks below 2.
Array triu(Operand x, std::int64_t k = 0);

}  // namespace tessera
