// SPDX-License-Identifier: Apache-2.0
// Making arrays. They are uncommitted: they go where the others lie.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <type_traits>
#include <vector>

#include <tessera/array.h>

namespace tessera {

namespace internal {
Array array_from_host(DType dtype, std::vector<std::int64_t> shape, const void* data,
                      std::size_t count, std::optional<DType> as, Location location);
}

/// A 1-d array of these values, of their own C++ type (double is f64) unless `dtype` is given.
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
template <ElementType T>
Array array(std::initializer_list<T> values, std::optional<DType> dtype = {},
            Location location = Location::current()) {
  return array(std::vector<T>(values), dtype, location);
}
/// Row-major values under a shape. ValueError if the counts differ.
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
/// Rows of equal length; ValueError otherwise.
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

Array zeros(std::vector<std::int64_t> shape, DType dtype = DType::f32,
            Location location = Location::current());
Array ones(std::vector<std::int64_t> shape, DType dtype = DType::f32,
           Location location = Location::current());
/// All elements equal to a scalar, of its dtype unless one is given.
Array full(std::vector<std::int64_t> shape, Operand value, std::optional<DType> dtype = {});
/// Like another array in shape and dtype; where it lies too, outside of traces.
Array zeros_like(Operand x, std::optional<DType> dtype = {});
Array ones_like(Operand x, std::optional<DType> dtype = {});
Array full_like(Operand x, Operand value, std::optional<DType> dtype = {});
/// 0, 1, ..., stop-1; s32, or f32 if a bound isn't whole.
Array arange(double stop, std::optional<DType> dtype = {}, Location location = Location::current());
/// start, start+step, ... below stop.
Array arange(double start, double stop, double step = 1, std::optional<DType> dtype = {},
             Location location = Location::current());
/// `count` evenly spaced numbers from start to stop, stop included unless endpoint is false.
Array linspace(double start, double stop, std::int64_t count, DType dtype = DType::f32,
               bool endpoint = true, Location location = Location::current());
/// Ones on the k-th diagonal.
Array eye(std::int64_t rows, std::optional<std::int64_t> columns = {}, std::int64_t k = 0,
          DType dtype = DType::f32, Location location = Location::current());
/// Ones on and below the k-th diagonal.
Array tri(std::int64_t rows, std::optional<std::int64_t> columns = {}, std::int64_t k = 0,
          DType dtype = DType::f32, Location location = Location::current());
/// Index along one dimension at every position.
Array iota(DType dtype, std::vector<std::int64_t> shape, std::int64_t dim,
           Location location = Location::current());
/// The lower / upper triangle, the rest zero.
Array tril(Operand x, std::int64_t k = 0);
Array triu(Operand x, std::int64_t k = 0);

}  // namespace tessera
