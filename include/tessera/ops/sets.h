// SPDX-License-Identifier: Apache-2.0
// Positions of nonzero elements, and arrays as sets.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include <tessera/array.h>

/// @file
/// Positions of nonzero elements, and arrays as sets.
///
/// How many elements such results have depends on values. Outside of traces they have as many as
/// there are. Within them `size` states a number: further elements are cut off, missing ones are
/// filled.
///
/// @throws TracerError if an array is traced and there is no size.
/// @throws ValueError if a size is negative.
///
/// All messages name the caller's line.

namespace tessera {

/// Options of functions whose results have a number of elements that depends on values.
struct SizeOptions {
  /// The number of elements; required within traces.
  std::optional<std::int64_t> size{};
  /// A scalar for the elements that are missing.
  std::optional<Array> fill_value{};
};

/// Positions (s32) of nonzero elements in row-major order, one vector per dimension. Missing ones
/// are 0 by default.
/// @throws ShapeError for a scalar.
std::vector<Array> nonzero(Operand x, const SizeOptions& options = {});
/// Positions (s32) of nonzero elements of the flattened array.
Array flatnonzero(Operand x, const SizeOptions& options = {});
/// Positions (s32) of nonzero elements: [N, rank].
Array argwhere(Operand x, const SizeOptions& options = {});
/// The slices of x along an axis (without one: elements of the flattened array) where `condition`,
/// a vector, is nonzero. A shorter condition leaves out the rest. Missing ones are 0 by default.
/// @throws ShapeError if the condition isn't a vector, or longer than the axis.
Array compress(Operand condition, Operand x, std::optional<std::int64_t> axis = {},
               const SizeOptions& options = {});
/// The elements of the flattened array where the flattened condition is nonzero.
Array extract(Operand condition, Operand x, const SizeOptions& options = {});

/// Options of `unique`.
struct UniqueOptions {
  /// Compares slices along this axis; by default elements of the flattened array.
  std::optional<std::int64_t> axis{};
  /// The number of elements; required within traces.
  std::optional<std::int64_t> size{};
  /// A scalar for the elements that are missing; by default the smallest element.
  std::optional<Array> fill_value{};
  /// Whether NaNs are equal.
  bool equal_nan = true;
};
/// What `unique_all` gives.
struct UniqueResult {
  /// The different elements, ascending.
  Array values;
  /// The position (s32) of the first of each; missing ones repeat the first.
  Array indices;
  /// For each element of x its position (s32) in `values`: of x's shape or, along an axis, a
  /// vector.
  Array inverse;
  /// How often each occurs (s32); 0 for missing ones.
  Array counts;
};
/// The different elements of x, ascending.
Array unique(Operand x, const UniqueOptions& options = {});
/// The different elements of x, where they first occur, which one each element is, and how often.
UniqueResult unique_all(Operand x, const UniqueOptions& options = {});
/// The different elements and how often each occurs.
std::pair<Array, Array> unique_counts(Operand x, const UniqueOptions& options = {});
/// The different elements and which one each element of x is.
std::pair<Array, Array> unique_inverse(Operand x, const UniqueOptions& options = {});
/// Same as `unique` of the flattened array.
Array unique_values(Operand x, const SizeOptions& options = {});

/// Whether each element is among those of `test` (pred, of x's shape); `invert`: is not.
Array isin(Operand x, Operand test, bool invert = false);
/// The different elements of both, ascending. Missing ones are the smallest by default.
Array union1d(Operand a, Operand b, const SizeOptions& options = {});
/// The different elements that a and b have in common, ascending. Missing ones are the first one
/// of the results by default, or 0 if there is none.
Array intersect1d(Operand a, Operand b, const SizeOptions& options = {});
/// The different elements of a that b lacks, ascending. Missing ones are 0 by default.
Array setdiff1d(Operand a, Operand b, const SizeOptions& options = {});
/// The different elements that are in exactly one of a and b, ascending; missing ones as in
/// `intersect1d`.
Array setxor1d(Operand a, Operand b, const SizeOptions& options = {});

}  // namespace tessera
