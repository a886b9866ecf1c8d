// SPDX-License-Identifier: Apache-2.0
// How the borders of arrays are padded for convolutions and windows.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace tessera {

/// Padding of the dimensions that a window slides along, as a text or as pairs.
///
/// - "VALID": none. Windows lie within the array.
/// - "SAME": as much as it takes to have ceil(size / stride) windows; of an odd number of elements
///   the larger half stands after the array.
/// - "SAME_LOWER": the same, with the larger half before the array.
/// - A pair (before, after) per dimension. Negative numbers remove elements.
///
/// Texts are read without regard to case.
/// @code
/// conv2d(x, kernel, {.padding = "VALID"});
/// conv2d(x, kernel, {.padding = {{1, 1}, {0, 2}}});
/// @endcode
class Padding {
 public:
  /// Numbers of elements before and after the array, for each dimension.
  using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;

  /// "VALID".
  Padding() = default;
  /// One of the texts; others are a ValueError of the function that is given them.
  Padding(const char* text) : text_(text) {}             // NOLINT: implicit by design
  Padding(std::string text) : text_(std::move(text)) {}  // NOLINT
  /// Pairs.
  Padding(Pairs pairs) : is_text_(false), pairs_(std::move(pairs)) {}  // NOLINT
  /// Pairs.
  Padding(std::initializer_list<std::pair<std::int64_t, std::int64_t>> pairs)
      : is_text_(false), pairs_(pairs) {}

  /// Whether it is a text.
  bool is_text() const { return is_text_; }
  /// The text, if it is one.
  const std::string& text() const { return text_; }
  /// The pairs, if it isn't.
  const Pairs& pairs() const { return pairs_; }

 private:
  bool is_text_ = true;
  std::string text_ = "VALID";
  Pairs pairs_;
};

}  // namespace tessera
