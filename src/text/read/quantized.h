// SPDX-License-Identifier: Apache-2.0
// Quantized element types: integers that stand for real numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/dtype.h"

namespace tessera::text {

/// `!quant.uniform<i8:f32, 0.5:3>`: a stored integer s stands for (s - zero_point) * scale.
/// The meaning is that of the StableHLO specification, "Quantized types".
struct Quantized {
  DType storage = DType::s8, expressed = DType::f32;
  /// What is stored is between these.
  std::int64_t least = 0, most = 0;
  /// The dim along which scale and zero point differ; none: one of each for all elements.
  std::optional<std::int64_t> axis;
  std::vector<double> scales;
  std::vector<std::int64_t> zero_points;

  bool operator==(const Quantized&) const = default;
  /// Whether what is stored may be stored in `to`, where it stands for the same numbers.
  bool is_promotable(const Quantized& to) const;
  /// Equal but for the place of the axis.
  bool same_numbers(const Quantized& other) const;
  bool any_zero_point() const;
  /// As MLIR writes it.
  std::string to_string() const;
};

/// Whether functions on scalars may take elements of `from` as ones of `to`, as the specification
/// defines it: of one kind, and at least as wide.
bool is_promotable(DType from, DType to);

}  // namespace tessera::text
