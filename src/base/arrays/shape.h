// SPDX-License-Identifier: Apache-2.0
// Shape: the type of an IR value, and arithmetic on dims.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <tessera/dtype.h>
#include <tessera/error.h>

namespace tessera {

using Dims = std::vector<std::int64_t>;

/// "8,16"
std::string join(std::span<const std::int64_t> values, const char* separator = ",");
/// "[8,16]"
std::string to_string(std::span<const std::int64_t> dims);
/// Product of the dims; ValueError if it doesn't fit an int64 or a dim is negative.
std::int64_t element_count(std::span<const std::int64_t> dims);
/// Row-major strides, in elements.
Dims row_major_strides(std::span<const std::int64_t> dims);
/// The same in bytes.
Dims byte_strides(std::span<const std::int64_t> dims, std::size_t element_bytes);
/// 0, 1, 2, ...
bool is_identity_order(std::span<const std::int64_t> order);
/// A layout, minor to major: ..., 2, 1, 0.
bool is_row_major(std::span<const std::int64_t> layout);
/// a*b or ValueError.
std::int64_t checked_multiply(std::int64_t a, std::int64_t b);
/// Rounded down, also where it is negative; b > 0.
inline std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}
/// Rounded up, also where it is negative; b > 0.
inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b > 0 ? 1 : 0); }

/// The type of a value in the IR: an array of one element type, or a tuple of shapes.
struct Shape {
  DType dtype = DType::f32;
  Dims dims;
  bool is_tuple = false;
  std::vector<Shape> elements;  ///< shapes of a tuple's elements
  /// Minor-to-major order of the dims in memory; empty = row-major.
  Dims layout;

  Shape() = default;
  Shape(DType t, Dims d) : dtype(t), dims(std::move(d)) {}
  static Shape tuple(std::vector<Shape> elements);
  static Shape token() { return Shape(DType::token, {}); }

  bool is_array() const { return !is_tuple && dtype != DType::token; }
  bool is_scalar() const { return is_array() && dims.empty(); }
  std::int64_t rank() const { return std::int64_t(dims.size()); }
  std::int64_t dim(std::int64_t i) const { return dims[std::size_t(i)]; }
  /// Number of elements of an array; ValueError on overflow.
  std::int64_t element_count() const { return tessera::element_count(dims); }
  /// Bytes of an array, or of all elements of a tuple.
  std::int64_t byte_count() const;
  /// HLO's form without layout: "f32[8,16]", "(s32[], f32[2])".
  std::string to_string() const;
  /// HLO's form with layout: "f32[8,16]{1,0}".
  std::string to_string_with_layout() const;

  /// Layouts are not compared.
  friend bool operator==(const Shape& a, const Shape& b);
};

/// Leaves of a shape in pre-order (the shape itself unless it is a tuple).
std::vector<Shape> flatten(const Shape&);
/// How many shapes flatten() gives.
std::size_t leaf_count(const Shape& shape);

}  // namespace tessera
