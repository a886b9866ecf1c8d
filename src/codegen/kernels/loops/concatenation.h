// SPDX-License-Identifier: Apache-2.0
// A concatenation whose parts are computed where it is read or stored, none of them in memory.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "src/codegen/kernels/expressions/loop_expr.h"

namespace tessera::codegen {

struct ConcatenationPart {
  std::shared_ptr<const LoopExpr> program;  ///< of its elements, row-major
  std::vector<int> inputs;                  ///< which of the source's inputs are its own
  Dims dims;
  bool compiled = false;
};

/// Of parts that follow one another along `dim`.
SourceDescriptor concatenation(DType type, std::size_t dim, std::vector<ConcatenationPart> parts);

}  // namespace tessera::codegen
