// SPDX-License-Identifier: Apache-2.0
// Arrays that don't vary along some of their dims, without these dims.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include "src/ir/rewrite/builder.h"

namespace tessera::passes {

/// Remembers what it made, so that equal requests get the same instruction. For one computation.
class InvariantDims {
 public:
  /// The array along the dims `kept`, in that order; null where that isn't known to be all of it.
  /// `fixed`, for each dim: its only index that is wanted, or -1: all, along which the array must
  /// not vary unless the dim is kept.
  ir::Instruction* dropped(ir::Builder& b, ir::Instruction* x, const Dims& kept, const Dims& fixed);
  ir::Instruction* dropped(ir::Builder& b, ir::Instruction* x, const Dims& kept) {
    return dropped(b, x, kept, Dims(x->shape.dims.size(), -1));
  }

 private:
  using Key = std::tuple<const ir::Instruction*, Dims, Dims>;

  std::map<Key, ir::Instruction*> made_;
  int depth_ = 0;
};

}  // namespace tessera::passes
