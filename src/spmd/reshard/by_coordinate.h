// SPDX-License-Identifier: Apache-2.0
// Numbers by coordinate along mesh axes, kept as few arithmetic progressions.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "src/base/arrays/shape.h"

namespace tessera::spmd {

/// A number for each device of a group. There may be 65,536 of them, and they are nearly always a
/// line but for the ends: work on them takes as long as there are pieces. Equal lists have equal
/// pieces.
class ByCoordinate {
 public:
  /// From `begin` on: `value`, then `step` more for each.
  struct Piece {
    std::int64_t begin = 0, value = 0, step = 0;
    friend auto operator<=>(const Piece&, const Piece&) = default;
  };

  ByCoordinate() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): the same numbers
  ByCoordinate(const Dims& numbers);
  ByCoordinate(std::initializer_list<std::int64_t> numbers) : ByCoordinate(Dims(numbers)) {}
  static ByCoordinate line(std::int64_t size, std::int64_t first, std::int64_t step);
  static ByCoordinate same(std::int64_t size, std::int64_t value) { return line(size, value, 0); }
  /// (first + step * c) / divisor, rounded up.
  static ByCoordinate quotients(std::int64_t size, std::int64_t first, std::int64_t step,
                                std::int64_t divisor);

  /// `other`, but for these coordinates [first, last); of those that overlap the later one counts.
  struct Range {
    std::int64_t first = 0, last = 0, value = 0;
  };
  static ByCoordinate of_ranges(std::int64_t size, std::int64_t other,
                                const std::vector<Range>& ranges);

  std::int64_t size() const { return size_; }
  const std::vector<Piece>& pieces() const { return pieces_; }
  std::int64_t end_of(std::size_t piece) const {
    return piece + 1 < pieces_.size() ? pieces_[piece + 1].begin : size_;
  }
  bool is_line() const { return pieces_.size() < 2; }
  bool is_sorted() const;
  std::int64_t operator[](std::size_t c) const;
  std::int64_t least() const;
  std::int64_t greatest() const;
  /// How many are that number.
  std::int64_t count(std::int64_t number) const;

  void push_back(std::int64_t value) { append(1, value, 0); }
  /// So many more.
  void append(std::int64_t count, std::int64_t value, std::int64_t step);

  friend ByCoordinate operator+(const ByCoordinate& a, const ByCoordinate& b);
  ByCoordinate plus(std::int64_t k) const;
  ByCoordinate times(std::int64_t k) const;
  friend ByCoordinate least_of(const ByCoordinate& a, const ByCoordinate& b);
  friend ByCoordinate greatest_of(const ByCoordinate& a, const ByCoordinate& b);
  ByCoordinate at_most(std::int64_t k) const { return least_of(*this, same(size_, k)); }
  ByCoordinate at_least(std::int64_t k) const { return greatest_of(*this, same(size_, k)); }

  friend bool operator==(const ByCoordinate&, const ByCoordinate&) = default;
  friend auto operator<=>(const ByCoordinate&, const ByCoordinate&) = default;

 private:
  std::int64_t size_ = 0;
  std::vector<Piece> pieces_;
};

/// Calls f(first, count, values, steps) for stretches in which each list is a line; all lists have
/// the same size.
template <std::size_t N, class F>
void for_lines(const std::array<const ByCoordinate*, N>& lists, F f) {
  const std::int64_t size = lists[0]->size();
  std::array<std::size_t, N> at{};
  for (std::int64_t c = 0; c < size;) {
    std::int64_t end = size;
    std::array<std::int64_t, N> values{}, steps{};
    for (std::size_t k = 0; k < N; ++k) {
      const ByCoordinate& list = *lists[k];
      while (list.end_of(at[k]) <= c) ++at[k];
      const ByCoordinate::Piece& piece = list.pieces()[at[k]];
      values[k] = piece.value + piece.step * (c - piece.begin);
      steps[k] = piece.step;
      end = std::min(end, list.end_of(at[k]));
    }
    f(c, end - c, values, steps);
    c = end;
  }
}

/// Calls f(first, count, values) for stretches in which no list changes.
template <std::size_t N, class F>
void for_equal(const std::array<const ByCoordinate*, N>& lists, F f) {
  for_lines(lists, [&](std::int64_t first, std::int64_t count, std::array<std::int64_t, N> values,
                       const std::array<std::int64_t, N>& steps) {
    if (count == 1 || steps == std::array<std::int64_t, N>{}) return f(first, count, values);
    for (std::int64_t k = 0; k < count; ++k) {
      f(first + k, std::int64_t(1), values);
      for (std::size_t i = 0; i < N; ++i) values[i] += steps[i];
    }
  });
}

}  // namespace tessera::spmd
