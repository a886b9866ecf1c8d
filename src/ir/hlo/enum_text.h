// SPDX-License-Identifier: Apache-2.0
// HLO's words for the enumerations of attributes. The index in a list is the enumerator.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "src/ir/attributes.h"

namespace tessera::ir {

inline constexpr std::array<std::string_view, 6> kDirections{"EQ", "NE", "LT", "LE", "GT", "GE"};
/// by_dtype has no word.
inline constexpr std::array<std::string_view, 5> kComparisonTypes{"", "FLOAT", "TOTALORDER",
                                                                  "SIGNED", "UNSIGNED"};
inline constexpr std::array<std::string_view, 4> kFftTypes{"FFT", "IFFT", "RFFT", "IRFFT"};
inline constexpr std::array<std::string_view, 3> kTransposes{"NO_TRANSPOSE", "TRANSPOSE",
                                                             "ADJOINT"};

/// The comparison type that an element type has when none is written.
inline ComparisonType default_comparison(DType t) {
  if (is_floating(t) || is_complex(t)) return ComparisonType::float_;
  if (is_signed_integer(t)) return ComparisonType::signed_;
  return ComparisonType::unsigned_;
}

}  // namespace tessera::ir
