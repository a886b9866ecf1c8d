// SPDX-License-Identifier: Apache-2.0
// Device lists as mixed-radix numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/base/arrays/shape.h"
#include "src/base/small_vector.h"

namespace tessera {

/// One digit of a mixed-radix number: incrementing it adds `stride` to the device number.
struct Digit {
  std::int64_t size = 1;
  std::int64_t stride = 1;
  friend bool operator==(const Digit&, const Digit&) = default;
};

/// Merges adjacent digits that continue each other: (2, stride 4), (4, stride 1) becomes (8, stride
/// 1).
std::vector<Digit> joined_digits(std::span<const Digit> digits);
/// The digits, major to minor and as few as possible, of the list `<=[reshape]T(perm)`.
std::vector<Digit> digits_of_iota(std::span<const std::int64_t> reshape, std::span<const int> perm);
/// The digits of an explicit list; empty if the list isn't 0..n-1 with permuted digits.
std::optional<std::vector<Digit>> digits_of_list(std::span<const std::int64_t> list);
/// The reshape and perm of the canonical iota form.
void iota_of_digits(std::span<const Digit> digits, Dims* reshape, IndexList* perm);
/// Splits digits so that each belongs to one tile dim; `tile` has the same product. Empty if a
/// boundary between tile dims would split a digit by a number that doesn't divide it.
std::optional<std::vector<std::vector<Digit>>> split_digits(std::span<const Digit> digits,
                                                            std::span<const std::int64_t> tile);

}  // namespace tessera
