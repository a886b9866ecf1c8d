// SPDX-License-Identifier: Apache-2.0
// Views of the operands and results of custom calls.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include <tessera/dtype.h>
#include <tessera/error.h>

namespace tessera {

namespace internal {

/// True if elements of that dtype are stored as T. f16 and bf16 are their bits, std::uint16_t;
/// types of fewer than 8 bits and the 8-bit floats are one byte each.
template <class T>
bool stores(DType dtype) {
  if constexpr (std::is_same_v<T, bool>) {
    return dtype == DType::pred;
  } else if constexpr (std::is_same_v<T, float>) {
    return dtype == DType::f32;
  } else if constexpr (std::is_same_v<T, double>) {
    return dtype == DType::f64;
  } else if constexpr (std::is_same_v<T, std::complex<float>>) {
    return dtype == DType::c64;
  } else if constexpr (std::is_same_v<T, std::complex<double>>) {
    return dtype == DType::c128;
  } else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
    return is_signed_integer(dtype) && byte_size(dtype) == sizeof(T);
  } else if constexpr (std::is_integral_v<T>) {
    return (is_unsigned_integer(dtype) && byte_size(dtype) == sizeof(T)) ||
           (is_floating(dtype) && byte_size(dtype) == sizeof(T) && sizeof(T) <= 2) ||
           (dtype == DType::pred && sizeof(T) == 1);
  } else {
    return false;
  }
}

/// Throws a TypeError: elements of this dtype were requested as a C++ type that doesn't store them.
[[noreturn]] void wrong_buffer_type(DType dtype, std::size_t requested_bytes, Location location);

}  // namespace internal

/// One device's part of an operand of a custom call: read-only elements in row-major order. Valid
/// during the call.
class BufferView {
 public:
  /// A view of memory that the caller owns; `shape` isn't copied.
  BufferView(DType dtype, std::span<const std::int64_t> shape, const void* bytes)
      : dtype_(dtype), shape_(shape), bytes_(bytes) {}

  /// Dtype of the elements.
  DType dtype() const { return dtype_; }
  /// Sizes of the dimensions; empty for a scalar.
  std::span<const std::int64_t> shape() const { return shape_; }
  /// Number of dimensions.
  std::int64_t ndim() const { return std::int64_t(shape_.size()); }
  /// Size of one dimension; negative ones count from the end.
  /// @throws ValueError if `dim` is out of range.
  std::int64_t shape(std::int64_t dim, Location location = Location::current()) const;
  /// Number of elements.
  std::int64_t size() const;
  /// The memory.
  const void* bytes() const { return bytes_; }
  /// The elements as the C++ type of the dtype: bool for pred, std::uint16_t for the bits of f16
  /// and bf16, std::uint8_t for those of 8-bit floats.
  /// @throws TypeError if T isn't that type.
  template <class T>
  std::span<const T> data(Location location = Location::current()) const {
    if (!internal::stores<T>(dtype_)) internal::wrong_buffer_type(dtype_, sizeof(T), location);
    return {static_cast<const T*>(bytes_), std::size_t(size())};
  }

 private:
  DType dtype_;
  std::span<const std::int64_t> shape_;
  const void* bytes_;
};

/// One device's part of a result of a custom call, to be filled in row-major order. Its initial
/// content is undefined. Valid during the call.
class MutableBufferView {
 public:
  /// A view of memory that the caller owns; `shape` isn't copied.
  MutableBufferView(DType dtype, std::span<const std::int64_t> shape, void* bytes)
      : dtype_(dtype), shape_(shape), bytes_(bytes) {}

  /// Dtype of the elements.
  DType dtype() const { return dtype_; }
  /// Sizes of the dimensions; empty for a scalar.
  std::span<const std::int64_t> shape() const { return shape_; }
  /// Number of dimensions.
  std::int64_t ndim() const { return std::int64_t(shape_.size()); }
  /// Size of one dimension; negative ones count from the end.
  /// @throws ValueError if `dim` is out of range.
  std::int64_t shape(std::int64_t dim, Location location = Location::current()) const {
    return BufferView(dtype_, shape_, bytes_).shape(dim, location);
  }
  /// Number of elements.
  std::int64_t size() const { return BufferView(dtype_, shape_, bytes_).size(); }
  /// The memory.
  void* bytes() const { return bytes_; }
  /// The elements, as BufferView::data.
  /// @throws TypeError if T isn't the dtype's C++ type.
  template <class T>
  std::span<T> data(Location location = Location::current()) const {
    if (!internal::stores<T>(dtype_)) internal::wrong_buffer_type(dtype_, sizeof(T), location);
    return {static_cast<T*>(bytes_), std::size_t(size())};
  }

 private:
  DType dtype_;
  std::span<const std::int64_t> shape_;
  void* bytes_;
};

}  // namespace tessera
