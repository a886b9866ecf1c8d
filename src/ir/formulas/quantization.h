// SPDX-License-Identifier: Apache-2.0
// Numbers that are stored as integers: what these stand for, as the StableHLO specification defines
// it ("Quantized types").
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/ir/formulas/formula.h"

namespace tessera::ir {

/// A stored integer s stands for (s - zero_point) * scale.
struct Quantization {
  DType storage = DType::s8, expressed = DType::f32;
  /// What is stored is between these.
  std::int64_t least = 0, most = 0;
  /// The dim along which scale and zero point differ; none: one of each for all elements.
  std::optional<std::int64_t> axis;
  std::vector<double> scales;
  std::vector<std::int64_t> zero_points;

  bool operator==(const Quantization&) const = default;
  bool any_zero_point() const;
};

/// The numbers that stored integers stand for; `m` is in the type of the numbers.
Instruction* dequantize(Formula& m, Instruction* stored, const Quantization& q);
/// The integers that stand for the nearest numbers.
Instruction* quantize(Formula& m, Instruction* x, const Quantization& q);
/// That of each element, in `dtype`.
Instruction* zero_points(Formula& m, const Quantization& q, DType dtype);

}  // namespace tessera::ir
