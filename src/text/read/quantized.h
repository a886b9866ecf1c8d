// SPDX-License-Identifier: Apache-2.0
// Quantized element types: integers that stand for real numbers.
#pragma once

#include <string>

#include "src/ir/formulas/quantization.h"

namespace tessera::text {

/// `!quant.uniform<i8:f32, 0.5:3>`: a stored integer s stands for (s - zero_point) * scale.
/// The meaning is that of the StableHLO specification, "Quantized types".
struct Quantized : ir::Quantization {
  bool operator==(const Quantized&) const = default;
  /// Whether what is stored may be stored in `to`, where it stands for the same numbers.
  bool is_promotable(const Quantized& to) const;
  /// Equal but for the place of the axis.
  bool same_numbers(const Quantized& other) const;
  /// As MLIR writes it.
  std::string to_string() const;
};

/// Whether functions on scalars may take elements of `from` as ones of `to`, as the specification
/// defines it: of one kind, and at least as wide.
bool is_promotable(DType from, DType to);

}  // namespace tessera::text
