// SPDX-License-Identifier: Apache-2.0
// Comparators of sorts that compare elements by keys.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "src/codegen/kernels/loops/fused_loop.h"
#include "src/ir/module.h"

namespace tessera::codegen {

/// One key of an order: a function of the elements of one operand.
struct SortKey {
  int operand = 0;
  DType type = DType::f32;                   ///< of the keys
  std::shared_ptr<const LoopExpr> expr;      ///< key of an element; null: the element itself
  std::shared_ptr<const FusedLoop> program;  ///< made of it
  bool descending = false, total_order = false;
  /// The key is the element, but for one zero in place of both, and one NaN, above all numbers, in
  /// place of all: as JAX compares floats. There is no expr then.
  bool canonical = false;
};

/// A comparator that compares by keys: where the first are equal by the next one, and so on.
struct KeyOrder {
  std::vector<SortKey> keys;
  int places = -1;  ///< the integer operand that tells equal keys apart, if any
  DType place_type = DType::s32;
  std::int64_t limit = -1;  ///< elements whose place isn't below it come last, if >= 0
};

/// A comparator by keys, or by keys and then place: `k(a, b) | (!k(b, a) & a < b)`, of elements
/// whose places are below a limit if it has one: `select(both below, that, a < b)`.
std::optional<KeyOrder> order_of(const ir::Computation& comparator);

}  // namespace tessera::codegen
